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
  kSets,            // requests that memc_set carried out, long GETs too
  kDropsNoBuffer,   // datagrams: all packet buffers in use
  kDropsOversized,  // datagrams longer than a buffer: too many wait already
  kDropsLarge,      // datagrams: too many wait for a large reply
  kDropsMalformed,  // datagrams that deserve no reply
  kDropsSend,       // reply datagrams that the kernel did not take
  kBatches,         // events
  kBatchRequests,   // requests in them
  kReroutes,        // requests sent to memc_set after memc_get refused them
  kLargeReplies,    // requests asked again with a large reply buffer
  kEventsFailed,
  kWaits,  // times that there was nothing to do
  // Of GNoM's way (gnom_path.h):
  kGnomFrames,          // that went into a GRXB
  kGnomReplies,         // those that were answered
  kGnomPassedOn,        // those that the ordinary kernels got
  kGnomDropsNoGrxb,     // no GRXB was registered
  kGnomDropsOverrun,    // Linux had no room before this process took them
  kGnomDropsLength,     // shorter than they say, or lengths that contradict
  kGnomDropsChecksum,   // of IPv4 or UDP
  kGnomDropsFragment,   // parts of a datagram
  kGnomDropsNotForUs,   // another address, protocol or port
  kGnomDropsSource,     // from where no answer can go
  kGnomDropsMalformed,  // no whole request of memcached's
  kGnomDropsNoBuffer,   // to be passed on, but all packet buffers in use
  kGnomDropsSend,       // replies that Linux did not take
  kGnomLost,            // those of events that failed
  kGnomBatches,         // events
  kGrxbsFree,           // GRXBs in each state, now
  kGrxbsRegistered,
  kGrxbsBusy,
  kCount,
};
inline constexpr uint32_t kCounters = static_cast<uint32_t>(Counter::kCount);
// Without GNoM's.
inline constexpr uint32_t kOrdinaryCounters =
    static_cast<uint32_t>(Counter::kGnomFrames);

inline std::vector<std::string> CounterNames(bool gnom) {
  std::vector<std::string> names = {"udp_requests",
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
                                    "waits",
                                    "gnom_frames",
                                    "gnom_replies",
                                    "gnom_passed_on",
                                    "gnom_drops_no_grxb",
                                    "gnom_drops_overrun",
                                    "gnom_drops_length",
                                    "gnom_drops_checksum",
                                    "gnom_drops_fragment",
                                    "gnom_drops_not_for_us",
                                    "gnom_drops_source",
                                    "gnom_drops_malformed",
                                    "gnom_drops_no_buffer",
                                    "gnom_drops_send",
                                    "gnom_lost",
                                    "gnom_batches",
                                    "grxbs_free",
                                    "grxbs_registered",
                                    "grxbs_busy"};
  if (!gnom) names.resize(kOrdinaryCounters);
  return names;
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
