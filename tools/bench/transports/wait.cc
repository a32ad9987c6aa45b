#include "tools/bench/transports/wait.h"

namespace carillon::bench {

std::string_view NameOf(Wait wait) {
  static constexpr std::string_view kNames[] = {"spins", "spins_then_sleeps",
                                                "sleeps"};
  return kNames[static_cast<size_t>(wait)];
}

std::optional<Wait> WaitOfName(std::string_view name) {
  for (const Wait wait : kEveryWait) {
    if (NameOf(wait) == name) return wait;
  }
  return std::nullopt;
}

}  // namespace carillon::bench
