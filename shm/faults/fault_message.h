// Faults as the control plane carries them (proto/faults.proto).
#ifndef CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_
#define CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/faults.pb.h"
#include "shm/faults/fault.h"

namespace carillon {

// What is not set takes the defaults of faults::Fault; whether the rest makes
// sense is for faults::Check() to say. Errors: InvalidArgument (no such point or
// action), with the field in `field`.
absl::StatusOr<faults::Fault> FromMessage(const v1::Fault& message,
                                          std::string* field);

v1::Fault ToMessage(const faults::Fault& fault);

}  // namespace carillon

#endif  // CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_
