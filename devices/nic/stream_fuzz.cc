// A TCP client's bytes as the NIC splits them: StreamFramer, and for its frames
// TypeOfRequest and MultiGet.
//
//   u8       bytes of a piece that arrives at a time; 0: 256
//   u8       room for one request, in steps of 16 bytes
//   rest     the stream
#include <string>
#include <string_view>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "devices/nic/multi_get.h"
#include "devices/nic/request.h"
#include "devices/nic/stream_framer.h"

namespace carillon::nic {
namespace {

// Small, so that short inputs have values beyond it. The limits on lines are
// reached by the corpus alone, whose files a plain test reads whole.
constexpr uint32_t kMaxValue = 100;

// The frames of the stream, each after its kind.
std::vector<std::string> Cut(std::string_view stream, size_t piece) {
  StreamFramer framer(kMaxValue);
  std::vector<std::string> out;
  std::string skipped;
  size_t begin = 0;  // of what was not consumed
  size_t end = 0;    // of what has arrived
  while (true) {
    const std::string_view data = stream.substr(begin, end - begin);
    const Frame frame = framer.Next(data);
    if (frame.kind == Frame::Kind::kIncomplete) {
      FUZZ_CHECK(frame.bytes == 0);
      if (end == stream.size()) break;
      end = std::min(end + piece, stream.size());
      continue;
    }
    if (frame.kind == Frame::Kind::kHangUp) {
      out.push_back("hang up");
      return out;
    }
    FUZZ_CHECK(frame.bytes > 0 && frame.bytes <= data.size(), "%zu of %zu",
               frame.bytes, data.size());
    const std::string bytes(data.substr(0, frame.bytes));
    begin += frame.bytes;
    if (frame.kind == Frame::Kind::kSkip) {
      // It is skipped in as many parts as it arrives in.
      skipped += bytes;
      continue;
    }
    FUZZ_CHECK(bytes.find('\n') != std::string::npos);
    out.push_back("skipped " + skipped);
    out.push_back("command " + bytes);
    skipped.clear();
  }
  out.push_back("skipped " + skipped);
  out.push_back("rest " + std::string(stream.substr(begin)));
  return out;
}

std::vector<std::string> WordsOf(std::string_view line) {
  std::vector<std::string> words;
  size_t at = 0;
  while ((at = line.find_first_not_of(' ', at)) != std::string_view::npos) {
    const size_t end = std::min(line.find(' ', at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// Checks that every key is asked for once, in order, whatever the room is and
// however often a reply is too long.
void AskInPieces(std::string_view line, size_t room, uint32_t halve) {
  auto get = MultiGet::Parse(line);
  if (!get) return;
  FUZZ_CHECK(TypeOfRequest(line) == RequestType::kGet);
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  const std::vector<std::string> words = WordsOf(line);
  const size_t before = words[0].starts_with("gat") ? 2 : 1;
  size_t next = before;
  // The callers make sure that there is room for one key.
  size_t longest = 0;
  for (size_t i = before; i < words.size(); ++i) {
    longest = std::max(longest, words[i].size());
  }
  room += longest + words[0].size() + (before == 2 ? words[1].size() : 0) + 5;
  while (!get->done()) {
    const std::string piece = get->Next(room);
    FUZZ_CHECK(piece.size() <= room && piece.ends_with("\r\n"));
    const auto asked =
        WordsOf(std::string_view(piece).substr(0, piece.size() - 2));
    FUZZ_CHECK(asked.size() > before, "a piece without a key");
    if ((halve & 1) != 0 && get->Halve()) {
      halve >>= 1;
      continue;
    }
    halve >>= 1;
    for (size_t i = 0; i < before; ++i) FUZZ_CHECK(asked[i] == words[i]);
    for (size_t i = before; i < asked.size(); ++i) {
      FUZZ_CHECK(next < words.size() && asked[i] == words[next]);
      ++next;
    }
    bool failed = false;
    const std::string_view trimmed = get->Trim("VALUE\r\nEND\r\n", &failed);
    FUZZ_CHECK(!failed && trimmed.ends_with("END\r\n") == get->done());
  }
  FUZZ_CHECK(next == words.size());
  FUZZ_CHECK(get->Next(room).empty());
}

void Run(fuzz::FuzzInput input) {
  const size_t piece = input.Take<uint8_t>();
  const size_t room = input.Take<uint8_t>() * size_t{16};
  const std::string_view stream = input.TakeRest();
  const auto whole = Cut(stream, std::max<size_t>(stream.size(), 1));
  const auto pieces = Cut(stream, piece == 0 ? 256 : piece);
  FUZZ_CHECK(whole == pieces, "it matters how the bytes arrive");
  constexpr std::string_view kCommand = "command ";
  for (const std::string& cut : whole) {
    std::string_view text = cut;
    if (!text.starts_with(kCommand)) continue;
    text.remove_prefix(kCommand.size());
    TypeOfRequest(text);
    // As in the NIC, only for a single line.
    if (text.find('\n') == text.size() - 1) {
      AskInPieces(text, room, static_cast<uint32_t>(piece * 0x9e37));
    }
  }
}

}  // namespace
}  // namespace carillon::nic

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::nic::Run({data, size});
  return 0;
}
