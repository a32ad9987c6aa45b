// Translates the SDK's parameter bindings to those of the control plane.
#ifndef CARILLON_DEVICES_SDK_PARAMETERS_H_
#define CARILLON_DEVICES_SDK_PARAMETERS_H_

#include <span>

#include "absl/status/status.h"
#include "devices/sdk/edge.h"
#include "proto/events.pb.h"

namespace carillon::edge {

void SetDim3(const Dim3& from, v1::Dim3* to);
v1::BufferPlace ToProto(Place place);

// Appends one binding per parameter. gpud checks kinds and ranges; here is
// refused what cannot be said on the wire. Errors: InvalidArgument (a name that
// is empty or occurs twice; a parameter that is writable, or steps with the
// ring's slots, where `ring` is false).
absl::Status ToBindings(
    std::span<const Parameter> parameters, bool ring,
    google::protobuf::RepeatedPtrField<v1::ParameterBinding>* bindings);

}  // namespace carillon::edge

#endif  // CARILLON_DEVICES_SDK_PARAMETERS_H_
