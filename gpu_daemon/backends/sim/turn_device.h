// A device in the test's own process that lives in simulated time.
#ifndef CARILLON_GPU_DAEMON_BACKENDS_SIM_TURN_DEVICE_H_
#define CARILLON_GPU_DAEMON_BACKENDS_SIM_TURN_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gpu_daemon/event/test_device.h"
#include "shm/simulated_time.h"
#include "shm/types.h"

namespace carillon::gpud {

class TurnDevice : public TestDevice {
 public:
  explicit TurnDevice(std::string name)
      : TestDevice(std::move(name)),
        time(&memory->submission(), &memory->completion()) {}

  bool WaitForTurn(
      std::chrono::milliseconds longest = std::chrono::seconds(10)) {
    return waiter->WaitUntil([&] { return time.Take(); }, longest,
                             std::chrono::microseconds(5));
  }
  // Rings for an event that fails with `code`, unless that is 0.
  void RingDoorbell(Event& event, uint32_t code) {
    RingAt(event, code, time.now());
  }
  void RingAt(Event& event, uint32_t code, Nanoseconds at) {
    std::memcpy(event.ring->parameters(), &code, sizeof(code));
    event.ring->Commit(nullptr, at);
    event.ring->RingDoorbell();
  }
  shm::Completion Take(Event& event) {
    const auto completion = event.ring->Poll();
    if (completion) event.ring->Consume();
    return completion.value_or(shm::Completion{});
  }

  shm::TurnTaker time;
};

}  // namespace carillon::gpud

#endif  // CARILLON_GPU_DAEMON_BACKENDS_SIM_TURN_DEVICE_H_
