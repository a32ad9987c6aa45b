// Translates the parameters that a client names, in any order, to those of the
// kernel.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_PARAMETER_BINDINGS_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_PARAMETER_BINDINGS_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu_daemon/control/sessions/device_space.h"
#include "gpu_daemon/event/argument_plan.h"
#include "kernels/simt/kernel_info.h"
#include "proto/events.pb.h"

namespace carillon::gpud {

struct BoundParameters {
  // One per KernelInfo::params, in order.
  std::vector<ParameterBinding> bindings;
  std::vector<std::shared_ptr<Buffer>> buffers;  // those that they use
};

// Null when the session has no such buffer.
using FindBuffer = std::function<std::shared_ptr<Buffer>(uint32_t buffer_id)>;

// Checks every parameter against the kernel and its buffer; `entries` is the
// ring's size, so that every slot's part lies inside (1 for an ordinary
// launch). A part of length 0 goes to the buffer's end, or, with a slot stride,
// is one stride long. Errors: InvalidArgument BAD_BINDING, NotFound
// UNKNOWN_BUFFER, both naming the parameter.
absl::StatusOr<BoundParameters> BindParameters(
    const simt::KernelInfo& kernel,
    const google::protobuf::RepeatedPtrField<v1::ParameterBinding>& parameters,
    uint32_t entries, const FindBuffer& find_buffer);

v1::ParameterKind ProtoKind(simt::ParamKind kind);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_PARAMETER_BINDINGS_H_
