// Turns gpud's own objects into the messages that Admin shows.
#ifndef CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_
#define CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_

#include <string_view>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/control/sessions/session.h"
#include "gpu_daemon/event/backend.h"
#include "gpu_daemon/event/event_kernel.h"
#include "kernels/simt/kernel_info.h"
#include "proto/admin.pb.h"
#include "proto/events.pb.h"
#include "shm/histogram.h"
#include "shm/types.h"

namespace carillon::gpud {

void Describe(const simt::KernelInfo& kernel, v1::Kernel* out);
void Describe(const EventCounts& counts, v1::EventCounts* out);
void Describe(const EventKernel& event, v1::EktEntry* out);
void Describe(const EventKernel& event, v1::Ring* out);
// Counters and histograms come from the device's telemetry page, where the
// device may have written anything.
void Describe(const Session& session, Nanoseconds now, v1::Device* out);
void Describe(std::string_view name, const shm::HistogramSnapshot& histogram,
              v1::Histogram* out);
void Describe(const LaunchProgress& launch, v1::Launch* out);
void Describe(const CopyProgress& copy, v1::Copy* out);
void Describe(const SliceFigures& figures, v1::SliceCounts* out);
void Describe(const std::vector<PathCounter>& counters,
              google::protobuf::RepeatedPtrField<v1::Counter>* out);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_RPC_DESCRIBE_H_
