#include "tools/cli/ui/table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carillon::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoSpacesAtTheEnd) {
  Table table({{"NAME"}, {"RUNG", Align::kRight}, {"NOTE"}});
  table.AddRow({"nic0", "12", "udp"});
  table.AddRow({"a-long-name", "1,234", ""});
  EXPECT_EQ(table.ToString(false),
            "NAME          RUNG  NOTE\n"
            "nic0            12  udp\n"
            "a-long-name  1,234\n");
}

TEST(Table, TakesShortAndLongRows) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"1"});
  table.AddRow({"1", "2", "3"});
  EXPECT_EQ(table.ToString(false), "A  B\n1\n1  2\n");
}

TEST(Table, CountsCharactersAndNotBytes) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"\xc3\xa4\xc3\xb6", "x"});
  table.AddRow({"ab", "y"});
  EXPECT_EQ(table.ToString(false), "A   B\n\xc3\xa4\xc3\xb6  x\nab  y\n");
}

TEST(Table, ShowsNoCellThatSteersATerminal) {
  Table table({"A", "B"});
  table.AddRow({"\x1b[2Jx", "1\n2"});
  table.AddRow("\x1b]0;title\a", 3);
  EXPECT_EQ(table.ToString(false),
            "A                 B\n"
            "\\x1b[2Jx          1\\x0a2\n"
            "\\x1b]0;title\\x07  3\n");
}

// U+5199 takes two columns, U+0301 stands above the e.
TEST(Table, CountsTheColumnsOfWideAndOfCombinedCharacters) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"\xe5\x86\x99", "x"});
  table.AddRow({"abc", "y"});
  table.AddRow({"e\xcc\x81", "z"});
  EXPECT_EQ(table.ToString(false),
            "A    B\n\xe5\x86\x99   x\nabc  y\ne\xcc\x81    z\n");
}

TEST(Table, MarksTheHeaderOnlyWhenAsked) {
  Table table({"A"});
  EXPECT_EQ(table.ToString(true), "\x1b[1mA\x1b[0m\n");
  EXPECT_EQ(table.ToString(false), "A\n");
}

using Lines = std::vector<std::string>;

TEST(CutLines, FitATerminal) {
  EXPECT_EQ(CutLines("", 10, 2), Lines());
  EXPECT_EQ(CutLines("abc\n\ndef", 10, 3), (Lines{"abc", "", "def"}));
  EXPECT_EQ(CutLines("abcdef\n\xc3\xa4\xc3\xb6x\n", 2, 9),
            (Lines{"ab", "\xc3\xa4\xc3\xb6"}));
  EXPECT_EQ(CutLines("a\nb\nc\nd\n", 30, 3),
            (Lines{"a", "b", "and 2 more lines"}));
  EXPECT_EQ(CutLines("a\nb\nc\n", 3, 2), (Lines{"a", "and"}));
  EXPECT_EQ(CutLines("a\n", 3, 0), Lines());
}

TEST(CutLines, HalfAWideCharacterIsNotShown) {
  EXPECT_EQ(CutLines("\xe5\x86\x99\xe5\x86\x99x", 3, 1),
            (Lines{"\xe5\x86\x99"}));
  EXPECT_EQ(CutLines("abe\xcc\x81x", 3, 1), (Lines{"abe\xcc\x81"}));
}

TEST(CutLines, LeaveColoursWhole) {
  EXPECT_EQ(CutLines("\x1b[1mabcdef\x1b[0m", 3, 1),
            (Lines{"\x1b[1mabc\x1b[0m"}));
  EXPECT_EQ(CutLines("a\x1b[1", 3, 1), (Lines{"a\x1b[1"})) << "no end";
}

}  // namespace
}  // namespace carillon::cli
