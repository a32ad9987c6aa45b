// The interrupt service routine of a privileged GPU warp (thesis 5.3), and the
// registers of an SM's interrupt controller (L-IC), through which the two
// communicate.
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
  // The interrupt controller writes these before the routine runs.
  Vector vector = Vector::kNothing;
  uint32_t argument = 0;
  // How many turns of an empty loop the routine takes before it ends.
  uint32_t delay = 0;
  // The routine writes 1 + the event to be launched.
  uint32_t launch = 0;
};

// The kernel in isr.ptx: void carillon_isr(InterruptRegisters*). It has one
// warp, of which one lane does everything.
inline constexpr char kKernel[] = "carillon_isr";
// Registers per thread, as the thesis counts them (5.6.1).
inline constexpr uint32_t kRegisters = 8;

}  // namespace carillon::isr

#endif  // CARILLON_SIM_TIMING_EDGE_ISR_H_
