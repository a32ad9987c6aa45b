// Reads a testbed's flight recorders in a process of its own: a million records
// take hundreds of MiB while they are judged or drawn, and an allocator keeps
// much of that. The dashboard runs for as long as its testbed, and stays small.
#ifndef CARILLON_TOOLS_DASHBOARD_RECORDER_READER_H_
#define CARILLON_TOOLS_DASHBOARD_RECORDER_READER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "tools/dashboard/http_message.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::dashboard {

// Thread safe: one process at a time, and one more call waits for it.
class RecorderReader {
 public:
  // `program`: one whose main() calls ReadRecorders(), as carillon-dashboard's
  // does.
  RecorderReader(std::string program, testbed::Testbed testbed)
      : program_(std::move(program)), testbed_(std::move(testbed)) {}

  // As View::Story() and View::Trace(). Errors: NotFound (nothing is recorded),
  // FailedPrecondition (a recorder cannot be read), ResourceExhausted (a trace
  // beyond 256 MiB), DeadlineExceeded (two minutes), Unavailable (one reads, and
  // another waits), Internal.
  absl::StatusOr<Json> Story();
  absl::StatusOr<SharedFile> Trace(uint64_t seconds);

 private:
  // The process's answer. It writes a trace to `trace`; none: the story.
  absl::StatusOr<Json> Read(const UniqueFd& trace, uint64_t seconds);

  const std::string program_;
  const testbed::Testbed testbed_;
  Mutex reading_;
  // Calls that read or wait. Its order does not matter: a count.
  std::atomic<int> reads_{0};
};

// In that process, with what follows --trace-to (below 0: the story) and --last.
// The answer goes to stdout. Returns its exit code.
int ReadRecorders(const testbed::Testbed& testbed, int trace, uint64_t seconds);

}  // namespace carillon::dashboard

#endif  // CARILLON_TOOLS_DASHBOARD_RECORDER_READER_H_
