#include "base/edit_distance.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace carillon {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("grid", "gird"), 1u);
  EXPECT_EQ(EditDistance("block", "blok"), 1u);
}

TEST(NearestName, IsEmptyWhenNothingIsNear) {
  constexpr std::array<std::string_view, 3> kNames{"priority", "grid", "block"};
  EXPECT_EQ(NearestName("prioritty", kNames), "priority");
  EXPECT_EQ(NearestName("gird", kNames), "grid");
  EXPECT_EQ(NearestName("xxxxxxxx", kNames), "");
  EXPECT_EQ(NearestName("grid", {}), "");
  constexpr std::array<std::string_view, 1> kShort{"sc"};
  EXPECT_EQ(NearestName("", kShort), "");
  EXPECT_EQ(NearestName("xy", kShort), "");
  EXPECT_EQ(NearestName("s", kShort), "sc");
}

}  // namespace
}  // namespace carillon
