// The kernels that this binary can run: those of all_kernels.h, and any other
// kernel file that is linked in (for example a test's own).
#ifndef CARILLON_KERNELS_REGISTRY_H_
#define CARILLON_KERNELS_REGISTRY_H_

#include <span>
#include <string_view>

#include "kernels/simt/kernel_info.h"

namespace carillon::simt {

// Returns nullptr for an unknown name. Thread safe after main() has begun.
const KernelInfo* FindKernel(std::string_view name);

// All kernels, sorted by name; valid for the life of the process. Thread safe
// after main() has begun.
std::span<const KernelInfo* const> AllKernels();

// The registered name that is most similar to `name`, for "did you mean ...?";
// empty if more than a third of the letters differ.
std::string_view NearestKernelName(std::string_view name);

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_REGISTRY_H_
