#include "kernels/catalogue.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>

#include "fmt/format.h"
#include "kernels/registry.h"

namespace carillon::simt {
namespace {

constexpr size_t kShownBytes = 8;

// A line a kernel and a line a parameter: no two catalogues have one text.
std::string Describe(std::span<const KernelInfo* const> kernels) {
  std::string text;
  for (const KernelInfo* kernel : kernels) {
    text += fmt::format("{} {} {}\n", kernel->name, kernel->args_size,
                        kernel->args_align);
    for (const ParamInfo& param : kernel->params) {
      text += fmt::format(" {} {} {} {} {} {}\n", param.name,
                          static_cast<int>(param.kind), param.offset,
                          param.element_size, param.element_align,
                          static_cast<int>(param.buffer_form));
    }
  }
  return text;
}

}  // namespace

std::string CatalogueOf(std::span<const KernelInfo* const> kernels) {
  const std::string text = Describe(kernels);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(),
             nullptr);
  std::string name = fmt::format("{} kernels, ", kernels.size());
  for (size_t i = 0; i < kShownBytes; ++i) {
    name += fmt::format("{:02x}", digest[i]);
  }
  return name;
}

const std::string& OwnCatalogue() {
  static const std::string own = CatalogueOf(AllKernels());
  return own;
}

}  // namespace carillon::simt
