// filter_bank: one branch of a filter bank (Pagoda's FB, from StreamIt): a signal
// passes an analysis filter, keeps each `factor`-th sample, gets zeros in the
// others' places, and passes a synthesis filter.
//
// As in StreamIt's stages, all samples are filtered before most of them are
// dropped, and the zeros are multiplied, too. One block of any number of threads,
// which meet between the filters.
#ifndef CARILLON_KERNELS_NARROW_FILTER_BANK_CUH_
#define CARILLON_KERNELS_NARROW_FILTER_BANK_CUH_

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct FilterBankArgs {
  simt::Span<const float> signal;
  simt::Span<const float> analysis;
  simt::Span<const float> synthesis;
  simt::Span<float> filtered;
  simt::Span<float> kept;
  simt::Span<float> out;
  uint32_t length;
  uint32_t taps;
  uint32_t factor;
};

CARILLON_HOST_DEVICE bool FilterBankFits(const FilterBankArgs& args) {
  return args.length != 0 && args.taps != 0 && args.factor != 0 &&
         args.length <= 1u << 31 && args.signal.size >= args.length &&
         args.filtered.size >= args.length && args.kept.size >= args.length &&
         args.out.size >= args.length && args.analysis.size >= args.taps &&
         args.synthesis.size >= args.taps;
}

// The sum of taps[k] * signal[at - k]; what lies before the signal is 0.
CARILLON_DEVICE float Filtered(const float* signal, const float* taps,
                               uint32_t count, uint32_t at) {
  const uint32_t last = count - 1 < at ? count - 1 : at;
  float sum = 0.0f;
  for (uint32_t k = 0; k <= last; ++k) sum += taps[k] * signal[at - k];
  return sum;
}

CARILLON_BARRIER_KERNEL(filter_bank, FilterBankArgs, args, self) {
  if (self.grid_dim() != simt::Dim3{1, 1, 1}) {
    self.Fail(simt::kFailBadShape);
    CARILLON_EXIT;
  }
  if (!FilterBankFits(args)) {
    self.Fail(simt::kFailBadArguments);
    CARILLON_EXIT;
  }
  const uint32_t threads = self.block_threads();
  for (uint32_t i = self.linear(); i < args.length; i += threads) {
    const float sum =
        Filtered(args.signal.data, args.analysis.data, args.taps, i);
    args.filtered[i] = sum;
    args.kept[i] = i % args.factor == 0 ? sum : 0.0f;
  }
  CARILLON_SYNC_THREADS(self);
  for (uint32_t i = self.linear(); i < args.length; i += threads) {
    args.out[i] = Filtered(args.kept.data, args.synthesis.data, args.taps, i);
  }
}

inline const char* CheckFilterBankShape(const simt::LaunchShape& shape) {
  return shape.grid == simt::Dim3{1, 1, 1}
             ? nullptr
             : "filter_bank takes one block, whose threads meet at barriers";
}

inline const char* CheckFilterBank(const simt::LaunchShape& shape,
                                   const FilterBankArgs& args) {
  if (!FilterBankFits(args)) {
    return "length (at most 2^31), taps and factor must not be 0; signal, "
           "filtered, kept and out must have length elements, analysis and "
           "synthesis taps";
  }
  return CheckFilterBankShape(shape);
}

CARILLON_KERNEL_INFO(
    filter_bank, FilterBankArgs, "a branch of a filter bank: a narrow task",
    simt::Registers(30)
        .From("StreamIt filterbank (Pagoda: FB)")
        .Oracle("NumPy, SciPy")
        .LeavesTogether()
        .Shape<&CheckFilterBankShape>()
        .Validate<&CheckFilterBank>(),
    CARILLON_PARAM(FilterBankArgs, signal, "length samples"),
    CARILLON_PARAM(FilterBankArgs, analysis, "the first filter's taps"),
    CARILLON_PARAM(FilterBankArgs, synthesis, "the second filter's taps"),
    CARILLON_PARAM(FilterBankArgs, filtered,
                   "receives length samples behind the first filter"),
    CARILLON_PARAM(FilterBankArgs, kept,
                   "receives those that are kept, and zeros between them"),
    CARILLON_PARAM(FilterBankArgs, out,
                   "receives length samples behind the second filter"),
    CARILLON_PARAM(FilterBankArgs, length, "samples"),
    CARILLON_PARAM(FilterBankArgs, taps, "of each filter"),
    CARILLON_PARAM(FilterBankArgs, factor,
                   "samples of which one is kept, the first"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_FILTER_BANK_CUH_
