#include "devices/nic/request_channels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "devices/nic/stream_framer.h"
#include "kernels/memcached/wire.h"
#include "shm/layout.h"

namespace carillon::nic {
namespace {

constexpr uint32_t kLargeRing = 4;
constexpr uint32_t kLargePacketBytes = shm::AlignUp(
    std::max<uint64_t>(kMaxGetLine, kMaxLine + memcached::kMaxValueBytes + 2),
    shm::kCacheLine);

struct ChannelKind {
  RequestType type;
  bool large;
};
// In the order in which RequestChannels::of() finds them.
constexpr std::array<ChannelKind, 2 * kRequestTypes> kChannelKinds = {
    {{RequestType::kGet, false},
     {RequestType::kGet, true},
     {RequestType::kSet, false},
     {RequestType::kSet, true}}};

MemcChannel::Options ChannelOptions(const NicOptions& options,
                                    const ChannelKind& kind) {
  const bool get = kind.type == RequestType::kGet;
  MemcChannel::Options channel = {.kernel = get ? "memc_get" : "memc_set",
                                  .label = get ? "get" : "set",
                                  .batch = options.batch,
                                  .ring = options.ring,
                                  .priority = options.priority};
  if (!kind.large) return channel;
  channel.label += "-large";
  channel.batch = 1;
  channel.ring = kLargeRing;
  channel.reply_stride = memcached::kLargeReplyStride;
  channel.largest = true;
  // A longer get line is asked for in pieces.
  channel.slot_packet_bytes = get ? kPacketBytes : kLargePacketBytes;
  return channel;
}

}  // namespace

uint64_t RequestChannels::SubmissionBytes(const NicOptions& options) {
  uint64_t bytes = 0;
  for (const ChannelKind& kind : kChannelKinds) {
    bytes += MemcChannel::SubmissionBytes(ChannelOptions(options, kind));
  }
  return bytes;
}

uint64_t RequestChannels::CompletionBytes(const NicOptions& options) {
  uint64_t bytes = 0;
  for (const ChannelKind& kind : kChannelKinds) {
    bytes += MemcChannel::CompletionBytes(ChannelOptions(options, kind));
  }
  return bytes;
}

absl::Status RequestChannels::Open(edge::Device* device,
                                   const NicOptions& options,
                                   const Memory& memory) {
  channels_.reserve(kChannelKinds.size());
  for (const ChannelKind& kind : kChannelKinds) {
    MemcChannel::Options wanted = ChannelOptions(options, kind);
    wanted.packets = kind.large ? nullptr : &memory.packets;
    wanted.table = &memory.table;
    wanted.store = &memory.store;
    wanted.server = &memory.server;
    ASSIGN_OR_RETURN(auto channel, MemcChannel::Open(device, wanted));
    channels_.push_back(
        {kind.type, kind.large, std::move(channel),
         BatchQueue(wanted.batch, uint64_t{options.batch_timeout_us} * 1000)});
  }
  return absl::OkStatus();
}

}  // namespace carillon::nic
