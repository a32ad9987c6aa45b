#include "sim/timing/grid.h"

namespace carillon::sim::timing {

const char* NameOf(EventPlace place) {
  switch (place) {
    case EventPlace::kNone:
      return "none";
    case EventPlace::kTbScheduler:
      return "TB scheduler";
    case EventPlace::kFree:
      return "free";
    case EventPlace::kReserved:
      return "reserved";
    case EventPlace::kPreempted:
      return "preempted";
  }
  return "";
}

}  // namespace carillon::sim::timing
