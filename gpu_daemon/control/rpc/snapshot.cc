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

void AddDevice(const Session& session, Nanoseconds now, v1::Snapshot* picture) {
  const Session::Identity& identity = session.identity();
  v1::Device* const device = picture->add_devices();
  DescribeState(session, now, device);
  v1::DeviceFigures* const figures = picture->add_device_figures();
  figures->set_device_id(identity.device_id);
  const Nanoseconds silent = session.SilentFor(now);
  if (silent > kSilentNs) figures->set_silent_since_ns(now - silent);
  for (size_t i = 0; i < identity.counter_names.size(); ++i) {
    device->add_counters()->set_name(identity.counter_names[i]);
    figures->add_counter(static_cast<uint32_t>(i));
    figures->add_value(CounterOf(session, i));
  }
  for (const std::string& name : identity.histogram_names) {
    device->add_histograms()->set_name(name);
  }
}

void AddEventKernel(const EventKernel& event, v1::Snapshot* picture) {
  v1::SnapshotEventKernel* const shown = picture->add_event_kernels();
  DescribeRegistration(event, shown->mutable_entry());
  for (uint32_t i = 0; i < kStages; ++i) {
    shown->mutable_entry()->add_stages()->set_name(
        std::string(StageName(static_cast<Stage>(i))));
  }
  v1::Ring* const ring = shown->mutable_ring();
  Describe(event, ring);
  v1::RingFigures* const figures = picture->add_ring_figures();
  figures->set_ekt_index(event.ekt_index());
  figures->set_doorbell(ring->doorbell());
  figures->set_launched(ring->launched());
  figures->set_completed(ring->completed());
  figures->set_consumed(ring->consumed());
  ring->clear_doorbell();
  ring->clear_launched();
  ring->clear_completed();
  ring->clear_consumed();
  Describe(event.counts(), figures->mutable_counts());
  if (const auto traced = event.LastTraced()) {
    v1::EventLife* const life = figures->mutable_life();
    life->set_sequence(traced->sequence);
    life->set_rung_ns(traced->life.rung_ns);
    life->set_seen_ns(traced->life.seen_ns);
    life->set_queued_ns(traced->life.queued_ns);
    life->set_dispatched_ns(traced->life.dispatched_ns);
    life->set_finished_ns(traced->life.finished_ns);
  }
}

uint32_t GenerationOf(const EventKernel& event) {
  return event.ring().layout().generation.value();
}

std::shared_ptr<const HistogramSample> TakeHistograms(
    const std::vector<std::shared_ptr<Session>>& devices,
    const std::vector<std::shared_ptr<EventKernel>>& events, Nanoseconds now) {
  auto sample = std::make_shared<HistogramSample>();
  sample->taken_ns = now;
  for (const auto& session : devices) {
    const Session::Identity& identity = session->identity();
    auto& histograms = sample->of_device[identity.device_id];
    for (size_t i = 0; i < identity.histogram_names.size(); ++i) {
      Describe(identity.histogram_names[i], HistogramOf(*session, i),
               histograms.Add());
    }
  }
  for (const auto& event : events) {
    auto& histograms = sample->of_ring[GenerationOf(*event)];
    for (uint32_t i = 0; i < kStages; ++i) {
      const auto stage = static_cast<Stage>(i);
      Describe(StageName(stage), event->stages().Snapshot(stage),
               histograms.Add());
    }
  }
  return sample;
}

}  // namespace

Sample TakeSample(const SessionContext& context, const SessionTable& sessions,
                  const SnapshotSampler::Wanted& wanted) {
  const auto picture = std::make_shared<v1::Snapshot>();
  const Nanoseconds now = NowNs();
  picture->set_monotonic_ns(now);
  picture->set_time_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count());
  AddTotals(context, picture.get());
  const auto devices = sessions.All();
  for (const auto& session : devices) AddDevice(*session, now, picture.get());
  const auto events = context.ekt->events();
  AddPaths(context, events, picture.get());
  Sample sample;
  for (const auto& event : events) {
    if (wanted.first) event->TakePeak();
    if (const uint32_t peak = event->TakePeak(); peak != 0) {
      sample.peaks[GenerationOf(*event)] = peak;
    }
    AddEventKernel(*event, picture.get());
  }
  if (wanted.histograms) {
    sample.histograms = TakeHistograms(devices, events, now);
  }
  sample.picture = picture;
  return sample;
}

}  // namespace carillon::gpud
