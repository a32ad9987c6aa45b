// A pcap file as PcapPort reads it, whatever its bytes.
#include <cstdio>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "devices/packet_io/pcap_port.h"

namespace carillon::packet_io {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBuffers = 3;
  static std::vector<std::byte> memory(FramePool::BytesFor(kBuffers));
  if (size == 0) return 0;  // fmemopen() has no empty files
  FramePool pool(memory);
  std::FILE* const file = fmemopen(const_cast<uint8_t*>(data), size, "rb");
  FUZZ_CHECK(file != nullptr);
  auto port = PcapPort::OpenStream(file, "input", &pool);
  if (!port.ok()) {
    FUZZ_CHECK(port.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(port.status().message().substr(0, 6) == "input:");
    return 0;
  }
  uint64_t received = 0;
  uint64_t bytes = 0;
  std::vector<Frame> frames;
  while (!(*port)->ended()) {
    (*port)->Receive(&frames);
    FUZZ_CHECK(frames.size() <= kBuffers);
    for (const Frame& frame : frames) {
      FUZZ_CHECK(frame.length <= kMaxFrameBytes);
      FUZZ_CHECK(pool.Give(frame.buffer));
      bytes += frame.length;
    }
    received += frames.size();
    frames.clear();
  }
  FUZZ_CHECK(received == (*port)->counts().received);
  // Each record has its own bytes in the file; one of raw IP gets a header.
  FUZZ_CHECK(bytes <= size + received * kEthernetBytes);
  FUZZ_CHECK(pool.free() == kBuffers);
  const absl::Status status = (*port)->Finish();
  FUZZ_CHECK(status.ok() || status.code() == absl::StatusCode::kDataLoss);
  return 0;
}

}  // namespace carillon::packet_io
