// A process that the bench starts: it talks in lines over its stdin and stdout.
#ifndef CARILLON_BASE_SUBPROCESS_H_
#define CARILLON_BASE_SUBPROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace carillon {

struct ChildSpec {
  std::vector<std::string> argv;  // a path, and its arguments
  std::vector<int> cpus;          // those that it may use; empty: all
  bool realtime = false;          // SCHED_RR: others cannot hold it up
  // Receives stdout and stderr. Empty: stdout is what ReadLine() reads, and
  // stderr is ours.
  std::string log_path;
};

// One thread. The process is killed when this object or its maker ends.
class Child {
 public:
  // The maker must not have started gRPC (which does not survive a fork) nor
  // own other threads. Errors: NotFound, Internal, PermissionDenied (realtime).
  static absl::StatusOr<Child> Spawn(const ChildSpec& spec);

  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        to_(std::move(other.to_)),
        from_(std::move(other.from_)),
        unread_(std::move(other.unread_)),
        cpu_ns_(other.cpu_ns_) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }

  // The next line that it prints, without the end of line. Errors:
  // DeadlineExceeded; Aborted when it ended or closed its stdout first.
  absl::StatusOr<std::string> ReadLine(std::chrono::milliseconds timeout);
  // All that it still prints before it ends or closes its stdout. Errors:
  // DeadlineExceeded.
  absl::StatusOr<std::string> ReadAll(std::chrono::milliseconds timeout);
  // Errors: Aborted when it does not listen any more.
  absl::Status WriteLine(std::string_view line);

  // True once it has ended by itself, or was ended.
  bool ended() const;

  // CPU time of all its threads so far, or in all once it was ended.
  uint64_t CpuNs() const;

  // Closes its stdin and sends `signal`; kills it if it still runs after
  // `grace`. Returns when it is gone.
  void End(int signal, std::chrono::milliseconds grace);

 private:
  Child() = default;
  // More of its output into unread_. False at the end of it.
  absl::StatusOr<bool> ReadMore(Nanoseconds deadline);

  pid_t pid_ = -1;
  UniqueFd to_;
  UniqueFd from_;
  std::string unread_;
  uint64_t cpu_ns_ = 0;
};

// This program's own file, to start it again in another role.
std::string OwnProgram();

}  // namespace carillon

#endif  // CARILLON_BASE_SUBPROCESS_H_
