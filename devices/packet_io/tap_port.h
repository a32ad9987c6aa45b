// Frames of a TAP device: what Linux sends to its interface comes in, and what
// goes out arrives there.
#ifndef CARILLON_DEVICES_PACKET_IO_TAP_PORT_H_
#define CARILLON_DEVICES_PACKET_IO_TAP_PORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "devices/packet_io/packet_port.h"

namespace carillon::packet_io {

// Linux counts what finds no room on the way here as `tx_dropped` of the
// interface. Not thread safe.
class TapPort : public PacketPort {
 public:
  // Takes the interface of that name over if it is a TAP device (`ip tuntap add
  // NAME mode tap`); else makes one, which is down, and gone with the port.
  // `pool` must outlive the port. Errors: PermissionDenied (CAP_NET_ADMIN),
  // AlreadyExists (another process has it), FailedPrecondition (no TAP device).
  static absl::StatusOr<std::unique_ptr<TapPort>> Open(
      const std::string& interface, FramePool* pool);

  int fd() const override { return fd_.get(); }
  bool Receive(std::vector<Frame>* frames) override;
  void Send(std::span<const OutgoingFrame> frames) override;
  std::string Describe() const override { return "tap " + interface_; }

 private:
  TapPort(std::string interface, UniqueFd fd, FramePool* pool)
      : interface_(std::move(interface)), fd_(std::move(fd)), pool_(pool) {}

  const std::string interface_;
  const UniqueFd fd_;
  FramePool* const pool_;
};

}  // namespace carillon::packet_io

#endif  // CARILLON_DEVICES_PACKET_IO_TAP_PORT_H_
