// black_scholes: the prices of European call and put options by Black and
// Scholes (1973). The normal distribution is a polynomial of degree 5
// (Abramowitz and Stegun 26.2.17), with an error below 7.5e-8.
#ifndef CARILLON_KERNELS_BACKGROUND_BLACK_SCHOLES_CUH_
#define CARILLON_KERNELS_BACKGROUND_BLACK_SCHOLES_CUH_

#include <cmath>

#include "kernels/simt/simt.h"

namespace carillon::kernels {

struct BlackScholesArgs {
  simt::Span<const float> spot;
  simt::Span<const float> strike;
  simt::Span<const float> years;
  simt::Span<float> call;
  simt::Span<float> put;
  float rate;  // without risk
  float volatility;
};

CARILLON_HOST_DEVICE bool BlackScholesFits(const BlackScholesArgs& args) {
  const uint64_t options = args.spot.size;
  return args.strike.size >= options && args.years.size >= options &&
         args.call.size >= options && args.put.size >= options;
}

// The probability that a normal variable is less than x.
CARILLON_DEVICE float NormalBelow(float x) {
  const float t = 1.0f / (1.0f + 0.2316419f * fabsf(x));
  const float polynomial =
      t * (0.319381530f +
           t * (-0.356563782f +
                t * (1.781477937f + t * (-1.821255978f + t * 1.330274429f))));
  const float above = 0.39894228f * expf(-0.5f * x * x) * polynomial;
  return x > 0.0f ? 1.0f - above : above;
}

// The grid may have any size: threads go on in steps of the grid's size until
// all options are priced.
CARILLON_KERNEL(black_scholes, BlackScholesArgs, args, self) {
  if (!BlackScholesFits(args)) {
    self.Fail(simt::kFailBadArguments);
    return;
  }
  for (uint64_t i = self.global_linear(); i < args.spot.size;
       i += self.grid_threads()) {
    const float spot = args.spot[i];
    const float strike = args.strike[i];
    const float years = args.years[i];
    const float deviation = args.volatility * sqrtf(years);
    const float d1 =
        (logf(spot / strike) +
         (args.rate + 0.5f * args.volatility * args.volatility) * years) /
        deviation;
    const float n1 = NormalBelow(d1);
    const float n2 = NormalBelow(d1 - deviation);
    const float discounted = strike * expf(-args.rate * years);
    args.call[i] = spot * n1 - discounted * n2;
    args.put[i] = discounted * (1.0f - n2) - spot * (1.0f - n1);
  }
}

inline const char* CheckBlackScholes(const simt::LaunchShape&,
                                     const BlackScholesArgs& args) {
  return BlackScholesFits(args)
             ? nullptr
             : "strike, years, call and put must have as many elements as spot";
}

CARILLON_KERNEL_INFO(
    black_scholes, BlackScholesArgs, "prices European options",
    simt::Registers(28)
        .From("Black and Scholes 1973 (PEP: BS)")
        .Oracle("NumPy, SciPy")
        .Validate<&CheckBlackScholes>(),
    CARILLON_PARAM(BlackScholesArgs, spot, "the stock's price, above 0"),
    CARILLON_PARAM(BlackScholesArgs, strike, "the option's, above 0"),
    CARILLON_PARAM(BlackScholesArgs, years, "until it can be used, above 0"),
    CARILLON_PARAM(BlackScholesArgs, call, "receives the calls' prices"),
    CARILLON_PARAM(BlackScholesArgs, put, "receives the puts' prices"),
    CARILLON_PARAM(BlackScholesArgs, rate, "of interest, a year"),
    CARILLON_PARAM(BlackScholesArgs, volatility, "of the stock, a year"));

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_BLACK_SCHOLES_CUH_
