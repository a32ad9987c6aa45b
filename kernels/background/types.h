// What the arguments of background kernels consist of, for a kernel and a device
// alike.
#ifndef CARILLON_KERNELS_BACKGROUND_TYPES_H_
#define CARILLON_KERNELS_BACKGROUND_TYPES_H_

#include <cstdint>

namespace carillon::kernels {

struct BfsNode {
  uint32_t first_edge;
  uint32_t edge_count;
};

struct CutcpAtom {
  float x;
  float y;
  float z;
  float charge;  // 0: no atom
};

struct HeartwallPlace {
  uint32_t x;
  uint32_t y;
};

struct HotspotCoefficients {
  float step_by_capacity;
  float by_rx;  // 1 / thermal resistance, in each direction
  float by_ry;
  float by_rz;
};

struct MriSample {
  float x;
  float y;
  float z;
  float weight;  // |phi|^2
};

struct ScPoint {
  float weight;
  float cost;       // the cost of being assigned to that centre
  uint32_t centre;  // the point that is its centre
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_BACKGROUND_TYPES_H_
