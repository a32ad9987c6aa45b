#include "sim/timing/grid.h"

namespace carillon::sim::timing {

const char* NameOf(EventPlace place) {
  static constexpr const char* kNames[] = {"none", "TB scheduler", "free",
                                           "reserved", "preempted"};
  return kNames[static_cast<size_t>(place)];
}

}  // namespace carillon::sim::timing
