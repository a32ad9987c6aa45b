// Divides a front-end's time among devices: deficit round robin (Shreedhar and
// Varghese, 1996) by the time that serving took.
#ifndef CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_BUDGET_H_
#define CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_BUDGET_H_

#include <cstdint>
#include <limits>
#include <map>

#include "gpu_daemon/dispatch/run_clock.h"
#include "gpu_daemon/event/device_memory.h"

namespace carillon::gpud {

// In a round each device may use kRound. Who has used more has a debt, and
// waits while any other device that may go on has rung; the round ends when
// none has. So no device waits for another one for longer than a round and the
// event that ends it, and time that nobody else wants is anybody's. Devices that
// use no time (a clock that stands still) never wait.
//
// One thread.
class FrontEndBudget {
 public:
  // 10 to 50 us: about a burst of short events.
  static constexpr Ticks kRound = 50'000;

  class Share {
   private:
    friend FrontEndBudget;
    // Of this round; what is below 0 is taken from the next ones.
    int64_t left_ = kRound;
  };

  // A device's; valid until Forget().
  Share* ShareOf(const DeviceMemory* device) { return &shares_[device]; }
  void Forget(const DeviceMemory* device) { shares_.erase(device); }

  // Before each look at the doorbells.
  void BeginLook() {
    most_left_ = kNobody;
    used_ = 0;
  }
  // Whether a device that has rung may be served now.
  bool MayGoOn(const Share& share) {
    if (share.left_ > 0) [[likely]]
      return true;
    if (share.left_ > most_left_) most_left_ = share.left_;
    return false;
  }
  // Serving it took so long. False if it has used its share up.
  bool Charge(Share& share, Ticks ticks) {
    used_ += ticks;
    share.left_ -= static_cast<int64_t>(ticks);
    return share.left_ > 0;
  }
  // What all devices have used in this look.
  Ticks used() const { return used_; }
  // After a look that has served nobody: begins the next round. False if nobody
  // was held back.
  bool BeginRound();

 private:
  static constexpr int64_t kNobody = std::numeric_limits<int64_t>::min();

  std::map<const DeviceMemory*, Share> shares_;
  // Of those held back in this look, who has the smallest debt.
  int64_t most_left_ = kNobody;
  Ticks used_ = 0;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_DISPATCH_FRONT_END_BUDGET_H_
