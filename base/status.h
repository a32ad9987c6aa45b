// What the project adds to absl::Status.
#ifndef CARILLON_BASE_STATUS_H_
#define CARILLON_BASE_STATUS_H_

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Returns the Status of an expression from the enclosing function unless it is
// OK.
#define RETURN_IF_ERROR(...)                                                 \
  do {                                                                       \
    if (absl::Status status_ = (__VA_ARGS__); !status_.ok()) return status_; \
  } while (false)

// ASSIGN_OR_RETURN(const auto value, Make()); gives `value` what a StatusOr
// holds, or returns its Status from the enclosing function. A declaration with a
// comma needs parentheses that this cannot take: use `auto`.
#define ASSIGN_OR_RETURN(declaration, ...)                                   \
  CARILLON_ASSIGN_OR_RETURN_(CARILLON_JOIN_(result_, __LINE__), declaration, \
                             __VA_ARGS__)
#define CARILLON_ASSIGN_OR_RETURN_(result, declaration, ...) \
  auto result = (__VA_ARGS__);                               \
  if (!result.ok()) return std::move(result).status();       \
  declaration = *std::move(result)
#define CARILLON_JOIN_(a, b) CARILLON_JOIN_NOW_(a, b)
#define CARILLON_JOIN_NOW_(a, b) a##b

// For fmt::format("...: {}", status.message()).
template <>
struct fmt::formatter<absl::string_view> : fmt::formatter<std::string_view> {
  fmt::appender format(absl::string_view text,
                       fmt::format_context& context) const;
};

namespace carillon {

// `status` with a line that says what to do, printed below the message.
absl::Status WithHint(absl::Status status, const std::string& hint);
// Empty when there is none.
std::string HintOf(const absl::Status& status);

}  // namespace carillon

#endif  // CARILLON_BASE_STATUS_H_
