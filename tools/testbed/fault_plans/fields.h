// The names, values and texts of a fault's fields, in a plan and on the command
// line.
#ifndef CARILLON_TOOLS_TESTBED_FAULT_PLANS_FIELDS_H_
#define CARILLON_TOOLS_TESTBED_FAULT_PLANS_FIELDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shm/faults/fault.h"

namespace carillon::fault {

// Where in a plan's fault the field stands.
enum class FieldSection {
  kTarget,  // target: {process: nic0}
  kWhen,    // when: {point: device.ring}
  kFault,   // times: 3
  kDo,      // do: {stop: {for: 500ms}}
};

struct Field {
  std::string_view name;
  FieldSection part;
  std::string_view value;  // for the help: "DURATION"
  std::string_view help;
  // Errors: InvalidArgument.
  absl::Status (*set)(std::string_view text, faults::Fault& fault);
  // A text of which set() makes the same value; empty for the default.
  std::string (*get)(const faults::Fault& fault);
};
// All fields except the name and the action.
std::span<const Field> Fields();

// Of gRPC, but for OK: what `code` of abort may be.
std::span<const std::string_view> CodeNames();

// InvalidArgument names the most similar action and all others.
absl::StatusOr<faults::Action> ReadAction(std::string_view text);
// Whether `field` (of Part::kDo) says how the action is done.
bool TakesField(faults::Action action, std::string_view field);

// The seed of a fault's own random stream, derived from the plan's.
uint64_t SeedOf(uint64_t plan_seed, std::string_view fault_name);

}  // namespace carillon::fault

#endif  // CARILLON_TOOLS_TESTBED_FAULT_PLANS_FIELDS_H_
