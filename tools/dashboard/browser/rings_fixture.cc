// rings_fixture RINGS: a device of `kind: exec` with that many rings, each of
// which rings once a second. It has counters, as other kinds have.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "devices/sdk/edge.h"

namespace edge = carillon::edge;

constexpr uint32_t kCounters = 8;

template <class T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "rings_fixture: %s\n",
               result.status().ToString().c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  int rings = 0;
  if (argc == 2) {
    const std::string_view text = argv[1];
    std::from_chars(text.begin(), text.end(), rings);
  }
  if (rings < 1) {
    std::fprintf(stderr, "usage: rings_fixture RINGS\n");
    return 2;
  }
  edge::AttachOptions attach = {.kind = "bells",
                                .submission_bytes = 64 << 10,
                                .completion_bytes = 64 << 10};
  for (uint32_t i = 0; i < kCounters; ++i) {
    attach.counter_names.push_back("rung_" + std::to_string(i));
  }
  auto device = Must(edge::Device::Attach(attach));
  std::vector<edge::EventQueue*> queues;
  for (int i = 0; i < rings; ++i) {
    queues.push_back(Must(edge::edgeRegisterEvent(
        *device, {.kernel = "null_event",
                  .max_in_flight = 8,
                  .label = "ring" + std::to_string(i),
                  .parameters = {edge::Writable("token")}})));
  }
  if (const auto ready = device->ReportReady(std::to_string(rings) + " rings");
      !ready.ok()) {
    Must<int>(ready);
  }
  auto next = std::chrono::steady_clock::now();
  for (uint64_t rung = 0;; ++rung) {
    for (edge::EventQueue* queue : queues) {
      next += std::chrono::nanoseconds(std::chrono::seconds(1)) / rings;
      std::this_thread::sleep_until(next);
      queue->RingDoorbell();
      Must(queue->Wait(std::chrono::seconds(10)));
      queue->Free();
    }
    for (uint32_t i = 0; i < kCounters; ++i) device->SetCounter(i, rung * i);
  }
}
