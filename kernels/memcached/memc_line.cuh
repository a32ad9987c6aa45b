// Reads a request's command line from memory that the device may change
// meanwhile.
//
// The line is copied, a window at a time, into the thread's own memory, and
// only the copy is used: every byte is read and judged once.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// A word of the command line, without spaces. Valid until the reader moves on;
// kReadSlack bytes behind it are readable. Of a word that is longer than a
// window nothing else is known; its length is then kMaxTokenBytes.
struct Token {
  const uint8_t* data;
  uint32_t length;

  // length 0 means that there was no further word.
  CARILLON_DEVICE bool none() const { return length == 0; }

  template <uint32_t N>
  CARILLON_DEVICE bool Is(const char (&word)[N]) const {
    return length == N - 1 && StartsWith(word);
  }
  template <uint32_t N>
  CARILLON_DEVICE bool StartsWith(const char (&word)[N]) const {
    return length >= N - 1 &&
           EqualBytes(data, reinterpret_cast<const uint8_t*>(word), N - 1);
  }
};

// One more than the length of the longest key.
inline constexpr uint32_t kMaxTokenBytes = memcached::kMaxKeyBytes + 1;

class LineReader {
 public:
  // `text` is the request without its frame header. `room` (>= length) is how
  // many bytes are readable there.
  CARILLON_DEVICE LineReader(const uint8_t* text, uint32_t length,
                             uint64_t room)
      : text_(text), length_(length), room_(room) {
    Refill(0);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next word of the line. Returns none at the line's end (again and
  // again), and when the request ends before the line; then complete() is
  // false.
  CARILLON_MEMC_CALL Token Next() {
    while (true) {
      while (window_[at_] == ' ') ++at_;
      if (at_ == valid_) {
        if (base_ + valid_ == length_) return {nullptr, 0};
        Refill(base_ + valid_);
        continue;
      }
      if (window_[at_] == '\n') {
        complete_ = true;
        return {nullptr, 0};
      }
      const uint32_t end = FindDelimiter(window_, at_);
      if (end == valid_ && base_ + valid_ != length_) {
        // The word continues behind the window. Start a new window with the
        // word and scan it again from its beginning, because its bytes may have
        // changed.
        if (at_ == 0) return SkipLong();
        Refill(base_ + at_);
        continue;
      }
      const Token token{window_ + at_, end - at_};
      at_ = end;
      // A line ends with '
      // ' or "\r
      // "; any other '\r' is part of a word.
      if (end != valid_ && window_[end] == '\n' && window_[end - 1] == '\r') {
        if (token.length == 1) continue;
        return {token.data, token.length - 1};
      }
      return token;
    }
  }

  // If the line begins with "get ", moves behind it, so that Next() returns the
  // key. Most requests begin so.
  CARILLON_DEVICE bool SkipGet() {
    constexpr uint32_t kGet = 'g' | 'e' << 8 | 't' << 16 | ' ' << 24;
    if (valid_ < sizeof(kGet) || Load32(window_) != kGet) return false;
    at_ = sizeof(kGet);
    return true;
  }

  // Starts again with the first word.
  CARILLON_DEVICE void Rewind() {
    complete_ = false;
    Refill(0);
  }

  // After Next() has returned none: whether the line had its '
  // '.
  CARILLON_DEVICE bool complete() const { return complete_; }
  // Then: where the data block begins, after the '
  // '.
  CARILLON_DEVICE uint32_t line_bytes() const { return base_ + at_ + 1; }

 private:
  static constexpr uint32_t kWindowBytes = 512;

  CARILLON_MEMC_CALL void Refill(uint32_t base) {
    base_ = base;
    at_ = 0;
    valid_ = length_ - base < kWindowBytes ? length_ - base : kWindowBytes;
    CopyFromDevice(window_, text_ + base, valid_, room_ - base);
    // These bytes end any word at the latest.
    for (uint32_t i = 0; i < kReadSlack; i += 8) {
      Store64(window_ + valid_ + i, 0x0a0a0a0a0a0a0a0a);
    }
  }

  // A word that fills the whole window or more.
  CARILLON_DEVICE Token SkipLong() {
    while (true) {
      at_ = FindDelimiter(window_, 0);
      if (at_ != valid_ || base_ + valid_ == length_) break;
      Refill(base_ + valid_);
    }
    return {window_, kMaxTokenBytes};
  }

  const uint8_t* text_;
  uint32_t length_;
  uint64_t room_;
  uint32_t base_ = 0;   // where in the text the window begins
  uint32_t valid_ = 0;  // bytes of the text in the window
  uint32_t at_ = 0;     // next byte to look at
  bool complete_ = false;
  // Words are aligned for a GPU. The copy may write 7 bytes past the text's
  // end.
  alignas(8) uint8_t window_[kWindowBytes + kReadSlack + 8];
};

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_
