// Rewrites PTX as gpud does when a user loads it: stdin to stdout. For builds that
// show it to NVIDIA's assembler.
#include <iostream>
#include <iterator>
#include <string>

#include "gpu_daemon/backends/cuda/driver/sliced_ptx.h"

int main() {
  const std::string ptx(std::istreambuf_iterator<char>(std::cin), {});
  const auto made = carillon::gpud::cuda::MakeSlicedPtx(ptx);
  if (!made.ok()) {
    std::cerr << made.status() << "\n";
    return 1;
  }
  for (const auto& [kernel, why] : made->whole) {
    std::cerr << kernel << " runs whole: " << why.what << "\n";
  }
  std::cout << made->text;
  return 0;
}
