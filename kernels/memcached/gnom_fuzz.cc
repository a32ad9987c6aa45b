// Frames through memc_gnom_get. Where it answers, the fuzzer reads the request
// itself, from its last byte on, and makes the reply anew.
//
//   u8       bit 0: the fuzzer corrects IPv4's checksum; bit 1: UDP's; bit 2: any
//            address is the server's; bit 3: the last GRXB of the ring
//   rest     a frame
#include <string>
#include <string_view>

#include "base/testing/fuzz_input.h"
#include "kernels/memcached/gnom_test_util.h"

namespace carillon::kernels {
namespace {

using memcached::GnomVerdict;

GnomServer& Server() {
  static auto* const server = [] {
    auto* const made = new GnomServer(4, 3);
    made->Say("set key 7 0 5\r\nvalue\r\n");
    made->Say("set " + std::string(250, 'k') + " 0 0 2\r\nvv\r\n");
    made->Say("set l 0 0 600\r\n" + std::string(600, 'l') + "\r\n");
    made->threads = 64;
    made->blocks = 1;
    made->buffers = 2;
    return made;
  }();
  return *server;
}

uint32_t Byte(std::string_view bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]);
}
uint32_t Half(std::string_view bytes, size_t at) {
  return Byte(bytes, at) << 8 | Byte(bytes, at + 1);
}
uint32_t Word(std::string_view bytes, size_t at) {
  return Half(bytes, at) << 16 | Half(bytes, at + 2);
}

constexpr size_t kIp = 14;

// What UDP's checksum covers, if the lengths allow it.
std::string Covered(std::string_view frame) {
  if (frame.size() < kIp + 28) return "";
  const size_t udp = kIp + (Byte(frame, kIp) & 15) * 4;
  if (udp + 8 > frame.size()) return "";
  const size_t length = Half(frame, udp + 4);
  if (length < 8 || udp + length > frame.size()) return "";
  return std::string(frame.substr(kIp + 12, 8)) + Big16(17) +
         Big16(static_cast<uint32_t>(length)) +
         std::string(frame.substr(udp, length));
}

void CorrectIp(std::string* frame) {
  if (frame->size() < kIp + 20) return;
  const size_t bytes = (Byte(*frame, kIp) & 15) * 4;
  if (bytes < 20 || kIp + bytes > frame->size()) return;
  frame->replace(kIp + 10, 2, Big16(0));
  frame->replace(
      kIp + 10, 2,
      Big16(ChecksumOf(std::string_view(*frame).substr(kIp, bytes))));
}

void CorrectUdp(std::string* frame) {
  if (Covered(*frame).empty()) return;
  const size_t udp = kIp + (Byte(*frame, kIp) & 15) * 4;
  frame->replace(udp + 6, 2, Big16(0));
  const uint32_t checksum = ChecksumOf(Covered(*frame));
  frame->replace(udp + 6, 2, Big16(checksum == 0 ? 0xffff : checksum));
}

// A request that a server may answer with a frame; `text` is its line.
bool IsRequest(std::string_view frame, bool any_address, std::string* text) {
  if (frame.size() < kIp + 20 + 8 + 8) return false;
  if (Half(frame, 12) != 0x0800 || Byte(frame, kIp) != 0x45) return false;
  const size_t total = Half(frame, kIp + 2);
  if (total < 36 || kIp + total > frame.size()) return false;
  if (ChecksumOf(frame.substr(kIp, 20)) != 0) return false;
  if ((Half(frame, kIp + 6) & 0x3fff) != 0) return false;
  if (Byte(frame, kIp + 9) != 17) return false;
  const uint32_t from = Word(frame, kIp + 12);
  const uint32_t to = Word(frame, kIp + 16);
  if (from == 0 || from >= 0xe0000000 || to >= 0xe0000000) return false;
  if (!any_address && to != kServerAddress) return false;
  if ((Byte(frame, 0) & 1) != 0 || (Byte(frame, 6) & 1) != 0) return false;
  const size_t udp = kIp + 20;
  if (Half(frame, udp) == 0 || Half(frame, udp + 2) != kServerPort)
    return false;
  const size_t length = Half(frame, udp + 4);
  if (length < 16 || length > total - 20) return false;
  if (Half(frame, udp + 6) != 0 && ChecksumOf(Covered(frame)) != 0)
    return false;
  if (Half(frame, udp + 12) != 1) return false;
  const std::string_view line = frame.substr(udp + 16, length - 16);
  const size_t end = line.find('\n');
  if (!line.starts_with("get ") || end == line.npos) return false;
  *text = line.substr(0, end + 1);
  return true;
}

void Run(fuzz::FuzzInput input) {
  const auto how = input.Take<uint8_t>();
  std::string frame(input.TakeRest());
  if (frame.size() > memcached::kMaxGrxbFrame) return;
  if ((how & 1) != 0) CorrectIp(&frame);
  if ((how & 2) != 0) CorrectUdp(&frame);
  GnomServer& server = Server();
  server.address = (how & 4) != 0 ? 0 : kServerAddress;
  server.first_buffer = how >> 3 & 1;
  const GnomAnswer answer = server.Answer(frame);
  FUZZ_CHECK(server.event_status == 0);
  FUZZ_CHECK(answer.verdict != GnomVerdict::kNone);
  FUZZ_CHECK(answer.verdict != GnomVerdict::kCorrupt);
  FUZZ_CHECK((answer.verdict == GnomVerdict::kAnswered) ==
             !answer.frame.empty());
  std::string text;
  const bool request = IsRequest(frame, (how & 4) != 0, &text);
  const bool left = answer.verdict == GnomVerdict::kOtherCommand ||
                    answer.verdict == GnomVerdict::kTooLarge;
  // What is good is answered, or left to memc_get, which has a reply.
  if (request) FUZZ_CHECK(left || answer.verdict == GnomVerdict::kAnswered);
  if (answer.verdict != GnomVerdict::kAnswered) return;
  FUZZ_CHECK(request);
  const FrameSpec spec = {.to_ethernet = frame.substr(0, 6),
                          .from_ethernet = frame.substr(6, 6),
                          .from = Word(frame, kIp + 12),
                          .to = Word(frame, kIp + 16),
                          .from_port = Half(frame, kIp + 20),
                          .to_port = kServerPort,
                          .id = Half(frame, kIp + 28)};
  FUZZ_CHECK(answer.frame == ReplyFrame(spec, server.Get(text).Text()));
}

}  // namespace
}  // namespace carillon::kernels

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::kernels::Run({data, size});
  return 0;
}
