// The NIC: packets in, batches to the GPU, replies out (GNoM, thesis 4.1.2,
// with EDGE's doorbells in the place of its CPU threads). One thread, one epoll
// loop.
//
//   socket --recvmmsg--> packet buffers --BatchQueue--> MemcChannel
//                                                           | doorbell
//                                                           v
//   socket <--sendmmsg-- reply buffers <--completion-- gpud: memc_get, memc_set
//
// A request whose reply does not fit its buffer goes once more through a second
// registration of the same kernel with few, large buffers.
#ifndef CARILLON_DEVICES_NIC_NIC_H_
#define CARILLON_DEVICES_NIC_NIC_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devices/nic/batch_queue.h"
#include "devices/nic/memc_channel.h"
#include "devices/nic/nic_counters.h"
#include "devices/nic/packet_pool.h"
#include "devices/nic/request.h"
#include "devices/nic/stream_server.h"
#include "devices/nic/udp_source.h"
#include "devices/sdk/device_main.h"
#include "devices/sdk/edge.h"
#include "shm/line_limit.h"
#include "shm/spin_budget.h"
#include "shm/unique_fd.h"

namespace carillon::nic {

struct NicOptions {
  std::string listen = "127.0.0.1";
  uint16_t udp_port = 11211;  // 0: any
  uint16_t tcp_port = 11211;
  uint32_t batch = shm::kMemcWarpBatch;
  uint32_t batch_timeout_us = 100;
  uint32_t ring = 64;
  uint32_t priority = 0;
  uint64_t table_entries = 65536;
  uint64_t store_bytes = 64 << 20;
  uint32_t packet_buffers = 4096;
  uint32_t max_connections = 1024;
};

// Not thread safe.
class Nic : private StreamSink {
 public:
  // Attaches, listens, registers, and reports ready. Errors: InvalidArgument
  // (options), AlreadyExists (port in use), and those of edge::Device.
  static absl::StatusOr<std::unique_ptr<Nic>> Start(
      const edge::DeviceContext& context, const NicOptions& options);
  ~Nic() override;

  // Serves until a stop is requested (OK), or gpud is gone (Unavailable).
  absl::Status Run(const edge::StopRequest& stop);

 private:
  explicit Nic(const NicOptions& options);

  absl::Status Attach(const edge::DeviceContext& context);
  absl::Status OpenChannels();
  absl::Status Listen();
  absl::Status Watch(int fd, uint8_t tag);

  // Each returns whether there was anything to do.
  bool ReceivePackets();
  bool SubmitBatches(shm::Nanoseconds now);
  bool SubmitLarge(shm::Nanoseconds now);
  bool FinishEvents();

  void OnStreamRequest(ConnectionIndex connection,
                       std::string_view request) override;
  void Enqueue(const Request& request);
  void FinishBatch(MemcChannel* channel, RequestType type, bool large,
                   const FinishedBatch& batch);
  // Answers the request or passes it on. True: it is done with.
  bool FinishRequest(const Request& request, RequestType type, bool large,
                     const RequestResult& result);
  void FailRequest(const Request& request, uint32_t status);
  void ReplyToStream(const Request& request, std::string_view text, bool close);
  uint32_t OffsetOf(const Request& request) const;
  std::string_view BytesOf(const Request& request) const;

  bool EventsInFlight() const;
  bool CompletionWaits() const;
  // Lets time pass until there may be something to do.
  absl::Status WaitForWork();
  // Handles what epoll has to say within `timeout_ns` (-1: any time).
  absl::Status PollDescriptors(int64_t timeout_ns);
  void PublishCounters();
  void Count(Counter counter, uint64_t n = 1) {
    counters_[static_cast<uint32_t>(counter)] += n;
  }

  const NicOptions options_;
  shm::UniqueFd epoll_;
  std::unique_ptr<edge::Device> device_;
  edge::Buffer packets_;  // the pool, then one buffer for each connection
  edge::Buffer table_;
  edge::Buffer store_;
  std::unique_ptr<PacketPool> pool_;
  std::unique_ptr<UdpSource> source_;
  std::unique_ptr<StreamServer> streams_;

  // By RequestType.
  std::array<std::unique_ptr<MemcChannel>, kRequestTypes> channels_;
  std::array<std::unique_ptr<MemcChannel>, kRequestTypes> large_channels_;
  std::vector<BatchQueue> queues_;
  std::array<std::deque<Request>, kRequestTypes> large_queues_;

  bool drained_ = true;  // the source had no more packets
  bool stopping_ = false;
  shm::SpinBudget spin_;
  uint32_t turns_ = 0;
  shm::LineLimit failures_;
  std::array<uint64_t, kCounters> counters_{};
  // Scratch, kept for their memory.
  std::vector<Packet> received_;
  std::vector<Request> batch_;
  std::vector<PlacedRequest> placed_;
  std::vector<ReplyDatagram> replies_;
  std::vector<shm::Nanoseconds> answered_;  // when they were received
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_NIC_H_
