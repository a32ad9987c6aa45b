// A ring of another host's device, as an event kernel of this host's gpud.
#ifndef CARILLON_DEVICES_LINK_LINKED_RING_H_
#define CARILLON_DEVICES_LINK_LINKED_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "mesh/frame.h"
#include "proto/link.pb.h"
#include "shm/types.h"

namespace carillon::link {

// The ends of events are copied out of the SDK's slots, and kept until the other
// host has stored them: another gpud does not know them. What the other host
// says is taken to be hostile. Not thread safe.
class LinkedRing {
 public:
  // Registers it; its first event will be `last` + 1. Errors: InvalidArgument:
  // what is wrong with `wanted`; what the SDK says.
  static absl::StatusOr<std::unique_ptr<LinkedRing>> Make(
      edge::Device& device, const v1::LinkRing& wanted,
      const mesh::RingLimits& limits, shm::Sequence last);

  // The most that its ends take until the other host has stored them. Errors:
  // InvalidArgument: more than one ring may, or than `limits` has.
  static absl::StatusOr<uint64_t> KeptBytes(const v1::LinkRing& wanted,
                                            const mesh::RingLimits& limits);

  // The next event: commits it, unless it is none of the kernel's.
  void Run(std::string_view event);
  // Rings for what is committed.
  void Ring() {
    if (std::exchange(committed_, false)) queue_->RingCommitted();
  }
  // False: none was there.
  bool TakeCompletions();

  // Events up to this one are done.
  shm::Sequence done() const { return done_; }
  mesh::End ReadEnd(shm::Sequence number, std::string* output);
  void Free(shm::Sequence last);

  // Takes it from the device, which lives.
  void Unregister(edge::Device& device);

 private:
  // In the kernel's order.
  struct Parameter {
    uint32_t entry_bytes = 0;  // of a value in the entry; 0: a buffer
    uint32_t entry_offset = 0;
    edge::Buffer buffer;
    uint64_t bytes = 0;
    uint64_t stride = 0;  // here
    bool written = false;
    bool in_entry = false;
  };
  // An event of which the other host has not stored the end. One after the other
  // has the same, and its memory.
  struct Item {
    // What it writes; nothing is rung of one that is bad.
    std::vector<std::span<const std::byte>> outputs;
    bool bad = false;
    // Once it is done.
    shm::EventState state = shm::EventState::kNone;
    uint32_t status = 0;
    std::string output;
  };

  LinkedRing() = default;
  absl::Status Register(edge::Device& device, const v1::LinkRing& wanted,
                        const mesh::RingLimits& limits);
  absl::Status AddBuffer(edge::Device& device, const v1::LinkParameter& wanted,
                         uint32_t slots, std::vector<edge::Parameter>* bound);
  bool Write(std::string_view event,
             std::vector<std::span<const std::byte>>* outputs);
  Item& ItemOf(shm::Sequence number) {
    return items_[number.value() & (items_.size() - 1)];
  }

  edge::EventQueue* queue_ = nullptr;
  std::vector<Parameter> parameters_;
  std::vector<Item> items_;    // a power of two
  uint64_t output_bytes_ = 0;  // at most, of one event
  bool committed_ = false;     // and not rung
  shm::Sequence run_;
  shm::Sequence done_;
  shm::Sequence freed_;
};

}  // namespace carillon::link

#endif  // CARILLON_DEVICES_LINK_LINKED_RING_H_
