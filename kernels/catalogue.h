// What tells one binary's catalogue of kernels from another's.
#ifndef CARILLON_KERNELS_CATALOGUE_H_
#define CARILLON_KERNELS_CATALOGUE_H_

#include <span>
#include <string>

#include "kernels/simt/kernel_info.h"

namespace carillon::simt {

// "63 kernels, 1f0c9a52b7e83d46": their number, and a hash of their names and of
// how their arguments lie in memory. What a kernel computes is not in it.
std::string CatalogueOf(std::span<const KernelInfo* const> kernels);

// Of the kernels of this binary.
const std::string& OwnCatalogue();

}  // namespace carillon::simt

#endif  // CARILLON_KERNELS_CATALOGUE_H_
