// DIR/sweep.json: all that a worker of a sweep must know.
#ifndef CARILLON_TOOLS_CLI_SWEEP_SWEEP_FILE_H_
#define CARILLON_TOOLS_CLI_SWEEP_SWEEP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "tools/cli/sim/figures.h"

namespace carillon::cli {

struct SweepFile {
  std::string id;  // another one for each sweep
  FigureChoice figures;
  std::vector<std::string> etcd;  // as mesh::Etcd::Make() takes them
  TlsFiles tls;                   // for https
};

std::string SweepFilePath(const std::string& directory);

// Readable by this user only. Errors: PermissionDenied.
absl::Status WriteSweepFile(const std::string& directory,
                            const SweepFile& sweep);
// Errors: NotFound (no sweep ever began there), InvalidArgument (no such file's
// text).
absl::StatusOr<SweepFile> ReadSweepFile(const std::string& directory);

}  // namespace carillon::cli

#endif  // CARILLON_TOOLS_CLI_SWEEP_SWEEP_FILE_H_
