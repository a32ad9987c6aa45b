// A testbed in one thread: gpud's control plane and doorbell poller, devices,
// and their deaths, in an order that the seed alone decides. The same seed
// gives the same steps and the same trace.
#ifndef CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATION_H_
#define CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATION_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "integration_tests/simulation/simulated_device.h"
#include "integration_tests/simulation/simulated_gpud.h"
#include "tools/testbed/ledger/checker.h"

namespace carillon::simulation {

enum class Step : uint8_t {
  kPoll,            // gpud looks at the doorbells
  kRun,             // a launched event runs, whichever it is
  kCommit,          // a device writes entries
  kRing,            // a device rings its doorbell
  kSchedule,        // gpud launches its entries (edgeScheduleEvent)
  kTake,            // a device takes what has ended
  kRegister,        // another ring
  kUnregister,      // one ring less, whatever is in flight
  kSpoil,           // a device spoils an entry
  kJump,            // a device's doorbell jumps: gpud evicts it
  kDeviceDies,      // a device dies, as by SIGKILL
  kDeviceDetaches,  // a device detaches in order
  kDeviceReturns,   // a new life of a device that is gone
  kNotice,          // gpud notices deaths and violations
  kGpudDies,        // gpud dies, as by SIGKILL; another one follows at once
  kResume,          // a device notices that, and goes on with the new one
};
inline constexpr size_t kSteps = 16;
std::string_view StepName(Step step);

struct Outcome {
  uint64_t trace = 0;  // hash of every step and record, without times
  std::array<uint64_t, kSteps> steps{};
  ledger::Report ledger;
  // What is wrong besides the ledger: answers, ends that never came, leftover
  // entries of the EKT.
  std::vector<std::string> problems;

  bool ok() const { return problems.empty() && ledger.violations.empty(); }
};

// `directory` is a folder for its files.
Outcome Simulate(uint64_t seed, uint32_t steps,
                 const SimulatedGpud::Surroundings& surroundings);

}  // namespace carillon::simulation

#endif  // CARILLON_INTEGRATION_TESTS_SIMULATION_SIMULATION_H_
