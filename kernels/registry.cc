#include "kernels/registry.h"

#include <algorithm>
#include <vector>

#include "base/edit_distance.h"
#include "kernels/all_kernels.h"  // registers them

namespace carillon::simt {

std::span<const KernelInfo* const> AllKernels() {
  static const std::vector<const KernelInfo*> kernels = [] {
    std::vector<const KernelInfo*> found;
    for (const KernelRegistration* r = KernelRegistration::head(); r != nullptr;
         r = r->next()) {
      found.push_back(r->info());
    }
    std::ranges::sort(found, {}, &KernelInfo::name);
    return found;
  }();
  return kernels;
}

const KernelInfo* FindKernel(std::string_view name) {
  const std::span<const KernelInfo* const> kernels = AllKernels();
  const auto found =
      std::ranges::lower_bound(kernels, name, {}, &KernelInfo::name);
  return found != kernels.end() && (*found)->name == name ? *found : nullptr;
}

std::string_view NearestKernelName(std::string_view name) {
  std::vector<std::string_view> names;
  for (const KernelInfo* kernel : AllKernels()) names.push_back(kernel->name);
  return NearestName(name, names);
}

}  // namespace carillon::simt
