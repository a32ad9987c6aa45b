#include "devices/nic/multi_get.h"

#include <gtest/gtest.h>

namespace carillon::nic {
namespace {

TEST(MultiGet, PiecesAskForEveryKeyOnceInOrder) {
  std::string line = "gets ";
  std::string keys;
  for (int i = 0; i < 500; ++i) keys += " some-key-" + std::to_string(i);
  auto get = MultiGet::Parse(line + keys + "  \r\n");
  ASSERT_TRUE(get.has_value());
  std::string asked;
  int pieces = 0;
  while (!get->done()) {
    const std::string piece = get->Next(300);
    ASSERT_LE(piece.size(), 300u);
    ASSERT_TRUE(piece.starts_with("gets "));
    ASSERT_TRUE(piece.ends_with("\r\n"));
    asked += piece.substr(4, piece.size() - 6);
    ++pieces;
  }
  EXPECT_EQ(asked, keys);
  EXPECT_GT(pieces, 20);
  EXPECT_EQ(get->Next(300), "");
}

TEST(MultiGet, RefusesWhatIsNoGoodGetLine) {
  EXPECT_FALSE(MultiGet::Parse("get\r\n").has_value());
  EXPECT_FALSE(MultiGet::Parse("get  \r\n").has_value());
  EXPECT_FALSE(MultiGet::Parse("gat 0\r\n").has_value());
  EXPECT_FALSE(MultiGet::Parse("delete k\r\n").has_value());
  EXPECT_FALSE(MultiGet::Parse("").has_value());
  EXPECT_FALSE(
      MultiGet::Parse("get a " + std::string(251, 'k') + "\r\n").has_value());
  EXPECT_TRUE(
      MultiGet::Parse("get a " + std::string(250, 'k') + "\n").has_value());
}

TEST(MultiGet, EveryPieceOfAGatCarriesTheExptime) {
  auto get = MultiGet::Parse("gats 60 a b\r\n");
  ASSERT_TRUE(get.has_value());
  EXPECT_EQ(get->Next(12), "gats 60 a\r\n");
  EXPECT_EQ(get->Next(12), "gats 60 b\r\n");
  EXPECT_TRUE(get->done());
}

TEST(MultiGet, HalvesDownToOneKey) {
  auto get = MultiGet::Parse("get a b c d e\r\n");
  ASSERT_TRUE(get.has_value());
  EXPECT_EQ(get->Next(1000), "get a b c d e\r\n");
  EXPECT_TRUE(get->Halve());
  EXPECT_EQ(get->Next(1000), "get a b\r\n");
  EXPECT_TRUE(get->Halve());
  EXPECT_EQ(get->Next(1000), "get a\r\n");
  EXPECT_FALSE(get->Halve());
  EXPECT_EQ(get->Next(1000), "get b\r\n");
}

TEST(MultiGet, OneEndLineForAllPieces) {
  auto get = MultiGet::Parse("get a b\r\n");
  ASSERT_TRUE(get.has_value());
  bool failed = true;
  EXPECT_EQ(get->Next(8), "get a\r\n");
  EXPECT_EQ(get->Trim("VALUE a 0 1\r\n1\r\nEND\r\n", &failed),
            "VALUE a 0 1\r\n1\r\n");
  EXPECT_FALSE(failed);
  EXPECT_EQ(get->Next(8), "get b\r\n");
  EXPECT_EQ(get->Trim("END\r\n", &failed), "END\r\n");
  EXPECT_FALSE(failed);
}

TEST(MultiGet, AnErrorAnswersTheWholeRequest) {
  auto get = MultiGet::Parse("get a b\r\n");
  ASSERT_TRUE(get.has_value());
  get->Next(8);
  bool failed = false;
  EXPECT_EQ(get->Trim("SERVER_ERROR x\r\n", &failed), "SERVER_ERROR x\r\n");
  EXPECT_TRUE(failed);
}

}  // namespace
}  // namespace carillon::nic
