// What a client reads back, byte for byte. "Debian" below is its memcached
// 1.6.18, which gives the same answers unless a comment says otherwise.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

#include "kernels/memcached/memc_dialogue.h"

namespace carillon::kernels {
namespace {

using memcached::Outcome;

const char kBadLine[] = "CLIENT_ERROR bad command line format\r\n";
const char kBadChunk[] = "CLIENT_ERROR bad data chunk\r\n";
const char kError[] = "ERROR\r\n";

TEST(MemcProtocol, GetAnswersWithTheValuesOfTheKeysThatItFinds) {
  Dialogue()("get a\r\n", "END\r\n")("set a 5 0 3\r\nabc\r\n", "STORED\r\n")(
      "get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n")(
      "set b 4294967295 0 0\r\n\r\n", "STORED\r\n")(
      "get b a c a\r\n",
      "VALUE b 4294967295 0\r\n\r\nVALUE a 5 3\r\nabc\r\n"
      "VALUE a 5 3\r\nabc\r\nEND\r\n")("get c d\r\n", "END\r\n")(
      "gets a\r\n", "VALUE a 5 3 1\r\nabc\r\nEND\r\n")(
      "gets b a\r\n",
      "VALUE b 4294967295 0 2\r\n\r\nVALUE a 5 3 1\r\nabc\r\nEND\r\n");
}

TEST(MemcProtocol, LinesEndWithOrWithoutCarriageReturnAndMayHaveMoreBlanks) {
  Dialogue()("set k 0 0 1\nx\r\n", "STORED\r\n")(
      "get k\n", "VALUE k 0 1\r\nx\r\nEND\r\n")("   get    k  \r\n",
                                                "VALUE k 0 1\r\nx\r\nEND\r\n")(
      "  set  k  0  0  2  \r\nyy\r\n", "STORED\r\n")(
      "get k k\n", "VALUE k 0 2\r\nyy\r\nVALUE k 0 2\r\nyy\r\nEND\r\n")
      // A carriage return that ends no line is part of the key.
      ("set k\r 0 0 1\r\nz\r\n", "STORED\r\n")(
          "get k\r k\r\n",
          "VALUE k\r 0 1\r\nz\r\nVALUE k 0 2\r\nyy\r\nEND\r\n")(
          "get " + std::string(2000, ' ') + "k" + std::string(2000, ' ') +
              "\r\n",
          "VALUE k 0 2\r\nyy\r\nEND\r\n");
}

TEST(MemcProtocol, KeysHave1To250BytesOfAnyKindButBlankAndNewline) {
  const std::string longest(250, 'k');
  const std::string strange = "\x01\x7f\x80\xff\t=\"";
  Dialogue()("set " + longest + " 0 0 1\r\nx\r\n", "STORED\r\n")(
      "get " + longest + "\r\n", "VALUE " + longest + " 0 1\r\nx\r\nEND\r\n")(
      "get " + longest + "k\r\n", kBadLine)("get a " + longest + "k b\r\n",
                                            kBadLine)(
      "get " + longest + " " + longest + "k\r\n", kBadLine)(
      "get " + std::string(5000, 'k') + "\r\n", kBadLine)(
      "set " + longest + "k 0 0 1\r\nx\r\n", kBadLine)(
      "set " + std::string(600, 'k') + " 0 0 1 noreply\r\nx\r\n", "")(
      "delete " + longest + "k\r\n", kBadLine)("incr " + longest + "k 1\r\n",
                                               kBadLine)(
      "touch " + longest + "k 1\r\n", kBadLine)("gat 0 " + longest + "k\r\n",
                                                kBadLine)(
      "set " + strange + " 0 0 1\r\ny\r\n", "STORED\r\n")(
      "get " + strange + "\r\n", "VALUE " + strange + " 0 1\r\ny\r\nEND\r\n");
}

TEST(MemcProtocol, StorageCommandsLookAtWhatIsThere) {
  Dialogue()("replace a 0 0 1\r\nx\r\n", "NOT_STORED\r\n")(
      "append a 0 0 1\r\nx\r\n", "NOT_STORED\r\n")(
      "prepend a 0 0 1\r\nx\r\n", "NOT_STORED\r\n")("cas a 0 0 1 1\r\nx\r\n",
                                                    "NOT_FOUND\r\n")(
      "add a 7 0 1\r\nx\r\n", "STORED\r\n")("add a 0 0 1\r\ny\r\n",
                                            "NOT_STORED\r\n")(
      "get a\r\n", "VALUE a 7 1\r\nx\r\nEND\r\n")("replace a 8 0 2\r\nyy\r\n",
                                                  "STORED\r\n")
      // append and prepend keep the flags, and give a new cas.
      ("append a 9 0 2\r\nzz\r\n", "STORED\r\n")("prepend a 9 0 1\r\n<\r\n",
                                                 "STORED\r\n")(
          "gets a\r\n", "VALUE a 8 5 4\r\n<yyzz\r\nEND\r\n")(
          "cas a 1 0 1 3\r\nn\r\n", "EXISTS\r\n")(
          "cas a 1 0 1 0\r\nn\r\n", "EXISTS\r\n")("cas a 1 0 1 4\r\nn\r\n",
                                                  "STORED\r\n")(
          "gets a\r\n", "VALUE a 1 1 5\r\nn\r\nEND\r\n")(
          "append a 0 0 0\r\n\r\n", "STORED\r\n")(
          "get a\r\n", "VALUE a 1 1\r\nn\r\nEND\r\n")(
          "delete a\r\n", "DELETED\r\n")("delete a\r\n", "NOT_FOUND\r\n")(
          "get a\r\n", "END\r\n");
}

TEST(MemcProtocol, DataMayHoldAnything) {
  const std::string data("\r\nEND\r\nset x 0 0 1\r\n\0\n ", 24);
  Dialogue()("set k 0 0 24\r\n" + data + "\r\n", "STORED\r\n")(
      "get k\r\n", "VALUE k 0 24\r\n" + data + "\r\nEND\r\n");
}

TEST(MemcProtocol, BadStorageLinesSayWhatMemcachedSays) {
  Dialogue()("set k 0 0\r\n", kError)("set k\r\n", kError)("set\r\n", kError)(
      "set k 0 0 1 noreply more\r\nx\r\n", kError)(
      "cas k 0 0 1\r\nx\r\n", kError)("cas k 0 0 1 \r\nx\r\n", kError)(
      "set k x 0 1\r\nx\r\n", kBadLine)("set k 0 x 1\r\nx\r\n", kBadLine)(
      "set k 0 0 x\r\nx\r\n", kBadLine)("cas k 0 0 1 x\r\nx\r\n", kBadLine)(
      "cas k 0 0 1 -1\r\nx\r\n", kBadLine)("set k -1 0 1\r\nx\r\n", kBadLine)(
      "set k 0 0 -1\r\n", kBadLine)("set k 0 0 2147483646\r\n", kBadLine)(
      "set k 0 0 99999999999999999999\r\n", kBadLine)
      // Debian truncates these two to 32 bits and takes them for 0 and 2.
      ("set k 4294967296 0 1\r\nx\r\n", kBadLine)(
          "set k 0 0 4294967298\r\nxx\r\n", kBadLine)
      // A sixth word other than "noreply" is ignored.
      ("set k 0 0 1 please\r\nx\r\n", "STORED\r\n")(
          "get k\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n");
}

TEST(MemcProtocol, DataOfAnotherLengthIsABadChunkAtOnce) {
  Dialogue()("set k 0 0 3\r\nold\r\n", "STORED\r\n")(
      "set k 0 0 3\r\nab\r\n", kBadChunk)("set k 0 0 3\r\nabcd\r\n", kBadChunk)(
      "set k 0 0 3\r\nabc", kBadChunk)("set k 0 0 3\r\nabc\r", kBadChunk)(
      "set k 0 0 3\r\nabc\n\r", kBadChunk)("set k 0 0 3\r\n", kBadChunk)(
      "append k 0 0 1000000\r\nabc\r\n", kBadChunk)(
      "set k 0 0 3 noreply\r\nab\r\n", "")("get k\r\n",
                                           "VALUE k 0 3\r\nold\r\nEND\r\n")
      // A request is one command: the rest is ignored.
      ("set k 0 0 3\r\nnew\r\nget k\r\n", "STORED\r\n")(
          "get k\r\nget k\r\n", "VALUE k 0 3\r\nnew\r\nEND\r\n");
}

TEST(MemcProtocol, NoreplySilencesEveryAnswerOfALineWithTheRightNumberOfWords) {
  Dialogue()("set k 0 0 1 noreply\r\n5\r\n", "")("add k 0 0 1 noreply\r\n6\r\n",
                                                 "")(
      "append k 0 0 1 noreply\r\n0\r\n", "")("prepend k 0 0 1 noreply\r\n1\r\n",
                                             "")(
      "get k\r\n", "VALUE k 0 3\r\n150\r\nEND\r\n")("incr k 1 noreply\r\n", "")(
      "decr k 11 noreply\r\n", "")("get k\r\n",
                                   "VALUE k 0 3\r\n140\r\nEND\r\n")(
      "replace k 0 0 1 noreply\r\n1\r\n", "")("gets k\r\n",
                                              "VALUE k 0 1 6\r\n1\r\nEND\r\n")(
      "cas k 0 0 1 6 noreply\r\n2\r\n", "")(
      "get k\r\n", "VALUE k 0 1\r\n2\r\nEND\r\n")("touch k 0 noreply\r\n", "")(
      "incr k x noreply\r\n", "")("set k x 0 1 noreply\r\n1\r\n", "")(
      "set k 0 0 noreply\r\n", "")("verbosity 1 noreply\r\n", "")(
      "verbosity noreply\r\n", "")("delete k 5 noreply\r\n", "")(
      "get k\r\n", "VALUE k 0 1\r\n2\r\nEND\r\n")("delete k noreply\r\n", "")(
      "get k\r\n", "END\r\n")("set k 0 0 1\r\nx\r\n", "STORED\r\n")(
      "flush_all noreply\r\n", "")("get k\r\n", "END\r\n")(
      "flush_all 0 noreply\r\n", "")
      // "noreply" is a key like any other.
      ("set noreply 0 0 1\r\nx\r\n", "STORED\r\n")(
          "get noreply\r\n", "VALUE noreply 0 1\r\nx\r\nEND\r\n")(
          "delete noreply\r\n", "DELETED\r\n");
}

TEST(MemcProtocol, DeleteTakesAZeroOfOldTimes) {
  const std::string usage =
      "CLIENT_ERROR bad command line format.  "
      "Usage: delete <key> [noreply]\r\n";
  Dialogue()("set k 0 0 1\r\nx\r\n", "STORED\r\n")("delete k 1\r\n", usage)(
      "delete k 00\r\n", usage)("delete k 0 0\r\n", usage)(
      "delete k 0 noreply more\r\n", kError)("delete\r\n", kError)(
      "delete k 0\r\n", "DELETED\r\n")("set k 0 0 1\r\nx\r\n", "STORED\r\n")(
      "delete k 0 noreply\r\n", "")("get k\r\n", "END\r\n");
}

TEST(MemcProtocol, IncrAndDecrCountIn64Bits) {
  Dialogue()("incr n 1\r\n", "NOT_FOUND\r\n")(
      "set n 3 0 2\r\n10\r\n", "STORED\r\n")("incr n 5\r\n", "15\r\n")(
      "decr n 6\r\n", "9\r\n")
      // The value keeps its length, padded with a blank.
      ("gets n\r\n", "VALUE n 3 2 3\r\n9 \r\nEND\r\n")(
          "incr n 1\r\n", "10\r\n")("incr n 90\r\n", "100\r\n")(
          "gets n\r\n", "VALUE n 3 3 5\r\n100\r\nEND\r\n")(
          "decr n 101\r\n", "0\r\n")("get n\r\n",
                                     "VALUE n 3 3\r\n0  \r\nEND\r\n")(
          "set n 0 0 20\r\n18446744073709551615\r\n", "STORED\r\n")(
          "incr n 1\r\n", "0\r\n")(
          "get n\r\n", "VALUE n 0 20\r\n0                   \r\nEND\r\n")(
          "set n 0 0 1\r\n0\r\n", "STORED\r\n")(
          "incr n 18446744073709551610\r\n", "18446744073709551610\r\n")(
          "get n\r\n", "VALUE n 0 20\r\n18446744073709551610\r\nEND\r\n")(
          "incr n -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n")(
          "incr n x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n")(
          "incr n\r\n", kError)("incr n 1 2 3\r\n", kError);
  const std::string not_a_number =
      "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
  for (const std::string value :
       {"", "x", "1x", "-1", "18446744073709551616", "   "}) {
    Dialogue()(
        "set t 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n",
        "STORED\r\n")("incr t 1\r\n", not_a_number)("decr t 1\r\n",
                                                    not_a_number);
  }
}

TEST(MemcProtocol, ExptimeIsRelativeForThirtyDaysAndAbsoluteBeyond) {
  Dialogue d;
  const uint64_t start = d.server.now_s;
  d("set a 0 10 1\r\nx\r\n", "STORED\r\n")("set b 0 2592000 1\r\nx\r\n",
                                           "STORED\r\n")(
      "set c 0 " + std::to_string(start + 20) + " 1\r\nx\r\n", "STORED\r\n")(
      "set d 0 2592001 1\r\nx\r\n", "STORED\r\n")  // some day in 1970
      ("set e 0 -1 1\r\nx\r\n", "STORED\r\n")(
          "set f 0 0 1\r\nx\r\n", "STORED\r\n")("get d e\r\n", "END\r\n")(
          "add e 0 0 1\r\ny\r\n", "STORED\r\n")("replace d 0 0 1\r\ny\r\n",
                                                "NOT_STORED\r\n")
          .Later(9)("get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n")
          .Later(1)("get a\r\n", "END\r\n")("incr a 1\r\n", "NOT_FOUND\r\n")(
              "touch a 1\r\n", "NOT_FOUND\r\n")("delete a\r\n", "NOT_FOUND\r\n")
          .Later(9)("get c\r\n", "VALUE c 0 1\r\nx\r\nEND\r\n")
          .Later(1)("get c\r\n", "END\r\n")
          .Later(2592000 - 21)("get b\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n")
          .Later(1)("get b f\r\n", "VALUE f 0 1\r\nx\r\nEND\r\n");
}

TEST(MemcProtocol, TouchAndGatMoveTheEnd) {
  Dialogue()("set a 1 5 1\r\nx\r\n", "STORED\r\n")("touch a 100\r\n",
                                                   "TOUCHED\r\n")
      .Later(50)("gat 10 a b\r\n", "VALUE a 1 1\r\nx\r\nEND\r\n")
      .Later(9)("gats 10 a\r\n", "VALUE a 1 1 1\r\nx\r\nEND\r\n")
      .Later(10)("get a\r\n", "END\r\n")("gat 0 a\r\n", "END\r\n")(
          "set a 1 5 1\r\nx\r\n", "STORED\r\n")("gat 0 a\r\n",
                                                "VALUE a 1 1\r\nx\r\nEND\r\n")
      .Later(1000)("gat -1 a\r\n", "VALUE a 1 1\r\nx\r\nEND\r\n")(
          "get a\r\n", "END\r\n")("gat x a\r\n",
                                  "CLIENT_ERROR invalid exptime argument\r\n")(
          "gat\r\n", kError)("gat 10\r\n", "END\r\n")(
          "touch a x\r\n", "CLIENT_ERROR invalid exptime argument\r\n")(
          "touch a\r\n", kError);
}

TEST(MemcProtocol, FlushAllKillsWhatWasThereBefore) {
  Dialogue()("set a 0 0 1\r\nx\r\n", "STORED\r\n")("flush_all\r\n", "OK\r\n")(
      "get a\r\n", "END\r\n")
      // The item is stored in the same second, but after flush_all.
      ("set b 0 0 1\r\nx\r\n", "STORED\r\n")("get b\r\n",
                                             "VALUE b 0 1\r\nx\r\nEND\r\n")(
          "flush_all 10\r\n", "OK\r\n")("get b\r\n",
                                        "VALUE b 0 1\r\nx\r\nEND\r\n")
          .Later(9)("get b\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n")
          .Later(1)("set c 0 0 1\r\nx\r\n", "STORED\r\n")(
              "get b c\r\n", "VALUE c 0 1\r\nx\r\nEND\r\n")
      // A later flush that is pending does not bring b back.
      ("flush_all 100\r\n", "OK\r\n")("get b c\r\n",
                                      "VALUE c 0 1\r\nx\r\nEND\r\n")
      // An immediate flush replaces it.
      ("flush_all -1\r\n", "OK\r\n")("set d 0 0 1\r\nx\r\n", "STORED\r\n")
          .Later(100)("get b c d\r\n", "VALUE d 0 1\r\nx\r\nEND\r\n")(
              "flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n")(
              "flush_all 1 2 3\r\n", kError);
}

TEST(MemcProtocol, OtherLines) {
  Dialogue()("version\r\n", "VERSION 1.6.18-carillon\r\n")(
      "verbosity 3\r\n", "OK\r\n")("verbosity\r\n", kError)(
      "verbosity x\r\n", kBadLine)("stats reset\r\n", "RESET\r\n")(
      "stats items\r\n", "END\r\n")("stats bogus\r\n", kError)("\r\n", kError)(
      "\n", kError)("   \r\n", kError)("get\r\n", kError)("get  \r\n", kError)(
      "GET a\r\n", kError)("getx a\r\n", kError)("g\r\n", kError)(
      "bogus\r\n", kError)("shutdown\r\n", kError)(
      std::string(3000, 'x') + "\r\n", kError)(
      std::string(3000, 'x') + " y\r\n", kError);
}

TEST(MemcProtocol, QuitAndBrowsersCloseTheStreamWithoutAWord) {
  MemcServer server;
  for (const char* line : {"quit\r\n", "quit now\r\n", "GET / HTTP/1.1\r\n"}) {
    const Answer answer = server.Set(line);
    EXPECT_EQ(answer.outcome, Outcome::kSilent) << line;
    EXPECT_EQ(answer.flags, memcached::kQuit) << line;
  }
  EXPECT_EQ(server.Set("version\r\n").flags, 0);
}

TEST(MemcProtocol, AnUnfinishedLineChangesNothing) {
  MemcServer server;
  server.Say("set k 0 100 1\r\nx\r\n");
  for (const char* line :
       {"", "get k", "get k k ", "set", "set k 0 0 1", "delete k",
        "delete k 0 noreply", "flush_all", "touch k 1", "gat -1 k", "incr k 1",
        "quit", "version", "stats", "verbosity 1", "bogus", "   "}) {
    EXPECT_EQ(server.Set(line).outcome, Outcome::kDropped) << line;
  }
  server.now_s += 50;
  EXPECT_EQ(server.Say("gets k\r\n"), "VALUE k 0 1 1\r\nx\r\nEND\r\n");
}

TEST(MemcProtocol, StatsCountWhatWasDone) {
  MemcServer server;
  for (const char* line :
       {"set a 0 0 1\r\n1\r\n", "set b 0 0 2\r\nxx\r\n", "add a 0 0 1\r\nx\r\n",
        "get a b c\r\n", "incr a 1\r\n", "decr z 1\r\n", "touch a 0\r\n",
        "gat 0 z\r\n", "cas a 0 0 1 9\r\nx\r\n", "delete b\r\n", "delete b\r\n",
        "flush_all 100\r\n"}) {
    server.Say(line);
  }
  const std::string stats = server.Say("stats\r\n");
  for (const char* line :
       {"time 1700000000", "curr_items 1", "total_items 2", "bytes 42",
        "cmd_get 3", "get_hits 2", "get_misses 1", "cmd_set 4", "incr_hits 1",
        "decr_misses 1", "touch_hits 1", "touch_misses 1", "cmd_touch 2",
        "cas_badval 1", "delete_hits 1", "delete_misses 1", "cmd_flush 1",
        "evictions 0"}) {
    EXPECT_NE(stats.find("STAT " + std::string(line) + "\r\n"),
              std::string::npos)
        << line << " in\n"
        << stats;
  }
  EXPECT_TRUE(stats.ends_with("\r\nEND\r\n"));
}

TEST(MemcProtocol, StatsResetZeroesEveryCounterAndNothingElse) {
  using memc::RareCounters;
  MemcServer server;
  server.Say("set a 0 0 1\r\nx\r\n");
  auto* const header =
      reinterpret_cast<memc::TableHeader*>(server.table_memory.span().data);
  // Every counter is set, with a mark behind the last one.
  auto* const rare = reinterpret_cast<uint8_t*>(&header->rare);
  std::memset(rare, 1, sizeof(RareCounters));
  for (memc::Counters& stripe : header->counters) {
    stripe.get_hits = stripe.get_misses = stripe.touch_hits = 1;
    stripe.cmd_set = stripe.evictions = 1;
  }
  EXPECT_EQ(server.Say("stats reset\r\n"), "RESET\r\n");
  std::map<std::string, std::string> stats;
  std::istringstream lines(server.Say("stats\r\n"));
  for (std::string stat, name, value; lines >> stat >> name >> value;) {
    stats[name] = value;
  }
  for (const char* kept :
       {"time", "version", "pointer_size", "limit_maxbytes"}) {
    EXPECT_EQ(stats.erase(kept), 1u) << kept;
  }
  for (const char* item : {"curr_items", "total_items"}) {
    EXPECT_EQ(stats[item], "1");
    stats.erase(item);
  }
  EXPECT_EQ(stats["bytes"], "42");
  stats.erase("bytes");
  EXPECT_EQ(stats.size(), 21u);
  for (const auto& [name, value] : stats) EXPECT_EQ(value, "0") << name;
  constexpr size_t kEnd =
      offsetof(RareCounters, cmd_meta) + sizeof(uint64_t);
  for (size_t i = 0; i < sizeof(RareCounters); ++i) {
    EXPECT_EQ(rare[i], i < kEnd ? 0 : 1) << i;
  }
}

TEST(MemcProtocol, MemcGetAnswersRetrievalsAndNothingElse) {
  MemcServer server;
  server.Say("set a 0 0 1\r\nx\r\n");
  EXPECT_EQ(server.Get("get a\r\n").Text(), "VALUE a 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.Get("gets a\r\n").Text(), "VALUE a 0 1 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.Get("gat 9 a\r\n").Text(), "VALUE a 0 1\r\nx\r\nEND\r\n");
  EXPECT_EQ(server.Get("gats 9 a\r\n").Text(), "VALUE a 0 1 1\r\nx\r\nEND\r\n");
  for (const char* line :
       {"set a 0 0 1\r\ny\r\n", "delete a\r\n", "version\r\n", "bogus\r\n",
        "\r\n", "flush_all\r\n"}) {
    EXPECT_EQ(server.Get(line).outcome, Outcome::kWrongKernel) << line;
  }
  EXPECT_EQ(server.Get("get a\r\n").Text(), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST(MemcProtocol, ResultsTellHitsAndMisses) {
  MemcServer server;
  server.Say("set a 0 0 1\r\nx\r\n");
  const Answer answer = server.Get("get a b a\r\n");
  EXPECT_EQ(answer.hits, 2u);
  EXPECT_EQ(answer.misses, 1u);
  const Answer bad = server.Get("get a " + std::string(251, 'k') + "\r\n");
  EXPECT_EQ(bad.hits, 0u);
  EXPECT_EQ(bad.misses, 0u);
}

}  // namespace
}  // namespace carillon::kernels
