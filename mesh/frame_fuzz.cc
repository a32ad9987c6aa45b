// What another host sends, in any pieces: the pieces do not matter, and what is
// taken for frames is, written again, the same bytes.
//
//   8 x u8      how long the pieces are, over and over; 0 is 256
//   rest        the bytes
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "base/testing/fuzz_input.h"
#include "mesh/frame.h"

namespace carillon::mesh {
namespace {

struct Heard {
  std::string frames;  // written again
  std::string error;
  size_t kept = 0;
};

void Listen(FrameDecoder& decoder, Heard& heard) {
  for (;;) {
    const auto next = decoder.Next();
    if (!next.ok()) {
      heard.error = std::string(next.status().message());
      FUZZ_CHECK(!heard.error.empty());
      return;
    }
    if (!next->has_value()) return;
    FUZZ_CHECK(!NameOf(**next).empty());
    AppendFrame(**next, &heard.frames);
  }
}

void Run(fuzz::FuzzInput input) {
  const auto lengths = input.Take<std::array<uint8_t, 8>>();
  const std::string_view bytes = input.TakeRest();
  Heard whole;
  {
    FrameDecoder decoder;
    decoder.Append(bytes);
    Listen(decoder, whole);
    whole.kept = decoder.kept_bytes();
  }
  FUZZ_CHECK(bytes.starts_with(whole.frames), "written again it is another");
  if (whole.error.empty()) {
    FUZZ_CHECK(whole.frames.size() + whole.kept == bytes.size());
    // What is kept is not a frame yet.
    if (whole.kept >= kHeaderBytes) {
      const auto rest = bytes.substr(whole.frames.size());
      uint32_t payload_bytes;
      std::memcpy(&payload_bytes, rest.data(), sizeof(payload_bytes));
      FUZZ_CHECK(payload_bytes <= kMaxPayloadBytes);
      FUZZ_CHECK(whole.kept < kHeaderBytes + payload_bytes);
    }
  }
  Heard pieces;
  FrameDecoder decoder;
  size_t at = 0;
  for (size_t i = 0; at < bytes.size() && pieces.error.empty(); ++i) {
    const size_t length = lengths[i % lengths.size()];
    const auto piece = bytes.substr(at, length == 0 ? 256 : length);
    decoder.Append(piece);
    at += piece.size();
    Listen(decoder, pieces);
  }
  FUZZ_CHECK(pieces.frames == whole.frames);
  FUZZ_CHECK(pieces.error == whole.error, "'%s', not '%s'",
             pieces.error.c_str(), whole.error.c_str());
}

}  // namespace
}  // namespace carillon::mesh

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::mesh::Run({data, size});
  return 0;
}
