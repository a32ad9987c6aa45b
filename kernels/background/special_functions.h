// What a GPU's special function units compute, with their accuracy there and
// the C library's on a CPU. For kernels only.
#ifndef CARILLON_KERNELS_BACKGROUND_SPECIAL_FUNCTIONS_H_
#define CARILLON_KERNELS_BACKGROUND_SPECIAL_FUNCTIONS_H_

#include <cmath>

#include "kernels/simt/simt.h"

namespace carillon::kernels {

// 1 / sqrt(x), within 2 ulp.
CARILLON_DEVICE float ReciprocalSqrt(float x) {
#if defined(__CUDACC__)
  return rsqrtf(x);
#else
  return 1.0f / std::sqrt(x);
#endif
}

// The cosine and the sine of an angle in radians. For -pi..pi the error is at
// most 2^-21; beyond, it grows with the angle.
CARILLON_DEVICE float FastCos(float angle) {
#if defined(__CUDACC__)
  return __cosf(angle);
#else
  return std::cos(angle);
#endif
}
CARILLON_DEVICE float FastSin(float angle) {
#if defined(__CUDACC__)
  return __sinf(angle);
#else
  return std::sin(angle);
#endif
}

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_SPECIAL_FUNCTIONS_H_
