// What Admin.StreamSnapshots shows of a testbed.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"
#include "shm/histogram.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

class Stream {
 public:
  explicit Stream(TestTestbed& testbed, uint32_t interval_ms = 50)
      : Stream(testbed.admin(), interval_ms, std::chrono::seconds(60)) {}
  Stream(v1::Admin::Stub& admin, uint32_t interval_ms,
         std::chrono::milliseconds deadline)
      : context_(Within(deadline)) {
    v1::StreamSnapshotsRequest request;
    request.set_interval_ms(interval_ms);
    request.set_histograms_ms(500);
    reader_ = admin.StreamSnapshots(context_.get(), request);
  }
  // Fails the test if there is none.
  v1::Snapshot Next() {
    v1::Snapshot message;
    EXPECT_TRUE(reader_->Read(&message)) << reader_->Finish().error_message();
    return message;
  }
  // The next one of those that come for which that is true.
  template <class Condition>
  v1::Snapshot NextWith(Condition condition) {
    v1::Snapshot message = Next();
    while (!condition(message) && !testing::Test::HasFailure()) {
      message = Next();
    }
    return message;
  }
  bool Read(v1::Snapshot* message) { return reader_->Read(message); }
  grpc::Status Finish() { return reader_->Finish(); }
  std::string reason() const { return DetailIn(*context_).reason(); }

 private:
  const std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<v1::Snapshot>> reader_;
};

void RingOnce(shm::DeviceRing& ring) {
  ring.Commit(nullptr, NowNs());
  ring.RingDoorbell();
  EXPECT_TRUE(AttachedDevice::Await(ring).has_value());
}

void Trace(TestTestbed& testbed) {
  v1::SetTracingRequest request;
  request.set_on(true);
  v1::SetTracingResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetTracing,
                                request, &response)
                  .ok());
}

TEST(Snapshots, AtRestThePictureIsWhatTheListsSay) {
  TestTestbed testbed;
  v1::AttachRequest request = AttachRequestFor("nic0");
  request.add_counter_names("rx");
  request.add_counter_names("tx");
  request.add_histogram_names("latency");
  AttachedDevice device(&testbed, request);
  shm::Telemetry& page = device.submission().telemetry();
  page.counters[1] = 7;
  shm::HistogramWriter(&page.histograms[0]).Add(1'000'003);
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  Trace(testbed);
  for (int i = 0; i < 3; ++i) RingOnce(ring);
  const v1::Snapshot shown = Stream(testbed).Next();
  EXPECT_EQ(shown.number(), 1u);
  EXPECT_TRUE(shown.whole());

  v1::Device listed = testbed.Devices().devices(0);
  ASSERT_EQ(shown.devices_size(), 1);
  ASSERT_EQ(shown.device_figures_size(), 1);
  const v1::DeviceFigures& figures = shown.device_figures(0);
  EXPECT_EQ(figures.device_id(), listed.device_id());
  ASSERT_EQ(figures.value_size(), 2);
  EXPECT_EQ(figures.value(1), listed.counters(1).value());
  ASSERT_EQ(figures.histograms_size(), 1);
  EXPECT_EQ(figures.histograms(0).DebugString(),
            listed.histograms(0).DebugString());
  EXPECT_EQ(listed.histograms(0).sum_ns(), 1'000'003u);
  v1::Device same = shown.devices(0);
  EXPECT_LE(same.attached_ns_ago(), listed.attached_ns_ago());
  same.clear_attached_ns_ago();
  listed.clear_attached_ns_ago();
  listed.clear_silent_ns();
  for (auto& counter : *listed.mutable_counters()) counter.clear_value();
  v1::Histogram& histogram = *listed.mutable_histograms(0);
  histogram.clear_bucket();
  histogram.clear_count();
  histogram.clear_sum_ns();
  EXPECT_EQ(same.DebugString(), listed.DebugString());

  v1::EktEntry entry = testbed.Ekt().entries(0);
  v1::ListRingsResponse rings;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::ListRings,
                                v1::ListRingsRequest(), &rings)
                  .ok());
  v1::Ring place = rings.rings(0);
  ASSERT_EQ(shown.event_kernels_size(), 1);
  ASSERT_EQ(shown.ring_figures_size(), 1);
  const v1::RingFigures& of = shown.ring_figures(0);
  EXPECT_EQ(of.doorbell(), place.doorbell());
  EXPECT_EQ(of.launched(), 3u);
  EXPECT_EQ(of.completed(), place.completed());
  EXPECT_EQ(of.consumed(), place.consumed());
  EXPECT_EQ(of.peak(), 0u) << "nobody had read when it was rung";
  EXPECT_EQ(of.counts().DebugString(), entry.counts().DebugString());
  ASSERT_EQ(of.stages_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(of.stages(i).DebugString(), entry.stages(i).DebugString());
  }
  EXPECT_EQ(of.life().sequence(), 3u);
  EXPECT_NE(of.life().rung_ns(), 0u);
  EXPECT_LE(of.life().rung_ns(), of.life().seen_ns());
  EXPECT_LE(of.life().seen_ns(), of.life().finished_ns());
  EXPECT_LE(of.life().finished_ns(), shown.monotonic_ns());
  place.clear_doorbell();
  place.clear_launched();
  place.clear_completed();
  place.clear_consumed();
  EXPECT_EQ(shown.event_kernels(0).ring().DebugString(), place.DebugString());
  entry.clear_counts();
  for (auto& stage : *entry.mutable_stages()) {
    stage.clear_bucket();
    stage.clear_count();
    stage.clear_sum_ns();
  }
  EXPECT_EQ(shown.event_kernels(0).entry().DebugString(), entry.DebugString());

  const v1::GetStatusResponse status = testbed.Status();
  EXPECT_EQ(shown.totals().events().DebugString(),
            status.events().DebugString());
  EXPECT_EQ(shown.totals().policy(), status.policy());
  EXPECT_TRUE(shown.totals().tracing());
  EXPECT_EQ(shown.totals().memory_used(), status.memory_used());
  EXPECT_EQ(shown.totals().blocks_of_sm_size(),
            static_cast<int>(status.gpu().sms()));
  ASSERT_EQ(shown.launch_paths_size(), status.launch_paths_size());
  EXPECT_EQ(shown.launch_paths(0).name(), status.launch_paths(0).name());
}

TEST(Snapshots, WhatIsAtRestIsNotSentAgain) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent());
  // The device that the test has gives no sign of life: that is told once.
  Stream stream(testbed);
  stream.NextWith([](const v1::Snapshot& message) {
    return message.device_figures_size() != 0 &&
           message.device_figures(0).silent_since_ns() != 0;
  });
  const v1::Snapshot quiet = stream.Next();
  EXPECT_EQ(quiet.devices_size(), 0);
  EXPECT_EQ(quiet.device_figures_size(), 0) << quiet.DebugString();
  EXPECT_EQ(quiet.event_kernels_size(), 0);
  EXPECT_EQ(quiet.ring_figures_size(), 0);
  RingOnce(ring);
  const v1::Snapshot rung = stream.NextWith(
      [](const v1::Snapshot& message) { return message.ring_figures_size(); });
  EXPECT_EQ(rung.ring_figures(0).ekt_index(), 0u);
  EXPECT_EQ(rung.event_kernels_size(), 0);
  ASSERT_TRUE(device.Unregister(0, 0).ok());
  const v1::Snapshot gone = stream.NextWith([](const v1::Snapshot& message) {
    return message.event_kernels_gone_size();
  });
  EXPECT_EQ(gone.event_kernels_gone(0), 0u);
  ASSERT_TRUE(device.Detach().ok());
  EXPECT_EQ(stream
                .NextWith([](const v1::Snapshot& message) {
                  return message.devices_gone_size();
                })
                .devices_gone(0),
            device.device_id());
}

TEST(Snapshots, WhatChangesWhileSomebodyReadsIsToldToAll) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  device.RingOf(device.NullEvent());
  // From now on, samples share the messages of what has not changed.
  Stream stream(testbed);
  ASSERT_TRUE(stream.Next().whole());
  ASSERT_EQ(stream.Next().devices_size(), 0) << "at rest";
  v1::SetPolicyRequest request;
  request.mutable_share()->set_device("nic0");
  request.mutable_share()->set_weight(7);
  request.mutable_share()->set_max_priority(3);
  v1::SetPolicyResponse response;
  ASSERT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::SetPolicy,
                                request, &response)
                  .ok());
  device.Buffer(v1::GPU_MEMORY, 4096);
  const v1::Snapshot changed = stream.NextWith([](const v1::Snapshot& message) {
    return message.devices_size() != 0 &&
           message.devices(0).gpu_memory_bytes() != 0;
  });
  const v1::Device listed = testbed.Devices().devices(0);
  // A reader that comes later has the shared ones, too.
  const v1::Snapshot fresh = Stream(testbed).Next();
  ASSERT_EQ(fresh.devices_size(), 1);
  for (const v1::Device& shown : {changed.devices(0), fresh.devices(0)}) {
    EXPECT_EQ(shown.share().DebugString(), listed.share().DebugString());
    EXPECT_EQ(shown.share().weight(), 7u);
    EXPECT_EQ(shown.gpu_memory_bytes(), listed.gpu_memory_bytes());
    EXPECT_EQ(shown.name(), "nic0");
  }
  EXPECT_GE(fresh.devices(0).attached_ns_ago(),
            changed.devices(0).attached_ns_ago())
      << "it is of each message's own moment";
  // Another event kernel at the same index is another one.
  ASSERT_EQ(fresh.event_kernels_size(), 1);
  const uint32_t before = fresh.event_kernels(0).ring().generation();
  ASSERT_TRUE(device.Unregister(0, 0).ok());
  device.RingOf(device.NullEvent(/*entries=*/8));
  const v1::Snapshot again = stream.NextWith([](const v1::Snapshot& message) {
    return message.event_kernels_size() != 0;
  });
  EXPECT_NE(again.event_kernels(0).ring().generation(), before);
  EXPECT_EQ(again.event_kernels(0).ring().entries(), 8u);
}

TEST(Snapshots, ARingThatWasFullForMicrosecondsShowsItsPeak) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  shm::DeviceRing ring = device.RingOf(device.NullEvent(/*entries=*/8));
  Stream stream(testbed);
  ASSERT_EQ(stream.Next().ring_figures(0).peak(), 0u);
  for (int i = 0; i < 8; ++i) ring.Commit(nullptr, 0);
  ring.RingDoorbell();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(AttachedDevice::Await(ring).has_value());
  }
  // Until all is told, and that there has been no peak since.
  uint32_t highest = 0;
  v1::RingFigures last;
  while (!HasFailure() && (last.counts().done() < 8 || last.peak() != 0)) {
    const v1::Snapshot message = stream.Next();
    if (message.ring_figures_size() != 0) last = message.ring_figures(0);
    highest = std::max(highest, last.peak());
  }
  EXPECT_EQ(highest, 8u);
}

TEST(Snapshots, TooImpatientAReaderIsRefused) {
  TestTestbed testbed;
  Stream stream(testbed, 49);
  v1::Snapshot message;
  EXPECT_FALSE(stream.Read(&message));
  EXPECT_EQ(stream.Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(stream.reason(), reason::kBadInterval);
}

TEST(Snapshots, ShareTheirPlacesWithWatchers) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "nic0");
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::TelemetryEvent>>> watches;
  for (int i = 0; i < 16; ++i) {
    streams.push_back(std::make_unique<Stream>(testbed));
    EXPECT_TRUE(streams.back()->Next().whole());
    contexts.push_back(Within());
    watches.push_back(
        testbed.admin().Watch(contexts.back().get(), v1::WatchRequest()));
    v1::TelemetryEvent event;
    EXPECT_TRUE(watches.back()->Read(&event));
  }
  Stream refused(testbed);
  v1::Snapshot message;
  EXPECT_FALSE(refused.Read(&message));
  EXPECT_EQ(refused.Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason(), reason::kTooMany);
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& watch : watches) watch->Finish();
}

TEST(Snapshots, AReaderThatDoesNotReadIsEndedAndItsPlaceIsFree) {
  TestTestbed testbed;
  std::vector<std::unique_ptr<AttachedDevice>> devices;
  v1::AttachRequest request;
  for (int i = 0; i < 16; ++i) {
    request = AttachRequestFor("nic" + std::to_string(i));
    for (const char* name : {"a", "b", "c", "d"}) {
      request.add_histogram_names(name);
    }
    devices.push_back(std::make_unique<AttachedDevice>(&testbed, request));
  }
  // Takes no more than HTTP/2's first window from a caller that does not read.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto admin = v1::Admin::NewStub(
      grpc::CreateCustomChannel("unix:" + testbed.paths().operator_socket(),
                                grpc::InsecureChannelCredentials(), arguments));
  Stream stuck(*admin, 50, std::chrono::minutes(10));
  ASSERT_TRUE(stuck.Next().whole());
  // All its histograms change, again and again, so that it has much to read.
  const auto change = [&] {
    for (const auto& device : devices) {
      for (auto& histogram : device->submission().telemetry().histograms) {
        for (uint64_t value = 1; value < 1 << 20; value += value / 32 + 1) {
          shm::HistogramWriter(&histogram).Add(value);
        }
      }
    }
  };
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::TelemetryEvent>>> watches;
  for (int i = 0; i < 31; ++i) {
    contexts.push_back(Within(std::chrono::minutes(10)));
    watches.push_back(
        testbed.admin().Watch(contexts.back().get(), v1::WatchRequest()));
    v1::TelemetryEvent event;
    ASSERT_TRUE(watches.back()->Read(&event));
  }
  ASSERT_TRUE(Eventually([&] {
    change();
    Stream next(testbed);
    v1::Snapshot message;
    return next.Read(&message);
  }));
  v1::Snapshot message;
  while (stuck.Read(&message)) continue;
  EXPECT_EQ(stuck.Finish().error_code(), StatusCode::CANCELLED);
  for (const auto& context : contexts) context->TryCancel();
  for (const auto& watch : watches) watch->Finish();
}

TEST(Snapshots, EndInOrderWhenGpudGoesDown) {
  TestTestbed testbed;
  Stream stream(testbed, 3'600'000);
  EXPECT_TRUE(stream.Next().whole());
  testbed.Stop();
  v1::Snapshot message;
  EXPECT_FALSE(stream.Read(&message));
  EXPECT_TRUE(stream.Finish().ok());
}

}  // namespace
}  // namespace carillon::gpud
