// What most files include. GCC reads it from the form that bazel/pch/BUILD
// compiles it to once. A file still includes what it uses: clang has no such
// form (locks_test, the fuzzers).
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"

// libfmt has it. Without this, each file that logs compiles all of it again.
extern template void fmt::detail::vformat_to<char>(
    fmt::detail::buffer<char>&, fmt::string_view,
    fmt::basic_format_args<fmt::buffer_context<char>>, fmt::detail::locale_ref);
