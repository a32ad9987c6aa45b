#include "gpu_daemon/control/sessions/names.h"

#include <gtest/gtest.h>

#include <string>

#include "gpu_daemon/control/error_detail.h"

namespace carillon::gpud {
namespace {

using Names = google::protobuf::RepeatedPtrField<std::string>;

Names MakeNames(std::initializer_list<std::string> names) {
  return {names.begin(), names.end()};
}

TEST(Names, DeviceNamesAreShortAndPlain) {
  EXPECT_TRUE(CheckName("device name", "nic0").ok());
  EXPECT_TRUE(CheckName("device name", "a-b_c").ok());
  EXPECT_TRUE(CheckName("device name", std::string(32, 'x')).ok());
  for (const std::string& bad :
       {std::string(), std::string(33, 'x'), std::string("Nic"),
        std::string("a b"), std::string("a/b"), std::string("a\n"),
        std::string("n\0c", 3), std::string("\xc3\xa4")}) {
    const absl::Status status = CheckName("device name", bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(DetailOf(status).reason(), reason::kBadName);
  }
}

TEST(Names, TextFromOutsideCannotReachATerminalRaw) {
  EXPECT_EQ(Quoted("nic0"), "'nic0'");
  EXPECT_EQ(Quoted("a\x1b[2J\n"), "'a\\x1b[2J\\x0a'");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "'" + std::string(64, 'x') + "...'");
}

TEST(Names, FiguresHaveAtMostSoManyDistinctNames) {
  EXPECT_TRUE(
      CheckFigureNames("counter", MakeNames({"rx", "Tx.ok", "a-b"}), 3).ok());
  EXPECT_EQ(
      DetailOf(CheckFigureNames("counter", MakeNames({"a", "b"}), 1)).reason(),
      reason::kTooMany);
  for (const auto& bad :
       {MakeNames({"a", "a"}), MakeNames({""}), MakeNames({"a b"}),
        MakeNames({std::string(49, 'x')})}) {
    EXPECT_EQ(DetailOf(CheckFigureNames("counter", bad, 4)).reason(),
              reason::kBadName);
  }
}

TEST(Names, NotesHoldAnyTextButControlCharacters) {
  EXPECT_TRUE(CheckText("note", "udp 127.0.0.1:11211 \xc3\xa4", 64).ok());
  EXPECT_TRUE(CheckText("note", "", 64).ok());
  EXPECT_FALSE(CheckText("note", "a\x1b[2J", 64).ok());
  EXPECT_FALSE(CheckText("note", "12345", 4).ok());
}

}  // namespace
}  // namespace carillon::gpud
