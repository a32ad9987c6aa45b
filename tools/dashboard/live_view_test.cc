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
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/testbed_paths.h"
#include "base/testing/eventually.h"
#include "proto/admin.grpc.pb.h"
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

  size_t asked() const { return asked_; }

  // Of a ring in which 100 events end every second by the pictures' clock.
  grpc::Status StreamSnapshots(
      grpc::ServerContext* context, const v1::StreamSnapshotsRequest*,
      grpc::ServerWriter<v1::Snapshot>* writer) override {
    ++asked_;
    if (refuses_) return {grpc::StatusCode::RESOURCE_EXHAUSTED, kTooMany};
    v1::Snapshot message;
    message.set_whole(true);
    v1::SnapshotEventKernel* const event = message.add_event_kernels();
    event->mutable_ring()->set_device("nic0");
    event->mutable_ring()->set_generation(7);
    for (uint64_t number = 1; !context->IsCancelled(); ++number) {
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

}  // namespace
}  // namespace carillon::dashboard
