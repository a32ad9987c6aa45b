#include "gpu_daemon/backends/cpu/run_block.h"

#include <spdlog/spdlog.h>

#include <cstddef>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/log_limit.h"

namespace carillon::gpud {
namespace {

// Shared memory of the block that this thread runs; grows to the largest ever
// asked for.
std::byte* SharedMemory(uint32_t bytes) {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  thread_local std::vector<Line> arena;
  const size_t lines = (bytes + sizeof(Line) - 1) / sizeof(Line);
  if (arena.size() < lines) arena.resize(lines);
  return reinterpret_cast<std::byte*>(arena.data());
}

}  // namespace

void LogEventFailure(std::string_view message) {
  static std::mutex mutex;
  static LogLimit limit;
  std::lock_guard lock(mutex);
  if (const uint64_t failures = limit.Take(NowNs())) {
    spdlog::warn("{} failed event(s), the last: {}", failures, message);
  }
}

void RunBlock(const KernelMetadata& kmd, uint64_t block, const void* args,
              uint32_t* fail_status) {
  simt::BlockLaunch launch;
  launch.grid = kmd.grid;
  launch.block = kmd.block;
  launch.block_index = BlockIndex(kmd.grid, block);
  launch.shared_bytes = kmd.total_shared();
  if (launch.shared_bytes != 0)
    launch.shared = SharedMemory(launch.shared_bytes);
  launch.fail_status = fail_status;
  char message[256];
  message[0] = '\0';
  launch.fail_message = message;
  launch.fail_message_size = sizeof(message);
  kmd.kernel->run_block(launch, args);
  if (message[0] != '\0') LogEventFailure(message);
}

}  // namespace carillon::gpud
