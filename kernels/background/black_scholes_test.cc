#include "kernels/background/black_scholes.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/background/references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

constexpr float kRate = 0.02f;
constexpr float kVolatility = 0.3f;

struct Options {
  explicit Options(uint32_t count)
      : spot(count), strike(count), years(count), call(count), put(count) {
    std::mt19937 random(count);
    std::uniform_real_distribution<float> prices(1, 100);
    std::uniform_real_distribution<float> times(0.25f, 10);
    for (uint32_t i = 0; i < count; ++i) {
      spot[i] = prices(random);
      strike[i] = prices(random);
      years[i] = times(random);
      call[i] = put[i] = -1;
    }
  }
  BlackScholesArgs args() {
    return {ReadOnly(spot), ReadOnly(strike), ReadOnly(years),
            Writable(call), Writable(put),    kRate,
            kVolatility};
  }

  std::vector<float> spot, strike, years, call, put;
};

TEST(BlackScholes, PricesAreThoseOfTheErrorFunctionForGridsOfAnySize) {
  for (const uint32_t count : {1u, 100u, 5000u}) {
    for (const uint32_t blocks : {1u, 3u, 50u}) {
      Options options(count);
      ASSERT_EQ(RunGrid(black_scholes_info, {blocks, 1, 1}, {128, 1, 1},
                        options.args(), {.workers = 2})
                    .status,
                simt::kFailNone);
      for (uint32_t i = 0; i < count; ++i) {
        const double spot = options.spot[i];
        const double strike = options.strike[i];
        const double years = options.years[i];
        const reference::OptionPrice expected =
            reference::BlackScholes(spot, strike, years, kRate, kVolatility);
        ASSERT_NEAR(options.call[i], expected.call, 1e-4) << i;
        ASSERT_NEAR(options.put[i], expected.put, 1e-4) << i;
        // Whoever has the call and owes the put has the stock, and owes what it
        // will be bought for.
        ASSERT_NEAR(options.call[i] - options.put[i],
                    spot - strike * std::exp(-kRate * years), 1e-4)
            << i;
      }
    }
  }
}

TEST(BlackScholes, ArgumentsThatDoNotFitFailAndTouchNothing) {
  Options options(100);
  const BlackScholesArgs good = options.args();
  std::vector<BlackScholesArgs> bad(4, good);
  bad[0].strike.size -= 1;
  bad[1].years.size -= 1;
  bad[2].call.size -= 1;
  bad[3].put.size -= 1;
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(
        RunGrid(black_scholes_info, {1, 1, 1}, {128, 1, 1}, bad[i]).status,
        simt::kFailBadArguments)
        << i;
    EXPECT_NE(black_scholes_info.validate({{1, 1, 1}, {128, 1, 1}}, &bad[i]),
              nullptr)
        << i;
  }
  EXPECT_EQ(black_scholes_info.validate({{1, 1, 1}, {128, 1, 1}}, &good),
            nullptr);
  EXPECT_EQ(options.call, std::vector<float>(100, -1.0f));
}

}  // namespace
}  // namespace carillon::kernels
