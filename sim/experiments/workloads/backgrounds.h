// One function for each background kernel, whose table is in background.cc, and
// what several of them need.
#ifndef CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUNDS_H_
#define CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUNDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "sim/experiments/workloads/background.h"

namespace carillon::sim::figures {

// A background of one launch. Where our allocation of registers needs more than
// ptxas, and an SM has room for fewer blocks because of it, its registers() are
// those of ptxas: the model has no spills, and takes PTX in the order that it has.
class SingleLaunch : public Background {
 public:
  std::optional<Launch> Next() final {
    if (step_++ != 0) return std::nullopt;
    return Only();
  }

 protected:
  using Background::Background;

 private:
  virtual Launch Only() const = 0;
};

// Blocks of `block` elements each.
inline Dim3 GridFor(uint64_t elements, uint32_t block) {
  return {static_cast<uint32_t>((elements + block - 1) / block), 1, 1};
}

// Fills with whole numbers, so that sums are exact in any order.
void FillWhole(std::span<float> values, int least, int most,
               std::mt19937& random);

// Layers of neural networks, and a matrix product: layers.cc.
std::unique_ptr<Background> MakeBp(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeConv1(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeConv2(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeMm(Size size, Kernels* kernels);
// Points and graphs: points.cc.
std::unique_ptr<Background> MakeBfs(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeKmn(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeSc(Size size, Kernels* kernels);
// Planes: planes.cc.
std::unique_ptr<Background> MakeHotsp(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeHrtwl(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeLud(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeSrad(Size size, Kernels* kernels);

// Fields in space: fields.cc.
std::unique_ptr<Background> MakeCp(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeLbm(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeMri(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeStencil(Size size, Kernels* kernels);
// Arithmetic on arrays: arithmetic.cc.
std::unique_ptr<Background> MakeBs(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeGemm(Size size, Kernels* kernels);
std::unique_ptr<Background> MakePathfinder(Size size, Kernels* kernels);
// One kernel of a program that has several: single_kernels.cc.
std::unique_ptr<Background> MakeBpAdjust(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeBpForward(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeKmnInvert(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeLudInternal(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeSradExtract(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeSradV1(Size size, Kernels* kernels);
std::unique_ptr<Background> MakeSradV2(Size size, Kernels* kernels);

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_WORKLOADS_BACKGROUNDS_H_
