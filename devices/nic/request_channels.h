// The NIC's channels to the GPU. Each type of request has a registration of its
// kernel, and one more with few, large buffers.
#ifndef CARILLON_DEVICES_NIC_REQUEST_CHANNELS_H_
#define CARILLON_DEVICES_NIC_REQUEST_CHANNELS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "devices/nic/batch_queue.h"
#include "devices/nic/memc_channel.h"
#include "devices/nic/nic_options.h"
#include "devices/nic/request.h"
#include "devices/sdk/edge.h"

namespace carillon::nic {

struct RequestChannel {
  RequestType type;
  // Requests go one at a time, copied into the slot's own packets, and have
  // room for the longest reply.
  bool large;
  std::unique_ptr<MemcChannel> channel;
  BatchQueue queue;  // waits for the channel
};

// Not thread safe.
class RequestChannels {
 public:
  // What Open() allocates in each aperture.
  static uint64_t SubmissionBytes(const NicOptions& options);
  static uint64_t CompletionBytes(const NicOptions& options);

  // The buffers that the event kernels share.
  struct Memory {
    const edge::Buffer& packets;  // for the channels that are not large
    const edge::Buffer& table;
    const edge::Buffer& store;
    const edge::Buffer& server;  // one memcached::ServerStats
  };
  // Call it once. `device` must outlive this object. Errors: those of
  // MemcChannel::Open.
  absl::Status Open(edge::Device* device, const NicOptions& options,
                    const Memory& memory);

  RequestChannel& of(RequestType type, bool large = false) {
    return channels_[2 * static_cast<size_t>(type) + (large ? 1 : 0)];
  }
  auto begin() { return channels_.begin(); }
  auto end() { return channels_.end(); }
  auto begin() const { return channels_.begin(); }
  auto end() const { return channels_.end(); }

 private:
  std::vector<RequestChannel> channels_;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_REQUEST_CHANNELS_H_
