// Reference results of the background kernels: their definitions, in double
// precision and one number at a time. For the kernels' tests and for other
// programs that run them.
#ifndef CARILLON_KERNELS_BACKGROUND_REFERENCES_H_
#define CARILLON_KERNELS_BACKGROUND_REFERENCES_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/background/types.h"

namespace carillon::kernels::reference {

// Of a European option, by the error function.
struct OptionPrice {
  double call;
  double put;
};
OptionPrice BlackScholes(double spot, double strike, double years, double rate,
                         double volatility);

// The potential of all atoms, wherever they lie, at a point.
double CutoffPotential(std::span<const CutcpAtom> atoms, double x, double y,
                       double z, double cutoff);

// One step of a D3Q19 fluid in directions' order; cells that are solid keep
// their numbers.
std::vector<double> LbmStep(std::span<const float> from,
                            std::span<const uint8_t> solid, uint32_t width,
                            uint32_t height, uint32_t depth, double omega);

// Q at one voxel.
std::complex<double> MriQ(std::span<const MriSample> samples, double x,
                          double y, double z);

// The least cost of a way down all rows to each column.
std::vector<int32_t> CheapestWays(std::span<const int32_t> costs,
                                  std::span<const int32_t> from);

// alpha * a * b + beta * c; a has c.size() / columns rows.
std::vector<double> Gemm(std::span<const float> a, std::span<const float> b,
                         std::span<const float> c, size_t columns, double alpha,
                         double beta);

std::vector<double> StencilStep(std::span<const float> in, uint32_t width,
                                uint32_t height, uint32_t depth, double centre,
                                double around);

}  // namespace carillon::kernels::reference

#endif  // CARILLON_KERNELS_BACKGROUND_REFERENCES_H_
