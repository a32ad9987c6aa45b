// The NIC's own counters and histograms, as `carillon devices NAME` shows them.
#ifndef CARILLON_DEVICES_NIC_NIC_COUNTERS_H_
#define CARILLON_DEVICES_NIC_NIC_COUNTERS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace carillon::nic {

enum class Counter : uint32_t {
  kUdpRequests,      // datagrams that went into a batch
  kUdpReplies,       // those that were answered
  kUdpDatagramsOut,  // datagrams of the answers
  kTcpCommands,
  kTcpConnections,  // open now
  kTcpRefused,      // connections turned away
  kGetHits,         // keys
  kGetMisses,
  kSets,            // requests that memc_set carried out
  kDropsNoBuffer,   // datagrams: all packet buffers in use
  kDropsOversized,  // datagrams longer than a packet buffer
  kDropsLarge,      // datagrams: too many wait for a large reply
  kDropsMalformed,  // datagrams that deserve no reply
  kDropsSend,       // reply datagrams that the kernel did not take
  kBatches,         // events
  kBatchRequests,   // requests in them
  kReroutes,        // requests sent to memc_set after memc_get refused them
  kLargeReplies,    // requests asked again with a large reply buffer
  kEventsFailed,
  kWaits,  // times that there was nothing to do
  kCount,
};
inline constexpr uint32_t kCounters = static_cast<uint32_t>(Counter::kCount);

inline std::vector<std::string> CounterNames() {
  return {"udp_requests",
          "udp_replies",
          "udp_datagrams_out",
          "tcp_commands",
          "tcp_connections",
          "tcp_refused",
          "get_hits",
          "get_misses",
          "sets",
          "drops_no_buffer",
          "drops_oversized",
          "drops_large",
          "drops_malformed",
          "drops_send",
          "batches",
          "batch_requests",
          "reroutes",
          "large_replies",
          "events_failed",
          "waits"};
}

// The counters' values until they are published. Not thread safe.
class NicCounters {
 public:
  void Count(Counter counter, uint64_t n = 1) {
    values_[static_cast<uint32_t>(counter)] += n;
  }
  void Set(Counter counter, uint64_t value) {
    values_[static_cast<uint32_t>(counter)] = value;
  }
  // Indexed by Counter.
  const std::array<uint64_t, kCounters>& values() const { return values_; }

 private:
  std::array<uint64_t, kCounters> values_{};
};

enum class Histogram : uint32_t {
  kRequestLatency,     // datagram received -> reply handed to the kernel
  kCompletionLatency,  // event finished -> seen; while gpud traces
  kEventLatency,       // doorbell rung -> completion seen
};
inline std::vector<std::string> HistogramNames() {
  return {"request_latency", "completion_latency", "event_latency"};
}

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_NIC_COUNTERS_H_
