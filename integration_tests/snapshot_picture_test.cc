// What a client makes of a stream of snapshots is what gpud has: whatever
// changes, and however many samples the reader skips.
#include "tools/testbed/client/snapshot_picture.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/control/rpc/snapshot_changes.h"

namespace carillon {
namespace {

using gpud::HistogramSample;
using gpud::DeviceSample;
using gpud::Histograms;
using gpud::PictureSample;
using gpud::RingSample;
using gpud::Sample;
using gpud::SameHistograms;
using gpud::SharedHistograms;
using testbed::SnapshotPicture;

// A testbed of a few devices and event kernels in which anything may change.
class World {
 public:
  explicit World(uint32_t seed) : random_(seed) {}

  void Step() {
    now_ += 50'000'000 + Below(1000);
    for (uint32_t changes = Below(8); changes > 0; --changes) Change();
  }

  // As gpud does: with the last sample's messages where nothing has changed.
  Sample Take(const Sample& last = {}) {
    Sample sample;
    const auto picture = std::make_shared<PictureSample>();
    v1::Snapshot& common = picture->common;
    common.set_monotonic_ns(now_);
    common.set_time_ns(now_ + 1);
    common.mutable_totals()->set_policy(policy_);
    common.mutable_totals()->mutable_events()->set_rung(now_);
    for (uint32_t i = 0; i < 4; ++i) {
      v1::Queue* const queue = common.add_queues();
      queue->set_name(i % 2 == 0 ? "event" : "host");
      queue->set_priority(i / 2);
      queue->set_kernels(queues_[i]);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      v1::LaunchPath* const path = common.add_launch_paths();
      path->set_name(i == 0 ? "edge" : "baseline");
      v1::Counter* const polls = path->add_counters();
      polls->set_name("polls");
      polls->set_value(polls_[i]);
    }
    auto histograms = std::make_shared<HistogramSample>();
    histograms->taken_ns = now_;
    for (const auto& [id, device] : devices_) {
      DeviceSample one = Describe(id, device);
      for (const DeviceSample& old : DevicesOf(last)) {
        Share(old.device, &one.device);
        Share(old.figures, &one.figures);
      }
      picture->devices.push_back(std::move(one));
      const auto all = std::make_shared<Histograms>();
      Add("latency", device.latency, all.get());
      histograms->of_device[id] = all;
      if (last.histograms != nullptr) {
        ShareHistograms(last.histograms->of_device, id,
                        &histograms->of_device[id]);
      }
    }
    for (const auto& [index, event] : events_) {
      RingSample one = Describe(index, event);
      for (const RingSample& old : RingsOf(last)) {
        if (old.generation() != event.generation) continue;
        Share(old.event_kernel, &one.event_kernel);
        Share(old.figures, &one.figures);
      }
      picture->rings.push_back(std::move(one));
      const auto all = std::make_shared<Histograms>();
      for (const char* stage : {"seen", "done"}) {
        Add(stage, event.stages.at(stage), all.get());
      }
      histograms->of_ring[event.generation] = all;
      if (last.histograms != nullptr) {
        ShareHistograms(last.histograms->of_ring, event.generation,
                        &histograms->of_ring[event.generation]);
      }
      if (event.peak != 0) sample.peaks[event.generation] = event.peak;
    }
    sample.picture = picture;
    sample.histograms = histograms;
    return sample;
  }

 private:
  using Buckets = std::map<uint32_t, uint64_t>;
  struct Device {
    uint64_t attached_ns = 0;
    uint64_t silent_since_ns = 0;
    std::string note;
    uint64_t counters[2] = {};
    Buckets latency;
  };
  struct Event {
    uint32_t generation = 0;
    std::string label;
    uint64_t rung = 0;
    uint64_t life = 0;
    uint32_t peak = 0;
    std::map<std::string, Buckets> stages = {{"seen", {}}, {"done", {}}};
  };

  uint32_t Below(uint32_t bound) {
    return std::uniform_int_distribution<uint32_t>(0, bound - 1)(random_);
  }
  template <class Map>
  auto& Any(Map& all) {
    return std::next(all.begin(), Below(static_cast<uint32_t>(all.size())))
        ->second;
  }
  void Change(Buckets& buckets) {
    switch (Below(6)) {
      case 0:
        return buckets.clear();  // ResetStatistics
      case 1:
        if (!buckets.empty()) buckets.erase(buckets.begin());
        return;
      default:
        buckets[Below(40)] += 1 + Below(9);
    }
  }
  void Change() {
    const uint32_t what = Below(16);
    if (what == 0) devices_[next_device_++] = {.attached_ns = now_};
    // At an index that another one may have had a moment ago.
    if (what < 3) events_[Below(4)] = {.generation = next_generation_++};
    if (what == 3) policy_ = Below(2) == 0 ? "p1" : "priority";
    if (what == 4) queues_[Below(4)] = Below(3);
    if (what == 5) ++polls_[Below(2)];
    if (!devices_.empty()) {
      Device& device = Any(devices_);
      if (what == 6) devices_.erase(std::prev(devices_.end()));
      if (what == 7) device.note = std::to_string(Below(3));
      if (what == 8) ++device.counters[Below(2)];
      if (what == 9) device.silent_since_ns = Below(2) == 0 ? 0 : now_ - 7;
      if (what == 10) Change(device.latency);
    }
    if (!events_.empty()) {
      Event& event = Any(events_);
      if (what == 11) event.label = std::to_string(Below(3));
      if (what == 12) ++event.rung;
      if (what == 13) event.peak = Below(3);
      if (what == 14) Change(Any(event.stages));
      if (what == 15) event.life = Below(3);
      if (what == 6 && Below(4) == 0) events_.erase(events_.begin());
    }
  }

  static void Add(const char* name, const Buckets& buckets, Histograms* out) {
    v1::Histogram* const histogram = out->Add();
    histogram->set_name(name);
    uint64_t sum = 0;
    for (const auto& [bucket, count] : buckets) {
      histogram->add_bucket(bucket);
      histogram->add_count(count);
      sum += bucket * count;
    }
    histogram->set_sum_ns(sum);
  }
  static DeviceSample Describe(uint32_t id, const Device& device) {
    const auto shown = std::make_shared<v1::Device>();
    shown->set_device_id(id);
    shown->set_note(device.note);
    shown->add_histograms()->set_name("latency");
    const auto figures = std::make_shared<v1::DeviceFigures>();
    figures->set_device_id(id);
    figures->set_silent_since_ns(device.silent_since_ns);
    for (uint32_t i = 0; i < 2; ++i) {
      shown->add_counters()->set_name(i == 0 ? "rx" : "tx");
      figures->add_counter(i);
      figures->add_value(device.counters[i]);
    }
    return {.attached_ns = device.attached_ns,
            .state = device.note,
            .device = shown,
            .figures = figures};
  }
  static RingSample Describe(uint32_t index, const Event& event) {
    const auto shown = std::make_shared<v1::SnapshotEventKernel>();
    shown->mutable_entry()->set_ekt_index(index);
    shown->mutable_entry()->set_label(event.label);
    for (const char* stage : {"seen", "done"}) {
      shown->mutable_entry()->add_stages()->set_name(stage);
    }
    shown->mutable_ring()->set_generation(event.generation);
    const auto figures = std::make_shared<v1::RingFigures>();
    figures->set_ekt_index(index);
    figures->set_launched(event.rung);
    figures->mutable_counts()->set_rung(event.rung);
    if (event.life != 0) figures->mutable_life()->set_sequence(event.life);
    return {.event_kernel = shown, .figures = figures};
  }
  static std::vector<DeviceSample> DevicesOf(const Sample& sample) {
    return sample.picture == nullptr ? std::vector<DeviceSample>()
                                     : sample.picture->devices;
  }
  static std::vector<RingSample> RingsOf(const Sample& sample) {
    return sample.picture == nullptr ? std::vector<RingSample>()
                                     : sample.picture->rings;
  }
  template <class Message>
  static void Share(const std::shared_ptr<const Message>& old,
                    std::shared_ptr<const Message>* now) {
    if (old->SerializeAsString() == (*now)->SerializeAsString()) *now = old;
  }
  static void ShareHistograms(const std::map<uint32_t, SharedHistograms>& last,
                              uint32_t key, SharedHistograms* now) {
    const auto old = last.find(key);
    if (old != last.end() && SameHistograms(*old->second, **now)) {
      *now = old->second;
    }
  }

  std::mt19937 random_;
  uint64_t now_ = 1'000'000'000;
  std::string policy_ = "p1";
  uint32_t queues_[4] = {};
  uint64_t polls_[2] = {};
  uint32_t next_device_ = 1;
  uint32_t next_generation_ = 1;
  std::map<uint32_t, Device> devices_;
  std::map<uint32_t, Event> events_;
};

// All that a picture shows. Which queues are empty it does not know.
std::string Text(const SnapshotPicture& picture) {
  std::string text = std::to_string(picture.monotonic_ns()) + " " +
                     std::to_string(picture.time_ns()) + "\n" +
                     picture.totals().DebugString();
  std::map<std::string, uint32_t> queues;
  for (const v1::Queue& queue : picture.queues()) {
    if (queue.kernels() == 0) continue;
    queues[queue.name() + std::to_string(queue.priority())] = queue.kernels();
  }
  for (const auto& [name, kernels] : queues) {
    text += name + ": " + std::to_string(kernels) + "\n";
  }
  for (const v1::LaunchPath& path : picture.launch_paths()) {
    text += path.DebugString();
  }
  for (const auto& [id, device] : picture.devices()) {
    text += std::to_string(id) + device.DebugString();
  }
  for (const auto& [index, event] : picture.event_kernels()) {
    text += std::to_string(index) + event.entry.DebugString() +
            event.ring.DebugString() + std::to_string(event.peak) + "\n" +
            event.life.DebugString();
  }
  return text;
}

// As SnapshotSampler::Reader does.
v1::Snapshot Message(const Sample& from, const Sample& to, uint64_t number) {
  v1::Snapshot message = ChangesBetween(from, to);
  message.set_number(number);
  // As it comes over the wire.
  v1::Snapshot read;
  EXPECT_TRUE(read.ParseFromString(message.SerializeAsString()));
  return read;
}

TEST(SnapshotPictureTest, WholeAndChangesGiveWhatAFreshWholeGives) {
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    World world(seed);
    std::mt19937 skips(seed);
    SnapshotPicture picture;
    Sample sent;
    Sample last;
    for (uint64_t number = 1; number <= 100; ++number) {
      for (uint32_t skipped = skips() % 3 + 1; skipped > 0; --skipped) {
        world.Step();
        last = world.Take(last);  // one that this reader skips
      }
      const Sample now = last = world.Take(last);
      const absl::Status applied = picture.Apply(Message(sent, now, number));
      ASSERT_TRUE(applied.ok()) << applied << " seed " << seed;
      SnapshotPicture fresh;
      ASSERT_TRUE(fresh.Apply(Message({}, now, 1)).ok());
      ASSERT_EQ(Text(picture), Text(fresh))
          << "seed " << seed << ", message " << number;
      sent = now;
    }
  }
}

TEST(SnapshotPictureTest, ChangesOfWhatItLacksAreAnError) {
  World world(1);
  for (int i = 0; i < 20; ++i) world.Step();
  const Sample first = world.Take();
  SnapshotPicture picture;
  EXPECT_TRUE(absl::IsDataLoss(picture.Apply(Message(first, first, 2))));
  ASSERT_TRUE(picture.Apply(Message({}, first, 1)).ok());
  v1::Snapshot message;
  message.add_device_figures()->set_device_id(999);
  EXPECT_TRUE(absl::IsDataLoss(picture.Apply(message)));
  message.Clear();
  message.add_ring_figures()->set_ekt_index(999);
  EXPECT_TRUE(absl::IsDataLoss(picture.Apply(message)));
  message.Clear();
  ASSERT_FALSE(picture.devices().empty());
  v1::DeviceFigures* const figures = message.add_device_figures();
  figures->set_device_id(picture.devices().begin()->first);
  figures->add_counter(~0u);
  figures->add_value(1);
  EXPECT_TRUE(absl::IsDataLoss(picture.Apply(message)));
  figures->clear_counter();
  figures->add_histograms()->set_name("none");
  EXPECT_TRUE(absl::IsDataLoss(picture.Apply(message)));
}

}  // namespace
}  // namespace carillon
