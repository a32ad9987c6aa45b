#ifndef CARILLON_BASE_FILE_ERROR_H_
#define CARILLON_BASE_FILE_ERROR_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace carillon {

// errno as a status: "cannot WHAT the THING PATH: why" with NotFound, PermissionDenied,
// ResourceExhausted (space, memory, descriptors), or Internal.
absl::Status FileError(std::string_view what, std::string_view thing,
                       const std::string& path);

}  // namespace carillon

#endif  // CARILLON_BASE_FILE_ERROR_H_
