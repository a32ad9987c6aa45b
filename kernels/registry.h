// The kernels that this binary can run: those of all_kernels.h, and any other
// kernel file that is linked in (a test's own, for example).
#ifndef CARILLON_KERNELS_REGISTRY_H_
#define CARILLON_KERNELS_REGISTRY_H_

#include <span>
#include <string_view>

#include "kernels/simt/kernel_info.h"

namespace carillon::simt {

// nullptr when there is none of that name. Thread safe; call it after main()
// has begun.
const KernelInfo* FindKernel(std::string_view name);

// Sorted by name; valid for the life of the process. Thread safe; after main()
// has begun.
std::span<const KernelInfo* const> AllKernels();

// The registered name nearest to `name`, for "did you mean ...?"; empty when
// none is near (more than a third of the letters differ).
std::string_view NearestKernelName(std::string_view name);

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_REGISTRY_H_
