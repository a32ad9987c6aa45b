// Fields in space, one launch each: CP, LBM, MRI, ST.
#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <numeric>

#include "fmt/format.h"
#include "kernels/background/cutcp.cuh"
#include "kernels/background/lbm.cuh"
#include "kernels/background/mri_q.cuh"
#include "kernels/background/references.h"
#include "kernels/background/stencil.cuh"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

// In steps of a thousandth, `least` to `least + range`.
float Uniform(float least, float range, std::mt19937& random) {
  return least + range * static_cast<float>(random() % 1000) / 1000;
}

class Cp final : public SingleLaunch {
 public:
  Cp(const Dim3& bins, uint32_t atoms_per_bin, uint32_t reach, Kernels* kernels)
      : SingleLaunch(
            "CP",
            fmt::format("{}x{}x{} points, {} atoms for each 512", 8 * bins.x,
                        8 * bins.y, 8 * bins.z, atoms_per_bin),
            kernels),
        bins_(bins),
        reach_(reach),
        atoms_(kernels->Allocate<kernels::CutcpAtom>(
            bins.count() * atoms_per_bin, "CP atoms")),
        potential_(
            kernels->Allocate<float>(512 * bins.count(), "CP potential")) {}

  uint32_t registers() const override {
    return kernels::cutcp_info.registers_per_thread;
  }

 private:
  // A bin's side, and all distances in that unit.
  static constexpr float kSide = 8;

  float cutoff() const { return static_cast<float>(reach_) * kSide; }
  Launch Only() const override {
    return Make(
        kernels::cutcp_info, bins_,
        {kernels::kCutcpBin, kernels::kCutcpBin, kernels::kCutcpDepth},
        kernels::CutcpArgs{
            atoms_.read_only(), potential_.span(), bins_.x, bins_.y, bins_.z,
            static_cast<uint32_t>(atoms_.values.size() / bins_.count()), reach_,
            1.0f, cutoff()});
  }
  void Fill(std::mt19937& random) override {
    const size_t capacity = atoms_.values.size() / bins_.count();
    for (size_t i = 0; i < atoms_.values.size(); ++i) {
      const size_t bin = i / capacity;
      const auto within = [&](size_t number) {
        return static_cast<float>(number) * kSide + Uniform(0, kSide, random);
      };
      atoms_.values[i] = {
          within(bin % bins_.x), within(bin / bins_.x % bins_.y),
          // Between the lattice's planes: the potential has no limit at an atom.
          std::floor(within(bin / bins_.x / bins_.y)) +
              Uniform(0.3f, 0.4f, random),
          static_cast<float>(random() % 5) - 2};
    }
    std::ranges::fill(potential_.values, -99.0f);
  }
  absl::Status CheckOutput() const override {
    const uint32_t width = 8 * bins_.x;
    const uint32_t height = 8 * bins_.y;
    // Of all atoms, those that can be near enough to a row.
    std::vector<kernels::CutcpAtom> near;
    std::vector<double> expected;
    for (uint32_t i = 0; i < potential_.values.size(); ++i) {
      const uint32_t x = i % width;
      const uint32_t y = i / width % height;
      const uint32_t z = i / width / height;
      if (x == 0) {
        near.clear();
        std::ranges::copy_if(
            atoms_.values, std::back_inserter(near),
            [&](const kernels::CutcpAtom& atom) {
              return std::abs(atom.y - static_cast<float>(y)) <= cutoff() &&
                     std::abs(atom.z - static_cast<float>(z)) <= cutoff();
            });
      }
      expected.push_back(reference::CutoffPotential(near, x, y, z, cutoff()));
    }
    return Compare("CP: potential", potential_.values, expected, 1e-3);
  }

  const Dim3 bins_;
  const uint32_t reach_;
  const Array<kernels::CutcpAtom> atoms_;
  const Array<float> potential_;
};

class Lbm final : public SingleLaunch {
 public:
  Lbm(const Dim3& cells, Kernels* kernels)
      : SingleLaunch(
            "LBM",
            fmt::format("D3Q19, {}x{}x{} cells", cells.x, cells.y, cells.z),
            kernels),
        cells_(cells),
        from_(kernels->Allocate<float>(19 * cells.count(), "LBM from")),
        to_(kernels->Allocate<float>(19 * cells.count(), "LBM to")),
        solid_(kernels->Allocate<uint8_t>(cells.count(), "LBM walls")) {}

  // With these an SM has room for the nine blocks that PEP's Fig. 2 shows.
  uint32_t registers() const override { return 56; }

 private:
  static constexpr float kOmega = 1.25f;

  // As Parboil's: a block has a row.
  Launch Only() const override {
    return Make(
        kernels::lbm_info, {1, cells_.y, cells_.z}, {cells_.x, 1, 1},
        kernels::LbmArgs{from_.read_only(), to_.span(), solid_.read_only(),
                         cells_.x, cells_.y, cells_.z, kOmega});
  }
  // About at rest, beside some walls.
  void Fill(std::mt19937& random) override {
    const size_t cells = solid_.values.size();
    for (size_t i = 0; i < from_.values.size(); ++i) {
      const float weight = i < cells ? 12 : i < 7 * cells ? 2 : 1;
      from_.values[i] = weight / 36 * Uniform(0.9f, 0.2f, random);
    }
    for (uint8_t& solid : solid_.values) {
      solid = static_cast<uint8_t>(random() % 50 == 0);
    }
    std::ranges::fill(to_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    absl::Status status =
        Compare("LBM: number", to_.values,
                reference::LbmStep(from_.values, solid_.values, cells_.x,
                                   cells_.y, cells_.z, kOmega),
                1e-6);
    const auto mass = [](std::span<const float> values) {
      return std::vector{std::accumulate(values.begin(), values.end(), 0.0)};
    };
    status.Update(Compare("LBM: mass", mass(to_.values), mass(from_.values),
                          1e-6 * static_cast<double>(cells_.count())));
    return status;
  }

  const Dim3 cells_;
  const Array<float> from_, to_;
  const Array<uint8_t> solid_;
};

class Mri final : public SingleLaunch {
 public:
  Mri(uint32_t voxels, uint32_t samples, Kernels* kernels)
      : SingleLaunch("MRI",
                     fmt::format("{} voxels, {} samples", voxels, samples),
                     kernels),
        samples_(kernels->Allocate<kernels::MriSample>(samples, "MRI samples")),
        x_(kernels->Allocate<float>(voxels, "MRI x")),
        y_(kernels->Allocate<float>(voxels, "MRI y")),
        z_(kernels->Allocate<float>(voxels, "MRI z")),
        real_(kernels->Allocate<float>(voxels, "MRI real part")),
        imaginary_(kernels->Allocate<float>(voxels, "MRI imaginary part")) {}

 private:
  Launch Only() const override {
    return Make(
        kernels::mri_q_info, GridFor(x_.values.size(), kernels::kMriQBlock),
        {kernels::kMriQBlock, 1, 1},
        kernels::MriQArgs{samples_.read_only(), x_.read_only(), y_.read_only(),
                          z_.read_only(), real_.span(), imaginary_.span()});
  }
  void Fill(std::mt19937& random) override {
    const auto number = [&random] { return Uniform(-2, 4, random); };
    for (kernels::MriSample& k : samples_.values) {
      k = {number(), number(), number(), Uniform(0, 1, random)};
    }
    for (const Array<float>* array : {&x_, &y_, &z_}) {
      std::ranges::generate(array->values, number);
    }
    for (const Array<float>* array : {&real_, &imaginary_}) {
      std::ranges::fill(array->values, -9999.0f);
    }
  }
  absl::Status CheckOutput() const override {
    std::vector<double> real, imaginary;
    for (size_t i = 0; i < x_.values.size(); ++i) {
      const std::complex<double> q = reference::MriQ(
          samples_.values, x_.values[i], y_.values[i], z_.values[i]);
      real.push_back(q.real());
      imaginary.push_back(q.imag());
    }
    const double tolerance = 1e-5 * static_cast<double>(samples_.values.size());
    absl::Status status =
        Compare("MRI: real part", real_.values, real, tolerance);
    status.Update(Compare("MRI: imaginary part", imaginary_.values, imaginary,
                          tolerance));
    return status;
  }

  const Array<kernels::MriSample> samples_;
  const Array<float> x_, y_, z_, real_, imaginary_;
};

class Stencil final : public SingleLaunch {
 public:
  Stencil(const Dim3& cells, Kernels* kernels)
      : SingleLaunch(
            "ST",
            fmt::format("7 points, {}x{}x{} cells", cells.x, cells.y, cells.z),
            kernels),
        cells_(cells),
        in_(kernels->Allocate<float>(cells.count(), "ST in")),
        out_(kernels->Allocate<float>(cells.count(), "ST out")) {}

  uint32_t registers() const override {
    return kernels::stencil_info.registers_per_thread;
  }

 private:
  static constexpr float kCentre = 1.0f / 6;
  static constexpr float kAround = 1.0f / 36;

  Launch Only() const override {
    return Make(kernels::stencil_info,
                {(cells_.x + kernels::kStencilRow - 1) / kernels::kStencilRow,
                 (cells_.y + kernels::kStencilY - 1) / kernels::kStencilY, 1},
                {kernels::kStencilX, kernels::kStencilY, 1},
                kernels::StencilArgs{in_.read_only(), out_.span(), cells_.x,
                                     cells_.y, cells_.z, kCentre, kAround});
  }
  void Fill(std::mt19937& random) override {
    for (float& cell : in_.values) cell = Uniform(0, 10, random);
    std::ranges::fill(out_.values, -99.0f);
  }
  absl::Status CheckOutput() const override {
    return Compare("ST: cell", out_.values,
                   reference::StencilStep(in_.values, cells_.x, cells_.y,
                                          cells_.z, kCentre, kAround),
                   1e-4);
  }

  const Dim3 cells_;
  const Array<float> in_, out_;
};

}  // namespace

// 27 bins of atoms are within reach of a block.
std::unique_ptr<Background> MakeCp(Size size, Kernels* kernels) {
  return size == Size::kFull
             ? std::make_unique<Cp>(Dim3{26, 26, 2}, 48, 1, kernels)
             : std::make_unique<Cp>(Dim3{3, 2, 2}, 5, 1, kernels);
}

// Parboil's rows, and a part of its 120x150 of them.
std::unique_ptr<Background> MakeLbm(Size size, Kernels* kernels) {
  return std::make_unique<Lbm>(
      size == Size::kFull ? Dim3{120, 32, 16} : Dim3{40, 3, 4}, kernels);
}

// Parboil's small set.
std::unique_ptr<Background> MakeMri(Size size, Kernels* kernels) {
  return size == Size::kFull ? std::make_unique<Mri>(32768, 3072, kernels)
                             : std::make_unique<Mri>(400, 300, kernels);
}

// Parboil's rows, and a part of its 512 a plane and of its 64 planes.
std::unique_ptr<Background> MakeStencil(Size size, Kernels* kernels) {
  return std::make_unique<Stencil>(
      size == Size::kFull ? Dim3{512, 256, 16} : Dim3{70, 9, 5}, kernels);
}

}  // namespace carillon::sim::figures
