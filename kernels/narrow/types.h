// What the arguments of the narrow tasks' kernels consist of, for a kernel and a
// device alike.
#ifndef CARILLON_KERNELS_NARROW_TYPES_H_
#define CARILLON_KERNELS_NARROW_TYPES_H_

#include <cstdint>

namespace carillon::kernels {

struct Complex {
  float real;
  float imaginary;
};
static_assert(sizeof(Complex) == 8);

// The status of slud_lu0 and slud_bdiv when a pivot is 0, infinite or no number.
inline constexpr uint32_t kFailSingular = 3;

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_NARROW_TYPES_H_
