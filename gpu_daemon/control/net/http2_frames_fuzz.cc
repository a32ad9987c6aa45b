// What a client sends, in any pieces, before HTTP/2's limits hold for it: the
// guard ends the connection in the piece that breaks the rule, and in no other.
//
//   u16         after so many bytes gpud has sent its SETTINGS
//   8 x u8      how long the pieces are, over and over; 0 is 256
//   rest        the bytes
#include <algorithm>
#include <array>
#include <optional>

#include "base/testing/fuzz_input.h"
#include "gpu_daemon/control/net/http2_guard.h"

namespace carillon::gpud {
namespace {

using Bytes = std::span<const uint8_t>;

// RFC 9113, section 4.1, over bytes that are all there.
constexpr size_t kPreface = 24;
constexpr size_t kHeader = 9;

// Where the last byte is that a client may not have sent.
std::optional<size_t> BreaksAt(Bytes bytes, size_t sent_at) {
  uint32_t calls = 0;
  for (size_t at = kPreface; at + kHeader <= bytes.size();) {
    const uint8_t* const frame = bytes.data() + at;
    const size_t length = frame[0] * 65536u + frame[1] * 256u + frame[2];
    const size_t last = at + kHeader - 1;
    if (frame[3] == 1 && ++calls == Http2Frames::kMaxUnacknowledged + 1) {
      return last;
    }
    const bool whole_connection =
        (frame[5] | frame[6] | frame[7] | frame[8]) == 0;
    if (frame[3] == 4 && frame[4] == 1 && length == 0 && whole_connection) {
      if (last < sent_at) return last;
      return std::nullopt;
    }
    at += kHeader + length;
  }
  return std::nullopt;
}

void Run(fuzz::FuzzInput input) {
  const size_t sent_at = input.Take<uint16_t>();
  const auto lengths = input.Take<std::array<uint8_t, 8>>();
  const Bytes bytes = input.TakeBytes(input.size());
  const std::optional<size_t> breaks_at = BreaksAt(bytes, sent_at);
  Http2Frames frames;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size(); ++i) {
    const size_t length = lengths[i % lengths.size()];
    size_t end = std::min(bytes.size(), at + (length == 0 ? 256 : length));
    // gpud sends between two pieces.
    if (at < sent_at) end = std::min(end, sent_at);
    const bool passes = frames.Read(bytes.subspan(at, end - at), at >= sent_at);
    const bool breaks = breaks_at && *breaks_at < end;
    FUZZ_CHECK(passes != breaks, "bytes %zu to %zu", at, end);
    if (!passes) return;
    at = end;
  }
}

}  // namespace
}  // namespace carillon::gpud

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::gpud::Run({data, size});
  return 0;
}
