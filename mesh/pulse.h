// Signs of life on one connection: when to send one, and for how long none has
// come.
#ifndef CARILLON_MESH_PULSE_H_
#define CARILLON_MESH_PULSE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "mesh/link_options.h"

namespace carillon::mesh {

// How long ago `then` was. Not all callers read the clock in one order.
inline Nanoseconds Since(Nanoseconds then, Nanoseconds now) {
  return now > then ? now - then : 0;
}

// For how long a link has been down since it first came up, and how often. Not
// thread safe.
class DownTime {
 public:
  void ComeUp(Nanoseconds now) {
    total_ = total(now);
    since_.reset();
  }
  void GoDown(Nanoseconds now) {
    if (since_) return;
    since_ = now;
    ++times_;
  }
  uint64_t times() const { return times_; }
  Nanoseconds total(Nanoseconds now) const {
    return total_ + (since_ ? Since(*since_, now) : 0);
  }

 private:
  uint64_t times_ = 0;
  Nanoseconds total_ = 0;
  std::optional<Nanoseconds> since_;  // it is down
};

// How the other end's clock differs from this one's.
struct ClockSample {
  int64_t offset = 0;     // the other one less this one, in ns
  Nanoseconds error = 0;  // half of the way there and back
};

// Not thread safe.
class Pulse {
 public:
  static constexpr size_t kRtts = 32;

  Pulse(const LinkTimes& times, Nanoseconds now)
      : times_(times), heard_(now), sent_(now) {}

  // A new connection.
  void Restart(Nanoseconds now) { *this = Pulse(times_, now); }
  void Hear(Nanoseconds now) { heard_ = now; }
  bool IsSilent(Nanoseconds now) const {
    return Since(heard_, now) > times_.timeout;
  }

  // The ping that is to be sent now, if one is due.
  std::optional<Ping> TakeDue(Nanoseconds now) {
    if (Since(sent_, now) < times_.ping) return std::nullopt;
    sent_ = now;
    return Ping{now, echo_, echo_ == 0 ? 0 : Since(echo_came_, now)};
  }
  // False: it answers one that was not sent yet.
  bool Take(const Ping& ping, Nanoseconds now) {
    if (ping.echoed != 0) {
      if (ping.echoed > sent_) return false;
      // The other host's clock may run faster: then it is no sample.
      const Nanoseconds passed = Since(ping.echoed, now);
      if (ping.held <= passed) {
        const Nanoseconds rtt = passed - ping.held;
        rtts_[rtts_taken_++ % rtts_.size()] = rtt;
        TakeClock(
            {static_cast<int64_t>(ping.sent + rtt / 2 - now), (rtt + 1) / 2},
            now);
      }
    }
    echo_ = ping.sent;
    echo_came_ = now;
    return true;
  }

  // There and back: the median of the last kRtts pings that were answered.
  std::optional<Nanoseconds> rtt() const {
    if (rtts_taken_ == 0) return std::nullopt;
    auto rtts = rtts_;
    const auto end = rtts.begin() + std::min(rtts_taken_, rtts.size());
    const auto middle = rtts.begin() + (end - rtts.begin()) / 2;
    std::nth_element(rtts.begin(), middle, end);
    return *middle;
  }
  // The best of the pings that were answered.
  std::optional<ClockSample> clock() const { return clock_; }

 private:
  // By how much two crystals may part meanwhile: 100 ppm.
  static constexpr Nanoseconds kDriftOf = 10'000;

  void TakeClock(const ClockSample& sample, Nanoseconds now) {
    if (clock_ &&
        sample.error > clock_->error + Since(clock_at_, now) / kDriftOf) {
      return;
    }
    clock_ = sample;
    clock_at_ = now;
  }

  LinkTimes times_;
  Nanoseconds heard_;
  Nanoseconds sent_;
  Nanoseconds echo_ = 0;
  Nanoseconds echo_came_ = 0;
  std::array<Nanoseconds, kRtts> rtts_{};
  size_t rtts_taken_ = 0;
  std::optional<ClockSample> clock_;
  Nanoseconds clock_at_ = 0;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_PULSE_H_
