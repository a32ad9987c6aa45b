// The NIC's way back: answers the requests of an event that has ended.
#ifndef CARILLON_DEVICES_NIC_RESPONDER_H_
#define CARILLON_DEVICES_NIC_RESPONDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log_limit.h"
#include "devices/nic/memc_channel.h"
#include "devices/nic/nic_counters.h"
#include "devices/nic/packet_pool.h"
#include "devices/nic/request.h"
#include "devices/nic/request_channels.h"
#include "devices/nic/stream_server.h"
#include "devices/nic/udp_source.h"
#include "devices/sdk/edge.h"
#include "shm/types.h"

namespace carillon::nic {

// Not thread safe.
class Responder {
 public:
  // What it works with; all of it must outlive the responder.
  struct Parts {
    edge::Device* device;
    PacketPool* pool;
    UdpSource* source;
    StreamServer* streams;
    RequestChannels* channels;
    NicCounters* counters;
  };
  explicit Responder(const Parts& parts) : parts_(parts) {}

  // Answers every request of `batch`, the channel's oldest event, or passes it
  // on to another channel; then frees the event.
  void Finish(RequestChannel& lane, const FinishedBatch& batch);

 private:
  // Each returns whether the request is finished; otherwise it is in a channel
  // again.
  bool FinishRequest(const RequestChannel& lane, const Request& request,
                     const RequestResult& result);
  bool FailRequest(const Request& request, uint32_t status);
  bool AskWithLargeBuffer(const RequestChannel& lane, const Request& request);

  void Answer(const RequestChannel& lane, const Request& request,
              const RequestResult& result);
  void PassToSet(const RequestChannel& lane, Request request);
  void AnswerError(const Request& request, std::string_view text);
  void AddReply(const Request& request, std::span<const std::byte> reply);
  void CountFailure(const RequestChannel& lane, const FinishedBatch& batch,
                    Nanoseconds now);
  void SendReplies();
  shm::HistogramWriter histogram(Histogram which) {
    return parts_.device->histogram(static_cast<uint32_t>(which));
  }

  const Parts parts_;
  LogLimit failures_;
  // For the batch being finished; kept to avoid allocations.
  std::vector<ReplyDatagram> replies_;
  std::vector<Nanoseconds> answered_;  // when they were received
  std::vector<BufferIndex> done_;
  std::deque<std::string> errors_;  // to which replies_ refer
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_RESPONDER_H_
