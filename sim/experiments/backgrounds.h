// One function for each background kernel; background.cc has their table.
#ifndef CARILLON_SIM_EXPERIMENTS_BACKGROUNDS_H_
#define CARILLON_SIM_EXPERIMENTS_BACKGROUNDS_H_

#include <memory>

#include "sim/experiments/background.h"

namespace carillon::sim::figures {

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

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_BACKGROUNDS_H_
