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
  for (uint64_t i = self.global_linear(); i < args.in.size; i += step) {
    args.out[i] = args.in[i];
  }
}

CARILLON_KERNEL_INFO(echo, EchoArgs, "copies a buffer to another",
                     simt::Registers(14),
                     CARILLON_PARAM(EchoArgs, in, "bytes to copy"),
                     CARILLON_PARAM(EchoArgs, out,
                                    "receives them; at least as large as in"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_ECHO_CUH_
