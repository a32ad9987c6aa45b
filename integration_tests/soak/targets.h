// What a soak kills, and where: each role of its testbed at each named point
// that the role passes.
#ifndef CARILLON_INTEGRATION_TESTS_SOAK_TARGETS_H_
#define CARILLON_INTEGRATION_TESTS_SOAK_TARGETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shm/faults/fault.h"

namespace carillon::soak {

// What makes the role pass the point.
enum class Trigger {
  kLoad,     // its ordinary work
  kRestart,  // only its start does: it is ended in order and starts again
  kVisit,    // a device that attaches, registers and goes
};

struct Target {
  std::string role;  // the process's name
  faults::Point point = faults::Point::kNone;
  uint64_t most = 1;  // the kill is at one of so many first passages
  Trigger trigger = Trigger::kLoad;
};

// The targets of all four roles: gpud, nic0, fpga0, cpu_host0.
std::vector<Target> AllTargets();

}  // namespace carillon::soak

#endif  // CARILLON_INTEGRATION_TESTS_SOAK_TARGETS_H_
