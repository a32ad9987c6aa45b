#include "sim/timing/observer.h"

namespace carillon::sim::timing {

const char* NameOf(Observation::What what) {
  static constexpr const char* kNames[] = {
      "block start",   "block end",     "warp start",  "warp end",
      "event arrive",  "event select",  "event flush", "event launch",
      "event restore", "event complete"};
  return kNames[static_cast<size_t>(what)];
}

}  // namespace carillon::sim::timing
