// Faults as the control plane carries them (proto/faults.proto).
#ifndef CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_
#define CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/faults.pb.h"
#include "shm/faults/fault.h"

namespace carillon {

// Translates a fault. Fields that are not set take the defaults of
// faults::Fault; faults::Check() says whether the rest makes sense. Errors:
// InvalidArgument (no such point or action), with the field in `field`.
absl::StatusOr<faults::Fault> FromMessage(const v1::Fault& message,
                                          std::string* field);

v1::Fault ToMessage(const faults::Fault& fault);

}  // namespace carillon

#endif  // CARILLON_SHM_FAULTS_FAULT_MESSAGE_H_
