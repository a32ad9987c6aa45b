// All that a run is worth, in three files: a machine that runs it may give only a
// few files back, and may take it away in the middle.
//
//   all.txt         the table, and what each step printed
//   all.json        run.json, each step's result and the document that it
//                   printed, and the benches' documents
//   results.tar.gz  all files of the folder
//
// Each is replaced by a rename, so that whoever looks finds it whole.
#ifndef CARILLON_TOOLS_GPU_CHECK_COLLECTED_H_
#define CARILLON_TOOLS_GPU_CHECK_COLLECTED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/gpu_check/runner.h"

namespace carillon::gpu_check {

// Of what a step printed on stdout and on stderr, the last so many bytes each.
inline constexpr uint64_t kMaxCollectedText = 64 << 10;
// A larger file is left out, and all.txt says so; what a machine gives back is
// limited, too.
inline constexpr uint64_t kMaxCollectedFile = 2 << 20;
inline constexpr uint64_t kMaxCollectedFiles = 64 << 20;  // together, unpacked

// Collects what lies in the folder now. Errors: PermissionDenied (cannot write
// there).
absl::Status Collect(const std::string& directory,
                     const std::vector<CheckPart>& parts,
                     const Results& results);

}  // namespace carillon::gpu_check

#endif  // CARILLON_TOOLS_GPU_CHECK_COLLECTED_H_
