// What the project adds to absl::Status.
#ifndef CARILLON_BASE_STATUS_H_
#define CARILLON_BASE_STATUS_H_

#include <string>

#include "absl/status/status.h"

namespace carillon {

// `status` with a line that says what to do, printed below the message.
absl::Status WithHint(absl::Status status, const std::string& hint);
// Empty when there is none.
std::string HintOf(const absl::Status& status);

}  // namespace carillon

#endif  // CARILLON_BASE_STATUS_H_
