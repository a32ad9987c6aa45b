// A fuzz target with a bug, which fuzz_main_test expects to be found.
#include <cstddef>
#include <cstdint>

#include "base/testing/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::fuzz::FuzzInput input(data, size);
  const auto first = input.Take<uint8_t>();
  const auto second = input.Take<uint8_t>();
  FUZZ_CHECK(first != 'A' || second == 'B', "the second is %d", second);
  return 0;
}
