// sa_write: writes SAs into their table, which lies in GPU memory, out of a
// device's reach. An SA's SPI is written last, with release order.
//
// A device must write only where no SA is that an event may still use: it writes
// one with SPI 0 first, and then waits for all events that it rang before.
#ifndef CARILLON_KERNELS_IPSEC_SA_WRITE_CUH_
#define CARILLON_KERNELS_IPSEC_SA_WRITE_CUH_

#include "kernels/ipsec/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct SaWriteArgs {
  simt::Span<const ipsec::Sa> from;
  simt::Span<ipsec::Sa> sas;
  uint64_t first;
  uint32_t count;
};

CARILLON_KERNEL(sa_write, SaWriteArgs, args, self) {
  if (args.count > args.from.size ||
      !args.sas.InBounds(args.first, args.count)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  constexpr uint32_t kPairs = sizeof(ipsec::Sa) / sizeof(uint64_t);
  for (uint64_t i = self.global_linear(); i < args.count;
       i += self.grid_threads()) {
    const auto* const from = reinterpret_cast<const uint64_t*>(&args.from[i]);
    ipsec::Sa* const to = &args.sas[args.first + i];
    simt::StoreRelaxed(&to->spi, 0);
    const uint64_t first = simt::LoadRelaxed(from);  // SPI and suite
    to->suite = static_cast<ipsec::Suite>(first >> 32);
    for (uint32_t pair = 1; pair < kPairs; ++pair) {
      reinterpret_cast<uint64_t*>(to)[pair] = from[pair];
    }
    simt::StoreRelease(&to->spi, static_cast<uint32_t>(first));
  }
}

CARILLON_KERNEL_INFO(
    sa_write, SaWriteArgs, "writes IPsec SAs",
    simt::Registers(32).From("RFC 4301").Oracle("OpenSSL").LaunchedOnly(),
    CARILLON_PARAM(SaWriteArgs, from, "what to write, one ipsec::Sa each"),
    CARILLON_PARAM(SaWriteArgs, sas, "the table of SAs, zeros at first"),
    CARILLON_PARAM(SaWriteArgs, first, "the first SA of the table to write"),
    CARILLON_PARAM(SaWriteArgs, count, "SAs to write"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_IPSEC_SA_WRITE_CUH_
