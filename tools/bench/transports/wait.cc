#include "tools/bench/transports/wait.h"

namespace carillon::bench {

std::string_view NameOf(Wait wait) {
  switch (wait) {
    case Wait::kSpins:
      return "spins";
    case Wait::kSpinsThenSleeps:
      return "spins_then_sleeps";
    case Wait::kSleeps:
      return "sleeps";
  }
  return "";
}

std::optional<Wait> WaitOfName(std::string_view name) {
  for (const Wait wait : kEveryWait) {
    if (NameOf(wait) == name) return wait;
  }
  return std::nullopt;
}

}  // namespace carillon::bench
