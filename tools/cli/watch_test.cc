// `carillon watch`, and commands with -w, over a gpud that never pauses.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
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
  // `note_bytes`: of a device in each whole picture.
  explicit BusyAdmin(const std::string& socket, size_t note_bytes = 0)
      : note_bytes_(note_bytes) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(edge::UnixTarget(socket),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~BusyAdmin() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // Answers nobody: returns when the client gives up.
  grpc::Status GetStatus(grpc::ServerContext* context,
                         const v1::GetStatusRequest*,
                         v1::GetStatusResponse*) override {
    asked_ = true;
    while (!context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return grpc::Status::CANCELLED;
  }
  bool asked() const { return asked_; }

  // Of a ring in which 100 events end every 50 ms by the pictures' clock, and of
  // which each picture has its peak.
  grpc::Status StreamSnapshots(
      grpc::ServerContext* context, const v1::StreamSnapshotsRequest*,
      grpc::ServerWriter<v1::Snapshot>* writer) override {
    v1::Snapshot message;
    message.set_whole(true);
    v1::SnapshotEventKernel* const event = message.add_event_kernels();
    event->mutable_ring()->set_device("nic0");
    event->mutable_ring()->set_generation(7);
    event->mutable_ring()->set_entries(64);
    if (note_bytes_ != 0) {
      message.add_devices()->set_note(std::string(note_bytes_, 'n'));
    }
    for (uint64_t number = 1; !context->IsCancelled(); ++number) {
      message.set_number(number);
      message.set_monotonic_ns(number * 50'000'000);
      message.clear_ring_figures();
      v1::RingFigures* const figures = message.add_ring_figures();
      figures->mutable_counts()->set_done(number * 100);
      figures->set_peak(static_cast<uint32_t>(number));
      if (!writer->Write(message)) break;
      message.set_whole(false);
      message.clear_event_kernels();
      message.clear_devices();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return grpc::Status::OK;
  }
  grpc::Status ListEkt(grpc::ServerContext*, const v1::ListEktRequest*,
                       v1::ListEktResponse* response) override {
    response->set_capacity(32);
    response->add_entries()->set_device("nic0");
    return grpc::Status::OK;
  }
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse* response) override {
    for (const char* name : {"nic0", "host0"}) {
      response->add_devices()->set_name(name);
    }
    return grpc::Status::OK;
  }

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
  const size_t note_bytes_;
  std::atomic<bool> asked_{false};
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

// Of a CLI run that goes on, what it has written.
std::string Out(const CliRun& run) {
  return testbed::FileText(fmt::format("/proc/{}/fd/1", run.pid()));
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Repeat, PrintsADocumentALineWithRatesOnceThereWereTwoLooks) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  CliRun rings({"rings", "--dir", folder.path(), "-w", "0.05", "-o", "json"});
  ASSERT_TRUE(Eventually([&] { return Count(Out(rings), "\n") >= 3; }))
      << rings.err();
  kill(rings.pid(), SIGINT);
  const CliResult result = rings.Wait(20);
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  std::string line;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    const Json ring = Json::parse(line)["rings"][0];
    if (i == 0) {
      EXPECT_TRUE(ring["events_per_s"].is_null()) << line;
      EXPECT_TRUE(ring["peak"].is_null()) << line;
    } else {
      EXPECT_EQ(ring["events_per_s"], 2000) << line;
      EXPECT_EQ(ring["peak"], i + 1) << line;
    }
  }
}

TEST(Repeat, WithoutItARateIsThatOfTwoLooks) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  const CliResult rings =
      RunCli({"rings", "--dir", folder.path(), "-o", "json"});
  EXPECT_EQ(rings.json()["rings"][0]["events_per_s"], 2000) << rings.err;
  EXPECT_EQ(rings.json()["rings"][0]["peak"], 2);
  const Json devices =
      RunCli({"devices", "--dir", folder.path(), "-o", "json"}).json();
  EXPECT_EQ(devices["devices"][0]["events_per_s"], 2000) << devices;
  EXPECT_EQ(devices["devices"][0]["peak"], 2) << devices;
  EXPECT_TRUE(devices["devices"][1]["events_per_s"].is_null()) << devices;
  EXPECT_TRUE(devices["devices"][1]["peak"].is_null()) << devices;
}

TEST(Repeat, PrintsOneBlockAfterAnotherUntilCtrlC) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  for (const char* command : {"ekt", "devices", "rings"}) {
    CliRun run({command, "--dir", folder.path(), "-w0.05"});
    ASSERT_TRUE(Eventually([&] { return Count(Out(run), "DEVICE") >= 3; }))
        << run.err();
    kill(run.pid(), SIGINT);
    CliResult result = run.Wait(20);
    EXPECT_EQ(result.code, 0) << command << result.err;
    // Before a block that Ctrl-C has ended there may be an empty line, too.
    if (result.out.ends_with("\n\n")) result.out.pop_back();
    EXPECT_EQ(Count(result.out, "\n\n"), Count(result.out, "DEVICE") - 1)
        << result.out;
    EXPECT_EQ(result.out.find('\x1b'), result.out.npos) << "no terminal";
  }
}

TEST(Repeat, SaysThatGpudHasGoneAndGoesOnWithTheNext) {
  testbed::TestFolder folder;
  const std::string socket = TestbedPaths(folder.path()).operator_socket();
  const CliResult none = RunCli({"ekt", "--dir", folder.path(), "-w"});
  EXPECT_EQ(none.code, 4) << "there never was one: " << none.out;
  for (const char* command : {"ekt", "rings"}) {
    auto gpud = std::make_unique<BusyAdmin>(socket);
    CliRun run({command, "--dir", folder.path(), "-w", "0.05", "-o", "json"});
    const auto lines = [&] { return Count(Out(run), "nic0"); };
    ASSERT_TRUE(Eventually([&] { return lines() >= 1; })) << run.err();
    gpud = nullptr;
    ASSERT_TRUE(Eventually([&] {
      return Out(run).find("{\"error\":{\"code\":") != std::string::npos;
    })) << run.err();
    const size_t before = lines();
    gpud = std::make_unique<BusyAdmin>(socket);
    ASSERT_TRUE(Eventually([&] { return lines() > before; })) << run.err();
    kill(run.pid(), SIGTERM);
    EXPECT_EQ(run.Wait(20).code, 0) << command;
  }
}

// Without it, the call's deadline passes, and that is an error.
TEST(Repeat, EndsAtCtrlCThoughGpudDoesNotAnswer) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket());
  CliRun status({"status", "--dir", folder.path(), "-w"});
  ASSERT_TRUE(Eventually([&] { return gpud.asked(); })) << status.err();
  kill(status.pid(), SIGINT);
  const CliResult result = status.Wait(20);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST(Top, PrintsFramesWithoutATerminalAndRefusesToDrawOnNone) {
  testbed::TestFolder folder;
  const std::string socket = TestbedPaths(folder.path()).operator_socket();
  EXPECT_EQ(RunCli({"top", "--dir", folder.path(), "--frames", "1"}).code, 4);
  BusyAdmin gpud(socket);
  const CliResult text = RunCli(
      {"top", "--dir", folder.path(), "--frames", "3", "--interval", "0.05"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(Count(text.out, "carillon top: "), 3u) << text.out;
  EXPECT_EQ(Count(text.out, "  2,000  "), 3u) << text.out;
  EXPECT_EQ(text.out.find('\x1b'), text.out.npos);
  const CliResult none = RunCli({"top", "--dir", folder.path()});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            "carillon: top draws on a terminal, and stdin or stdout is none\n"
            "  hint: plain text: carillon top --frames 1\n");
  EXPECT_EQ(RunCli({"top", "--frames", "1", "-o", "json"}).code, 2);
}

// gRPC's own limit for a message is 4 MiB.
TEST(Repeat, TakesAPictureOfSixMegabytes) {
  testbed::TestFolder folder;
  BusyAdmin gpud(TestbedPaths(folder.path()).operator_socket(), 6 << 20);
  const CliResult rings = RunCli({"rings", "--dir", folder.path()});
  EXPECT_EQ(rings.code, 0) << rings.err;
}

}  // namespace
}  // namespace carillon::cli
