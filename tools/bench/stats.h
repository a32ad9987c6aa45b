// Summaries of measurements: percentiles of samples, medians and ranges of
// runs, ratios of interleaved pairs.
#ifndef CARILLON_TOOLS_BENCH_STATS_H_
#define CARILLON_TOOLS_BENCH_STATS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace carillon::bench {

struct Percentiles {
  size_t samples = 0;
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};
// In the samples' unit. A percentile is a sample that was really seen (nearest
// rank). Sorts `samples`. All are 0 if there are none.
Percentiles PercentilesOf(std::span<uint32_t> samples);
Percentiles PercentilesOf(std::vector<double> samples);

// The range of several runs. All fields are 0 if there are none.
struct Range {
  size_t runs = 0;
  double median = 0;  // the mean of the middle two if their number is even
  double low = 0;
  double high = 0;
};
Range RangeOf(std::vector<double> runs);
inline Range Scaled(const Range& range, double by) {
  return {range.runs, range.median * by, range.low * by, range.high * by};
}

// All values that one contender measured in one round, however often it ran
// there.
using RoundValues = std::vector<double>;

// For every round in which both ran: the geometric mean of `of` over that of
// `to`. Within a round of order A B B A a drift of the machine's speed cancels;
// values of different rounds are not compared. Values must be positive.
std::vector<double> PairRatios(std::span<const RoundValues> of,
                               std::span<const RoundValues> to);

// The order in which the contenders run in a round (0, 1, ...): forward and
// back (A B B A; A B C C B A), in every second round the other way round.
std::vector<size_t> RoundOrder(size_t contenders, size_t round);

}  // namespace carillon::bench

#endif  // CARILLON_TOOLS_BENCH_STATS_H_
