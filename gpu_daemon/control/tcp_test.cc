// A gpud that serves over TCP: whom it lets in, and to what.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/host_port.h"
#include "base/testing/test_ca.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/rpc/roles.h"
#include "gpu_daemon/control/rpc/unread_calls.h"
#include "gpu_daemon/control/testing/test_testbed.h"
#include "proto/faults.grpc.pb.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using testing::HasSubstr;

std::string Text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TcpTest : public testing::Test {
 protected:
  ControlPlane::Options Listening() {
    return {.listen = "127.0.0.1:0", .tls = ca_.IssueGpud()};
  }
  const std::string& directory() const { return directory_.path(); }

  TempDirectory directory_;
  TestCa ca_{directory_.path()};
};

// To `testbed` with what `files` say; an empty certificate is none.
std::shared_ptr<grpc::Channel> Channel(TestTestbed& testbed,
                                       const TlsFiles& files) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = Text(files.ca);
  if (!files.certificate.empty()) {
    tls.pem_cert_chain = Text(files.certificate);
    tls.pem_private_key = Text(files.key);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(testbed.plane().listen_address(),
                                   grpc::SslCredentials(tls), arguments);
}

// An empty message to any method.
grpc::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel,
                       const std::string& path, milliseconds limit) {
  grpc::GenericStub stub(channel);
  const auto context = Within(limit);
  grpc::CompletionQueue queue;
  grpc::Slice nothing("");
  auto call = stub.PrepareUnaryCall(context.get(), path,
                                    grpc::ByteBuffer(&nothing, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  return status;
}

grpc::Status GetStatus(const std::shared_ptr<grpc::Channel>& channel,
                       milliseconds limit = std::chrono::seconds(20)) {
  return CallEmpty(channel, "/carillon.v1.Admin/GetStatus", limit);
}

bool RefusedByRole(const grpc::Status& status) {
  const std::string& said = status.error_message();
  return status.error_code() == StatusCode::PERMISSION_DENIED &&
         (said.find(" needs the role ") != std::string::npos ||
          said.find(" is for devices") != std::string::npos);
}

// A connection of bytes.
UniqueFd Connect(TestTestbed& testbed, const std::string& bytes) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  there.sin_port = htons(ReadHostPort(testbed.plane().listen_address())->port);
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof(there)), 0);
  EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  return fd;
}

// Whether gpud ends it within 20 s.
bool Ended(const UniqueFd& fd) {
  pollfd look{.fd = fd.get(), .events = POLLIN, .revents = 0};
  char bytes[512];
  while (poll(&look, 1, 20'000) == 1) {
    if (recv(fd.get(), bytes, sizeof(bytes), 0) <= 0) return true;
  }
  return false;
}

TEST_F(TcpTest, EveryMethodIsForItsRoleAlone) {
  TestTestbed testbed(Listening());
  for (const char* name :
       {"viewer", "operator", "device", "fault-injector", "admin", ""}) {
    const std::string role = name;
    const auto channel =
        Channel(testbed, role.empty() ? ca_.Issue({.name = "nobody"})
                                      : ca_.IssueRole(role));
    for (const MethodRole& row : MethodRoles()) {
      // Ends gpud: tried below.
      if (row.method == "Shutdown" && role == "operator") continue;
      const bool stream = row.method == "Watch" ||
                          row.method == "StreamSnapshots" ||
                          row.method == "ServerReflectionInfo";
      const bool allowed = row.role != Role::kDevice &&
                           (role == RoleName(row.role) ||
                            (role == "operator" && row.role == Role::kViewer));
      const grpc::Status status = CallEmpty(
          channel, fmt::format("/{}/{}", row.service, row.method),
          stream && allowed ? milliseconds(200) : milliseconds(20'000));
      EXPECT_EQ(RefusedByRole(status), !allowed)
          << role << " " << row.service << "/" << row.method << " "
          << status.error_message();
      EXPECT_NE(status.error_code(), StatusCode::UNAVAILABLE)
          << status.error_message();
    }
  }
  EXPECT_TRUE(CallEmpty(Channel(testbed, ca_.IssueRole("operator")),
                        "/carillon.v1.Admin/Shutdown", milliseconds(20'000))
                  .ok());
}

TEST_F(TcpTest, TheSocketsNeedNoCertificate) {
  auto options = Listening();
  options.faults = true;
  TestTestbed testbed(options);
  AttachedDevice device(&testbed, "nic0");
  v1::SetPolicyRequest policy;
  policy.set_policy("priority");
  v1::SetPolicyResponse before;
  EXPECT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                                policy, &before)
                  .ok());
  const auto faults = v1::Faults::NewStub(testbed.channel());
  v1::ClearFaultsResponse cleared;
  EXPECT_TRUE(TestTestbed::Call(*faults, &v1::Faults::Stub::Clear,
                                v1::ClearFaultsRequest(), &cleared)
                  .ok());
  EXPECT_EQ(testbed.Status().refused_calls(), 0u);
}

// What gpud logs while it lives.
class LogCapture {
 public:
  LogCapture() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said_)));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  // Only when nobody logs any more.
  std::string text() const { return said_.str(); }

 private:
  std::ostringstream said_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

TEST_F(TcpTest, EachChangeIsToldWithItsCaller) {
  const LogCapture log;
  {
    auto options = Listening();
    options.faults = true;
    TestTestbed testbed(options);
    const auto change = [&](auto& stub, auto method, auto request,
                            auto response) {
      EXPECT_TRUE(TestTestbed::Call(stub, method, request, &response).ok());
    };
    v1::Admin::Stub& admin = testbed.admin();
    v1::SetPolicyRequest policy;
    policy.set_policy("priority");
    change(admin, &v1::Admin::Stub::SetPolicy, policy, v1::SetPolicyResponse());
    v1::SetTracingRequest tracing;
    tracing.set_on(true);
    change(admin, &v1::Admin::Stub::SetTracing, tracing,
           v1::SetTracingResponse());
    change(admin, &v1::Admin::Stub::ResetStatistics,
           v1::ResetStatisticsRequest(), v1::ResetStatisticsResponse());
    v1::DrainRequest drain;
    drain.set_timeout_ms(7000);
    change(admin, &v1::Admin::Stub::Drain, drain, v1::DrainResponse());
    const auto faults = v1::Faults::NewStub(testbed.channel());
    v1::InjectRequest inject;
    v1::Fault* const fault = inject.add_faults();
    fault->set_name("slow-ring");
    fault->mutable_when()->set_point("device.ring");
    fault->mutable_action()->set_kind("delay");
    fault->mutable_action()->set_for_ns(1000);
    change(*faults, &v1::Faults::Stub::Inject, inject, v1::InjectResponse());
    v1::ClearFaultsRequest clear;
    clear.set_name("slow-ring");
    change(*faults, &v1::Faults::Stub::Clear, clear, v1::ClearFaultsResponse());
    const auto over_tcp =
        v1::Admin::NewStub(Channel(testbed, ca_.IssueRole("operator")));
    change(*over_tcp, &v1::Admin::Stub::Shutdown, v1::ShutdownRequest(),
           v1::ShutdownResponse());
  }
  const std::string own =
      fmt::format(" (process {} of uid {})\n", getpid(), geteuid());
  const std::string said = log.text();
  for (const std::string line :
       {"SetPolicy: priority instead of first_come", "SetTracing: on",
        "ResetStatistics: the latencies so far", "Drain: for 7000 ms at most",
        "Inject: 1 fault, 'slow-ring' the first", "Clear: 'slow-ring'"}) {
    EXPECT_THAT(said, HasSubstr("] " + line + own));
  }
  EXPECT_THAT(said, HasSubstr("] Shutdown: the testbed goes down (CN=operator "
                              "at ipv4:127.0.0.1:"));
}

TEST_F(TcpTest, AFloodOfChangesNeitherFillsTheLogNorHidesAnother) {
  constexpr int kCalls = 2000;
  const LogCapture log;
  const auto start = std::chrono::steady_clock::now();
  {
    TestTestbed testbed;
    v1::SetTracingRequest tracing;
    v1::SetTracingResponse done;
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(TestTestbed::Call(testbed.admin(),
                                    &v1::Admin::Stub::SetTracing, tracing,
                                    &done)
                      .ok());
    }
    v1::ShutdownResponse ended;
    TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::Shutdown,
                      v1::ShutdownRequest(), &ended);
  }
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(
      std::chrono::steady_clock::now() - start);
  const std::string said = log.text();
  int lines = 0;
  for (size_t at = 0; (at = said.find("SetTracing", at)) != said.npos; ++at) {
    ++lines;
  }
  // Five, and one of how many more there were.
  EXPECT_LE(lines, 6 * (seconds.count() + 1));
  EXPECT_THAT(said, HasSubstr("] Shutdown: the testbed goes down (process "));
}

TEST_F(TcpTest, RefusalsAreCountedAndEachIsToldOnce) {
  const LogCapture log;
  {
    TestTestbed testbed(Listening());
    const auto channel = Channel(testbed, ca_.IssueRole("viewer"));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(CallEmpty(channel, "/carillon.v1.Admin/SetPolicy",
                          milliseconds(20'000))
                    .error_message(),
                "Admin.SetPolicy needs the role operator; the certificate of "
                "CN=viewer carries viewer: ask the owner of the CA for one "
                "with URI:carillon:role:operator");
    }
    EXPECT_EQ(testbed.Status().refused_calls(), 4u);
    EXPECT_EQ(testbed.Status().connections(), 1u);
    EXPECT_EQ(testbed.Status().listen(), testbed.plane().listen_address());
  }
  const std::string said = log.text();
  const std::string line = "call refused: Admin.SetPolicy needs";
  const size_t first = said.find(line);
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find(line, first + 1), std::string::npos) << said;
}

TEST_F(TcpTest, WithoutAGoodCertificateNobodyGetsIn) {
  TestTestbed testbed(Listening());
  const TestCa stranger(directory(), "stranger");
  TlsFiles none = ca_.IssueRole("viewer");
  none.certificate.clear();
  // Whom gpud does not believe, though he believes gpud.
  TlsFiles foreign = stranger.IssueRole("operator");
  foreign.ca = ca_.file();
  const std::string uri = "URI:carillon:role:viewer";
  for (const TlsFiles& files : {none, foreign,
                                ca_.Issue({.name = "old",
                                .alternative_names = uri,
                                .ends = "20210101000000Z"}),
                                ca_.Issue({.name = "young",
                                .alternative_names = uri,
                                .begins = "20980101000000Z"})}) {
    EXPECT_EQ(GetStatus(Channel(testbed, files)).error_code(),
              StatusCode::UNAVAILABLE)
        << files.certificate;
  }
  // Who does not believe gpud does not talk to it.
  TlsFiles wary = ca_.IssueRole("viewer");
  wary.ca = stranger.file();
  EXPECT_EQ(GetStatus(Channel(testbed, wary)).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_TRUE(GetStatus(Channel(testbed, ca_.IssueRole("viewer"))).ok());
}

TEST_F(TcpTest, ARoleIsAUriAndNoOtherName) {
  TestTestbed testbed(Listening());
  EXPECT_TRUE(RefusedByRole(GetStatus(Channel(
      testbed,
      ca_.Issue({.name = "carillon:role:viewer",
                 .alternative_names = "DNS:carillon:role:viewer,"
                                      "email:carillon:role:viewer"})))));
}

TEST_F(TcpTest, SeveralRolesAddUp) {
  TestTestbed testbed(Listening());
  const auto channel = Channel(
      testbed, ca_.Issue({.name = "both",
                          .alternative_names = "URI:carillon:role:viewer,"
                                               "URI:https://example.org/,"
                                               "URI:carillon:role:operator"}));
  EXPECT_TRUE(GetStatus(channel).ok());
  EXPECT_FALSE(RefusedByRole(CallEmpty(channel, "/carillon.v1.Admin/SetPolicy",
                                       milliseconds(20'000))));
}

TEST_F(TcpTest, NothingIsServedInPlaintext) {
  TestTestbed testbed(Listening());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(testbed.plane().listen_address(),
                                grpc::InsecureChannelCredentials(), arguments);
  EXPECT_FALSE(GetStatus(channel, milliseconds(3000)).ok());
  EXPECT_TRUE(GetStatus(Channel(testbed, ca_.IssueRole("viewer"))).ok());
}

TEST_F(TcpTest, NothingOlderThanTls12IsSpoken) {
  TestTestbed testbed(Listening());
  const TlsFiles files = ca_.IssueRole("viewer");
  const auto speaks = [&](const std::string& version) {
    return std::system(
               fmt::format("timeout 20 openssl s_client -connect {} {} -alpn "
                           "h2 -cipher DEFAULT@SECLEVEL=0 -CAfile '{}' -cert "
                           "'{}' -key '{}' </dev/null 2>/dev/null | "
                           "grep -q '^New, TLSv1'",
                           testbed.plane().listen_address(), version, files.ca,
                           files.certificate, files.key)
                   .c_str()) == 0;
  };
  EXPECT_FALSE(speaks("-tls1"));
  EXPECT_FALSE(speaks("-tls1_1"));
  EXPECT_TRUE(speaks("-tls1_2"));
  EXPECT_TRUE(speaks("-tls1_3"));
}

TEST_F(TcpTest, GarbageEndsItsConnectionAndNothingElse) {
  TestTestbed testbed(Listening());
  const auto channel = Channel(testbed, ca_.IssueRole("viewer"));
  ASSERT_TRUE(GetStatus(channel).ok());
  const size_t before = OpenDescriptors();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(70'000, '\xff'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        // A record of 16 KiB that is no handshake, and one of a newer TLS.
        std::string("\x16\x03\x01\x40\x00", 5) + std::string(16'384, '\x01'),
        std::string("\x16\x09\x09\x00\x05hello", 10)}) {
    const UniqueFd fd = Connect(testbed, bytes);
    EXPECT_TRUE(Ended(fd)) << bytes.substr(0, 10);
    EXPECT_TRUE(GetStatus(channel).ok());
  }
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before; }));
}

TEST_F(TcpTest, ConnectionsThatSayNothingEndAndOthersAreServedMeanwhile) {
  TestTestbed testbed(Listening());
  const auto channel = Channel(testbed, ca_.IssueRole("viewer"));
  ASSERT_TRUE(GetStatus(channel).ok());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) {
    // Some say hello, in part.
    silent.push_back(Connect(
        testbed, i % 2 == 0 ? "" : std::string("\x16\x03\x01\x02\x00\x01", 6)));
  }
  EXPECT_TRUE(GetStatus(channel).ok());
  EXPECT_TRUE(GetStatus(Channel(testbed, ca_.IssueRole("operator"))).ok());
  for (const UniqueFd& fd : silent) EXPECT_TRUE(Ended(fd));
  EXPECT_TRUE(GetStatus(channel).ok());
}

TEST_F(TcpTest, NoSessionIsMadeOrUsedOverTcp) {
  TestTestbed testbed(Listening());
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  const auto channel = Channel(
      testbed, ca_.Issue({.name = "all",
                          .alternative_names = "URI:carillon:role:device,"
                                               "URI:carillon:role:operator"}));
  const auto devices = v1::Devices::NewStub(channel);
  const auto events = v1::Events::NewStub(channel);
  const auto is_refused = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.status.error_code(), StatusCode::PERMISSION_DENIED);
    EXPECT_THAT(outcome.status.error_message(),
                HasSubstr("is for devices, which run on gpud's machine"));
  };

  v1::AttachRequest attach = AttachRequestFor("remote");
  v1::AttachResponse attached;
  is_refused(TestTestbed::Call(*devices, &v1::Devices::Stub::Attach, attach,
                               &attached));
  // The message is not read: one that is too long for gRPC is refused for its
  // role all the same.
  attach.set_kind(std::string(70 << 20, 'k'));
  is_refused(TestTestbed::Call(*devices, &v1::Devices::Stub::Attach, attach,
                               &attached));
  // Who has another's token has nothing.
  v1::DetachRequest detach;
  detach.set_session(device.session());
  v1::DetachResponse detached;
  is_refused(TestTestbed::Call(*devices, &v1::Devices::Stub::Detach, detach,
                               &detached));
  v1::AllocateBufferRequest allocate;
  allocate.set_session(device.session());
  allocate.set_place(v1::GPU_MEMORY);
  allocate.set_bytes(64);
  v1::AllocateBufferResponse allocated;
  is_refused(TestTestbed::Call(*events, &v1::Events::Stub::AllocateBuffer,
                               allocate, &allocated));
  v1::RegisterEventResponse registered;
  is_refused(TestTestbed::Call(*events, &v1::Events::Stub::RegisterEvent,
                               device.NullEvent(), &registered));
  EXPECT_EQ(testbed.Status().devices(), 1u);
  ring.Commit(nullptr, NowNs());
  ring.RingDoorbell();
  EXPECT_TRUE(AttachedDevice::Await(ring).has_value());
}

TEST_F(TcpTest, AStreamIsJudgedAtItsStart) {
  TestTestbed testbed(Listening());
  const auto watch = [&](const std::string& role) {
    const auto stub = v1::Admin::NewStub(Channel(testbed, ca_.IssueRole(role)));
    const auto context = Within();
    auto stream = stub->Watch(context.get(), v1::WatchRequest());
    AttachedDevice device(&testbed, "nic0");
    v1::TelemetryEvent event;
    if (stream->Read(&event)) {
      context->TryCancel();
      stream->Finish();
      return std::string("read");
    }
    return stream->Finish().error_message();
  };
  EXPECT_EQ(watch("viewer"), "read");
  EXPECT_THAT(watch("device"), HasSubstr("Admin.Watch needs the role viewer"));
}

// It sends flow control only, and no call with it: for ever, that would be a
// hoard, which is cut.
TEST_F(TcpTest, AWatchGathersNoUnreadBytes) {
  TestTestbed testbed(Listening());
  const auto stub =
      v1::Admin::NewStub(Channel(testbed, ca_.IssueRole("viewer")));
  const auto context = Within();
  auto stream = stub->Watch(context.get(), v1::WatchRequest());
  v1::TelemetryEvent event;
  constexpr int kDevices = 200;
  for (int i = 0; i < kDevices; ++i) {
    AttachedDevice device(&testbed, fmt::format("nic{}", i));
    bool told = false;
    while (!told && stream->Read(&event)) told = event.has_device_attached();
    ASSERT_TRUE(told) << i;
  }
  // Of the last messages, at most.
  EXPECT_LE(testbed.plane().unread_bytes(), 1024u);
  context->TryCancel();
  stream->Finish();
}

TEST_F(TcpTest, AConnectionMayCallAsOftenAsItLikes) {
  TestTestbed testbed(Listening());
  const auto channel = Channel(testbed, ca_.IssueRole("viewer"));
  for (uint32_t i = 0; i < UnreadCalls::kMaxUnread + 10; ++i) {
    ASSERT_TRUE(GetStatus(channel).ok()) << i;
  }
  EXPECT_LE(testbed.plane().unread_bytes(), 1024u);
}

TEST_F(TcpTest, GpudEndsInOrderWithConnectionsOpen) {
  auto testbed = std::make_unique<TestTestbed>(Listening());
  const auto channel = Channel(*testbed, ca_.IssueRole("viewer"));
  const auto stub = v1::Admin::NewStub(channel);
  const auto context = Within();
  AttachedDevice device(testbed.get(), "nic0");
  auto stream = stub->Watch(context.get(), v1::WatchRequest());
  v1::TelemetryEvent event;
  ASSERT_TRUE(stream->Read(&event));
  const UniqueFd silent = Connect(*testbed, "");
  testbed->Stop();
  EXPECT_TRUE(Ended(silent));
  bool told = false;
  while (stream->Read(&event)) told |= event.has_shutting_down();
  EXPECT_TRUE(told);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(TcpTest, TheLinesOfTheDocumentMakeCertificatesThatWork) {
  const std::string document = Text("docs/security.md");
  const std::string fence = "```sh\n";
  const size_t begin = document.find(fence) + fence.size();
  ASSERT_NE(document.find(fence), std::string::npos);
  std::ofstream(directory() + "/lines.sh")
      << document.substr(begin, document.find("```", begin) - begin);
  ASSERT_EQ(std::system(fmt::format("cd '{}' && bash -eu lines.sh >said 2>&1 "
                                    "|| {{ cat said; false; }}",
                                    directory())
                            .c_str()),
            0);
  const auto files = [&](const std::string& name) {
    return TlsFiles{.certificate = fmt::format("{}/{}.pem", directory(), name),
                    .key = fmt::format("{}/{}.key", directory(), name),
                    .ca = directory() + "/ca.pem"};
  };
  TestTestbed testbed({.listen = "127.0.0.1:0", .tls = files("gpud")});
  const auto may = [&](const std::string& name, const std::string& path) {
    return !RefusedByRole(CallEmpty(Channel(testbed, files(name)),
                                    "/carillon.v1." + path,
                                    milliseconds(20'000)));
  };
  EXPECT_TRUE(GetStatus(Channel(testbed, files("anna"))).ok());
  EXPECT_FALSE(may("anna", "Admin/SetPolicy"));
  EXPECT_TRUE(may("otto", "Admin/SetPolicy"));
  EXPECT_TRUE(may("fritz", "Faults/Inject"));
  EXPECT_TRUE(may("fritz", "Faults/List"));
  EXPECT_FALSE(may("otto", "Devices/Attach"));
}

TEST_F(TcpTest, WhatIsWrongIsToldAtTheStart) {
  const auto words = [&](ControlPlane::Options options) {
    options.directory = directory() + "/testbed";
    options.backend = "cpu";
    options.backend_options.workers = 1;
    const auto plane = ControlPlane::Start(std::move(options));
    EXPECT_EQ(plane.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plane.status().message());
  };
  auto options = Listening();
  options.tls.key.clear();
  options.tls.ca.clear();
  EXPECT_THAT(words(options),
              HasSubstr("--listen: missing: --tls-key, --tls-client-ca"));
  options = Listening();
  options.listen.clear();
  EXPECT_THAT(words(options), HasSubstr("go with --listen"));
  options = Listening();
  options.listen = "localhost";
  EXPECT_THAT(words(options), HasSubstr("--listen: 'localhost' has no port"));
  options = Listening();
  options.tls.ca = options.tls.certificate;
  EXPECT_THAT(words(options), HasSubstr("--tls-client-ca "));
}

}  // namespace
}  // namespace carillon::gpud
