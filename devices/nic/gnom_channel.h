// The registration of memc_gnom_get: an event is a batch of GRXBs, and nothing
// else is written for it (kernels/memcached/gnom_wire.h).
#ifndef CARILLON_DEVICES_NIC_GNOM_CHANNEL_H_
#define CARILLON_DEVICES_NIC_GNOM_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/nic/grxb_ring.h"
#include "devices/sdk/edge.h"
#include "kernels/memcached/gnom_wire.h"

namespace carillon::nic {

// A batch that has ended. Valid until GnomChannel::Free().
struct FinishedGrxbs {
  edge::EventState state = edge::EventState::kNone;
  uint32_t status = 0;
  GrxbBatch batch;
  Nanoseconds rung_ns = 0;
  uint32_t slot = 0;
};

// The result of one packet, checked against the memory that it names.
struct GnomResult {
  memcached::GnomVerdict verdict = memcached::GnomVerdict::kNone;
  bool hit = false;
  std::span<const std::byte> reply;  // a frame
};

// Not thread safe.
class GnomChannel {
 public:
  struct Options {
    uint32_t batch = 0;  // packets of an event, at most
    uint32_t ring = 0;   // a power of two
    uint32_t priority = 0;
    uint32_t address = 0;  // of the server; 0: any
    uint16_t port = 0;
    edge::Buffer grxbs;
    edge::Buffer table;
    edge::Buffer store;
  };
  // What Open() allocates in the completion aperture.
  static uint64_t CompletionBytes(uint32_t batch, uint32_t ring);

  // `device` must outlive the channel. Errors: those of AllocateBuffer and
  // edgeRegisterEvent.
  static absl::StatusOr<std::unique_ptr<GnomChannel>> Open(
      edge::Device* device, const Options& options);

  bool CanSubmit() const { return queue_->free_slots() > 0; }
  uint32_t in_flight() const { return queue_->in_flight(); }
  // Rings for a batch. Requires CanSubmit(), and 1..Options::batch buffers.
  void Submit(const GrxbBatch& batch, Nanoseconds now);

  // The oldest event in flight, if it has ended.
  std::optional<FinishedGrxbs> Poll() const;
  GnomResult ResultOf(const FinishedGrxbs& finished, uint32_t i) const;
  void Free() { queue_->Free(); }

 private:
  struct Slot {
    GrxbBatch batch;
    Nanoseconds rung_ns = 0;
  };
  explicit GnomChannel(const Options& options) : options_(options) {}
  absl::Status Register(edge::Device* device);

  const Options options_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t first_offset_ = 0;
  uint32_t count_offset_ = 0;
  uint32_t now_offset_ = 0;
  edge::Buffer replies_;  // indexed by slot: kGnomReplyBytes x batch
  edge::Buffer results_;  // indexed by slot: memcached::GnomResult[batch]
  std::vector<Slot> slots_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_GNOM_CHANNEL_H_
