// Memory that a transport's server makes and its client maps. It has no name in
// the file system: the client opens the server's descriptor through /proc.
#ifndef CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_
#define CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "tools/bench/transports/wait.h"

namespace carillon::bench {

// Returns "/proc/<this process>/fd/<fd>".
std::string PathOfDescriptor(int fd);
// Errors: NotFound.
absl::StatusOr<UniqueFd> OpenDescriptor(const std::string& path, bool writable);

// Maps `bytes` of zeroed shared memory for the life of the process.
absl::StatusOr<void*> MakeSharedMemory(size_t bytes, std::string* path);
absl::StatusOr<void*> MapSharedMemory(const std::string& path, size_t bytes);

// A word of shared memory that one side writes and the other waits for.
// Publishes what was written before; wakes the other side unless it spins.
void PublishWord(uint32_t* word, uint32_t value, Wait wait);
// Waits until *word is no longer `seen`; false after kPatience.
bool WaitForWord(const uint32_t* word, uint32_t seen, Wait wait,
                 std::chrono::nanoseconds spin);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_TRANSPORTS_MEMORY_H_
