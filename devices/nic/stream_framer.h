// Cuts the byte stream of a TCP connection into memcached requests: a command
// line and, for a storage command, the data block behind it. It follows
// memcached 1.6.18 (proto_text.c); the event kernels decide what a command
// means.
#ifndef CARILLON_DEVICES_NIC_STREAM_FRAMER_H_
#define CARILLON_DEVICES_NIC_STREAM_FRAMER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace carillon::nic {

// The longest command line, including its end, of any command except get and
// gets. A client that sends more without a newline does not speak memcached.
inline constexpr size_t kMaxLine = 2048;
// The same for get and gets (memcached has no limit).
inline constexpr size_t kMaxGetLine = 1 << 20;
inline constexpr size_t kMaxKey = 250;

struct Frame {
  enum class Kind {
    kIncomplete,  // more bytes are needed; consume none
    kCommand,     // a whole request
    kSkip,        // the data block of a value that nobody will store
    kHangUp,      // close without an answer, as memcached does
  };
  Kind kind = Kind::kIncomplete;
  size_t bytes = 0;  // to consume
};

// Each connection has one. Not thread safe.
class StreamFramer {
 public:
  // max_value is the most bytes of a data block, without its line end. The line
  // of a larger one becomes a request of its own, which the kernel refuses.
  explicit StreamFramer(uint32_t max_value) : max_value_(max_value) {}

  // What is at the beginning of `data`, which must be all that was received and
  // not yet consumed. After kIncomplete the next call must pass the same bytes
  // and more.
  Frame Next(std::string_view data);

 private:
  Frame NextLine(std::string_view data);

  const uint32_t max_value_;
  size_t scanned_ = 0;  // bytes of `data` known to hold no newline
  size_t needed_ = 0;   // size of the request at the front, once known
  uint64_t skip_ = 0;   // bytes of a data block still to come
  bool first_ = true;
};

}  // namespace carillon::nic

#endif  // CARILLON_DEVICES_NIC_STREAM_FRAMER_H_
