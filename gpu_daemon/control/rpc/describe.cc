#include "gpu_daemon/control/rpc/describe.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>

#include "base/clock.h"
#include "gpu_daemon/control/sessions/parameter_bindings.h"

namespace carillon::gpud {
namespace {

// No bucket of an honest device gets there. With how many buckets of a histogram
// are shown, it bounds how long a message can get: that of all devices has less
// than the 4 MiB that gRPC's clients take by default, whatever the devices write.
constexpr uint64_t kMaxCount = uint64_t{1} << 42;
constexpr size_t kMaxShownBuckets = shm::kHistogramBuckets / 2;

void SetDim3(const simt::Dim3& dim, v1::Dim3* out) {
  out->set_x(dim.x);
  out->set_y(dim.y);
  out->set_z(dim.z);
}

v1::ParameterForm FormOf(const simt::ParamInfo& param) {
  if (!param.is_buffer()) return v1::VALUE;
  return param.buffer_form == simt::BufferForm::kPointer ? v1::POINTER
                                                         : v1::SPAN;
}

void DescribeFigures(const Session& session, v1::Device* out) {
  const Session::Identity& identity = session.identity();
  for (size_t i = 0; i < identity.counter_names.size(); ++i) {
    v1::Counter* counter = out->add_counters();
    counter->set_name(identity.counter_names[i]);
    counter->set_value(CounterOf(session, i));
  }
  for (size_t i = 0; i < identity.histogram_names.size(); ++i) {
    Describe(identity.histogram_names[i], HistogramOf(session, i),
             out->add_histograms());
  }
}

}  // namespace

void Describe(const simt::KernelInfo& kernel, v1::Kernel* out) {
  out->set_name(std::string(kernel.name));
  out->set_summary(std::string(kernel.summary));
  for (const simt::ParamInfo& param : kernel.params) {
    v1::KernelParameter* parameter = out->add_parameters();
    parameter->set_name(std::string(param.name));
    parameter->set_kind(ProtoKind(param.kind));
    if (param.is_buffer()) parameter->set_element_bytes(param.element_size);
    parameter->set_form(FormOf(param));
    parameter->set_offset(param.offset);
  }
  out->set_registers_per_thread(kernel.registers_per_thread);
  out->set_static_shared_bytes(kernel.static_shared_bytes);
  out->set_uses_barriers(kernel.uses_barriers && !kernel.is_users());
  out->set_file(std::string(kernel.file));
  out->set_symbol(std::string(kernel.symbol));
  if (kernel.check_shape != nullptr) {
    // What it says of a launch that no kernel accepts.
    const char* words =
        kernel.check_shape({.grid = {0, 0, 0}, .block = {0, 0, 0}});
    if (words != nullptr) out->set_shape(words);
  }
  out->set_from(std::string(kernel.from));
  out->set_oracle(std::string(kernel.oracle));
}

void Describe(const EventCounts& counts, v1::EventCounts* out) {
  out->set_rung(counts.rung);
  out->set_done(counts.done);
  out->set_failed(counts.failed);
  out->set_aborted(counts.aborted);
  out->set_refused(counts.refused);
}

void Describe(std::string_view name, const shm::HistogramSnapshot& histogram,
              v1::Histogram* out) {
  out->set_name(std::string(name));
  out->set_sum_ns(histogram.sum());
  if (histogram.count() == 0) return;
  const auto& buckets = histogram.buckets();
  const auto empty = static_cast<size_t>(
      std::count(buckets.begin(), buckets.end(), uint64_t{0}));
  // Two at a time, if they are too many.
  const uint32_t step = buckets.size() - empty > kMaxShownBuckets ? 2 : 1;
  for (uint32_t i = 0; i < shm::kHistogramBuckets; i += step) {
    const uint64_t count =
        std::accumulate(&buckets[i], &buckets[i] + step, uint64_t{0});
    if (count == 0) continue;
    out->add_bucket(i);
    out->add_count(std::min(count, kMaxCount));
  }
}

void DescribeRegistration(const EventKernel& event, v1::EktEntry* out) {
  const KernelMetadata& kmd = event.kmd();
  out->set_ekt_index(event.ekt_index());
  out->set_device(event.memory().name());
  out->set_event_id(event.event_id());
  out->set_kernel(std::string(kmd.kernel->name));
  out->set_label(event.label());
  SetDim3(kmd.grid, out->mutable_grid());
  SetDim3(kmd.block, out->mutable_block());
  out->set_shared_bytes(kmd.shared_bytes);
  out->set_priority(event.priority());
  out->set_modifyable(event.modifyable());
  out->set_launch_path(std::string(event.launch_path()));
  out->set_short_path(TakesShortPath(event));
  out->set_hands_to(event.next_device());
  out->set_takes_from(event.last_device());
}

bool TakesShortPath(const EventKernel& event) {
  return event.launch_path() == kEdgePath &&
         event.short_path().Takes(event.kmd());
}

void Describe(const EventKernel& event, v1::EktEntry* out) {
  DescribeRegistration(event, out);
  Describe(event.counts(), out->mutable_counts());
  for (uint32_t i = 0; i < kStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    const shm::HistogramSnapshot histogram = event.stages().Snapshot(stage);
    if (histogram.count() == 0) continue;
    Describe(StageName(stage), histogram, out->add_stages());
  }
}

void DescribePlace(const EventKernel& event, v1::Ring* out) {
  const shm::RingLayout& layout = event.ring().layout();
  out->set_device(event.memory().name());
  out->set_event_id(event.event_id());
  out->set_kernel(std::string(event.kmd().kernel->name));
  out->set_label(event.label());
  out->set_generation(layout.generation.value());
  out->set_entries(layout.entries);
  out->set_entry_bytes(layout.entry_bytes);
  out->set_esq_offset(layout.esq_offset);
  out->set_ecq_offset(layout.ecq_offset);
}

void Describe(const EventKernel& event, v1::Ring* out) {
  DescribePlace(event, out);
  out->set_doorbell(event.ring().LoadDoorbell());
  out->set_launched(event.launched());
  out->set_completed(event.ended_in_order());
  out->set_consumed(event.ring().LoadConsumed());
}

uint64_t CounterOf(const Session& session, size_t index) {
  shm::Telemetry& page = session.memory().submission().telemetry();
  // Writer: the device.
  return std::atomic_ref<uint64_t>(page.counters[index])
      .load(std::memory_order_relaxed);
}

shm::HistogramSnapshot HistogramOf(const Session& session, size_t index) {
  return shm::HistogramSnapshot(
      session.memory().submission().telemetry().histograms[index]);
}

void DescribeIdentity(const Session::Identity& identity, v1::Device* out) {
  out->set_device_id(identity.device_id);
  out->set_name(identity.name);
  out->set_kind(identity.kind);
  out->set_pid(static_cast<uint32_t>(identity.owner->pid));
  out->set_uid(identity.owner->uid);
  out->set_generation(identity.generation.value());
}

void DescribeState(const Session& session, v1::Device* out) {
  out->set_state(std::string(SessionStateName(session.state())));
  out->set_note(session.note());
  out->set_submission_bytes(
      session.space().reserved_bytes(shm::RegionKind::kSubmission));
  out->set_completion_bytes(
      session.space().reserved_bytes(shm::RegionKind::kCompletion));
  out->set_gpu_memory_bytes(session.gpu_memory_bytes());
  v1::DeviceShare* share = out->mutable_share();
  share->set_device(session.identity().name);
  share->set_weight(session.memory().share().weight());
  share->set_max_priority(
      std::min(session.memory().share().max_priority(), kPriorities - 1));
}

void Describe(const Session& session, Nanoseconds now, v1::Device* out) {
  DescribeIdentity(session.identity(), out);
  DescribeState(session, out);
  // It may have come after `now` was read.
  out->set_attached_ns_ago(now - std::min(now, session.identity().attached_ns));
  out->set_silent_ns(session.SilentFor(now));
  DescribeFigures(session, out);
}

void Describe(const LaunchProgress& launch, v1::Launch* out) {
  out->set_device(launch.device);
  out->set_kernel(launch.kernel);
  out->set_sequence(launch.sequence);
  out->set_priority(launch.priority);
  out->set_blocks(launch.blocks);
  out->set_blocks_running(launch.running);
  out->set_blocks_ended(launch.ended);
  out->set_slices(launch.slices);
  out->set_wait_ns(launch.wait_ns);
}

void Describe(const SliceFigures& figures, v1::SliceCounts* out) {
  out->set_launches(figures.sliced);
  out->set_slices(figures.slices);
  out->set_over_bound(figures.over_bound);
  Describe(figures.whole, out->mutable_whole());
}

void Describe(const PtbCounts& counts, v1::PtbCounts* out) {
  out->set_launches(counts.launches);
  out->set_stops(counts.stops);
  Describe(counts.whole, out->mutable_whole());
}

void Describe(const std::vector<PathCounter>& counters,
              google::protobuf::RepeatedPtrField<v1::Counter>* out) {
  for (const PathCounter& counter : counters) {
    v1::Counter* shown = out->Add();
    shown->set_name(std::string(counter.name));
    shown->set_value(counter.value);
  }
}

void Describe(const QueueLength& length, v1::Queue* out) {
  out->set_name(length.event ? "event" : "host");
  out->set_priority(length.priority);
  out->set_kernels(length.kernels);
}

void Describe(const PathSet::Description& path,
              const std::vector<std::shared_ptr<EventKernel>>& events,
              v1::LaunchPath* out) {
  out->set_name(std::string(path.info.name));
  out->set_summary(std::string(path.info.summary));
  out->set_unavailable(path.unavailable);
  out->set_notice(path.notice);
  Describe(path.counters, out->mutable_counters());
  out->set_event_kernels(static_cast<uint32_t>(
      std::count_if(events.begin(), events.end(), [&](const auto& event) {
        return event->launch_path() == path.info.name;
      })));
}

void Describe(const CopyProgress& copy, v1::Copy* out) {
  out->set_device(copy.device);
  out->set_in(copy.direction == CopyDirection::kIn);
  out->set_priority(copy.priority);
  out->set_bytes(copy.bytes);
  out->set_bytes_copied(copy.copied);
  out->set_age_ns(copy.age_ns);
}

}  // namespace carillon::gpud
