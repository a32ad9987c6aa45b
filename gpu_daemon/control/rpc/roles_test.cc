// Every method has its role, and no certificate more than it carries.
#include "gpu_daemon/control/rpc/roles.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "proto/admin.pb.h"
#include "proto/devices.pb.h"
#include "proto/events.pb.h"
#include "proto/faults.pb.h"

namespace carillon::gpud {
namespace {

using testing::HasSubstr;

Identity WithUris(std::vector<std::string> uris) {
  return {.common_name = "anna", .uris = std::move(uris)};
}

Identity With(const std::string& role) {
  return WithUris({"carillon:role:" + role});
}

std::string Refusal(std::string_view path, const Identity& caller) {
  const absl::Status status = CheckRole(path, caller);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << path;
  return std::string(status.message());
}

TEST(Roles, EveryMethodOfEveryServiceHasOneRow) {
  std::multiset<std::string> rows;
  for (const MethodRole& row : MethodRoles()) {
    rows.insert(fmt::format("{}/{}", row.service, row.method));
  }
  size_t methods = 0;
  for (const auto* file : {v1::GetStatusRequest::descriptor()->file(),
                           v1::AttachRequest::descriptor()->file(),
                           v1::ListKernelsRequest::descriptor()->file(),
                           v1::InjectRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const auto* const service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        const std::string name = fmt::format("{}/{}", service->full_name(),
                                             service->method(j)->name());
        EXPECT_EQ(rows.count(name), 1u) << name;
        ++methods;
      }
    }
  }
  // What is not ours: health has two methods, reflection one.
  EXPECT_EQ(rows.size(), methods + 3);
}

TEST(Roles, TheDocumentHasTheTable) {
  std::string table = "| method | role |\n|---|---|\n";
  for (const MethodRole& row : MethodRoles()) {
    const std::string_view service =
        row.service.substr(row.service.rfind('.') + 1);
    table += fmt::format("| `{}.{}` | {} |\n", service, row.method,
                         RoleName(row.role));
  }
  std::ifstream file("docs/security.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(document.find(table + "\n"), std::string::npos) << table;
}

TEST(Roles, ACertificateHasWhatItCarriesAndAnOperatorMayLook) {
  struct Row {
    const char* path;
    const char* allowed;  // v, o, f
  };
  for (const Row& row : {Row{"/carillon.v1.Admin/GetStatus", "vo"},
                         Row{"/carillon.v1.Admin/Watch", "vo"},
                         Row{"/carillon.v1.Admin/StreamSnapshots", "vo"},
                         Row{"/carillon.v1.Admin/SetPolicy", "o"},
                         Row{"/carillon.v1.Admin/Shutdown", "o"},
                         Row{"/carillon.v1.Admin/RegisterModule", "o"},
                         Row{"/carillon.v1.Devices/Attach", ""},
                         Row{"/carillon.v1.Events/ListKernels", "vo"},
                         Row{"/carillon.v1.Events/LaunchKernel", ""},
                         Row{"/carillon.v1.Events/Copy", ""},
                         Row{"/carillon.v1.Faults/List", "vo"},
                         Row{"/carillon.v1.Faults/Inject", "f"},
                         Row{"/carillon.v1.Faults/Clear", "f"},
                         Row{"/grpc.health.v1.Health/Check", "vo"}}) {
    const std::string allowed = row.allowed;
    for (const char* role :
         {"viewer", "operator", "device", "fault-injector"}) {
      EXPECT_EQ(CheckRole(row.path, With(role)).ok(),
                allowed.find(role[0]) != std::string::npos)
          << row.path << " " << role;
    }
  }
  const Identity both =
      WithUris({"carillon:role:viewer", "carillon:role:fault-injector"});
  EXPECT_TRUE(CheckRole("/carillon.v1.Faults/Inject", both).ok());
  EXPECT_TRUE(CheckRole("/carillon.v1.Admin/GetStatus", both).ok());
  EXPECT_FALSE(CheckRole("/carillon.v1.Admin/Drain", both).ok());
}

TEST(Roles, ARefusalSaysWhatIsNeededAndWhatThereIs) {
  EXPECT_EQ(Refusal("/carillon.v1.Admin/SetPolicy", With("viewer")),
            "Admin.SetPolicy needs the role operator; the certificate of "
            "CN=anna carries viewer: ask the owner of the CA for one with "
            "URI:carillon:role:operator");
  EXPECT_THAT(Refusal("/carillon.v1.Admin/GetStatus", WithUris({})),
              HasSubstr("carries no role"));
  EXPECT_THAT(Refusal("/carillon.v1.Admin/GetStatus", With("admin")),
              HasSubstr("carries unknown role 'admin'"));
  EXPECT_THAT(Refusal("/carillon.v1.Admin/GetStatus", With("device")),
              HasSubstr("carries unknown role 'device'"));
  EXPECT_EQ(Refusal("/carillon.v1.Devices/Attach", With("operator")),
            "Devices.Attach is for devices, which run on gpud's machine and "
            "call over the testbed's control.sock: no certificate is good for "
            "it, nor is that of CN=anna");
}

TEST(Roles, ADeviceHearsWhoMayCallAndWhere) {
  const auto refusal = [](std::string_view path) {
    return DeviceRefusal(path, 4711, 1000, "/run/lab/operator.sock");
  };
  const absl::Status shutdown = refusal("/carillon.v1.Admin/Shutdown");
  EXPECT_EQ(shutdown.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(shutdown.message(),
            "Admin.Shutdown needs the role operator; process 4711 of uid 1000 "
            "calls over control.sock, where every caller is a device: the "
            "testbed's user may call over /run/lab/operator.sock");
  EXPECT_THAT(std::string(refusal("/carillon.v1.Faults/Inject").message()),
              HasSubstr("needs the role fault-injector; process 4711"));
  // What a later version may have is not forbidden, but unknown.
  const absl::Status unknown = refusal("/carillon.v1.Events/\x1b[2J");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("no method /carillon.v1.Events/\\x1b[2J"));
}

TEST(Roles, OnlyTheExactUriIsARole) {
  for (const std::string& uri :
       {std::string("viewer"), std::string("carillon:role:Viewer"),
        std::string("carillon:role:viewer "), std::string("carillon:role:"),
        std::string("carillon:role:viewer,carillon:role:operator"),
        std::string("CARILLON:ROLE:viewer"),
        std::string("x:carillon:role:viewer"),
        std::string("carillon:role:viewer\0", 21),
        std::string("spiffe://carillon:role:viewer")}) {
    EXPECT_FALSE(
        CheckRole("/carillon.v1.Admin/GetStatus", WithUris({uri})).ok())
        << uri;
  }
}

TEST(Roles, AMethodWithoutARowIsRefusedToEverybody) {
  const Identity all =
      WithUris({"carillon:role:viewer", "carillon:role:operator",
                "carillon:role:device", "carillon:role:fault-injector"});
  for (const char* path :
       {"", "/", "//", "carillon.v1.Admin/GetStatus",
        "/carillon.v1.Admin/GetStatus/", "/carillon.v1.Admin/getstatus",
        "/carillon.v1.Admin/", "/carillon.v1.Admin",
        "/carillon.v1.Admin.GetStatus", "//carillon.v1.Admin/GetStatus",
        "/carillon.v1.Devices/GetStatus", "/carillon.v2.Admin/GetStatus"}) {
    EXPECT_THAT(Refusal(path, all), HasSubstr("no role may call")) << path;
  }
}

TEST(Roles, WhatACertificateSaysDoesNotSteerATerminal) {
  const Identity caller = {
      .common_name = "a\x1b[2J\nb",
      .uris = {"carillon:role:\x1b[2J" + std::string(10'000, 'x')}};
  const std::string words = Refusal("/carillon.v1.Admin/GetStatus", caller);
  EXPECT_THAT(words, HasSubstr("CN=a\\x1b[2J\\x0ab carries"));
  EXPECT_LT(words.size(), 600u);
  EXPECT_EQ(words.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace carillon::gpud
