#include "tools/cli/ui/table.h"

#include <gtest/gtest.h>

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

TEST(Table, MarksTheHeaderOnlyWhenAsked) {
  Table table({"A"});
  EXPECT_EQ(table.ToString(true), "\x1b[1mA\x1b[0m\n");
  EXPECT_EQ(table.ToString(false), "A\n");
}

}  // namespace
}  // namespace carillon::cli
