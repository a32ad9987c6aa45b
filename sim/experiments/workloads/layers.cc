#include <algorithm>

#include "fmt/format.h"
#include "kernels/background/bp.cuh"
#include "kernels/background/conv1.cuh"
#include "kernels/background/conv2.cuh"
#include "kernels/background/edge_references.h"
#include "kernels/matmul.cuh"
#include "kernels/matmul_reference.h"
#include "sim/experiments/workloads/backgrounds.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

// The registers per thread of CONV and MM. EDGE has all of CONV's blocks
// resident, 16 on each SM, and found "always enough registers available in the
// underutilized register file" (VI-C). Allocated in units of four, 28 registers
// is the most that 2,048 threads can have then. Our allocation gives CONV more
// than twice that, and MM 30. It is an assumption, so figures that depend on it
// have 32 as well (kLayerRegisters).
constexpr uint32_t kRegisters = 28;

class Bp final : public Background {
 public:
  Bp(uint32_t inputs, Kernels* kernels)
      : Background("BP", fmt::format("layer of {} inputs", inputs), kernels),
        inputs_(inputs),
        delta_(kernels->Allocate<float>(kernels::kBpRow, "BP delta")),
        input_(kernels->Allocate<float>(inputs + 1, "BP input")),
        weights_(kernels->Allocate<float>((inputs + 1) * kernels::kBpRow,
                                          "BP weights")),
        changes_(kernels->Allocate<float>((inputs + 1) * kernels::kBpRow,
                                          "BP changes")),
        sums_(kernels->Allocate<float>(inputs, "BP partial sums")) {}

  std::optional<Launch> Next() override {
    const Dim3 grid{1, inputs_ / kernels::kBpHidden, 1};
    const Dim3 block{kernels::kBpHidden, kernels::kBpHidden, 1};
    switch (step_++) {
      case 0:
        return Make(kernels::bp_forward_info, grid, block,
                    kernels::BpForwardArgs{input_.read_only(),
                                           weights_.read_only(), sums_.span()});
      case 1:
        return Make(
            kernels::bp_adjust_info, grid, block,
            kernels::BpAdjustArgs{delta_.read_only(), input_.read_only(),
                                  weights_.span(), changes_.span()});
      default:
        return std::nullopt;
    }
  }

 private:
  void Fill(std::mt19937& random) override {
    for (const Array<float>* array : {&delta_, &input_, &weights_, &changes_}) {
      FillWhole(array->values, -20, 20, random);
    }
    std::ranges::fill(sums_.values, -1.0f);
    old_weights_.assign(weights_.values.begin(), weights_.values.end());
    old_changes_.assign(changes_.values.begin(), changes_.values.end());
  }
  absl::Status CheckOutput() const override {
    absl::Status status =
        Compare("BP: partial sum", sums_.values,
                reference::BpPartialSums(input_.values, old_weights_));
    const reference::BpLayer expected = reference::BpAdjusted(
        delta_.values, input_.values, old_weights_, old_changes_);
    status.Update(
        Compare("BP: weight", weights_.values, expected.weights, 1e-4));
    status.Update(
        Compare("BP: change", changes_.values, expected.changes, 1e-4));
    return status;
  }

  const uint32_t inputs_;
  const Array<float> delta_, input_, weights_, changes_, sums_;
  std::vector<float> old_weights_, old_changes_;
};

class Conv final : public Background {
 public:
  Conv(std::string_view name, const simt::KernelInfo& kernel,
       const reference::ConvShape& shape, const Dim3& grid, Kernels* kernels)
      : Background(name,
                   fmt::format("{} images of {}x{}x{}, {} filters",
                               shape.images, shape.image_size, shape.image_size,
                               shape.colours, shape.filters),
                   kernels),
        kernel_(kernel),
        shape_(shape),
        grid_(grid),
        images_(kernels->Allocate<float>(
            shape.colours * shape.image_size * shape.image_size * shape.images,
            "CONV images")),
        filters_(kernels->Allocate<float>(shape.colours * shape.filter_size *
                                              shape.filter_size * shape.filters,
                                          "CONV filters")),
        targets_(kernels->Allocate<float>(
            shape.filters * shape.side() * shape.side() * shape.images,
            "CONV targets")) {}

  uint32_t registers() const override { return kRegisters; }
  std::optional<Launch> Next() override {
    if (step_++ != 0) return std::nullopt;
    return Make(kernel_, grid_, {kernels::kConvLayerX, kernels::kConvLayerY, 1},
                kernels::ConvLayerArgs{
                    images_.read_only(), filters_.read_only(), targets_.span(),
                    shape_.colours, shape_.image_size, shape_.filter_size,
                    shape_.stride, shape_.images, shape_.filters});
  }

 private:
  void Fill(std::mt19937& random) override {
    FillWhole(images_.values, -10, 10, random);
    FillWhole(filters_.values, -10, 10, random);
    std::ranges::fill(targets_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    return Compare(
        fmt::format("{}: target", name()), targets_.values,
        reference::Convolved(shape_, images_.values, filters_.values));
  }

  const simt::KernelInfo& kernel_;
  const reference::ConvShape shape_;
  const Dim3 grid_;
  const Array<float> images_, filters_, targets_;
};

class Mm final : public Background {
 public:
  Mm(uint32_t n, Kernels* kernels)
      : Background("MM", fmt::format("{}x{} matrices", n, n), kernels),
        n_(n),
        a_(kernels->Allocate<float>(n * n, "MM a")),
        b_(kernels->Allocate<float>(n * n, "MM b")),
        c_(kernels->Allocate<float>(n * n, "MM c")) {}

  uint32_t registers() const override { return kRegisters; }
  std::optional<Launch> Next() override {
    if (step_++ != 0) return std::nullopt;
    const uint32_t blocks = n_ / kernels::kMatmulTile;
    return Make(
        kernels::matmul_info, {blocks, blocks, 1},
        {kernels::kMatmulTile, kernels::kMatmulTile, 1},
        kernels::MatmulArgs{a_.read_only(), b_.read_only(), c_.span(), n_});
  }

 private:
  void Fill(std::mt19937& random) override {
    FillWhole(a_.values, -100, 100, random);
    FillWhole(b_.values, -100, 100, random);
    std::ranges::fill(c_.values, -1.0f);
  }
  absl::Status CheckOutput() const override {
    return Compare("MM: element", c_.values,
                   reference::Product(a_.values, b_.values, n_));
  }

  const uint32_t n_;
  const Array<float> a_, b_, c_;
};

}  // namespace

std::unique_ptr<Background> MakeBp(Size size, Kernels* kernels) {
  return std::make_unique<Bp>(size == Size::kFull ? 32768 : 256, kernels);
}

std::unique_ptr<Background> MakeMm(Size size, Kernels* kernels) {
  return std::make_unique<Mm>(size == Size::kFull ? 512 : 64, kernels);
}

// LeNet's layers with the artifact's batch: all blocks are resident at once.
std::unique_ptr<Background> MakeConv1(Size size, Kernels* kernels) {
  const bool full = size == Size::kFull;
  return std::make_unique<Conv>("CONV1", kernels::conv1_info,
                                full
                                    ? reference::ConvShape{1, 28, 5, 1, 512, 16}
                                    : reference::ConvShape{1, 8, 5, 1, 128, 16},
                                full ? Dim3{4, 64, 1} : Dim3{1, 8, 1}, kernels);
}

std::unique_ptr<Background> MakeConv2(Size size, Kernels* kernels) {
  const bool full = size == Size::kFull;
  return std::make_unique<Conv>(
      "CONV2", kernels::conv2_info,
      full ? reference::ConvShape{16, 12, 5, 1, 512, 16}
           : reference::ConvShape{2, 7, 5, 1, 128, 16},
      full ? Dim3{4, 64, 1} : Dim3{1, 9, 1}, kernels);
}

}  // namespace carillon::sim::figures
