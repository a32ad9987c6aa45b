// The interrupt service routine of a privileged GPU warp (thesis 5.3), and the
// registers of an SM's interrupt controller (L-IC), by which the two talk.
#ifndef CARILLON_SIM_TIMING_EDGE_ISR_H_
#define CARILLON_SIM_TIMING_EDGE_ISR_H_

#include <cstdint>

namespace carillon::isr {

enum class Vector : uint32_t {
  kNothing,        // for measurements
  kLaunchEvent,    // argument: an event
  kReleaseBarrier  // argument: a wait-release barrier
};

struct InterruptRegisters {
  // Of the interrupt, before the routine runs.
  Vector vector = Vector::kNothing;
  uint32_t argument = 0;
  // Turns of a loop that does nothing, before it ends.
  uint32_t delay = 0;
  // What it writes: 1 + the event to be launched.
  uint32_t launch = 0;
};

// In isr.ptx: void carillon_isr(InterruptRegisters*). One warp, of which one
// lane does all.
inline constexpr char kKernel[] = "carillon_isr";
// Of a thread, as the thesis counts them (5.6.1).
inline constexpr uint32_t kRegisters = 8;

}  // namespace carillon::isr

#endif  // CARILLON_SIM_TIMING_EDGE_ISR_H_
