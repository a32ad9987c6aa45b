// An honest device for tests. Its events carry checksums, so that any
// corruption shows.
#ifndef CARILLON_INTEGRATION_TESTS_HOSTILE_CHECKSUM_EVENTS_H_
#define CARILLON_INTEGRATION_TESTS_HOSTILE_CHECKSUM_EVENTS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"

namespace carillon::testing {

// An event kernel whose events each carry a random message; the result is
// compared with the message's checksum. One thread at a time.
class Checksums {
 public:
  static constexpr uint32_t kBytes = 256;
  static constexpr uint32_t kRing = 8;

  // Up to 32 `threads` take the short path, more go through the KMU.
  static absl::StatusOr<std::unique_ptr<Checksums>> Register(
      edge::Device& device, uint32_t threads);

  void RingDoorbell();
  // Waits up to kBound for one event and checks it. Errors: DataLoss.
  absl::Status Take();

  edge::EventQueue& queue() { return *queue_; }

 private:
  Checksums(edge::Buffer in, edge::Buffer out, edge::EventQueue* queue)
      : in_(in), out_(out), queue_(queue) {}

  const edge::Buffer in_;
  const edge::Buffer out_;
  edge::EventQueue* const queue_;
  std::mt19937 random_{1};
  std::array<uint32_t, kRing> expected_{};
};

// A device that works without a pause, on its own thread.
class Neighbour {
 public:
  explicit Neighbour(std::unique_ptr<edge::Device> device)
      : device_(std::move(device)), thread_([this] { Work(); }) {}
  ~Neighbour() { Stop().IgnoreError(); }

  uint64_t events() const { return events_.load(std::memory_order_relaxed); }
  // Whether it completes so many more events correctly within kBound.
  bool GoesOn(uint64_t events = 100) const;
  // Its first error, or OK.
  absl::Status Stop();

 private:
  void Work();
  absl::Status TryWork();

  const std::unique_ptr<edge::Device> device_;
  std::atomic<uint64_t> events_{0};  // writer: the thread
  std::atomic<bool> stop_{false};    // writer: whoever stops it
  std::atomic<bool> ended_{false};   // writer: the thread, after status_
  absl::Status status_;
  std::thread thread_;
};

}  // namespace carillon::testing

#endif  // CARILLON_INTEGRATION_TESTS_HOSTILE_CHECKSUM_EVENTS_H_
