// What an event costs in the thread that polls, beside others that do not ring:
// device and front-end are one thread, so that callgrind can count instructions.
//
//   poll_benchmark EVENTS KERNELS DEVICES [BURST]
//
// registers KERNELS event kernels on each of DEVICES devices, and rings one of
// them EVENTS times, BURST at a time.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/dispatch/doorbell_poller.h"
#include "gpu_daemon/dispatch/edge_launcher.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

constexpr uint64_t kHeapBytes = 8 << 20;
constexpr uint32_t kEntries = 64;

// Under callgrind every run takes long: it stays in this thread all the same,
// since there is no other.
class InlineLauncher final : public EdgeLauncher {
 public:
  using EdgeLauncher::EdgeLauncher;
  void TookLong(EventKernel&, Nanoseconds) override {}
};

int Run(uint64_t events, size_t kernels, size_t devices, uint32_t burst) {
  Kmu kmu(GpuModel{}, *MakePolicy("first_come"));
  CpuBlockRunner runner;
  InlineLauncher launcher(&kmu, &runner);
  DoorbellPoller poller({}, &launcher);
  std::vector<std::unique_ptr<TestDevice>> all;
  std::vector<TestDevice::Event> rings;
  for (size_t device = 0; device < devices; ++device) {
    all.push_back(std::make_unique<TestDevice>("bench", kHeapBytes));
    for (size_t kernel = 0; kernel < kernels; ++kernel) {
      rings.push_back(
          all.back()->Register({.kernel = simt::FindKernel("null_event"),
                                .bindings = {{.constant_bits = 0}},
                                .entries = kEntries}));
      if (const auto added = poller.Add(rings.back().kernel); !added.ok()) {
        std::fprintf(stderr, "%s\n", added.ToString().c_str());
        return 1;
      }
    }
  }
  shm::DeviceRing& hot = *rings[rings.size() / 2].ring;
  uint64_t start_lines = 0;
  Nanoseconds start = 0;
  const uint64_t warm_up = events / 10;
  for (uint64_t done = 0; done < warm_up + events; done += burst) {
    if (start == 0 && done >= warm_up) {
      start_lines = poller.lines_looked_at();
      start = NowNs();
    }
    for (uint32_t i = 0; i < burst; ++i) hot.Commit();
    hot.RingDoorbell();
    for (uint32_t i = 0; i < burst; ++i) {
      while (!hot.Poll()) poller.PollOnce();
      hot.Consume();
    }
  }
  const auto ns = static_cast<double>(NowNs() - start);
  const auto lines =
      static_cast<double>(poller.lines_looked_at() - start_lines);
  const auto count = static_cast<double>(events);
  std::printf("%.1f ns and %.1f lines an event\n", ns / count, lines / count);
  return 0;
}

}  // namespace
}  // namespace carillon::gpud

int main(int argc, char** argv) {
  const auto number = [&](int index) {
    return index < argc ? std::strtoull(argv[index], nullptr, 10) : 0;
  };
  const uint64_t burst = argc > 4 ? number(4) : 1;
  if (argc < 4 || argc > 5 || number(1) == 0 || number(2) == 0 ||
      number(3) == 0 || burst == 0 || burst > carillon::gpud::kEntries) {
    std::fprintf(stderr,
                 "usage: poll_benchmark EVENTS KERNELS DEVICES [BURST], "
                 "BURST at most 64\n");
    return 2;
  }
  return carillon::gpud::Run(number(1), number(2), number(3),
                             static_cast<uint32_t>(burst));
}
