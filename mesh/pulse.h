// Signs of life on one connection: when to send one, and for how long none has
// come.
#ifndef CARILLON_MESH_PULSE_H_
#define CARILLON_MESH_PULSE_H_

#include <optional>

#include "mesh/link_options.h"

namespace carillon::mesh {

// Not thread safe. Times only grow.
class Pulse {
 public:
  Pulse(const LinkTimes& times, Nanoseconds now)
      : times_(times), heard_(now), sent_(now) {}

  // A new connection.
  void Restart(Nanoseconds now) { *this = Pulse(times_, now); }
  void Hear(Nanoseconds now) { heard_ = now; }
  bool IsSilent(Nanoseconds now) const { return now - heard_ > times_.timeout; }

  // The ping that is to be sent now, if one is due.
  std::optional<Ping> TakeDue(Nanoseconds now) {
    if (now - sent_ < times_.ping) return std::nullopt;
    sent_ = now;
    return Ping{now, echo_, echo_ == 0 ? 0 : now - echo_came_};
  }
  // False: it answers one that was not sent yet.
  bool Take(const Ping& ping, Nanoseconds now) {
    if (ping.echoed != 0) {
      if (ping.echoed > now) return false;
      // The other host's clock may run faster: then it is no sample.
      const Nanoseconds passed = now - ping.echoed;
      if (ping.held <= passed) rtt_ = passed - ping.held;
    }
    echo_ = ping.sent;
    echo_came_ = now;
    return true;
  }

  // There and back, of the newest ping that was answered.
  std::optional<Nanoseconds> rtt() const { return rtt_; }

 private:
  LinkTimes times_;
  Nanoseconds heard_;
  Nanoseconds sent_;
  Nanoseconds echo_ = 0;
  Nanoseconds echo_came_ = 0;
  std::optional<Nanoseconds> rtt_;
};

}  // namespace carillon::mesh

#endif  // CARILLON_MESH_PULSE_H_
