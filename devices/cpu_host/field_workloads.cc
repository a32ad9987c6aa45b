// Fields in space: cutcp, lbm, mri_q, stencil.
#include <cmath>
#include <complex>

#include "devices/cpu_host/array_workload.h"
#include "kernels/background/references.h"

namespace carillon::cpu_host {
namespace {

namespace reference = kernels::reference;
using kernels::CutcpAtom;
using kernels::MriSample;

// In steps of a thousandth, `least` to `least + range`.
float Uniform(float least, float range, std::mt19937& random) {
  return least + range * static_cast<float>(random() % 1000) / 1000;
}

class Cutcp final : public ArrayWorkload {
 public:
  explicit Cutcp(const WorkloadOptions& options)
      : ArrayWorkload("cutcp", {options.size, options.size, options.size},
                      {8, 8, 2}, options),
        side_(options.size) {
    const uint64_t bins = uint64_t{side_} * side_ * side_;
    AddInput<CutcpAtom>("atoms", bins * kCapacity);
    AddOutput<float>("potential", bins * 512);
    for (const char* name : {"bins_x", "bins_y", "bins_z"}) {
      AddConstant(edge::Constant(name, side_));
    }
    AddConstant(edge::Constant("capacity", kCapacity));
    AddConstant(edge::Constant("reach", 1));
    AddConstant(edge::ConstantFloat("spacing", 1));
    AddConstant(edge::ConstantFloat("cutoff", kCutoff));
  }

 private:
  static constexpr uint32_t kCapacity = 16;
  static constexpr float kCutoff = 8;  // a bin's side

  void Fill(std::mt19937& random) override {
    const std::span<CutcpAtom> atoms = input<CutcpAtom>(0);
    for (size_t i = 0; i < atoms.size(); ++i) {
      const size_t bin = i / kCapacity;
      const auto within = [&](size_t number) {
        return static_cast<float>(8 * number + random() % 8);
      };
      // Between the lattice's planes: the potential has no limit at an atom.
      atoms[i] = {within(bin % side_), within(bin / side_ % side_),
                  within(bin / side_ / side_) + Uniform(0.3f, 0.4f, random),
                  static_cast<float>(random() % 5) - 2};
    }
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    const uint64_t width = 8 * uint64_t{side_};
    std::vector<double> potential;
    for (const uint64_t place : places) {
      potential.push_back(reference::CutoffPotential(
          input<CutcpAtom>(0), static_cast<double>(place % width),
          static_cast<double>(place / width % width),
          static_cast<double>(place / width / width), kCutoff));
    }
    return potential;
  }
  double tolerance() const override { return 1e-3; }

  const uint32_t side_;
};

class Lbm final : public ArrayWorkload {
 public:
  explicit Lbm(const WorkloadOptions& options)
      : ArrayWorkload(
            "lbm",
            {(options.size + kBlock - 1) / kBlock, options.size, options.size},
            {kBlock, 1, 1}, options),
        side_(options.size) {
    const uint64_t cells = uint64_t{side_} * side_ * side_;
    AddInput<float>("from", 19 * cells);
    AddInput<uint8_t>("solid", cells);
    AddOutput<float>("to", 19 * cells);
    for (const char* name : {"width", "height", "depth"}) {
      AddConstant(edge::Constant(name, side_));
    }
    AddConstant(edge::ConstantFloat("omega", kOmega));
  }

 private:
  static constexpr uint32_t kBlock = 128;
  static constexpr float kOmega = 1.25f;

  // About at rest, beside some walls.
  void Fill(std::mt19937& random) override {
    const std::span<float> from = input<float>(0);
    const std::span<uint8_t> solid = input<uint8_t>(1);
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t direction = i / solid.size();
      const float weight = direction == 0 ? 12 : direction < 7 ? 2 : 1;
      from[i] = weight / 36 * Uniform(0.9f, 0.2f, random);
    }
    for (uint8_t& cell : solid) {
      cell = static_cast<uint8_t>(random() % 50 == 0);
    }
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(reference::LbmStep(input<float>(0), input<uint8_t>(1), side_,
                                 side_, side_, kOmega),
              places);
  }
  double tolerance() const override { return 1e-6; }

  const uint32_t side_;
};

class MriQ final : public ArrayWorkload {
 public:
  explicit MriQ(const WorkloadOptions& options)
      : ArrayWorkload("mri_q", {(options.size + 255) / 256, 1, 1}, {256, 1, 1},
                      options) {
    AddInput<MriSample>("samples", kSamples);
    for (const char* name : {"x", "y", "z"}) {
      AddInput<float>(name, options.size);
    }
    AddOutput<float>("real", options.size);
    AddOutput<float>("imaginary", options.size);
  }

 private:
  static constexpr uint32_t kSamples = 256;
  static constexpr size_t kReal = 4;

  void Fill(std::mt19937& random) override {
    const auto number = [&random] { return Uniform(-2, 4, random); };
    for (MriSample& k : input<MriSample>(0)) {
      k = {number(), number(), number(), Uniform(0, 1, random)};
    }
    for (size_t array = 1; array < kReal; ++array) {
      for (float& x : input<float>(array)) x = number();
    }
  }
  std::vector<double> Expected(
      size_t array, std::span<const uint64_t> places) const override {
    std::vector<double> parts;
    for (const uint64_t place : places) {
      const std::complex<double> q =
          reference::MriQ(input<MriSample>(0), input<float>(1)[place],
                          input<float>(2)[place], input<float>(3)[place]);
      parts.push_back(array == kReal ? q.real() : q.imag());
    }
    return parts;
  }
  double tolerance() const override { return 1e-5 * kSamples; }
};

class Stencil final : public ArrayWorkload {
 public:
  explicit Stencil(const WorkloadOptions& options)
      : ArrayWorkload("stencil",
                      {(options.size + 63) / 64, (options.size + 3) / 4, 1},
                      {32, 4, 1}, options),
        side_(options.size) {
    const uint64_t cells = uint64_t{side_} * side_ * side_;
    AddInput<float>("in", cells);
    AddOutput<float>("out", cells);
    for (const char* name : {"width", "height", "depth"}) {
      AddConstant(edge::Constant(name, side_));
    }
    AddConstant(edge::ConstantFloat("centre", kCentre));
    AddConstant(edge::ConstantFloat("around", kAround));
  }

 private:
  static constexpr float kCentre = 1.0f / 6;
  static constexpr float kAround = 1.0f / 36;

  void Fill(std::mt19937& random) override {
    for (float& cell : input<float>(0)) cell = Uniform(0, 10, random);
  }
  std::vector<double> Expected(
      size_t, std::span<const uint64_t> places) const override {
    return At(reference::StencilStep(input<float>(0), side_, side_, side_,
                                     kCentre, kAround),
              places);
  }
  double tolerance() const override { return 1e-4; }

  const uint32_t side_;
};

}  // namespace

std::unique_ptr<Workload> MakeCutcp(const WorkloadOptions& options) {
  return std::make_unique<Cutcp>(options);
}
std::unique_ptr<Workload> MakeLbm(const WorkloadOptions& options) {
  return std::make_unique<Lbm>(options);
}
std::unique_ptr<Workload> MakeMriQ(const WorkloadOptions& options) {
  return std::make_unique<MriQ>(options);
}
std::unique_ptr<Workload> MakeStencil(const WorkloadOptions& options) {
  return std::make_unique<Stencil>(options);
}

}  // namespace carillon::cpu_host
