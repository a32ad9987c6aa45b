// Reads the command line of a request out of memory that the device may be
// changing meanwhile.
//
// The line is copied, a window at a time, into the thread's own memory, and
// only the copy is looked at: every byte is judged once.
#ifndef CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_
#define CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_

#include <cstdint>
#include <cstring>

#include "kernels/memcached/memc_bytes.cuh"
#include "kernels/memcached/wire.h"
#include "kernels/simt/simt.h"

namespace carillon::kernels::memc {

// A word of the command line, without spaces. Valid until the reader moves on;
// kReadSlack bytes behind it are readable. Of one that is longer than a window
// only that is known: its length is then kMaxTokenBytes.
struct Token {
  const uint8_t* data;
  uint32_t length;

  // length 0: there was no further word.
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

// One more than the longest key.
inline constexpr uint32_t kMaxTokenBytes = memcached::kMaxKeyBytes + 1;

class LineReader {
 public:
  // `text` is the request without frame header; `room` bytes (>= length) are
  // readable there.
  CARILLON_DEVICE LineReader(const uint8_t* text, uint32_t length,
                             uint64_t room)
      : text_(text), length_(length), room_(room) {
    Refill(0);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next word of the line; none at its end (as often as one asks), or when
  // the request ends before the line does: then complete() says false.
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
        // The word goes on behind the window. Begin a window with it, and look
        // again from there: its bytes may be others by now.
        if (at_ == 0) return SkipLong();
        Refill(base_ + at_);
        continue;
      }
      const Token token{window_ + at_, end - at_};
      at_ = end;
      // The end of a line is '\n' or "\r\n"; any other '\r' is part of a word.
      if (end != valid_ && window_[end] == '\n' && window_[end - 1] == '\r') {
        if (token.length == 1) continue;
        return {token.data, token.length - 1};
      }
      return token;
    }
  }

  // When the line begins with "get ", moves behind it: Next() is then the key.
  // Most requests do.
  CARILLON_DEVICE bool SkipGet() {
    constexpr uint32_t kGet = 'g' | 'e' << 8 | 't' << 16 | ' ' << 24;
    if (valid_ < sizeof(kGet) || Load32(window_) != kGet) return false;
    at_ = sizeof(kGet);
    return true;
  }

  // Begins again with the first word.
  CARILLON_DEVICE void Rewind() {
    complete_ = false;
    Refill(0);
  }

  // After Next() has returned none: the line had its '\n'.
  CARILLON_DEVICE bool complete() const { return complete_; }
  // Then: where, after the '\n', the data block begins.
  CARILLON_DEVICE uint32_t line_bytes() const { return base_ + at_ + 1; }

 private:
  static constexpr uint32_t kWindowBytes = 512;

  CARILLON_MEMC_CALL void Refill(uint32_t base) {
    base_ = base;
    at_ = 0;
    valid_ = length_ - base < kWindowBytes ? length_ - base : kWindowBytes;
    CopyFromDevice(window_, text_ + base, valid_, room_ - base);
    // A word always ends, at the latest here.
    for (uint32_t i = 0; i < kReadSlack; i += 8) {
      Store64(window_ + valid_ + i, 0x0a0a0a0a0a0a0a0a);
    }
  }

  // The word that fills the whole window and more.
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
  // Aligned words for a GPU. The copy may write 7 bytes past the text's end.
  alignas(8) uint8_t window_[kWindowBytes + kReadSlack + 8];
};

}  // namespace carillon::kernels::memc

#endif  // CARILLON_KERNELS_MEMCACHED_MEMC_LINE_CUH_
