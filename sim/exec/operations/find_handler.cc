#include "sim/exec/operations/lanes.h"

namespace carillon::sim::CARILLON_SIM_ISA {

Handler FindHandler(const Semantics& semantics) {
  for (const auto find :
       {&FindInteger, &FindBits, &FindFloat, &FindHalf, &FindPacked,
        &FindConvert, &FindCompare, &FindAccess, &FindAtomic, &FindMultiply, &FindRare}) {
    if (const Handler handler = find(semantics)) return handler;
  }
  return nullptr;
}

}  // namespace carillon::sim::CARILLON_SIM_ISA
