// Signs of life on one connection: when to send one, and for how long none has
// come.
#ifndef CARILLON_MESH_PULSE_H_
#define CARILLON_MESH_PULSE_H_

#include <optional>

#include "mesh/link_options.h"

namespace carillon::mesh {

// How long ago `then` was. Not all callers read the clock in one order.
inline Nanoseconds Since(Nanoseconds then, Nanoseconds now) {
  return now > then ? now - then : 0;
}

// Not thread safe.
class Pulse {
 public:
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
