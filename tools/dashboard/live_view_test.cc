// What the view says of a gpud, and how often it asks one.
#include "tools/dashboard/live_view.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "proto/admin.grpc.pb.h"
#include "shm/faults/board.h"
#include "tools/testbed/supervisor/test_util.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::dashboard {
namespace {

using ::testing::HasSubstr;

constexpr char kTooMany[] =
    "32 calls watch or read snapshots already: that is the limit; end one";

// Answers like gpud, on a socket of its own.
class FakeGpud : public v1::Admin::Service {
 public:
  FakeGpud(const std::string& socket, bool refuses) : refuses_(refuses) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeGpud() override { server_->Shutdown(std::chrono::system_clock::now()); }

  // Ends its calls, as gpud does before it ends itself.
  void End() { ended_ = true; }

  size_t asked() const { return asked_; }

  // Of a ring in which 100 events end every second by the pictures' clock.
  grpc::Status StreamSnapshots(
      grpc::ServerContext* context, const v1::StreamSnapshotsRequest*,
      grpc::ServerWriter<v1::Snapshot>* writer) override {
    ++asked_;
    if (ended_) return grpc::Status::CANCELLED;
    if (refuses_) return {grpc::StatusCode::RESOURCE_EXHAUSTED, kTooMany};
    v1::Snapshot message;
    message.set_whole(true);
    v1::SnapshotEventKernel* const event = message.add_event_kernels();
    event->mutable_ring()->set_device("nic0");
    event->mutable_ring()->set_generation(7);
    for (uint64_t number = 1; !context->IsCancelled(); ++number) {
      if (ended_) return grpc::Status::CANCELLED;
      message.set_number(number);
      message.set_monotonic_ns(number * 100'000'000);
      message.clear_ring_figures();
      message.add_ring_figures()->mutable_counts()->set_done(number * 10);
      if (!writer->Write(message)) break;
      message.set_whole(false);
      message.clear_event_kernels();
      poll(nullptr, 0, 1);
    }
    return grpc::Status::OK;
  }

 private:
  const bool refuses_;
  std::atomic<bool> ended_{false};
  std::atomic<size_t> asked_{0};
  std::unique_ptr<grpc::Server> server_;
};

class LiveViewTest : public ::testing::Test {
 protected:
  // The newest picture; null before the first one.
  static Json Newest(const LiveView& view) {
    const Picture picture = view.Newest();
    return picture.json == nullptr ? Json() : Json::parse(*picture.json);
  }

  testbed::TestFolder folder_;
  const testbed::Testbed testbed_{"lab", TestbedPaths(folder_.path()), {}};
};

TEST_F(LiveViewTest, WhereGpudSendsNoFiguresItSaysWhyAndAsksAgain) {
  const FakeGpud gpud(testbed_.paths.operator_socket(), /*refuses=*/true);
  std::atomic<size_t> pictures{0};
  const uint64_t begin = NowNs();
  LiveView view(testbed_, "", [&] { ++pictures; });
  ASSERT_TRUE(Eventually([&] { return pictures >= 4; }));
  // Half a second each; a machine that is busy only makes it longer.
  EXPECT_GE(NowNs() - begin, 1'400'000'000u);
  EXPECT_LE(gpud.asked(), pictures + 1);
  const Json picture = Newest(view);
  EXPECT_EQ(picture["gpud"]["state"], "silent") << "it serves";
  EXPECT_EQ(picture["gpud"]["note"],
            fmt::format("gpud serves, but sends the dashboard no figures: "
                        "StreamSnapshots: {}. "
                        "It is asked again twice a second",
                        kTooMany));
  EXPECT_THAT(view.Metrics(), HasSubstr("carillon_gpud_up{testbed=\"lab\"} 0"));
}

TEST_F(LiveViewTest, WithoutAGpudItIsGone) {
  LiveView view(testbed_, "", [] {});
  ASSERT_TRUE(Eventually([&] { return !Newest(view).is_null(); }));
  EXPECT_EQ(Newest(view)["gpud"]["state"], "gone");
}

TEST_F(LiveViewTest, OfAGpudThatEndsItsCallsItSaysWhy) {
  FakeGpud gpud(testbed_.paths.operator_socket(), /*refuses=*/false);
  LiveView view(testbed_, "", [] {});
  const auto state = [&] {
    const Json picture = Newest(view);
    return picture.is_null() ? "" : picture["gpud"]["state"].get<std::string>();
  };
  ASSERT_TRUE(Eventually([&] { return state() == "live"; }));
  gpud.End();
  ASSERT_TRUE(Eventually([&] { return state() == "silent"; }));
  EXPECT_EQ(Newest(view)["gpud"]["note"],
            "gpud serves, but sends the dashboard no figures: it was told to "
            "end. It is asked again twice a second");
}

TEST_F(LiveViewTest, TellsWhetherAnythingIsRecorded) {
  const auto recorded = [](const Json& picture) {
    return picture.is_object() && picture["recorded"] == true;
  };
  std::filesystem::create_directories(testbed_.paths.recorder_directory());
  // Of another host's clock, and no recording.
  std::ofstream(testbed_.paths.recorder_directory() + "/peer.clock") << "x";
  LiveView view(testbed_, "", [] {});
  ASSERT_TRUE(Eventually([&] { return Newest(view).is_object(); }));
  EXPECT_FALSE(recorded(Newest(view)));
  std::ofstream(testbed_.paths.recorder_directory() + "/gpud.7.rec") << "x";
  EXPECT_TRUE(Eventually([&] { return recorded(Newest(view)); }));
}

TEST_F(LiveViewTest, TheHistoryTellsOneRingFromTheNextOfItsName) {
  const FakeGpud gpud(testbed_.paths.operator_socket(), /*refuses=*/false);
  LiveView view(testbed_, "", [] {});
  Json ring;
  ASSERT_TRUE(Eventually([&] {
    const auto history = view.History(60);
    if (history.empty()) return false;
    ring = Json::parse(*history.back())["rings"];
    return !ring.empty();
  }));
  EXPECT_EQ(ring[0].back(), 7) << "its generation: " << ring;
  EXPECT_EQ(Newest(view)["rings"][0]["generation"], 7);
}

TEST_F(LiveViewTest, TellsHowManyEventsEndEachSecond) {
  const FakeGpud gpud(testbed_.paths.operator_socket(), /*refuses=*/false);
  LiveView view(testbed_, "", [] {});
  Json rate;
  ASSERT_TRUE(Eventually([&] {
    const Json picture = Newest(view);
    if (!picture.is_object() || picture["rings"].empty()) return false;
    rate = picture["rings"][0]["rate"];
    return !rate.is_null();
  }));
  EXPECT_NEAR(rate.get<double>(), 100, 1e-6);
}

TEST_F(LiveViewTest, AFaultThatWouldNeverStrikeIsRefused) {
  const auto board = faults::Board::Create(testbed_.paths.fault_board());
  ASSERT_TRUE(board.ok()) << board.status();
  const auto nic = faults::Member::Join(testbed_.paths.fault_board(), "nic0");
  ASSERT_TRUE(nic.ok()) << nic.status();
  LiveView view(testbed_, "", [] {});
  faults::Fault fault{.name = "b",
                      .point = faults::Point::kDeviceRing,
                      .action = faults::Action::kLose};
  for (const std::string process : {"zzz", "dashboard"}) {
    fault.process = process;
    EXPECT_EQ(view.Inject(fault).status().code(), absl::StatusCode::kNotFound)
        << process;
  }
  EXPECT_TRUE((*board)->List().empty());
  fault.process = "nic*";
  EXPECT_TRUE(view.Inject(fault).ok());
  EXPECT_EQ((*view.Faults())["processes"], Json({"nic0"}));
}

TEST_F(LiveViewTest, NoDeviceMakesTheAnswerOfTheLogsLarge) {
  const std::string folder = testbed_.paths.log_directory();
  std::filesystem::create_directories(folder);
  std::ofstream loud(folder + "/loud.log");
  for (int i = 0; i < 400; ++i) loud << std::string(16'000, '\x1b') << '\n';
  loud.close();
  std::ofstream(folder + "/nic0.log") << "one\ntwo\n";
  LiveView view(testbed_, "", [] {});
  const Json logs = view.Logs(200);
  EXPECT_LT(logs.dump().size(), size_t{300} << 10);
  std::map<std::string, std::vector<std::string>> lines;
  for (const Json& line : logs["lines"]) {
    lines[line["process"]].push_back(line["line"]);
  }
  EXPECT_THAT(lines["nic0"], ::testing::ElementsAre("one", "two"));
  ASSERT_FALSE(lines["loud"].empty());
  EXPECT_EQ(lines["loud"][0],
            std::string(512, '\x1b') + "... (15488 bytes more)");
}

}  // namespace
}  // namespace carillon::dashboard
