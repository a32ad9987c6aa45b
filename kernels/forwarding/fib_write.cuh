// fib_write: writes words of a forwarding table (wire.h), which lies in GPU
// memory, out of a device's reach. Word 0 is written with release order: so a
// device publishes a half.
//
// A device must write only the half that word 0 does not name, and only after
// all forwarders have ended that it rang before it wrote word 0 last: they may
// still look there.
#ifndef CARILLON_KERNELS_FORWARDING_FIB_WRITE_CUH_
#define CARILLON_KERNELS_FORWARDING_FIB_WRITE_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FibWriteArgs {
  simt::Span<const uint32_t> words;
  simt::Span<uint32_t> table;
  uint64_t first;
  uint32_t count;
};

CARILLON_KERNEL(fib_write, FibWriteArgs, args, self) {
  if (args.count > args.words.size ||
      !args.table.InBounds(args.first, args.count)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.count;
       i += self.grid_threads()) {
    const uint64_t at = args.first + i;
    if (at == 0) {
      simt::StoreRelease(&args.table[0], args.words[i]);
    } else {
      args.table[at] = args.words[i];
    }
  }
}

CARILLON_KERNEL_INFO(
    fib_write, FibWriteArgs, "writes words of a forwarding table",
    simt::Registers(18)
        .From("DIR-24-8 (Gupta et al. 1998)")
        .Oracle("Linux' router, DPDK")
        .LaunchedOnly(),
    CARILLON_PARAM(FibWriteArgs, words, "what to write"),
    CARILLON_PARAM(FibWriteArgs, table, "forwarding table, zeros at first"),
    CARILLON_PARAM(FibWriteArgs, first, "the first word of table to write"),
    CARILLON_PARAM(FibWriteArgs, count, "words to write"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_FORWARDING_FIB_WRITE_CUH_
