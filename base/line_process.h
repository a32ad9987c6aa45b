// A process that talks in lines over its stdin and stdout.
#ifndef CARILLON_BASE_LINE_PROCESS_H_
#define CARILLON_BASE_LINE_PROCESS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/subprocess.h"
#include "base/unique_fd.h"

namespace carillon {

// One thread. The process is killed when this object or its thread ends.
class LineProcess {
 public:
  // Its stdin and stdout lead here, whatever `options` says; with a log_path
  // only its stdin does. Errors: as Subprocess::Start().
  static absl::StatusOr<LineProcess> Start(SpawnOptions options);

  LineProcess(LineProcess&&) = default;
  LineProcess& operator=(LineProcess&&) = delete;

  pid_t pid() const { return process_.pid(); }
  bool ended() const { return process_.ended(); }
  uint64_t CpuNs() const { return process_.CpuNs(); }

  // The next line that it prints, without the end of line. Errors:
  // DeadlineExceeded; Aborted when it ended or closed its stdout first.
  absl::StatusOr<std::string> ReadLine(std::chrono::milliseconds timeout);
  // All that it still prints before it ends or closes its stdout. Errors:
  // DeadlineExceeded.
  absl::StatusOr<std::string> ReadAll(std::chrono::milliseconds timeout);
  // Errors: Aborted when it does not listen any more.
  absl::Status WriteLine(std::string_view line);

  // Closes its stdin and sends `signal`; kills it if it still runs after
  // `grace`. Returns when it is gone.
  void End(int signal, std::chrono::milliseconds grace);

 private:
  LineProcess(Subprocess process, UniqueFd to, UniqueFd from)
      : process_(std::move(process)),
        to_(std::move(to)),
        from_(std::move(from)) {}
  // More of its output into unread_. False at the end of it.
  absl::StatusOr<bool> ReadMore(Nanoseconds deadline);

  Subprocess process_;
  UniqueFd to_;
  UniqueFd from_;
  std::string unread_;
};

}  // namespace carillon

#endif  // CARILLON_BASE_LINE_PROCESS_H_
