#include "kernels/simt/kernel_test_util.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>

namespace carillon::simt {

GridResult RunGridUntyped(const KernelInfo& kernel, Dim3 grid, Dim3 block,
                          const void* args, const GridOptions& options) {
  uint32_t status = kFailNone;
  char message[512] = "";
  const uint32_t shared_bytes =
      kernel.static_shared_bytes + options.extra_shared_bytes;
  std::atomic<uint64_t> next_block{0};
  const auto work = [&] {
    // The size is exact, so that AddressSanitizer sees an access beyond the
    // end.
    std::vector<std::byte> shared(shared_bytes);
    for (;;) {
      const uint64_t i = next_block.fetch_add(1);
      if (i >= grid.count()) return;
      std::ranges::fill(shared, std::byte{0xa5});
      BlockLaunch launch;
      launch.grid = grid;
      launch.block = block;
      launch.block_index = {static_cast<uint32_t>(i % grid.x),
                            static_cast<uint32_t>(i / grid.x % grid.y),
                            static_cast<uint32_t>(i / grid.x / grid.y)};
      launch.shared_bytes = shared_bytes;
      launch.shared = shared.data();
      launch.fail_status = &status;
      launch.fail_message = message;
      launch.fail_message_size = sizeof(message);
      kernel.run_block(launch, args);
    }
  };
  std::vector<std::thread> workers;
  for (uint32_t i = 1; i < options.workers; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  return {status, message};
}

}  // namespace carillon::simt
