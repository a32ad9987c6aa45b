// `carillon watch` over a gpud that never pauses.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "devices/sdk/unix_target.h"
#include "proto/admin.grpc.pb.h"
#include "tools/cli/cli_runner.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::cli {
namespace {

// Streams events without a pause until its client goes, so the client is never
// idle.
class BusyAdmin : public v1::Admin::Service {
 public:
  explicit BusyAdmin(const std::string& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(edge::UnixTarget(socket),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~BusyAdmin() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::TelemetryEvent>* writer) override {
    v1::TelemetryEvent event;
    event.mutable_device_attached()->set_device("nic0");
    event.set_was_there(true);
    event.set_time_ns(uint64_t{1'700'000'000} * 1'000'000'000);
    writer->Write(event);
    event.set_was_there(false);
    event.mutable_device_ready()->set_device("nic0");
    while (!context->IsCancelled() && writer->Write(event)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return grpc::Status::OK;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
};

TEST(Watch, EndsAtCtrlCThoughEventsNeverPause) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  for (const char* format : {"table", "json"}) {
    CliRun watch({"watch", "--dir", folder.path(), "-o", format});
    ASSERT_TRUE(Eventually([&] {
      return testbed::FileText(fmt::format("/proc/{}/fd/1", watch.pid()))
                 .find("device_ready") != std::string::npos;
    })) << watch.err();
    kill(watch.pid(), SIGINT);
    const CliResult result = watch.Wait(20);
    EXPECT_EQ(result.code, 0) << result.err;
  }
}

TEST(Watch, MarksWhatWasThereBefore) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  const auto first_lines = [&](const std::string& format) {
    CliRun watch({"watch", "--dir", folder.path(), "-o", format});
    EXPECT_TRUE(Eventually([&] {
      return testbed::FileText(fmt::format("/proc/{}/fd/1", watch.pid()))
                 .find("device_ready") != std::string::npos;
    })) << watch.err();
    kill(watch.pid(), SIGINT);
    std::istringstream lines(watch.Wait(20).out);
    std::pair<std::string, std::string> first;
    std::getline(lines, first.first);
    std::getline(lines, first.second);
    return first;
  };
  const auto [before, change] = first_lines("table");
  EXPECT_TRUE(before.starts_with("was there     device_attached")) << before;
  EXPECT_TRUE(change.find("20.000  device_ready") != change.npos) << change;
  const auto [before_json, change_json] = first_lines("json");
  EXPECT_EQ(Json::parse(before_json)["was_there"], true);
  EXPECT_EQ(Json::parse(change_json)["was_there"], false);
}

}  // namespace
}  // namespace carillon::cli
