// A closed-loop memcached client over UDP that checks every byte of every
// reply.
//
// Concepts
//   window  requests without a reply, at most. A new request is sent only when
//           an old one was answered or given up: the server sets the pace.
//   burst   requests that go out together, in one sendmmsg.
//   lost    no reply within the time-out; its slot is used again under a new
//           request id. A reply that comes after all is `late`, not bad.
#ifndef CARILLON_TOOLS_TESTBED_LOAD_MEMC_CLIENT_H_
#define CARILLON_TOOLS_TESTBED_LOAD_MEMC_CLIENT_H_

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "shm/histogram.h"
#include "tools/testbed/load/key_choice.h"

namespace carillon::testbed {

struct Workload {
  uint32_t keys = 8192;
  uint32_t key_bytes = 16;   // 12..250
  uint32_t value_bytes = 2;  // 1..1024: a reply is one datagram
  double get_share = 1.0;    // the rest are SETs of the same values
  double zipf = 0;           // 0: uniform
  uint32_t window = 32;      // 1..4096
  uint32_t burst = 0;        // 0: min(window, 32)
  std::chrono::milliseconds timeout{20};
  uint64_t seed = 1;
  bool echo = false;  // the server returns requests as they came (udp_echo)
};

struct LoadResult {
  uint64_t replies = 0;  // good ones
  uint64_t gets = 0;
  uint64_t sets = 0;
  uint64_t misses = 0;  // how many of the gets missed
  uint64_t bad = 0;     // wrong bytes
  uint64_t lost = 0;
  uint64_t late = 0;
  uint64_t elapsed_ns = 0;
  shm::HistogramSnapshot latency;  // request sent -> reply read, good ones

  void Merge(const LoadResult& other);
};

// Not thread safe.
class MemcClient {
 public:
  // Errors: InvalidArgument (workload, address), Unavailable (socket).
  static absl::StatusOr<std::unique_ptr<MemcClient>> Connect(
      const std::string& host, uint16_t port, const Workload& workload);
  ~MemcClient();

  // Stores every key, and accepts no reply but STORED. Errors: Unavailable (no
  // answer), Internal (another answer, with its text).
  absl::Status WarmByUdp();
  absl::Status WarmByTcp(uint16_t port);

  // Adds to `result` what happens within `duration`.
  void Run(std::chrono::nanoseconds duration, LoadResult* result);

 private:
  struct Slot;
  struct Buffers;
  MemcClient(const Workload& workload, std::string host, uint16_t port);

  absl::Status StoreOne(uint32_t key, const std::string& request);

  std::string_view Key(uint32_t key) const {
    return {keys_.data() + size_t{key} * workload_.key_bytes,
            workload_.key_bytes};
  }
  std::string_view Value(uint32_t key) const {
    return {values_.data() + size_t{key} * workload_.value_bytes,
            workload_.value_bytes};
  }
  std::string SetRequest(uint32_t key) const {
    return fmt::format("set {}{}{}\r\n", Key(key), set_line_, Value(key));
  }
  void Prepare(Slot* slot);
  void SendBurst(uint32_t count);
  // Reads the present replies, or waits for one for a short time.
  void Receive(LoadResult* result);
  void HandleReply(std::string_view reply, uint64_t now, LoadResult* result);
  void GiveUpLost(uint64_t now, LoadResult* result);
  bool IsExpected(const Slot& slot, std::string_view text) const;

  const Workload workload_;
  const std::string host_;
  const std::string address_;
  uint32_t slot_bits_ = 0;
  KeyChoice choice_;
  uint64_t random_;
  const std::string value_line_;  // between key and value, in a reply
  const std::string set_line_;    // the same in a SET
  std::string keys_;
  std::string values_;
  UniqueFd fd_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::unique_ptr<Buffers> buffers_;
  uint64_t last_scan_ns_ = 0;
};

}  // namespace carillon::testbed

#endif  // CARILLON_TOOLS_TESTBED_LOAD_MEMC_CLIENT_H_
