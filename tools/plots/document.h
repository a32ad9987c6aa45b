// A document (JSON) on disk, with its plot.
#ifndef CARILLON_TOOLS_PLOTS_DOCUMENT_H_
#define CARILLON_TOOLS_PLOTS_DOCUMENT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"

namespace carillon::plots {

// Makes the directory, and sees whether a file can be made there: before a long
// run whose document it is to hold. Errors: PermissionDenied.
absl::Status CheckWritable(const std::string& directory);

// Writes <directory>/<name>.json and, with `plotter` (a Runfile(), or empty: no
// plot), <directory>/<name>.png; makes the directory. `written` receives the paths.
// Errors: PermissionDenied and the like; Unavailable when only the plot failed.
// Without the plotter (binaries outside of the tree) there is no plot, and no
// error.
absl::Status WriteDocument(const std::string& directory, std::string_view name,
                           const Json& document, std::string_view plotter,
                           std::vector<std::string>* written);

// A file of the tree ("gpu_daemon/gpud"): among this binary's runfiles, those
// of the test that runs it, in $CARILLON_BIN_DIR (as given or without its
// folders), or beside this binary; empty if there is none.
std::string Runfile(std::string_view path);

}  // namespace carillon::plots

#endif  // CARILLON_TOOLS_PLOTS_DOCUMENT_H_
