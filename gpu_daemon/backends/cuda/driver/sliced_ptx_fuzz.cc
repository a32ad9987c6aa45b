// Whatever PTX is accepted, its rewritten text is PTX, too, with the same
// instructions but for what they read of the grid.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/testing/fuzz_input.h"
#include "gpu_daemon/backends/cuda/driver/sliced_ptx_test_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace carillon::gpud::cuda;
  const std::string_view ptx(reinterpret_cast<const char*>(data), size);
  const auto made = MakeSlicedPtx(ptx);
  if (!made.ok()) return 0;
  const std::string wrong = SlicedPtxCheck::WhatIsWrong(ptx, *made);
  FUZZ_CHECK(wrong.empty(), "%s", wrong.c_str());
  return 0;
}
