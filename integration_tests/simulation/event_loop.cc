// Runs events one after another in one thread, for instruction counts: their
// number is exact where times are noisy.
//
//   for n in 20000 40000; do
//     valgrind --tool=callgrind --callgrind-out-file=/dev/null event_loop $n
//   done 2>&1 | grep Collected
//
// The difference, divided by 20000, is the cost of an event on both sides, from
// the device's ring to its Consume(), including the echo kernel.
#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstdlib>

#include "base/temp_directory.h"
#include "fmt/format.h"
#include "integration_tests/simulation/simulated_device.h"
#include "integration_tests/simulation/simulated_gpud.h"

namespace carillon::simulation {
namespace {

int Main(int argc, char** argv) {
  const uint64_t events = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (events == 0) {
    fmt::print(stderr, "event_loop EVENTS\n");
    return 2;
  }
  spdlog::set_level(spdlog::level::off);
  const TempDirectory directory;
  auto bus =
      gpud::TelemetryBus::Start({.socket_path = directory.path() + "/bus"});
  if (!bus.ok()) return 1;
  SimulatedGpud gpud({.bus = bus->get()}, 1'000'000, 0);
  SimulatedDevice device(gpud, "device0", 1);
  if (!device.Register(8).ok()) return 1;
  for (uint64_t i = 0; i < events; ++i) {
    device.Commit(0);
    device.RingDoorbell(0);
    gpud.Poll();
    gpud.RunPending(0);
    if (device.Take(0, 1).value_or(0) != 1) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace carillon::simulation

int main(int argc, char** argv) {
  return carillon::simulation::Main(argc, argv);
}
