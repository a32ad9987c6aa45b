#include "kernels/simt/cpu/simt_cpu.h"

#include <sched.h>

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace carillon::simt::internal {

bool ClaimFailure(const BlockLaunch& launch, uint32_t status) {
  uint32_t none = kFailNone;
  // Release: a thread that reads the status also sees the failed thread's
  // writes.
  return std::atomic_ref<uint32_t>(*launch.fail_status)
      .compare_exchange_strong(none, status, std::memory_order_release,
                               std::memory_order_relaxed);
}

void ReportFailure(const BlockContext& context, uint32_t status,
                   const char* format, ...) {
  const BlockLaunch& launch = *context.launch;
  if (!ClaimFailure(launch, status)) return;
  if (launch.fail_message == nullptr || launch.fail_message_size == 0) return;
  const int used = std::snprintf(
      launch.fail_message, launch.fail_message_size,
      "kernel %s, block (%u,%u,%u): ", context.kernel, launch.block_index.x,
      launch.block_index.y, launch.block_index.z);
  if (used < 0 || static_cast<uint32_t>(used) >= launch.fail_message_size)
    return;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(launch.fail_message + used,
                 launch.fail_message_size - static_cast<uint32_t>(used), format,
                 arguments);
  va_end(arguments);
}

void* SharedOutOfRange(const BlockLaunch& launch, const char* kernel,
                       uint64_t offset, uint64_t bytes) {
  const BlockContext context{launch.grid, launch.block, launch.block_index,
                             &launch, kernel};
  ReportFailure(context, kFailSharedOutOfRange,
                "%llu bytes of shared memory at offset %llu are misaligned or "
                "beyond the block's "
                "%u bytes; register the event with more shared memory",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(offset), launch.shared_bytes);
  // All threads of the block run in this OS thread, so a thread-local piece is
  // shared as real shared memory would be. Smaller pieces stay alive: another
  // call in the same kernel may still hold a pointer to them.
  static thread_local std::vector<std::vector<std::max_align_t>> scratch;
  const uint64_t needed = bytes / sizeof(std::max_align_t) + 1;
  if (scratch.empty() || scratch.back().size() < needed)
    scratch.emplace_back(needed);
  return scratch.back().data();
}

void YieldToOtherThreads() { sched_yield(); }

}  // namespace carillon::simt::internal
