// Runs whole grids of a kernel for tests, as the CPU back-end does.
#ifndef CARILLON_KERNELS_SIMT_KERNEL_TEST_UTIL_H_
#define CARILLON_KERNELS_SIMT_KERNEL_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simt/kernel_info.h"

namespace carillon::simt {

struct GridResult {
  uint32_t status = kFailNone;
  std::string message;  // the back-end's, when it failed the event
};

struct GridOptions {
  uint32_t extra_shared_bytes = 0;  // beyond the kernel's static ones
  uint32_t workers = 1;             // OS threads that take blocks in turn
};

// Runs every block; their shared memory starts with garbage. Does not call
// `validate`, so that the kernel's own checks are tested.
GridResult RunGridUntyped(const KernelInfo& kernel, Dim3 grid, Dim3 block,
                          const void* args, const GridOptions& options);

template <class Args>
GridResult RunGrid(const KernelInfo& kernel, Dim3 grid, Dim3 block,
                   const Args& args, const GridOptions& options = {}) {
  if (sizeof(Args) != kernel.args_size) {
    return {kFailBadLaunch, "these are the arguments of another kernel"};
  }
  return RunGridUntyped(kernel, grid, block, &args, options);
}

template <class T>
Span<const T> ReadOnly(const std::vector<T>& values) {
  return {values.data(), values.size()};
}
template <class T>
Span<T> Writable(std::vector<T>& values) {
  return {values.data(), values.size()};
}

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_SIMT_KERNEL_TEST_UTIL_H_
