// Arithmetic on arrays, one launch each: BS, GM, PF.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "kernels/background/black_scholes.cuh"
#include "kernels/background/pathfinder.cuh"
#include "kernels/background/references.h"
#include "kernels/background/sgemm.cuh"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

class BlackScholes final : public SingleLaunch {
 public:
  BlackScholes(uint32_t options, uint32_t blocks, Kernels* kernels)
      : SingleLaunch("BS",
                     fmt::format("{} options, {} blocks", options, blocks),
                     kernels),
        blocks_(blocks),
        spot_(kernels->Allocate<float>(options, "BS spot")),
        strike_(kernels->Allocate<float>(options, "BS strike")),
        years_(kernels->Allocate<float>(options, "BS years")),
        call_(kernels->Allocate<float>(options, "BS call")),
        put_(kernels->Allocate<float>(options, "BS put")) {}

  uint32_t registers() const override {
    return kernels::black_scholes_info.registers_per_thread;
  }

 private:
  static constexpr float kRate = 0.02f;
  static constexpr float kVolatility = 0.3f;

  Launch Only() const override {
    return Make(kernels::black_scholes_info, {blocks_, 1, 1}, {128, 1, 1},
                kernels::BlackScholesArgs{
                    spot_.read_only(), strike_.read_only(), years_.read_only(),
                    call_.span(), put_.span(), kRate, kVolatility});
  }
  void Fill(std::mt19937& random) override {
    for (size_t i = 0; i < spot_.values.size(); ++i) {
      spot_.values[i] = 5 + static_cast<float>(random() % 2500) / 100;
      strike_.values[i] = 1 + static_cast<float>(random() % 9900) / 100;
      years_.values[i] = 0.25f + static_cast<float>(random() % 975) / 100;
    }
    std::ranges::fill(call_.values, -1.0f);
    std::ranges::fill(put_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    std::vector<double> calls, puts, differences, parity;
    for (size_t i = 0; i < spot_.values.size(); ++i) {
      const reference::OptionPrice price =
          reference::BlackScholes(spot_.values[i], strike_.values[i],
                                  years_.values[i], kRate, kVolatility);
      calls.push_back(price.call);
      puts.push_back(price.put);
      differences.push_back(call_.values[i] - put_.values[i]);
      parity.push_back(spot_.values[i] -
                       strike_.values[i] * std::exp(-kRate * years_.values[i]));
    }
    absl::Status status = Compare("BS: call", call_.values, calls, 1e-4);
    status.Update(Compare("BS: put", put_.values, puts, 1e-4));
    status.Update(Compare("BS: call - put", differences, parity, 1e-4));
    return status;
  }

  const uint32_t blocks_;
  const Array<float> spot_, strike_, years_, call_, put_;
};

class Gemm final : public SingleLaunch {
 public:
  Gemm(uint32_t rows, uint32_t columns, uint32_t depth, Kernels* kernels)
      : SingleLaunch(
            "GM",
            fmt::format("{0}x{2} by {2}x{1} matrices", rows, columns, depth),
            kernels),
        rows_(rows),
        columns_(columns),
        depth_(depth),
        a_(kernels->Allocate<float>(rows * depth, "GM a")),
        b_(kernels->Allocate<float>(depth * columns, "GM b")),
        c_(kernels->Allocate<float>(rows * columns, "GM c")) {}

  uint32_t registers() const override {
    return kernels::sgemm_info.registers_per_thread;
  }

 private:
  static constexpr float kAlpha = 1.5f;
  static constexpr float kBeta = -0.5f;

  Launch Only() const override {
    constexpr uint32_t kTile = kernels::kSgemmTile;
    return Make(
        kernels::sgemm_info,
        {(columns_ + kTile - 1) / kTile, (rows_ + kTile - 1) / kTile, 1},
        {kTile, kTile, 1},
        kernels::SgemmArgs{a_.read_only(), b_.read_only(), c_.span(), rows_,
                           columns_, depth_, kAlpha, kBeta});
  }
  void Fill(std::mt19937& random) override {
    for (const Array<float>* array : {&a_, &b_, &c_}) {
      for (float& x : array->values) {
        x = static_cast<float>(random() % 2001) / 1000 - 1;
      }
    }
    before_.assign(c_.values.begin(), c_.values.end());
  }
  absl::Status CheckOutput() const override {
    return Compare(
        "GM: element", c_.values,
        reference::Gemm(a_.values, b_.values, before_, columns_, kAlpha, kBeta),
        1e-6 * depth_ + 1e-5);
  }

  const uint32_t rows_, columns_, depth_;
  const Array<float> a_, b_, c_;
  std::vector<float> before_;
};

class Pathfinder final : public SingleLaunch {
 public:
  Pathfinder(uint32_t columns, uint32_t steps, Kernels* kernels)
      : SingleLaunch("PF", fmt::format("{} columns, {} rows", columns, steps),
                     kernels),
        steps_(steps),
        costs_(kernels->Allocate<int32_t>(columns * steps, "PF costs")),
        from_(kernels->Allocate<int32_t>(columns, "PF from")),
        to_(kernels->Allocate<int32_t>(columns, "PF to")) {}

 private:
  Launch Only() const override {
    const auto columns = static_cast<uint32_t>(from_.values.size());
    return Make(kernels::pathfinder_info,
                GridFor(columns, kernels::PathfinderUseful(steps_)),
                {kernels::kPathfinderBlock, 1, 1},
                kernels::PathfinderArgs{costs_.read_only(), from_.read_only(),
                                        to_.span(), columns, steps_});
  }
  void Fill(std::mt19937& random) override {
    for (const Array<int32_t>* array : {&costs_, &from_}) {
      for (int32_t& x : array->values) x = static_cast<int32_t>(random() % 10);
    }
    std::ranges::fill(to_.values, -1);
  }
  absl::Status CheckOutput() const override {
    return Compare("PF: way to column", to_.values,
                   reference::CheapestWays(costs_.values, from_.values));
  }

  const uint32_t steps_;
  const Array<int32_t> costs_, from_, to_;
};

}  // namespace

// A thread prices as many options one after the other as in the SDK, whose
// 480 blocks share 4,000,000.
std::unique_ptr<Background> MakeBs(Size size, Kernels* kernels) {
  return size == Size::kFull
             ? std::make_unique<BlackScholes>(256 * 128 * 65, 256, kernels)
             : std::make_unique<BlackScholes>(3000, 4, kernels);
}

std::unique_ptr<Background> MakeGemm(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Gemm>(256, 256, 1024, kernels)
                             : std::make_unique<Gemm>(40, 50, 70, kernels);
}

// Rodinia's columns, and as many rows as one of its launches has.
std::unique_ptr<Background> MakePathfinder(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Pathfinder>(100000, 20, kernels)
                             : std::make_unique<Pathfinder>(1000, 7, kernels);
}

}  // namespace carillon::sim::figures
