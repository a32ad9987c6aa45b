// A forwarding table in GPU memory, which a device fills by fib_write.
#ifndef CARILLON_DEVICES_ROUTER_FORWARDING_TABLE_H_
#define CARILLON_DEVICES_ROUTER_FORWARDING_TABLE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/sdk/edge.h"
#include "kernels/forwarding/fib.h"

namespace carillon::router {

// Not thread safe.
class ForwardingTable {
 public:
  // The room that it needs in the device's submission aperture, beside its ring.
  static constexpr uint64_t kSubmissionBytes = 256 << 10;

  // An empty table for a Fib of this shape. `device` must outlive it. Errors:
  // those of AllocateBuffer() and edgeRegisterEvent().
  static absl::StatusOr<std::unique_ptr<ForwardingTable>> Make(
      edge::Device* device, uint32_t groups, uint32_t first_bits,
      const std::string& label = "routes");

  // Gives the forwarders the routes of `fib`, always of the same one: writes
  // what has changed to the half that is not in use, and publishes it. Packets
  // are forwarded meanwhile, each by the old or the new routes. All forwarders
  // that were rung before the last Publish() must have ended. Errors: those of
  // EventQueue::Wait(); Internal (an event failed), and then the routes are the
  // old ones.
  absl::Status Publish(const forwarding::Fib& fib);

  // To be called when another gpud has taken over, whose GPU memory is zeros; then
  // Publish() brings everything back. Waits for what the other gpud left undone
  // of a Publish(). Errors: those of EventQueue::Wait().
  absl::Status StartAnew();
  // Takes what has completed, as Device::Resume() requires.
  void TakeCompletions();

  const edge::Buffer& buffer() const { return table_; }

 private:
  explicit ForwardingTable(uint64_t words) : words_(words) {}

  // Returns when they are in the table.
  absl::Status Write(std::span<const uint32_t> words, uint64_t first);

  const uint64_t words_;
  edge::Buffer table_;
  edge::Buffer chunk_;
  edge::EventQueue* queue_ = nullptr;
  uint32_t first_offset_ = 0;
  uint32_t count_offset_ = 0;
  uint32_t active_ = 0;
  uint64_t versions_[2] = {0, 0};  // what each half has of the Fib
};

}  // namespace carillon::router

#endif  // CARILLON_DEVICES_ROUTER_FORWARDING_TABLE_H_
