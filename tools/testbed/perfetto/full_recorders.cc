#include "tools/testbed/perfetto/full_recorders.h"

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::perfetto {
namespace {

using shm::EventState;
using shm::Generation;
using shm::Step;

constexpr uint64_t kRecords = 65536;
constexpr int kDevices = 4;

}  // namespace

absl::Status FillRecorders(const std::string& folder) {
  std::vector<std::unique_ptr<shm::FlightRecorder>> recorders;
  const auto add = [&](const std::string& name) {
    auto made = shm::FlightRecorder::Create(folder, name, kRecords);
    if (made.ok()) recorders.push_back(*std::move(made));
    return made.status();
  };
  RETURN_IF_ERROR(add("gpud"));
  shm::FlightRecorder& gpud = *recorders[0];
  for (uint32_t i = 1; i <= kDevices; ++i) {
    const std::string name = "nic" + std::to_string(i);
    RETURN_IF_ERROR(add(name));
    shm::FlightRecorder& device = *recorders[i];
    device.Record(Step::kAttached, 0, Generation(i), getpid());
    gpud.Record(Step::kRingMade, i, Generation(10 + i), getpid(),
                EventState::kNone, 1);
    for (shm::FlightRecorder* const recorder : {&device, &gpud}) {
      recorder->NameRing(i, Generation(10 + i), name, "memc_get", "get");
    }
    device.Record(Step::kRegistered, i, Generation(10 + i), 0,
                  EventState::kNone, 64);
  }
  for (uint64_t sequence = 1; sequence < kRecords / 2; ++sequence) {
    for (uint32_t i = 1; i <= kDevices; ++i) {
      const Generation ring(10 + i);
      shm::FlightRecorder& device = *recorders[i];
      device.Record(Step::kRung, i, ring, sequence, EventState::kNone, 1);
      gpud.Record(Step::kEnded, i, ring, sequence, EventState::kDone);
      device.Record(Step::kTaken, i, ring, sequence, EventState::kDone);
    }
  }
  return absl::OkStatus();
}

}  // namespace carillon::perfetto
