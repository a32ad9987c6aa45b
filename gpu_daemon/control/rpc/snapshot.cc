#include "gpu_daemon/control/rpc/snapshot.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/rpc/describe.h"

namespace carillon::gpud {
namespace {

// A living device says so ten times a second, and gpud looks five times.
constexpr Nanoseconds kSilentNs = 500'000'000;

void AddTotals(const SessionContext& context, v1::Snapshot* picture) {
  v1::SnapshotTotals* const totals = picture->mutable_totals();
  Describe(context.ekt->totals(), totals->mutable_events());
  const Backend& backend = *context.backend;
  totals->set_policy(backend.policy());
  totals->set_tracing(context.backend->paths().tracing());
  totals->set_memory_used(context.budget->used());
  const BackendFigures figures = backend.figures();
  totals->set_resident_blocks(figures.resident_blocks);
  for (const uint32_t blocks : figures.blocks_of_sms) {
    totals->add_blocks_of_sm(blocks);
  }
  for (const QueueLength& length : backend.queue_lengths()) {
    Describe(length, picture->add_queues());
  }
}

void AddPaths(const SessionContext& context,
              const std::vector<std::shared_ptr<EventKernel>>& events,
              v1::Snapshot* picture) {
  for (const PathSet::Description& path : context.backend->paths().Describe()) {
    v1::LaunchPath* const shown = picture->add_launch_paths();
    Describe(path, events, shown);
    shown->clear_summary();
  }
}

template <class Message>
std::shared_ptr<const Message> LastIfSame(
    const std::shared_ptr<const Message>& last, const Message& now) {
  return last != nullptr && last->SerializeAsString() == now.SerializeAsString()
             ? last
             : std::make_shared<const Message>(now);
}

DeviceSample TakeDevice(const Session& session, Nanoseconds now,
                        const DeviceSample& last) {
  const Session::Identity& identity = session.identity();
  DeviceSample sample{.attached_ns = identity.attached_ns,
                      .state = {},
                      .device = last.device,
                      .figures = {}};
  v1::Device state;
  DescribeState(session, &state);
  sample.state = state.SerializeAsString();
  if (last.device == nullptr || sample.state != last.state) {
    DescribeIdentity(identity, &state);
    for (const std::string& name : identity.counter_names) {
      state.add_counters()->set_name(name);
    }
    for (const std::string& name : identity.histogram_names) {
      state.add_histograms()->set_name(name);
    }
    sample.device = std::make_shared<const v1::Device>(std::move(state));
  }
  v1::DeviceFigures figures;
  figures.set_device_id(identity.device_id);
  const Nanoseconds silent = session.SilentFor(now);
  if (silent > kSilentNs) figures.set_silent_since_ns(now - silent);
  for (size_t i = 0; i < identity.counter_names.size(); ++i) {
    figures.add_counter(static_cast<uint32_t>(i));
    figures.add_value(CounterOf(session, i));
  }
  sample.figures = LastIfSame(last.figures, figures);
  return sample;
}

std::shared_ptr<const v1::SnapshotEventKernel> DescribeEventKernel(
    const EventKernel& event) {
  auto shown = std::make_shared<v1::SnapshotEventKernel>();
  DescribeRegistration(event, shown->mutable_entry());
  for (uint32_t i = 0; i < kStages; ++i) {
    shown->mutable_entry()->add_stages()->set_name(
        std::string(StageName(static_cast<Stage>(i))));
  }
  DescribePlace(event, shown->mutable_ring());
  return shown;
}

RingSample TakeRing(const EventKernel& event, const RingSample& last) {
  RingSample sample;
  // What was registered does not change.
  sample.event_kernel =
      last.event_kernel != nullptr &&
              last.event_kernel->entry().short_path() == TakesShortPath(event)
          ? last.event_kernel
          : DescribeEventKernel(event);
  v1::RingFigures figures;
  figures.set_ekt_index(event.ekt_index());
  figures.set_doorbell(event.ring().LoadDoorbell());
  figures.set_launched(event.launched());
  figures.set_completed(event.ended_in_order());
  figures.set_consumed(event.ring().LoadConsumed());
  Describe(event.counts(), figures.mutable_counts());
  if (const auto traced = event.LastTraced()) {
    v1::EventLife* const life = figures.mutable_life();
    life->set_sequence(traced->sequence);
    life->set_rung_ns(traced->life.rung_ns);
    life->set_seen_ns(traced->life.seen_ns);
    life->set_queued_ns(traced->life.queued_ns);
    life->set_dispatched_ns(traced->life.dispatched_ns);
    life->set_finished_ns(traced->life.finished_ns);
  }
  sample.figures = LastIfSame(last.figures, figures);
  return sample;
}

uint32_t GenerationOf(const EventKernel& event) {
  return event.ring().layout().generation.value();
}

// The last sample's with this key, or an empty one. Both rise: `from` is where to
// look, and is moved on.
template <class Element, class Key>
const Element& FindFrom(const std::vector<Element>& all, size_t* from,
                        uint32_t key, Key key_of) {
  static const Element kNone;
  while (*from < all.size() && key_of(all[*from]) < key) ++*from;
  return *from < all.size() && key_of(all[*from]) == key ? all[*from] : kNone;
}

SharedHistograms LastIfSame(const std::map<uint32_t, SharedHistograms>* last,
                            uint32_t key, Histograms* now) {
  if (last != nullptr) {
    const auto found = last->find(key);
    if (found != last->end() && SameHistograms(*found->second, *now)) {
      return found->second;
    }
  }
  return std::make_shared<const Histograms>(*now);
}

std::shared_ptr<const HistogramSample> TakeHistograms(
    const std::vector<std::shared_ptr<Session>>& devices,
    const std::vector<std::shared_ptr<EventKernel>>& events, Nanoseconds now,
    const HistogramSample* last) {
  auto sample = std::make_shared<HistogramSample>();
  sample->taken_ns = now;
  // Cleared, not freed, between one and the next.
  Histograms histograms;
  for (const auto& session : devices) {
    const Session::Identity& identity = session->identity();
    histograms.Clear();
    for (size_t i = 0; i < identity.histogram_names.size(); ++i) {
      Describe(identity.histogram_names[i], HistogramOf(*session, i),
               histograms.Add());
    }
    sample->of_device[identity.device_id] =
        LastIfSame(last == nullptr ? nullptr : &last->of_device,
                   identity.device_id, &histograms);
  }
  for (const auto& event : events) {
    histograms.Clear();
    for (uint32_t i = 0; i < kStages; ++i) {
      const auto stage = static_cast<Stage>(i);
      Describe(StageName(stage), event->stages().Snapshot(stage),
               histograms.Add());
    }
    sample->of_ring[GenerationOf(*event)] =
        LastIfSame(last == nullptr ? nullptr : &last->of_ring,
                   GenerationOf(*event), &histograms);
  }
  return sample;
}

}  // namespace

Sample TakeSample(const SessionContext& context, const SessionTable& sessions,
                  const SnapshotSampler::Wanted& wanted, const Sample& last) {
  static const PictureSample kNothing;
  const PictureSample& before =
      last.picture == nullptr ? kNothing : *last.picture;
  const auto picture = std::make_shared<PictureSample>();
  const Nanoseconds now = NowNs();
  v1::Snapshot& common = picture->common;
  common.set_monotonic_ns(now);
  common.set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count());
  AddTotals(context, &common);
  const auto devices = sessions.All();
  size_t at = 0;
  for (const auto& session : devices) {
    picture->devices.push_back(TakeDevice(
        *session, now,
        FindFrom(before.devices, &at, session->identity().device_id,
                 [](const auto& one) { return one.device->device_id(); })));
  }
  const auto events = context.ekt->events();
  AddPaths(context, events, &common);
  Sample sample;
  at = 0;
  for (const auto& event : events) {
    if (wanted.first) event->TakePeak();
    if (const uint32_t peak = event->TakePeak(); peak != 0) {
      sample.peaks[GenerationOf(*event)] = peak;
    }
    const RingSample& ring =
        FindFrom(before.rings, &at, event->ekt_index(),
                 [](const auto& one) { return one.figures->ekt_index(); });
    // Another event kernel may have got the index.
    const bool same = ring.event_kernel != nullptr &&
                      ring.generation() == GenerationOf(*event);
    picture->rings.push_back(TakeRing(*event, same ? ring : RingSample()));
  }
  if (wanted.histograms) {
    sample.histograms =
        TakeHistograms(devices, events, now, last.histograms.get());
  }
  sample.picture = picture;
  return sample;
}

}  // namespace carillon::gpud
