// GNoM's way through the NIC (thesis 4.1), beside its ordinary one: GETs from an
// interface, as raw frames in GRXBs, to memc_gnom_get, and frames of replies
// back. What that kernel leaves to others goes on as if it had come from the UDP
// socket. Two forms:
//
//   GNoM  interface --> GRXBs (that the GPU reads) --> kernel --> replies --> out
//   NGD   interface --> host --copy--> GRXBs --> kernel --copy--> host --> out
//
// NGD is the thesis's GNoM without GPUDirect.
#ifndef CARILLON_DEVICES_NIC_GNOM_PATH_H_
#define CARILLON_DEVICES_NIC_GNOM_PATH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log_limit.h"
#include "devices/nic/batch_queue.h"
#include "devices/nic/frame_socket.h"
#include "devices/nic/gnom_channel.h"
#include "devices/nic/grxb_ring.h"
#include "devices/nic/nic_counters.h"
#include "devices/nic/nic_options.h"
#include "devices/nic/socket_address.h"
#include "devices/sdk/edge.h"

namespace carillon::nic {

// Not thread safe.
class GnomPath {
 public:
  struct Parts {
    edge::Device* device;
    edge::Buffer table;
    edge::Buffer store;
    NicCounters* counters;
    // Takes the memcached datagram (its frame header included) of a client at
    // that address and port; returns false if there is no room.
    std::function<bool(std::span<const std::byte> datagram, uint32_t address,
                       uint16_t port)>
        pass_on;
  };

  static uint64_t SubmissionBytes(const NicOptions& options);
  static uint64_t CompletionBytes(const NicOptions& options);

  // `server`: where the NIC's UDP socket is, an IPv4 address. Everything in
  // `parts` must outlive the path. Errors: those of FrameSocket and of
  // edge::Device.
  static absl::StatusOr<std::unique_ptr<GnomPath>> Open(
      const NicOptions& options, const SocketAddress& server,
      const Parts& parts);

  // Readable while frames wait.
  int fd() const { return socket_->fd(); }

  // Each returns whether there was anything to do.
  bool Receive();
  bool Submit(Nanoseconds now);
  bool Finish();

  bool CompletionWaits() const { return channel_->Poll().has_value(); }
  uint32_t in_flight() const { return channel_->in_flight(); }
  // When Submit() has something to do without any other event.
  std::optional<Nanoseconds> Deadline() const;
  // Updates the counters that others keep.
  void Count();

 private:
  GnomPath(const NicOptions& options, const Parts& parts);

  std::span<std::byte> grxb(GrxbIndex index) const;
  void FinishBatch(const FinishedGrxbs& finished);
  void FinishPacket(const GnomResult& result, GrxbIndex index);
  void Answer(std::span<const std::byte> frame);
  void PassOn(GrxbIndex index);

  const bool copies_;  // NGD
  const Parts parts_;
  edge::Buffer grxbs_;
  GrxbRing ring_;
  // NGD: what the network fills, and what it sends.
  std::vector<std::byte> host_frames_;
  std::vector<std::byte> host_replies_;
  std::unique_ptr<FrameSocket> socket_;
  std::unique_ptr<GnomChannel> channel_;
  // Of the frames in `ring_` that wait for a batch: when they came.
  BatchQueue queue_;
  // By GRXB: the same.
  std::vector<Nanoseconds> received_ns_;
  bool drained_ = true;  // the socket had no more frames
  LogLimit failures_;
  // Scratch space, kept to avoid allocations.
  std::vector<Request> batch_;
  std::vector<std::span<const std::byte>> replies_;
  std::vector<Nanoseconds> answered_;  // when they were received
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_GNOM_PATH_H_
