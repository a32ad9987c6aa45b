#ifndef CARILLON_BASE_READ_FILE_H_
#define CARILLON_BASE_READ_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon {

// All bytes of a file or pipe. `thing` says in messages what it should be ("PTX
// text"). Errors: those of FileError(); InvalidArgument (a folder).
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     std::string_view thing);

}  // namespace carillon

#endif  // CARILLON_BASE_READ_FILE_H_
