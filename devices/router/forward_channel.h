// The forwarding events of one version of IP: a device places packets into
// batches, rings for them, and takes verdicts and new headers.
#ifndef CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
#define CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_

#include <sys/time.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/prefix.h"
#include "kernels/forwarding/wire.h"

namespace carillon::router {

// Room for a packet; a larger one does not fit.
inline constexpr uint32_t kPacketBytes = 2048;

// What became of a packet.
struct Forwarded {
  forwarding::Verdict verdict;
  std::span<const std::byte> header;  // the new one; with kForward
  std::span<const std::byte> rest;    // behind it; with kForward
  timeval time;                       // as it was placed
};

// Not thread safe.
class ForwardChannel {
 public:
  struct Options {
    forwarding::Family family;
    uint32_t batch;
    uint32_t ring;
    uint32_t priority;
    uint32_t first_bits;
    const edge::Buffer* table;
    const edge::Buffer* next_hops;
  };
  using Sink = std::function<void(const Forwarded&)>;

  // The room that it needs in the apertures, rings included.
  static uint64_t SubmissionBytes(uint32_t batch, uint32_t ring);
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `device` must outlive it. Errors: those of AllocateBuffer() and
  // edgeRegisterEvent().
  static absl::StatusOr<std::unique_ptr<ForwardChannel>> Make(
      edge::Device* device, const Options& options);

  // Whether there is room for another packet now; else TakeResults() makes some.
  bool CanPlace() const { return queue_->free_slots() > 0; }
  // Rings when the batch is full. Requires CanPlace() and at most kPacketBytes.
  void Place(std::span<const std::byte> packet, const timeval& time);
  // Rings for what has been placed.
  void Ring();

  // Gives the packets of all events that have ended to `sink`, in the order in
  // which they were placed. Those of an event that failed have verdict kNone.
  // Returns how many events failed.
  uint32_t TakeResults(const Sink& sink);
  uint32_t in_flight() const { return queue_->in_flight(); }
  // Until an event has ended. Errors: those of EventQueue::Wait().
  absl::Status Wait(std::chrono::seconds timeout) const {
    return queue_->Wait(timeout).status();
  }

 private:
  explicit ForwardChannel(const Options& options) : options_(options) {}

  Forwarded ResultOf(uint32_t slot, uint32_t i, bool done) const;

  const Options options_;
  edge::Buffer packets_;
  edge::Buffer descriptors_;
  edge::Buffer headers_;
  edge::Buffer results_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t count_offset_ = 0;
  uint32_t placed_ = 0;           // in the batch that is being filled
  std::vector<uint32_t> counts_;  // packets, by slot
  std::vector<timeval> times_;    // by slot and packet
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_FORWARD_CHANNEL_H_
