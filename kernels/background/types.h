// What the arguments of background kernels consist of, for a kernel and a device
// alike.
#ifndef CARILLON_KERNELS_BACKGROUND_TYPES_H_
#define CARILLON_KERNELS_BACKGROUND_TYPES_H_

namespace carillon::kernels {

struct CutcpAtom {
  float x;
  float y;
  float z;
  float charge;  // 0: no atom
};

struct MriSample {
  float x;
  float y;
  float z;
  float weight;  // |phi|^2
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_TYPES_H_
