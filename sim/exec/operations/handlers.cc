#include "sim/exec/operations/handlers.h"

namespace carillon::sim {

#ifdef CARILLON_SIM_BASELINE_ONLY
bool HasX86_64V3() { return false; }
Handler x86_64_v3::FindHandler(const Semantics& /*semantics*/) {
  return nullptr;
}
#else
bool HasX86_64V3() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("popcnt");
}
#endif

Handler FindHandler(const Semantics& semantics) {
  static const bool better = HasX86_64V3();
  return better ? x86_64_v3::FindHandler(semantics)
                : baseline::FindHandler(semantics);
}

Handler FindRare(const Semantics& semantics) {
  for (const auto find : {&baseline::FindRounded, &baseline::FindWarpWide,
                          &baseline::FindAsync, &baseline::FindFragments}) {
    if (const Handler handler = find(semantics)) return handler;
  }
  return nullptr;
}

}  // namespace carillon::sim
