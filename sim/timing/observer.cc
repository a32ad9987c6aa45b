#include "sim/timing/observer.h"

namespace carillon::sim::timing {

const char* NameOf(Observation::What what) {
  switch (what) {
    case Observation::What::kBlockStart:
      return "block start";
    case Observation::What::kBlockEnd:
      return "block end";
    case Observation::What::kWarpStart:
      return "warp start";
    case Observation::What::kWarpEnd:
      return "warp end";
    case Observation::What::kEventArrive:
      return "event arrive";
    case Observation::What::kEventSelect:
      return "event select";
    case Observation::What::kEventFlush:
      return "event flush";
    case Observation::What::kEventLaunch:
      return "event launch";
    case Observation::What::kEventRestore:
      return "event restore";
    case Observation::What::kEventComplete:
      return "event complete";
  }
  return "";
}

}  // namespace carillon::sim::timing
