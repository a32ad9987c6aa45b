#include "sim/timing/edge/reservation.h"

#include <algorithm>

namespace carillon::sim::timing {

SmReservation::SmReservation(const Config& config)
    : config_(config),
      dynamic_(config.edge.reservation == Reservation::kDynamic &&
               config.edge.reserve_sms != 0),
      window_end_(config.edge.reserve_window) {
  if (config.edge.reservation == Reservation::kStatic) {
    sms_ = config.edge.reserve_sms;
  }
}

bool SmReservation::Advance(Cycle now, uint32_t events) {
  if (!dynamic_) return false;
  const uint32_t before = sms_;
  while (now >= window_end_) {
    load_ += (window_end_ - since_) * events_;
    since_ = window_end_;
    window_end_ += config_.edge.reserve_window;
    EndWindow();
    if (sms_ == 0 && events_ == 0 && now >= window_end_) {
      // Nothing changes in the windows that have passed unseen.
      window_end_ += (now - window_end_) / config_.edge.reserve_window *
                     config_.edge.reserve_window;
      since_ = window_end_ - config_.edge.reserve_window;
    }
  }
  load_ += (now - since_) * events_;
  since_ = now;
  events_ = events;
  return sms_ != before;
}

void SmReservation::EndWindow() {
  // Both are sums of events over the cycles of a window.
  const uint64_t others =
      uint64_t{config_.edge.reserve_window} * config_.edge.reserve_load;
  const uint64_t all = load_ + others;
  const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(
      (config_.sm.count * load_ + all - 1) / all, config_.edge.reserve_sms));
  load_ = 0;
  if (wanted >= sms_) {
    sms_ = wanted;
    low_windows_ = 0;
  } else if (++low_windows_ >= config_.edge.reserve_hold) {
    --sms_;
    low_windows_ = 0;
  }
}

}  // namespace carillon::sim::timing
