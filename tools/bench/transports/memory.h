// Memory that a transport's server makes and its client maps. It has no name in
// the file system: the client opens the server's descriptor through /proc.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "shm/waiting.h"
#include "tools/bench/transports/transport.h"

namespace carillon::bench {

// Returns "/proc/<this process>/fd/<fd>".
std::string PathOfDescriptor(int fd);
// Errors: NotFound.
absl::StatusOr<UniqueFd> OpenDescriptor(const std::string& path, bool writable);

// Maps `bytes` of zeroed shared memory for the life of the process.
absl::StatusOr<void*> MakeSharedMemory(size_t bytes, std::string* path);
absl::StatusOr<void*> MapSharedMemory(const std::string& path, size_t bytes);

// Spins until ready() is true. DeadlineExceeded after kPatience.
template <class Ready>
absl::Status SpinUntil(Ready ready) {
  Nanoseconds start = 0;
  for (uint32_t turn = 1;; ++turn) {
    if (ready()) return absl::OkStatus();
    shm::CpuRelax();
    if (turn % (1 << 16) != 0) continue;
    const Nanoseconds now = NowNs();
    if (start == 0) start = now;
    if (now - start >
        Nanoseconds(std::chrono::nanoseconds(kPatience).count())) {
      return absl::DeadlineExceededError("the other side does not answer");
    }
  }
}

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_
