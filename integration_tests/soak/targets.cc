#include "integration_tests/soak/targets.h"

namespace carillon::soak {
namespace {

using faults::Point;

// `events` is how often a point is passed that every event passes.
void AddDevice(const std::string& role, uint64_t events,
               std::vector<Target>* targets) {
  for (const Point point : {Point::kDeviceAttach, Point::kDeviceAttached,
                            Point::kDeviceRegister, Point::kDeviceRegistered}) {
    targets->push_back({role, point, 1, Trigger::kRestart});
  }
  targets->push_back({role, Point::kDeviceCommit, events});
  targets->push_back({role, Point::kDeviceTake, events});
  targets->push_back({role, Point::kDeviceTaken, events});
  targets->push_back({role, Point::kDeviceLease, 4});
}

}  // namespace

std::vector<Target> AllTargets() {
  constexpr uint64_t kManyEvents = 500;
  constexpr uint64_t kFewEvents = 40;
  std::vector<Target> targets = {
      {"gpud", Point::kGpudAttach, 3, Trigger::kVisit},
      {"gpud", Point::kGpudHandover, 3, Trigger::kVisit},
      {"gpud", Point::kGpudAllocate, 3, Trigger::kVisit},
      {"gpud", Point::kGpudRegister, 3, Trigger::kVisit},
      {"gpud", Point::kGpudLaunch, kManyEvents},
      {"gpud", Point::kGpudKernel, kManyEvents},
      {"gpud", Point::kGpudComplete, kManyEvents},
      {"gpud", Point::kGpudCompleted, kManyEvents},
      {"gpud", Point::kGpudLease, 8},
      {"gpud", Point::kGpudRpc, 50},
  };
  AddDevice("nic0", kManyEvents, &targets);
  AddDevice("fpga0", kFewEvents, &targets);
  // The control plane schedules its events, so it rings no doorbell.
  AddDevice("cpu_host0", kFewEvents, &targets);
  for (const auto& [role, events] :
       {std::pair("nic0", kManyEvents), {"fpga0", kFewEvents}}) {
    targets.push_back({role, Point::kDeviceRing, events});
    targets.push_back({role, Point::kDeviceRung, events});
  }
  targets.push_back({"nic0", Point::kNicReceive, kManyEvents});
  targets.push_back({"nic0", Point::kNicSend, kManyEvents});
  return targets;
}

}  // namespace carillon::soak
