// How grids share the GPU, where it is not the configuration that says so: the
// sharing policies of a testbed in simulated time (docs/policies.md).
#ifndef CARILLON_SIM_TIMING_SHARING_SHARING_H_
#define CARILLON_SIM_TIMING_SHARING_SHARING_H_

#include <cstdint>

namespace carillon::sim::timing {

// But for the first three, events of EDGE take the TB scheduler's way, whatever
// Config::edge::path says: it is there that a policy decides.
enum class Sharing : uint8_t {
  kConfigured,   // Config::edge: event_priority, reserve_sms
  kFirstCome,    // the oldest that fits
  kPriority,     // the highest priority that fits
  kP1,           // EventPriority::kP1 of blocks
  kP2,           // EventPriority::kP2 of blocks
  kReservation,  // static, of so many SMs; each side by arrival
  kDynamicReservation,
  kExclusive,  // turns between devices (device_turns.h)
  kGpes,       // one slice of a grid at a time: as many blocks as the GPU holds
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_SHARING_SHARING_H_
