// Checks names and texts from clients before they reach a table, a log or a
// terminal.
#ifndef CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NAMES_H_
#define CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NAMES_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace carillon::gpud {

inline constexpr size_t kMaxNameLength = 32;
inline constexpr size_t kMaxFigureNameLength = 48;
inline constexpr size_t kMaxLabelLength = 64;
inline constexpr size_t kMaxNoteLength = 256;

// Makes a text from outside fit for a message: in quotes, cut to 64 characters,
// and with everything but printable ASCII escaped.
std::string Quoted(std::string_view text);

// 1-32 characters of [a-z0-9_-]. `what` ("device name") opens the sentence.
// Errors: InvalidArgument BAD_NAME.
absl::Status CheckName(std::string_view what, std::string_view name);

// Names of counters or histograms: at most `limit`, no two the same, each 1-48
// characters of [A-Za-z0-9_.-]. Errors: InvalidArgument BAD_NAME or TOO_MANY.
absl::Status CheckFigureNames(
    std::string_view what,
    const google::protobuf::RepeatedPtrField<std::string>& names, size_t limit);

// A text for people: at most `limit` bytes and no control characters.
// Errors: InvalidArgument BAD_NAME.
absl::Status CheckText(std::string_view what, std::string_view text,
                       size_t limit);

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_CONTROL_SESSIONS_NAMES_H_
