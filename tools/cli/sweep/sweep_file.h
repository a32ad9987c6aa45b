// DIR/sweep.json: all that a worker of a sweep must know.
#ifndef CARILLON_TOOLS_CLI_SWEEP_SWEEP_FILE_H_
#define CARILLON_TOOLS_CLI_SWEEP_SWEEP_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "tools/cli/sim/figures.h"

namespace carillon::cli {

// Which fault plans, each once with each seed from the first to the last.
struct FaultChoice {
  std::vector<std::string> plans;  // files
  uint64_t first_seed = 1;
  uint64_t last_seed = 1;
};

struct SweepFile {
  std::string id;    // of its claims
  std::string runs;  // RunsHash() of whoever began it
  // One of the two; the other names nothing.
  FigureChoice figures;
  FaultChoice faults;
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
