// A memcached server without a network, for the tests of memc_get and memc_set:
// table and store, and batches of requests through the kernels.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_TEST_UTIL_H_
#define CARILLON_KERNELS_MEMCACHED_MEMC_TEST_UTIL_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memcached/memc_get.cuh"
#include "kernels/memcached/memc_set.cuh"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {

// Zeroed memory, aligned like the daemon's buffers. It is allocated separately,
// so AddressSanitizer sees an access beyond its end.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : size_(bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, 128, bytes) != 0) std::abort();
    data_.reset(static_cast<uint8_t*>(data));
    std::memset(data_.get(), 0, bytes);
  }
  uint8_t* data() const { return data_.get(); }
  uint64_t size() const { return size_; }
  simt::Span<uint8_t> span() const { return {data_.get(), size_}; }

 private:
  struct Freer {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  uint64_t size_;
  std::unique_ptr<uint8_t, Freer> data_;
};

inline constexpr uint64_t TableBytes(uint64_t sets) {
  return sizeof(memc::TableHeader) + sets * sizeof(memc::Set);
}
inline constexpr uint64_t StoreBytes(uint64_t pages) {
  return memc::kPageTableOffset + pages * sizeof(memc::PageRecord) +
         memc::kBlockUnit + pages * memc::kPageBytes;
}

struct Answer {
  memcached::Outcome outcome = memcached::Outcome::kNone;
  uint8_t flags = 0;
  uint32_t length = 0;
  uint32_t hits = 0;
  uint32_t misses = 0;
  // The datagrams in order as a client reads them, each with its frame header.
  std::vector<std::string> datagrams;

  // A stream's reply, or a message's payload.
  std::string Text(bool stream = true) const {
    std::string text;
    for (const std::string& datagram : datagrams) {
      text += datagram.substr(stream ? 0 : memcached::kFrameBytes);
    }
    return text;
  }
};

// Not thread safe, but several clients may share one table and store.
class MemcClient {
 public:
  MemcClient(simt::Span<uint8_t> table, simt::Span<uint8_t> store)
      : table_(table), store_(store) {}

  uint64_t now_s = 1'700'000'000;
  uint32_t stride = 4096;
  uint32_t request_flags = memcached::kStream;
  uint32_t block = 32;
  uint32_t event_status = 0;

  std::vector<Answer> Run(const simt::KernelInfo& kernel,
                          const std::vector<std::string>& requests) {
    std::string packets;
    std::vector<memcached::Request> descriptors;
    for (const std::string& request : requests) {
      descriptors.push_back({static_cast<uint32_t>(packets.size()),
                             static_cast<uint32_t>(request.size()),
                             request_flags, 0});
      packets += request;
    }
    return RunRaw(kernel, packets, descriptors);
  }

  std::vector<Answer> RunRaw(const simt::KernelInfo& kernel,
                             std::string_view packets,
                             const std::vector<memcached::Request>& requests) {
    // The buffers have exactly the necessary size, so that an access one byte
    // too far is seen.
    auto bytes = std::make_unique<uint8_t[]>(packets.size());
    std::memcpy(bytes.get(), packets.data(), packets.size());
    const uint64_t reply_bytes = uint64_t{stride} * requests.size();
    if (replies_.size() < reply_bytes) replies_ = Memory(reply_bytes);
    std::vector<memcached::Reply> results(requests.size());
    MemcArgs args{};
    args.packets = {bytes.get(), packets.size()};
    args.requests = simt::ReadOnly(requests);
    args.replies = replies_.span().sub(0, reply_bytes);
    args.results = simt::Writable(results);
    args.table = table_;
    args.store = store_;
    args.now_s = now_s;
    args.count = static_cast<uint32_t>(requests.size());
    args.reply_stride = stride;
    const uint32_t threads = static_cast<uint32_t>(requests.size());
    event_status =
        simt::RunGrid(kernel, simt::Dim3{(threads + block - 1) / block, 1, 1},
                      simt::Dim3{block, 1, 1}, args)
            .status;
    std::vector<Answer> answers;
    for (size_t i = 0; i < results.size(); ++i) {
      answers.push_back(Read(results[i], replies_.span(),
                             (requests[i].flags & memcached::kStream) != 0));
    }
    return answers;
  }

  // Runs one command over a stream, or as a UDP payload.
  Answer Get(const std::string& text) { return Run(memc_get_info, {text})[0]; }
  Answer Set(const std::string& text) { return Run(memc_set_info, {text})[0]; }
  std::string Say(const std::string& text) { return Set(text).Text(); }

 private:
  static Answer Read(const memcached::Reply& result,
                     simt::Span<uint8_t> replies, bool stream) {
    Answer answer{result.outcome, result.flags,  result.length,
                  result.hits,    result.misses, {}};
    for (uint32_t i = 0; i < result.datagrams; ++i) {
      const uint64_t begin =
          stream ? 0 : uint64_t{i} * memcached::kDatagramBytes;
      uint64_t end = result.length;
      if (!stream && end > begin + memcached::kDatagramBytes) {
        end = begin + memcached::kDatagramBytes;
      }
      if (end < begin ||
          !replies.InBounds(result.offset + begin, end - begin)) {
        answer.datagrams.push_back("<outside of the reply buffer>");
        continue;
      }
      answer.datagrams.emplace_back(
          reinterpret_cast<const char*>(replies.data + result.offset + begin),
          end - begin);
    }
    return answer;
  }

  simt::Span<uint8_t> table_;
  simt::Span<uint8_t> store_;
  // Like the NIC's buffers, these stay the same from event to event.
  Memory replies_{0};
};

class MemcServer : public MemcClient {
 public:
  explicit MemcServer(uint64_t sets = 256, uint64_t pages = 64)
      : MemcServer(Memory(TableBytes(sets)), Memory(StoreBytes(pages))) {}
  MemcServer(Memory table, Memory store)
      : MemcClient(table.span(), store.span()),
        table_memory(std::move(table)),
        store_memory(std::move(store)) {}

  Memory table_memory;
  Memory store_memory;
};

inline std::string Frame(uint16_t id, uint16_t sequence, uint16_t total,
                         uint16_t reserved, std::string_view payload) {
  std::string datagram;
  for (const uint16_t half : {id, sequence, total, reserved}) {
    datagram += static_cast<char>(half >> 8);
    datagram += static_cast<char>(half & 0xff);
  }
  return datagram + std::string(payload);
}

}  // namespace carillon::kernels

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_TEST_UTIL_H_
