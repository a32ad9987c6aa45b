// The meta commands, byte for byte as from Debian's memcached 1.6.18 (but for
// the numbers of "me" that are the store's own).
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/memcached/memc_dialogue.h"

namespace carillon::kernels {
namespace {

using memcached::Outcome;

const char kBadLine[] = "CLIENT_ERROR bad command line format\r\n";
const char kInvalid[] = "CLIENT_ERROR invalid flag\r\n";
const char kDuplicate[] = "CLIENT_ERROR duplicate flag\r\n";
const char kBadToken[] = "CLIENT_ERROR bad token in command line format\r\n";
const char kAnyFlag[] = "CLIENT_ERROR invalid or duplicate flag\r\n";
const char kBadChunk[] = "CLIENT_ERROR bad data chunk\r\n";

TEST(MemcMeta, NoOpAnswersWhateverFollowsIt) {
  Dialogue()("mn\r\n", "MN\r\n")("mn a b\r\n", "MN\r\n")("mn\n", "MN\r\n")(
      "mnx\r\n", "ERROR\r\n")("mx a\r\n", "ERROR\r\n")("m\r\n", "ERROR\r\n");
}

TEST(MemcMeta, GetReturnsWhatItsFlagsAskForInTheirOrder) {
  Dialogue d;
  d("mg a\r\n", "EN\r\n")("mg a v\r\n", "EN\r\n")("mg a q v\r\n", "")(
      "mg a k Oabc t q\r\n", "")("mg a k Oabc t\r\n", "EN ka Oabc\r\n")(
      "set a 5 0 3\r\nabc\r\n", "STORED\r\n")("mg a\r\n", "HD\r\n")(
      "mg a v\r\n", "VA 3\r\nabc\r\n")("mg a v q\r\n", "VA 3\r\nabc\r\n")(
      "mg a s v f c t k O12\r\n", "VA 3 s3 f5 c1 t-1 ka O12\r\nabc\r\n")(
      "mg a O k t c f s\r\n", "HD O ka t-1 c1 f5 s3\r\n")("  mg   a  f  \n",
                                                          "HD f5\r\n");
  d("set e 0 100 0\r\n\r\n", "STORED\r\n");
  d.Later(40)("mg e t v\r\n", "VA 0 t60\r\n\r\n");
  d.Later(60)("mg e\r\n", "EN\r\n");
}

TEST(MemcMeta, GetTellsWhetherAndWhenAnItemWasFetched) {
  Dialogue d;
  d("ms a 1\r\nx\r\n", "HD\r\n");
  d.Later(7)("mg a h l u\r\n", "HD h0 l7\r\n")("mg a h l\r\n", "HD h0 l7\r\n")(
      "mg a h l\r\n", "HD h1 l0\r\n");
  d.Later(5)("mg a h l u\r\n", "HD h1 l5\r\n")(
      "get a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n")("mg a l\r\n", "HD l0\r\n")(
      "ms a 1\r\ny\r\n", "HD\r\n")("mg a h\r\n", "HD h0\r\n");
  for (const char* fetch : {"get b\r\n", "gat 0 b\r\n", "touch b 0\r\n"}) {
    d("ms b 1\r\nx\r\n", "HD\r\n");
    EXPECT_NE(d.server.Say(fetch), "END\r\n");
    d("mg b h\r\n", "HD h1\r\n");
  }
}

TEST(MemcMeta, GetMovesTheEnd) {
  Dialogue d;
  d("ms a 1 T100\r\nx\r\n", "HD\r\n")("mg a t T30\r\n", "HD t100\r\n");
  d.Later(29)("mg a t\r\n", "HD t1\r\n");
  d.Later(1)("mg a t\r\n", "EN\r\n")("ms a 1 T-1\r\nx\r\n", "HD\r\n")(
      "mg a\r\n", "EN\r\n")("ms a 1 T10\r\nx\r\n", "HD\r\n")(
      "mg a T0 t\r\n", "HD t-1\r\n")("mg a T-1\r\n", "HD\r\n")("mg a\r\n",
                                                               "EN\r\n");
}

TEST(MemcMeta, OneClientWinsTheRightToFillAMissingKey) {
  Dialogue d;
  d("mg a N30 v t c s f k h O1\r\n", "VA 0 t30 c1 s0 f0 ka h0 O1 W\r\n\r\n")(
      "mg a N30 v t\r\n", "VA 0 t30 Z\r\n\r\n")("mg a\r\n", "HD Z\r\n")(
      "get a\r\n", "VALUE a 0 0\r\n\r\nEND\r\n")(
      "mg b t N30\r\n", "HD t-1 W\r\n")("mg b t\r\n", "HD t30 Z\r\n")(
      "ms a 1 T90\r\nx\r\n", "HD\r\n")("mg a v N30 t\r\n", "VA 1 t90\r\nx\r\n");
  d.Later(30)("mg b N30 q\r\n", "HD W\r\n");
}

TEST(MemcMeta, OneClientWinsTheRightToRenewAnItemThatEndsSoon) {
  Dialogue d;
  d("ms a 1 T100\r\nx\r\n", "HD\r\n")("mg a R100\r\n", "HD\r\n")(
      "mg a R101 t\r\n", "HD t100 W\r\n")("mg a R101\r\n", "HD Z\r\n")(
      "ms a 1\r\nx\r\n", "HD\r\n")("mg a R100\r\n", "HD\r\n")(
      "mg a T50 R60\r\n", "HD W\r\n");
}

TEST(MemcMeta, DeleteCanMarkAnItemAsStale) {
  Dialogue d;
  d("ms a 1 c\r\nx\r\n", "HD c1\r\n")("md a I T30\r\n", "HD\r\n")(
      "mg a t c v\r\n", "VA 1 t30 c2 X W\r\nx\r\n")("mg a\r\n", "HD Z X\r\n")
      // Whoever comes next wins again.
      ("md a I q\r\n", "")("mg a\r\n", "HD X W\r\n")
      // The value of the one who had won before stays stale, and keeps its end.
      ("ms a 2 I C1 T900\r\nyy\r\n", "HD\r\n")("mg a v t\r\n",
                                               "VA 2 t30 Z X\r\nyy\r\n")(
          "ms a 2 I C4 c\r\nzz\r\n", "HD c5\r\n")("mg a v t\r\n",
                                                  "VA 2 t-1\r\nzz\r\n")(
          "ms a 1 I C900\r\nx\r\n", "EX\r\n")("ms a 1 I C0\r\nx\r\n", "EX\r\n")(
          "ms b 1 I C1\r\nx\r\n", "NF\r\n")
      // Without a cas it is an ordinary set.
      ("ms a 1 I\r\nx\r\n", "HD\r\n")("mg a\r\n", "HD\r\n");
}

TEST(MemcMeta, DeleteLooksAtTheCas) {
  Dialogue()("md a\r\n", "NF\r\n")("md a q k O1\r\n", "NF ka O1\r\n")(
      "ms a 1\r\nx\r\n", "HD\r\n")("md a C7 k\r\n", "EX ka\r\n")(
      "md a C0\r\n", "EX\r\n")("md a C1 O9 k\r\n", "HD O9 ka\r\n")(
      "mg a\r\n", "EN\r\n")("ms a 1\r\nx\r\n", "HD\r\n")("md a q\r\n", "")(
      "mg a\r\n", "EN\r\n");
}

TEST(MemcMeta, SetStoresInEachMode) {
  Dialogue()("ms a 2 F7 T0 c k Oo\r\nab\r\n", "HD c1 ka Oo\r\n")(
      "mg a v f\r\n", "VA 2 f7\r\nab\r\n")("ms a 1 q\r\nx\r\n", "")(
      "ms a 1 ME c\r\ny\r\n", "NS c0\r\n")("ms b 1 ME q\r\ny\r\n", "")(
      "ms b 1 ME q\r\ny\r\n", "NS\r\n")("ms c 1 MR k\r\ny\r\n", "NS kc\r\n")(
      "ms c 1 MA\r\ny\r\n", "NS\r\n")("ms c 1 MP\r\ny\r\n", "NS\r\n")(
      "ms b 1 MR\r\nz\r\n", "HD\r\n")("ms b 2 MA c\r\n>>\r\n", "HD c5\r\n")(
      "ms b 2 MP\r\n<<\r\n", "HD\r\n")("mg b v\r\n", "VA 5\r\n<<z>>\r\n")(
      "ms b 1 MS\r\nw\r\n", "HD\r\n")("mg b v\r\n", "VA 1\r\nw\r\n")(
      "ms b 1 C6\r\nv\r\n", "EX\r\n")("ms b 1 C7 c\r\nv\r\n", "HD c8\r\n")(
      "ms b 1 C7 MR\r\nu\r\n", "EX\r\n")("ms b 1 C7 MA\r\nu\r\n", "EX\r\n")(
      "ms b 1 C8 MA\r\nu\r\n", "HD\r\n")("ms b 1 C0 MP\r\nt\r\n", "HD\r\n")(
      "mg b v\r\n", "VA 3\r\ntvu\r\n")("ms c 1 C1\r\nx\r\n", "NF\r\n")(
      "ms c 1 C1 ME\r\nx\r\n", "HD\r\n");
}

TEST(MemcMeta, ArithmeticMakesAndChangesNumbers) {
  Dialogue d;
  d("ma n\r\n", "NF\r\n")("ma n q k\r\n", "NF kn\r\n")(
      "ma n N0 J13 v\r\n", "VA 2\r\n13\r\n")("ma n v c t\r\n",
                                             "VA 2 c2 t-1\r\n14\r\n")(
      "ma n D6 v\r\n", "VA 2\r\n20\r\n")("ma n MD D15 v\r\n", "VA 1\r\n5\r\n")(
      "mg n v\r\n", "VA 2\r\n5 \r\n")("ma n M- D9 v\r\n", "VA 1\r\n0\r\n")(
      "ma n MI\r\n", "HD\r\n")("ma n M+ q\r\n", "")("ma n q v N0 k\r\n", "")(
      "ma n v k Oo\r\n", "VA 1 kn Oo\r\n4\r\n")(
      "ma n D18446744073709551615 v\r\n", "VA 1\r\n3\r\n")(
      "ma n C1\r\n", "EX\r\n")("ma n C10 v k\r\n", "VA 1 kn\r\n4\r\n")
      // Making one is never quiet.
      ("ma m q N30 T90 t\r\n", "HD t90\r\n")("ma m T60 t\r\n", "HD t60\r\n")(
          "mg m t v\r\n", "VA 1 t60\r\n1\r\n")("ma p t T90\r\n", "NF\r\n");
  d.Later(60)("ma m t N30 T90 N40\r\n",
              "CLIENT_ERROR invalid or duplicate flag\r\n")(
      "ma m T90 N30 t\r\n", "HD t30\r\n")("set s 0 0 1\r\nx\r\n", "STORED\r\n")(
      "ma s q\r\n",
      "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")
      // The end that it sets stays when the number grows. (Debian's server
      // loses it then.)
      ("ms g 1\r\n9\r\n", "HD\r\n")("ma g T50 v\r\n", "VA 2\r\n10\r\n")(
          "mg g t\r\n", "HD t50\r\n");
}

TEST(MemcMeta, KeysMayBeBase64) {
  Dialogue()("ms Zm9v 1 b k\r\nx\r\n", "HD kZm9v b\r\n")(
      "get foo\r\n", "VALUE foo 0 1\r\nx\r\nEND\r\n")(
      "mg foo k\r\n", "HD kZm9v b\r\n")("mg Zm9v b v\r\n", "VA 1\r\nx\r\n")(
      "mg Zm9v\r\n", "EN\r\n")("mg Zm9= b k\r\n", "EN kZm8= b\r\n")(
      "mg YQ== k b\r\n", "EN kYQ== b\r\n")(
      "me Zm9v b\r\n",
      "ME Zm9v exp=-1 la=0 cas=1 fetch=yes "
      "cls=1 size=44\r\n")("md Zm9v b k\r\n", "HD kZm9v b\r\n")
      // Blanks, line ends and NULs.
      ("ms IA0KAA== 1 b k\r\ny\r\n", "HD kIA0KAA== b\r\n")(
          "mg IA0KAA== v k b\r\n", "VA 1 kIA0KAA== b\r\ny\r\n")
      // An item that mg or ma makes keeps its key as it is.
      ("mg Zm9v b k N0\r\n", "HD kfoo W\r\n")(
          "ma YmFy b k N0\r\n", "HD kYmFy b\r\n")("mg bar k v\r\n",
                                                  "VA 1 kbar\r\n0\r\n")
      // Bytes that are no digits are skipped; what follows the padding, too.
      ("mg !Z-m9v b k\r\n", "HD kfoo Z\r\n")("mg Zm9vYQ==AAAA b k\r\n",
                                             "EN kZm9vYQ== b\r\n");
  for (const char* key : {"a", "abc", "====", "A===", "!!!!", "AAAAA"}) {
    Dialogue()("mg " + std::string(key) + " b\r\n",
               "CLIENT_ERROR error decoding key\r\n")(
        "md " + std::string(key) + " b\r\n", kAnyFlag)(
        "me " + std::string(key) + " b\r\n", kBadLine);
  }
}

TEST(MemcMeta, DebugTellsWhatTheItemIs) {
  Dialogue d;
  d("me a\r\n", "EN\r\n")("me\r\n", kBadLine)(
      "me " + std::string(251, 'k') + "\r\n", kBadLine)(
      "ms a 100 T90\r\n" + std::string(100, 'x') + "\r\n", "HD\r\n");
  d.Later(8)("me a nonsense\r\n",
             "ME a exp=-82 la=8 cas=1 fetch=no cls=3 size=141\r\n")(
      "mg a h\r\n", "HD h0\r\n")(
      "me a\r\n", "ME a exp=-82 la=0 cas=1 fetch=yes cls=3 size=141\r\n");
  EXPECT_NE(d.server.Say("stats\r\n").find("STAT cmd_meta 3\r\n"),
            std::string::npos);
}

TEST(MemcMeta, LinesThatMemcachedRefusesAreRefusedInItsWords) {
  const std::string key(250, 'k');
  std::string most;
  for (const char flag : std::string("bcfhklqstuv")) {
    most += std::string(" ") + flag;
  }
  most += " O N1 T1 R1 L P";
  Dialogue()("mg\r\n", "ERROR\r\n")("ms\r\n", "ERROR\r\n")(
      "md\r\n", "ERROR\r\n")("ma\r\n", "ERROR\r\n")(
      "mg " + key + "\r\n", "EN\r\n")("mg " + key + "k\r\n", kBadLine)(
      "md " + key + "k\r\n", kBadLine)("ma " + key + "k\r\n", kBadLine)(
      "ms " + key + "k 1\r\n", kBadLine)(
      "mg " + std::string(3000, 'k') + " b\r\n", kBadLine)(
      "ms a\r\n", kBadLine)("ms a x\r\n", kBadLine)("ms a -1\r\n", kBadLine)(
      "ms a S5\r\n", kBadLine)
      // E and x are of later versions.
      ("mg a E5\r\n", kInvalid)("mg a x\r\n", kInvalid)("mg a !\r\n", kInvalid)(
          "mg a \x80\r\n", kDuplicate)("mg a v v\r\n", kDuplicate)(
          "mg a T1 v T2\r\n", kDuplicate)("mg a ? v v\r\n", kInvalid)(
          "mg a v v ?\r\n", kDuplicate)("mg a T\r\n", kBadToken)(
          "mg a Tx\r\n", kBadToken)("mg a N1x\r\n", kBadToken)(
          "mg a R\r\n", kBadToken)("mg a Cx\r\n", kBadToken)(
          "mg a C-1\r\n", kBadToken)("mg a F-1\r\n", kBadLine)
      // The last mistake counts, but for that of F.
      ("mg a Tx Mabc\r\n", "CLIENT_ERROR incorrect length for M token\r\n")(
          "mg a Mabc Tx\r\n", kBadToken)(
          "mg a Jx Fx\r\n", "CLIENT_ERROR invalid numeric initial value\r\n")(
          "mg a Fx Dx\r\n", "CLIENT_ERROR invalid numeric delta value\r\n")(
          "ms a 1 Mx\r\nx\r\n", "CLIENT_ERROR invalid mode for ms M token\r\n")(
          "ms a 1 v v\r\nx\r\n", kDuplicate)("ms a 1 q\r\nxy\r\n", kBadChunk)(
          "ms a 1\r\nx", kBadChunk)("ms a 9\r\nx\r\n", kBadChunk)(
          "ma a Mx\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n")(
          "ma a Tx\r\n", kAnyFlag)("md a E5\r\n", kAnyFlag)("md a x\r\n",
                                                            kAnyFlag)
      // 17 flags are the most. With all of them the key must be base64.
      ("mg " + key + most + "\r\n", "CLIENT_ERROR error decoding key\r\n")(
          "mg a" + most + " C1\r\n",
          "CLIENT_ERROR options flags are too long\r\n")(
          "md a" + most + " C1\r\n", "CLIENT_ERROR options flags too long\r\n")(
          "ma a" + most + " C1\r\n", "CLIENT_ERROR options flags too long\r\n")(
          "ms a 1" + most + "\r\nx\r\n",
          "CLIENT_ERROR options flags too long\r\n")("mg a\r\n", "EN\r\n");
}

TEST(MemcMeta, OpaquesThatAreTooLongChangeNothing) {
  const std::string longest = "O" + std::string(31, 'o');
  Dialogue d;
  for (const std::string line :
       {"mg a N0 ", "md a ", "ma a N0 ", "mg a T-1 ", "ma b D5 "}) {
    d(line + longest + "o\r\n", "CLIENT_ERROR opaque token too long\r\n")(
        "ms a 1 ME\r\nx\r\n", "HD\r\n")("ms b 1 ME\r\n5\r\n", "HD\r\n")(
        line + longest + "o\r\n", "CLIENT_ERROR opaque token too long\r\n")(
        "mg b v\r\n", "VA 1\r\n5\r\n")("md a " + longest + "\r\n",
                                       "HD " + longest + "\r\n")("md b\r\n",
                                                                 "HD\r\n");
  }
  d("ms a 1 " + longest + "o\r\nx\r\n",
    "CLIENT_ERROR opaque token too long\r\n")(
      "ms a 1 " + longest + "o Mx\r\nx\r\n",
      "CLIENT_ERROR invalid mode for ms M token\r\n")("mg a\r\n", "EN\r\n");
}

TEST(MemcMeta, TheLongestReplyFitsTheSmallestStride) {
  MemcServer server;
  server.stride = memc::kMinReplyStride;
  server.request_flags = 0;
  // 186 bytes, as base64 248.
  std::string key;
  for (int i = 0; i < 62; ++i) key += "/+09";
  const std::string opaque = "O" + std::string(31, 'o');
  server.now_s = 10;
  const auto say = [&](const std::string& text) {
    return server.Set(Frame(1, 0, 1, 0, text)).Text(false);
  };
  EXPECT_EQ(say("ms " + key + " 1 b k c F4294967295 T4294967295 " + opaque +
                "\r\nx\r\n"),
            "HD k" + key + " b c1 " + opaque + "\r\n");
  EXPECT_EQ(say("mg " + key + " b k c f s t h l N5 R1 v " + opaque + "\r\n"),
            "VA 1 k" + key + " b c1 f4294967295 s1 t4294967285 h0 l0 " +
                opaque + "\r\nx\r\n");
  EXPECT_EQ(say("md " + key + " b k I " + opaque + "\r\n"),
            "HD k" + key + " b " + opaque + "\r\n");
  const std::string all =
      say("mg " + key + " b k c f s t h l R1 v " + opaque + "\r\n");
  EXPECT_EQ(all, "VA 1 k" + key + " b c2 f4294967295 s1 t4294967285 h1 l0 " +
                     opaque + " X W\r\nx\r\n");
  // What the numbers here leave: cas 19 digits, the lengths 6 and 6, h, l 9;
  // the key's other 2 bytes as base64 88.
  EXPECT_LE(all.size() + 19 + 6 + 6 + 9 + 88, memc::kMinReplyStride - 8);
}

TEST(MemcMeta, AReplyThatDoesNotFitSaysWhatItNeedsAndDoesNothing) {
  MemcServer server;
  const std::string value(3000, 'v');
  EXPECT_EQ(server.Say("ms a 3000 T100\r\n" + value + "\r\n"), "HD\r\n");
  EXPECT_EQ(server.Say("md a I\r\n"), "HD\r\n");
  server.stride = memcached::kSmallReplyStride;
  const Answer refused = server.Get("mg a v T5 R500\r\n");
  EXPECT_EQ(refused.outcome, Outcome::kTooLarge);
  EXPECT_EQ(refused.length, 9 + 4 + 3000 + 2);
  EXPECT_EQ(server.Say("mg a t h\r\n"), "HD t100 h0 X W\r\n");
  const std::string stats = server.Say("stats\r\n");
  EXPECT_NE(stats.find("STAT get_hits 1\r\n"), std::string::npos) << stats;
  EXPECT_NE(stats.find("STAT touch_hits 0\r\n"), std::string::npos) << stats;
}

TEST(MemcMeta, MemcGetAnswersEveryMetaGetThatMakesNoItem) {
  MemcServer server;
  EXPECT_EQ(server.Say("ms a 1\r\nx\r\n"), "HD\r\n");
  EXPECT_EQ(server.Get("mg a v\r\n").Text(), "VA 1\r\nx\r\n");
  EXPECT_EQ(server.Get("mg a v N30\r\n").Text(), "VA 1\r\nx\r\n");
  EXPECT_EQ(server.Get("mg b v\r\n").Text(), "EN\r\n");
  EXPECT_EQ(server.Get("mg b v N30\r\n").outcome, Outcome::kWrongKernel);
  EXPECT_EQ(server.Set("mg b v N30\r\n").Text(), "VA 0 W\r\n\r\n");
  for (const char* line : {"ms a 1\r\nx\r\n", "md a\r\n", "ma a\r\n",
                           "me a\r\n", "mn\r\n", "mgx a\r\n"}) {
    EXPECT_EQ(server.Get(line).outcome, Outcome::kWrongKernel) << line;
  }
  const Answer hit = server.Get("mg a\r\n");
  EXPECT_EQ(hit.hits, 1u);
  EXPECT_EQ(hit.misses, 0u);
  const Answer miss = server.Get("mg c q\r\n");
  EXPECT_EQ(miss.outcome, Outcome::kSilent);
  EXPECT_EQ(miss.misses, 1u);
}

TEST(MemcMeta, AnUnfinishedLineChangesNothing) {
  MemcServer server;
  EXPECT_EQ(server.Say("ms a 1\r\n7\r\n"), "HD\r\n");
  for (const char* line : {"mn", "mg a", "mg a T-1", "mg b N0", "ms a",
                           "ms a 1 T-1", "md a ", "md a I", "ma a", "me a"}) {
    EXPECT_EQ(server.Set(line).outcome, Outcome::kDropped) << line;
  }
  EXPECT_EQ(server.Say("mg a v c t h\r\n"), "VA 1 c1 t-1 h0\r\n7\r\n");
  EXPECT_EQ(server.Say("mg b\r\n"), "EN\r\n");
}

TEST(MemcMeta, ValuesThatAreTooLargeDropTheOldOne) {
  for (const char* mode : {"", " ME", " MA", " C5"}) {
    Dialogue()("ms a 1\r\nx\r\n", "HD\r\n")(
        "ms a 1048577 q" + std::string(mode) + "\r\n",
        "SERVER_ERROR object too large for cache\r\n")("mg a\r\n", "EN\r\n");
  }
}

// Of many requests at once exactly one wins.
TEST(MemcMeta, ABatchHasOneWinner) {
  for (const char* prepare : {"", "ms a 1 T20\r\nx\r\n", "md a I\r\n"}) {
    MemcServer server;
    if (*prepare != 0) {
      server.Say("ms a 1 T20\r\nx\r\n");
      server.Say(prepare);
    }
    server.block = 64;
    std::multiset<std::string> replies;
    for (const Answer& answer : server.Run(
             memc_set_info, std::vector<std::string>(64, "mg a N30 R25\r\n"))) {
      std::string text = answer.Text();
      std::erase(text, 'X');
      replies.insert(text.substr(text.size() - 3));
    }
    EXPECT_EQ(replies.count("W\r\n"), 1u) << prepare;
  }
}

}  // namespace
}  // namespace carillon::kernels
