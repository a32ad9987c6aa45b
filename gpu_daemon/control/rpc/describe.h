// Turns gpud's own objects into the messages that Admin shows.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/sessions/session.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/event_kernel.h"
#include "gpu_daemon/event/path_set.h"
#include "kernels/simt/kernel_info.h"
#include "proto/admin.pb.h"
#include "proto/events.pb.h"
#include "shm/histogram.h"
#include "shm/types.h"

namespace carillon::gpud {

void Describe(const simt::KernelInfo& kernel, v1::Kernel* out);
void Describe(const EventCounts& counts, v1::EventCounts* out);
void Describe(const EventKernel& event, v1::EktEntry* out);
// Without counts and stages. Nothing of it changes but TakesShortPath().
void DescribeRegistration(const EventKernel& event, v1::EktEntry* out);
bool TakesShortPath(const EventKernel& event);
// Without its four figures. Nothing of it changes.
void DescribePlace(const EventKernel& event, v1::Ring* out);
void Describe(const EventKernel& event, v1::Ring* out);
// Counters and histograms come from the device's telemetry page, where the
// device may have written anything.
void Describe(const Session& session, Nanoseconds now, v1::Device* out);
// Two parts of a device, without attached_ns_ago, silent_ns, counters and
// histograms: what never changes, and what may.
void DescribeIdentity(const Session::Identity& identity, v1::Device* out);
void DescribeState(const Session& session, v1::Device* out);
// Of the session's counter_names, in their order.
uint64_t CounterOf(const Session& session, size_t index);
// Of its histogram_names.
shm::HistogramSnapshot HistogramOf(const Session& session, size_t index);
void Describe(std::string_view name, const shm::HistogramSnapshot& histogram,
              v1::Histogram* out);
void Describe(const LaunchProgress& launch, v1::Launch* out);
void Describe(const QueueLength& length, v1::Queue* out);
// `events`: all that there are.
void Describe(const PathSet::Description& path,
              const std::vector<std::shared_ptr<EventKernel>>& events,
              v1::LaunchPath* out);
void Describe(const CopyProgress& copy, v1::Copy* out);
void Describe(const SliceFigures& figures, v1::SliceCounts* out);
void Describe(const PtbCounts& counts, v1::PtbCounts* out);
void Describe(const std::vector<PathCounter>& counters,
              google::protobuf::RepeatedPtrField<v1::Counter>* out);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_
