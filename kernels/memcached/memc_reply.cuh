// Builds the reply of one request in its stride of the reply buffer, in the
// datagrams that kernels/memcached/wire.h draws.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_REPLY_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_REPLY_CUH_

#include <cstdint>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

class ReplyWriter {
 public:
  // `stride` bytes are writable at `base`. The frame id is the request's. A
  // stream's reply has neither frames nor datagrams.
  CARILLON_DEVICE ReplyWriter(uint8_t* base, uint64_t stride, bool stream,
                              uint16_t frame_id)
      : base_(base), stride_(stride), stream_(stream), frame_id_(frame_id) {
    Clear();
  }

  CARILLON_DEVICE void Clear() {
    length_ = stream_ ? 0 : memcached::kFrameBytes;
    datagram_end_ = stream_ ? ~uint64_t{0} : memcached::kDatagramBytes;
    datagrams_ = 1;
  }

  // Appends the bytes; those that do not fit are only counted.
  CARILLON_MEMC_CALL void Put(const uint8_t* bytes, uint64_t n) {
    if (uint8_t* to = Reserve(n); to != nullptr) {
      CopyBytes(to, bytes, n);
      Commit(to + n);
      return;
    }
    while (n != 0) {
      if (length_ > stride_) {
        CountOnly(n);
        return;
      }
      if (length_ == datagram_end_) {
        length_ += memcached::kFrameBytes;
        datagram_end_ += memcached::kDatagramBytes;
        ++datagrams_;
      }
      const uint64_t room = datagram_end_ - length_;
      const uint64_t part = n < room ? n : room;
      if (length_ + part <= stride_) CopyBytes(base_ + length_, bytes, part);
      length_ += part;
      bytes += part;
      n -= part;
    }
  }

  template <uint32_t N>
  CARILLON_DEVICE void PutText(const char (&text)[N]) {
    if (uint8_t* to = Reserve(N - 1); to != nullptr) {
      memcpy(to, text, N - 1);
      Commit(to + N - 1);
      return;
    }
    Put(reinterpret_cast<const uint8_t*>(text), N - 1);
  }
  CARILLON_DEVICE void PutDecimal(uint64_t value) {
    uint8_t digits[kMaxDecimalDigits];
    Put(digits, FormatDecimal(value, digits));
  }

  // Where the next `n` bytes go if they fit into the current datagram;
  // otherwise nullptr. Commit() says where they ended.
  CARILLON_DEVICE uint8_t* Reserve(uint64_t n) const {
    const uint64_t end = datagram_end_ < stride_ ? datagram_end_ : stride_;
    return length_ <= end && n <= end - length_ ? base_ + length_ : nullptr;
  }
  CARILLON_DEVICE void Commit(const uint8_t* end) {
    length_ = static_cast<uint64_t>(end - base_);
  }

  CARILLON_DEVICE bool fits() const {
    return length_ <= stride_ && datagrams_ <= 0xffff;
  }
  // The length of the whole reply with its frame headers, whether it fits or
  // not.
  CARILLON_DEVICE uint64_t length() const { return length_; }
  CARILLON_DEVICE uint64_t datagrams() const { return datagrams_; }

  // Writes the frame headers; the reply must fit.
  CARILLON_DEVICE void Finish() {
    if (stream_) return;
    const uint32_t total = static_cast<uint32_t>(datagrams_);
    const uint64_t id_and_total = BigEndian(frame_id_) | BigEndian(total) << 32;
    for (uint32_t i = 0; i < total; ++i) {
      const uint64_t header = id_and_total | BigEndian(i) << 16;
      Store64(base_ + static_cast<uint64_t>(i) * memcached::kDatagramBytes,
              header);
    }
  }

 private:
  // Counts in one step, since a hostile get of many keys can ask for gigabytes.
  CARILLON_DEVICE void CountOnly(uint64_t n) {
    const uint64_t room = datagram_end_ - length_;
    if (n > room) {
      const uint64_t rest = n - room;
      const uint64_t more = (rest + memcached::kDatagramPayload - 1) /
                            memcached::kDatagramPayload;
      length_ += more * memcached::kFrameBytes;
      datagram_end_ += more * memcached::kDatagramBytes;
      datagrams_ += more;
    }
    length_ += n;
  }
  CARILLON_DEVICE static uint64_t BigEndian(uint32_t half) {
    return (half >> 8 & 0xff) | (half & 0xff) << 8;
  }

  uint8_t* base_;
  uint64_t stride_;
  bool stream_;
  uint16_t frame_id_;
  uint64_t length_;
  uint64_t datagram_end_;  // where in the stride the last datagram must end
  uint64_t datagrams_;
};

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_REPLY_CUH_
