#ifndef CARILLON_BASE_READ_FILE_H_
#define CARILLON_BASE_READ_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon {

// /dev/zero has no end, and a path can be a stranger's.
inline constexpr size_t kMaxFileBytes = 64 << 20;

// All bytes of a file or pipe. `thing` says in messages what it should be ("PTX
// text"). Errors: those of FileError(); InvalidArgument (a folder, or more than
// `most` bytes).
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     std::string_view thing,
                                     size_t most = kMaxFileBytes);

}  // namespace carillon

#endif  // CARILLON_BASE_READ_FILE_H_
