// A server that answers frames by memc_gnom_get, without a network.
#ifndef CARILLON_KERNELS_MEMCACHED_GNOM_TEST_UTIL_H_
#define CARILLON_KERNELS_MEMCACHED_GNOM_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memcached/gnom_frame.h"
#include "kernels/memcached/memc_gnom_get.cuh"
#include "kernels/memcached/memc_test_util.h"

namespace carillon::kernels {

struct GnomAnswer {
  memcached::GnomVerdict verdict = memcached::GnomVerdict::kNone;
  bool hit = false;
  std::string frame;
};

class GnomServer : public MemcServer {
 public:
  using MemcServer::MemcServer;

  uint32_t buffers = 1024;    // GRXBs
  uint32_t first_buffer = 0;  // of the next batch
  uint32_t threads = 512;     // of a block
  uint32_t blocks = 2;
  uint32_t address = kServerAddress;

  // Frames of at most kMaxGrxbFrame bytes.
  std::vector<GnomAnswer> Answer(const std::vector<std::string>& frames) {
    using memcached::kGnomReplyBytes;
    using memcached::kGrxbBytes;
    if (grxbs_.size() != uint64_t{buffers} * kGrxbBytes) {
      grxbs_ = Memory(uint64_t{buffers} * kGrxbBytes);
    }
    for (size_t i = 0; i < frames.size(); ++i) {
      uint8_t* const to =
          grxbs_.data() + (first_buffer + i) % buffers * kGrxbBytes;
      const auto length = static_cast<uint16_t>(frames[i].size());
      std::memcpy(to, &length, sizeof(length));
      std::memcpy(to + memcached::kGrxbFrame, frames[i].data(), length);
    }
    // Exactly as large as necessary, so that an access one byte too far is seen.
    Memory replies(std::max<uint64_t>(1, frames.size()) * kGnomReplyBytes);
    std::vector<memcached::GnomResult> results(frames.size());
    event_status = Run({.grxbs = {grxbs_.data(), grxbs_.size()},
                        .replies = replies.span(),
                        .results = simt::Writable(results),
                        .table = table_memory.span(),
                        .store = store_memory.span(),
                        .first = uint64_t{first_buffer} * kGrxbBytes,
                        .now_s = now_s,
                        .count = static_cast<uint32_t>(frames.size()),
                        .address = address,
                        .port = kServerPort});
    std::vector<GnomAnswer> answers;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto* const reply = reinterpret_cast<const char*>(
          replies.data() + i * kGnomReplyBytes + memcached::kGrxbFrame);
      answers.push_back({results[i].verdict, results[i].hit != 0,
                         std::string(reply, results[i].length)});
    }
    return answers;
  }
  GnomAnswer Answer(const std::string& frame) {
    return Answer(std::vector<std::string>{frame})[0];
  }

  uint32_t Run(const GnomArgs& args) const {
    return simt::RunGrid(memc_gnom_get_info, {blocks, 1, 1}, {threads, 1, 1},
                         args)
        .status;
  }
  std::string Stat(const std::string& name) {
    const std::string stats = Say("stats\r\n");
    const size_t at = stats.find("STAT " + name + " ");
    if (at == std::string::npos) return "";
    const size_t from = at + 6 + name.size();
    return stats.substr(from, stats.find('\r', from) - from);
  }

 private:
  Memory grxbs_{0};
};

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_GNOM_TEST_UTIL_H_
