#include "gpu_daemon/dispatch/front_end_budget.h"

#include <algorithm>

namespace carillon::gpud {

// As many rounds at once as the smallest debt takes. What a device has not used
// of them is nobody's.
bool FrontEndBudget::BeginRound() {
  if (most_left_ == kNobody) return false;
  constexpr auto kWhole = static_cast<int64_t>(kRound);
  for (auto& [device, share] : shares_) {
    share.left_ = std::min(kWhole, share.left_ + kWhole - most_left_);
  }
  return true;
}

}  // namespace carillon::gpud
