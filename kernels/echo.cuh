// echo: copies its input to its output, with any grid and block; 32 threads are
// enough for a small message.
#ifndef CARILLON_KERNELS_ECHO_CUH_
#define CARILLON_KERNELS_ECHO_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct EchoArgs {
  simt::Span<const uint8_t> in;
  simt::Span<uint8_t> out;
};

CARILLON_KERNEL(echo, EchoArgs, args, self) {
  if (args.out.size < args.in.size) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  const uint64_t step = self.grid_threads();
  const uint64_t size = args.in.size;
  const uint8_t* const in = args.in.data;
  uint8_t* const out = args.out.data;
  uint64_t done = 0;
#if defined(__CUDACC__)
  // A trip over PCIe costs the same for 16 bytes as for one.
  if ((reinterpret_cast<uintptr_t>(in) | reinterpret_cast<uintptr_t>(out)) %
          sizeof(uint4) ==
      0) {
    for (uint64_t i = self.global_linear(); i < size / sizeof(uint4);
         i += step) {
      reinterpret_cast<uint4*>(out)[i] = reinterpret_cast<const uint4*>(in)[i];
    }
    done = size / sizeof(uint4) * sizeof(uint4);
  }
#endif
  for (uint64_t i = done + self.global_linear(); i < size; i += step) {
    out[i] = in[i];
  }
}

CARILLON_KERNEL_INFO(
    echo, EchoArgs, "copies a buffer to another",
    simt::Registers(26).From("of the testbed").Oracle("NumPy, SciPy"),
    CARILLON_PARAM(EchoArgs, in, "bytes to copy"),
    CARILLON_PARAM(EchoArgs, out, "receives them; at least as large as in"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_ECHO_CUH_
