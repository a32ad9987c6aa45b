#include "devices/nic/stream_framer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace carillon::nic {
namespace {

constexpr uint32_t kMaxValue = 1000;

// The frames of a stream that arrives in pieces of the given sizes (the last
// one again and again).
std::vector<std::string> Cut(std::string_view stream,
                             const std::vector<size_t>& pieces) {
  StreamFramer framer(kMaxValue);
  std::string buffered;
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t turn = 0; at < stream.size(); ++turn) {
    const size_t piece =
        std::max<size_t>(1, pieces[std::min(turn, pieces.size() - 1)]);
    buffered += stream.substr(at, piece);
    at += std::min(piece, stream.size() - at);
    while (true) {
      const Frame frame = framer.Next(buffered);
      if (frame.kind == Frame::Kind::kIncomplete) break;
      if (frame.kind == Frame::Kind::kHangUp) {
        out.push_back("<hang up>");
        return out;
      }
      if (frame.kind == Frame::Kind::kCommand) {
        out.push_back(buffered.substr(0, frame.bytes));
      }
      EXPECT_GT(frame.bytes, 0u);
      EXPECT_LE(frame.bytes, buffered.size());
      buffered.erase(0, frame.bytes);
    }
  }
  if (!buffered.empty()) out.push_back("<rest " + buffered + ">");
  return out;
}

std::vector<std::string> CutWhole(std::string_view stream) {
  return Cut(stream, {stream.size()});
}

using Strings = std::vector<std::string>;

TEST(StreamFramer, CutsLinesAndDataBlocks) {
  EXPECT_EQ(CutWhole("get a\r\nget b c\ndelete k\r\n"),
            (Strings{"get a\r\n", "get b c\n", "delete k\r\n"}));
  EXPECT_EQ(CutWhole("set k 0 0 5\r\nhello\r\nget k\r\n"),
            (Strings{"set k 0 0 5\r\nhello\r\n", "get k\r\n"}));
  EXPECT_EQ(CutWhole("cas k 0 0 2 17\r\nab\r\nquit\r\n"),
            (Strings{"cas k 0 0 2 17\r\nab\r\n", "quit\r\n"}));
  for (const char* verb : {"set", "add", "replace", "append", "prepend"}) {
    const std::string one =
        std::string(verb) + " k 4294967295 -1 3 noreply\r\n\r\n\n\r\n";
    EXPECT_EQ(CutWhole(one + one), (Strings{one, one})) << verb;
  }
  EXPECT_EQ(CutWhole("  set  k 1  2 0 \r\n\r\nget k\r\n"),
            (Strings{"  set  k 1  2 0 \r\n\r\n", "get k\r\n"}));
}

TEST(StreamFramer, MetaSetHasADataBlockWhateverItsFlagsAre) {
  const std::string long_key(251, 'k');
  std::string most = "ms k 1";
  for (int i = 0; i < 16; ++i) most += " f";
  for (const std::string& line :
       {std::string("ms k 1"), std::string("  ms  k  1  T30 c "),
        std::string("ms k 1 nonsense b F"), "ms " + long_key.substr(1) + " 1",
        most}) {
    EXPECT_EQ(CutWhole(line + "\r\nx\r\nmn\r\n"),
              (Strings{line + "\r\nx\r\n", "mn\r\n"}))
        << line;
  }
  for (const std::string& line :
       {std::string("ms k"), std::string("ms k x"), std::string("ms k -1"),
        std::string("ms k 2147483646"), "ms " + long_key + " 1", most + " f",
        std::string("mg k 1"), std::string("msk k 1")}) {
    EXPECT_EQ(CutWhole(line + "\r\nx\r\nmn\r\n"),
              (Strings{line + "\r\n", "x\r\n", "mn\r\n"}))
        << line;
  }
}

TEST(StreamFramer, TakesTheDataBlockByItsLengthAlone) {
  // With newlines and commands inside, and a wrong end: the kernel reports
  // that.
  EXPECT_EQ(CutWhole("set k 0 0 8\r\nget a\r\n!\r\nget k\r\n"),
            (Strings{"set k 0 0 8\r\nget a\r\n!\r\n", "get k\r\n"}));
  EXPECT_EQ(CutWhole("set k 0 0 2\r\nabcdget k\r\n"),
            (Strings{"set k 0 0 2\r\nabcd", "get k\r\n"}));
  std::string nul("set k 0 0 3\r\n\0\n\0\r\n", 18);
  EXPECT_EQ(CutWhole(nul), (Strings{nul}));
}

TEST(StreamFramer, MalformedStorageLinesHaveNoDataBlock) {
  const std::string long_key(251, 'k');
  for (const std::string& line :
       {std::string("set k 0 0\r\n"),
        std::string("set k 0 0 x\r\n"),
        std::string("set k 0 0 -1\r\n"),
        std::string("set k x 0 5\r\n"),
        std::string("set k 0 x 5\r\n"),
        std::string("set k 0 0 5x\r\n"),
        std::string("set k 0 0 5 6 7\r\n"),
        std::string("set\r\n"),
        std::string("cas k 0 0 5\r\n"),
        std::string("cas k 0 0 5 x\r\n"),
        std::string("cas k 0 0 1 -1\r\n"),
        std::string("set k -1 0 5\r\n"),
        std::string("SET k 0 0 5\r\n"),
        std::string("set k 0 0 99999999999999999999\r\n"),
        std::string("set k 0 0 4294967296\r\n"),
        "set " + long_key + " 0 0 5\r\n",
        std::string("stats k 0 0 5\r\n"),
        std::string("\r\n"),
        std::string("\n"),
        std::string("   \r\n")}) {
    EXPECT_EQ(CutWhole(line + "hello\r\n"), (Strings{line, "hello\r\n"}))
        << line;
  }
  const std::string key(250, 'k');
  EXPECT_EQ(CutWhole("set " + key + " 0 0 5\r\nhello\r\n"),
            (Strings{"set " + key + " 0 0 5\r\nhello\r\n"}));
}

TEST(StreamFramer, SwallowsTheDataOfAValueThatIsTooLarge) {
  const std::string fits(kMaxValue, 'x');
  const std::string large(kMaxValue + 1, 'x');
  EXPECT_EQ(CutWhole("set k 0 0 1000\r\n" + fits + "\r\nget k\r\n").size(), 2u);
  EXPECT_EQ(CutWhole("set k 0 0 1001\r\n" + large + "\r\nget k\r\n"),
            (Strings{"set k 0 0 1001\r\n", "get k\r\n"}));
  EXPECT_EQ(CutWhole("add k 0 0 1001 noreply\r\n" + large + "\r\nget k\r\n"),
            (Strings{"add k 0 0 1001 noreply\r\n", "get k\r\n"}));
}

TEST(StreamFramer, HangsUpOnWhatIsNoMemcachedClient) {
  for (const std::string& stream :
       {std::string("\x80\x0a\0\0", 4), std::string(kMaxLine + 1, 'a'),
        std::string(3000, ' ') + "get k\r\n", "set " + std::string(2100, 'k'),
        "get " + std::string(kMaxGetLine, 'k')}) {
    EXPECT_EQ(CutWhole(stream), (Strings{"<hang up>"}));
  }
  // Later in the stream, 0x80 is an ordinary byte.
  EXPECT_EQ(CutWhole("get a\r\n\x80\r\n"), (Strings{"get a\r\n", "\x80\r\n"}));
}

TEST(StreamFramer, TakesGetLinesOfManyKeys) {
  std::string line = "get";
  for (int i = 0; i < 5000; ++i) line += " key" + std::to_string(i);
  line += "\r\n";
  EXPECT_EQ(CutWhole(line + "get a\r\n"), (Strings{line, "get a\r\n"}));
}

TEST(StreamFramer, TheSameWhateverThePieces) {
  std::string stream =
      "get a\r\nset k 0 0 5\r\nhe\r\no\r\nset k 0 0 5 noreply\r\nhello\r\n\r\n"
      "cas k 0 0 0 1\r\n\r\nbogus\nset k 0 0 -3\r\nset z 0 0 1005\r\n" +
      std::string(1005, 'z') + "\r\nget";
  for (int i = 0; i < 300; ++i) stream += " key" + std::to_string(i);
  stream += "\r\nset big 1 2 900\r\n" + std::string(900, '\n') + "\r\nquit\r\n";
  const Strings whole = CutWhole(stream);
  ASSERT_EQ(whole.size(), 11u);
  EXPECT_EQ(Cut(stream, {1}), whole);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<size_t> pieces;
    for (int i = 0; i < 400; ++i)
      pieces.push_back(1 + random() % (1u << (random() % 11)));
    EXPECT_EQ(Cut(stream, pieces), whole);
  }
}

TEST(StreamFramer, GarbageNeverLeavesItsBounds) {
  std::mt19937 random(11);
  const std::string alphabet = "setgetcas 0123456789\r\n\x80\0k-";
  for (int round = 0; round < 3000; ++round) {
    std::string stream;
    const size_t bytes = random() % 200;
    for (size_t i = 0; i < bytes; ++i) {
      stream += alphabet[random() % alphabet.size()];
    }
    Cut(stream, {1 + random() % 50});  // Cut() checks every frame's bytes
  }
}

}  // namespace
}  // namespace carillon::nic
