// One registration of a memcached event kernel: a ring with request
// descriptors, a reply buffer and results for each slot
// (kernels/memcached/wire.h).
#ifndef CARILLON_DEVICES_NIC_MEMC_CHANNEL_H_
#define CARILLON_DEVICES_NIC_MEMC_CHANNEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "devices/nic/request.h"
#include "devices/sdk/edge.h"
#include "kernels/memcached/wire.h"

namespace carillon::nic {

// A request, and where the kernel finds it.
struct PlacedRequest {
  Request request;
  uint32_t offset = 0;  // in the channel's packets
};

// An event that has ended. Valid until MemcChannel::Free().
struct FinishedBatch {
  edge::EventState state = edge::EventState::kNone;
  uint32_t status = 0;
  std::span<const Request> requests;
  Nanoseconds rung_ns = 0;
  Nanoseconds finished_ns = 0;  // 0 unless gpud traces
  uint32_t slot = 0;
};

// The outcome of one request, checked against the memory that it names.
struct RequestResult {
  memcached::Outcome outcome = memcached::Outcome::kNone;
  bool quit = false;
  uint32_t hits = 0;
  uint32_t misses = 0;
  std::span<const std::byte> reply;
};

// Not thread safe.
class MemcChannel {
 public:
  struct Options {
    std::string kernel;  // memc_get or memc_set
    std::string label;
    uint32_t batch = memcached::kWarpBatch;  // requests of an event, at most
    uint32_t ring = 64;                      // a power of two
    uint32_t priority = 0;
    uint32_t reply_stride = memcached::kSmallReplyStride;
    // No larger reply buffer exists (memcached::kLargestStride, for datagrams).
    bool largest = false;
    // The buffer with the requests, shared by all slots; if null, each slot has
    // one of slot_packet_bytes.
    const edge::Buffer* packets = nullptr;
    uint32_t slot_packet_bytes = 0;
    const edge::Buffer* table = nullptr;
    const edge::Buffer* store = nullptr;
    const edge::Buffer* server = nullptr;  // one memcached::ServerStats
  };
  // What Open() allocates in each aperture, including rings.
  static uint64_t SubmissionBytes(const Options& options);
  static uint64_t CompletionBytes(const Options& options);

  // `device` must outlive the channel. Errors: those of AllocateBuffer and
  // edgeRegisterEvent.
  static absl::StatusOr<std::unique_ptr<MemcChannel>> Open(
      edge::Device* device, const Options& options);

  bool CanSubmit() const { return queue_->free_slots() > 0; }
  uint32_t in_flight() const { return queue_->in_flight(); }
  const std::string& kernel() const { return options_.kernel; }

  // Writes an event for 1..Options::batch requests and rings the doorbell. Requires
  // CanSubmit().
  void Submit(std::span<const PlacedRequest> requests, Nanoseconds now);
  // The same for one request, whose bytes are copied into the slot's own
  // packets. Requires slot_packet_bytes >= bytes.size().
  void SubmitCopy(const Request& request, std::string_view bytes,
                  Nanoseconds now);

  // The oldest event in flight, if it has ended.
  std::optional<FinishedBatch> Poll() const;
  RequestResult ResultOf(const FinishedBatch& batch, uint32_t i) const;
  void Free() { queue_->Free(); }

 private:
  struct Slot {
    uint32_t count = 0;
    Nanoseconds rung_ns = 0;
  };
  explicit MemcChannel(const Options& options) : options_(options) {}

  absl::Status Register(edge::Device* device);
  void WriteRequest(uint32_t slot, uint32_t i, const Request& request,
                    uint32_t offset);
  void RingDoorbell(uint32_t slot, uint32_t count, Nanoseconds now);

  const Options options_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t now_offset_ = 0;
  uint32_t count_offset_ = 0;
  edge::Buffer slot_packets_;
  edge::Buffer descriptors_;  // indexed by slot: memcached::Request[batch]
  edge::Buffer replies_;      // indexed by slot: reply_stride bytes x batch
  edge::Buffer results_;      // indexed by slot: memcached::Reply[batch]
  std::vector<Slot> slots_;
  std::vector<Request> requests_;  // indexed by slot, `batch` for each
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_MEMC_CHANNEL_H_
