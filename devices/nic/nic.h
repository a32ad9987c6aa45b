// The NIC: packets in, batches to the GPU, replies out (GNoM, thesis 4.1.2,
// with EDGE's doorbells in the place of its CPU threads). One thread, one epoll
// loop.
//
//   socket --recvmmsg--> packet buffers --BatchQueue--> MemcChannel
//                                                           | doorbell
//                                                           v
//   socket <--sendmmsg-- reply buffers <--completion-- gpud: memc_get, memc_set
//
// With --gnom, GETs from one interface go another way: gnom_path.h.
//
// A request whose reply does not fit its buffer goes once more through a second
// registration of the same kernel with few, large buffers.
#ifndef CARILLON_DEVICES_NIC_NIC_H_
#define CARILLON_DEVICES_NIC_NIC_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "devices/nic/gnom_path.h"
#include "devices/nic/memc_channel.h"
#include "devices/nic/nic_counters.h"
#include "devices/nic/nic_options.h"
#include "devices/nic/packet_pool.h"
#include "devices/nic/request.h"
#include "devices/nic/request_channels.h"
#include "devices/nic/responder.h"
#include "devices/nic/stream_server.h"
#include "devices/nic/udp_source.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "shm/spin_budget.h"
#include "shm/types.h"

namespace carillon::nic {

// Not thread safe.
class Nic : private StreamSink {
 public:
  // Attaches, listens, registers, and reports ready. Errors: InvalidArgument
  // (options), AlreadyExists (port in use), and those of edge::Device.
  static absl::StatusOr<std::unique_ptr<Nic>> Start(
      const edge::DeviceContext& context, const NicOptions& options);
  ~Nic() override;

  // Serves until a stop is requested (OK), or gpud is gone and no other one
  // comes in time (Unavailable).
  absl::Status Run(const edge::DeviceContext& context);

 private:
  explicit Nic(const NicOptions& options);

  absl::Status Attach(const edge::DeviceContext& context);
  absl::Status OpenLanes();
  // Has memc_recover take the durable store over; returns whether it was
  // trusted. Otherwise it is empty.
  absl::StatusOr<bool> RecoverStore();
  // The same after another gpud has come.
  absl::Status TakeStoreOver();
  absl::Status Listen();
  absl::Status OpenGnom();
  absl::Status Watch(int fd, uint8_t tag);
  absl::Status WatchGpud();
  absl::Status Serve(const edge::StopRequest& stop);

  // Each returns whether there was anything to do.
  bool Receive();
  bool ReceivePackets();
  bool SubmitBatches(Nanoseconds now);
  bool FinishEvents();
  void Submit(RequestChannel& lane, Nanoseconds now);
  // Puts a datagram into the batch of its type.
  void Sort(const Packet& packet, Nanoseconds now);

  void OnStreamRequest(ConnectionIndex connection,
                       std::string_view request) override;
  uint32_t OffsetOf(const Request& request) const;
  std::string_view BytesOf(const Request& request) const;

  bool EventsInFlight() const;
  bool CompletionWaits() const;
  // Waits until there may be something to do.
  absl::Status WaitForWork();
  void Disarm();
  // Handles the events that epoll reports within `timeout_ns` (-1: any time).
  absl::Status PollDescriptors(int64_t timeout_ns);
  void PublishCounters();
  // Tells the kernels what `stats` says of this process.
  void PublishServerStats();

  const NicOptions options_;
  UniqueFd epoll_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer packets_;  // the pool, then one buffer for each connection
  edge::Buffer table_;    // the hash table, and
  edge::Buffer store_;    // the values: in GPU memory, or durable
  edge::Buffer marks_;    // memc_recover's
  edge::Buffer recovered_;
  edge::Buffer server_;  // memcached::ServerStats
  const uint64_t pid_;
  const uint64_t started_s_;
  std::unique_ptr<PacketPool> pool_;
  std::unique_ptr<UdpSource> source_;
  std::unique_ptr<StreamServer> streams_;
  RequestChannels channels_;
  NicCounters counters_;
  std::unique_ptr<Responder> responder_;
  std::unique_ptr<GnomPath> gnom_;  // null: off

  bool drained_ = true;  // the source had no more packets
  bool armed_ = false;   // the completion event
  bool stopping_ = false;
  shm::SpinBudget spin_;
  uint32_t turns_ = 0;
  // Scratch space, kept to avoid allocations.
  std::vector<Packet> received_;
  std::vector<Request> batch_;
  std::vector<PlacedRequest> placed_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_NIC_H_
