// Files that are there whole or not at all, whoever reads them meanwhile.
#ifndef CARILLON_BASE_RESULTS_WHOLE_FILE_H_
#define CARILLON_BASE_RESULTS_WHOLE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace carillon {

// Puts a file of mode `mode` in the place of whatever is there. Errors:
// PermissionDenied, with the path and why.
absl::Status ReplaceFile(const std::string& path, std::string_view text,
                         unsigned mode = 0644);

// The same where nothing is there: false if there is. Of those that make a file
// at once, on whatever machine, one gets true.
absl::StatusOr<bool> MakeFile(const std::string& path, std::string_view text);

}  // namespace carillon

#endif  // CARILLON_BASE_RESULTS_WHOLE_FILE_H_
