// Arithmetic on arrays: black_scholes, pathfinder, sgemm.
#include "devices/cpu_host/array_workload.h"
#include "kernels/background/references.h"

namespace carillon::cpu_host {
namespace {

namespace reference = kernels::reference;

class BlackScholes final : public ArrayWorkload {
 public:
  explicit BlackScholes(const WorkloadOptions& options)
      : ArrayWorkload("black_scholes", {(options.size + 127) / 128, 1, 1},
                      {128, 1, 1}, options) {
    for (const char* name : {"spot", "strike", "years"}) {
      AddInput<float>(name, options.size);
    }
    AddOutput<float>("call", options.size);
    AddOutput<float>("put", options.size);
    AddConstant(edge::ConstantFloat("rate", kRate));
    AddConstant(edge::ConstantFloat("volatility", kVolatility));
  }

 private:
  static constexpr float kRate = 0.02f;
  static constexpr float kVolatility = 0.3f;
  static constexpr size_t kCall = 3;

  void Fill(std::mt19937& random) override {
    for (float& x : input<float>(0)) {
      x = 5 + static_cast<float>(random() % 2500) / 100;
    }
    for (float& x : input<float>(1)) {
      x = 1 + static_cast<float>(random() % 9900) / 100;
    }
    for (float& x : input<float>(2)) {
      x = 0.25f + static_cast<float>(random() % 975) / 100;
    }
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    std::vector<double> prices;
    for (const uint64_t place : places) {
      const reference::OptionPrice price = reference::BlackScholes(
          input<float>(0)[place], input<float>(1)[place],
          input<float>(2)[place], kRate, kVolatility);
      prices.push_back(array == kCall ? price.call : price.put);
    }
    return prices;
  }
  double tolerance() const override { return 1e-4; }
};

class Pathfinder final : public ArrayWorkload {
 public:
  explicit Pathfinder(const WorkloadOptions& options)
      : ArrayWorkload("pathfinder",
                      {(options.size + kUseful - 1) / kUseful, 1, 1},
                      {256, 1, 1}, options),
        columns_(options.size) {
    AddInput<int32_t>("costs", uint64_t{kSteps} * columns_);
    AddInput<int32_t>("from", columns_);
    AddOutput<int32_t>("to", columns_);
    AddConstant(edge::Constant("columns", columns_));
    AddConstant(edge::Constant("steps", kSteps));
  }

 private:
  static constexpr uint32_t kSteps = 20;
  static constexpr uint32_t kUseful = 256 - 2 * kSteps;

  void Fill(std::mt19937& random) override {
    for (const size_t array : {0, 1}) {
      for (int32_t& x : input<int32_t>(array)) {
        x = static_cast<int32_t>(random() % 10);
      }
    }
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(reference::CheapestWays(input<int32_t>(0), input<int32_t>(1)),
              places);
  }
  double tolerance() const override { return 0; }

  const uint32_t columns_;
};

class Sgemm final : public ArrayWorkload {
 public:
  explicit Sgemm(const WorkloadOptions& options)
      : ArrayWorkload("sgemm",
                      {(options.size + 31) / 32, (options.size + 31) / 32, 1},
                      {32, 32, 1}, options),
        n_(options.size) {
    AddInput<float>("a", uint64_t{n_} * n_);
    AddInput<float>("b", uint64_t{n_} * n_);
    AddOutput<float>("c", uint64_t{n_} * n_);
    for (const char* name : {"rows", "columns", "depth"}) {
      AddConstant(edge::Constant(name, n_));
    }
    AddConstant(edge::ConstantFloat("alpha", kAlpha));
    // Only the GPU writes c, so it has the last run's product.
    AddConstant(edge::ConstantFloat("beta", 0));
  }

 private:
  static constexpr float kAlpha = 0.5f;

  void Fill(std::mt19937& random) override {
    for (const size_t array : {0, 1}) {
      for (float& x : input<float>(array)) {
        x = static_cast<float>(random() % 2001) / 1000 - 1;
      }
    }
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    std::vector<double> elements;
    for (const uint64_t place : places) {
      const std::span<const float> row =
          input<float>(0).subspan(place / n_ * n_, n_);
      double sum = 0;
      for (size_t k = 0; k < n_; ++k) {
        sum +=
            row[k] * static_cast<double>(input<float>(1)[k * n_ + place % n_]);
      }
      elements.push_back(kAlpha * sum);
    }
    return elements;
  }
  double tolerance() const override { return 1e-6 * n_ + 1e-5; }

  const uint32_t n_;
};

}  // namespace

std::unique_ptr<Workload> MakeBlackScholes(const WorkloadOptions& options) {
  return std::make_unique<BlackScholes>(options);
}
std::unique_ptr<Workload> MakePathfinder(const WorkloadOptions& options) {
  return std::make_unique<Pathfinder>(options);
}
std::unique_ptr<Workload> MakeSgemm(const WorkloadOptions& options) {
  return std::make_unique<Sgemm>(options);
}

}  // namespace carillon::cpu_host
