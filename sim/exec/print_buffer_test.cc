#include "sim/exec/print_buffer.h"

#include <gtest/gtest.h>

namespace carillon::sim {
namespace {

TEST(PrintBufferTest, KeepsWhatFits) {
  PrintBuffer buffer(10);
  EXPECT_TRUE(buffer.empty());
  buffer.Append("12345");
  buffer.Append("67890");
  EXPECT_FALSE(buffer.empty());
  EXPECT_EQ(buffer.Take(), "1234567890");
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(buffer.Take(), "");
}

TEST(PrintBufferTest, TheNewestOverwritesTheOldest) {
  PrintBuffer buffer(10);
  for (const char* text : {"aaaa\n", "bb\n", "cc\n", "dddd\n"}) {
    buffer.Append(text);
  }
  EXPECT_EQ(buffer.Take(),
            "(2 calls of printf() with 8 bytes were overwritten: the buffer "
            "has 10)\ncc\ndddd\n");
  // Nothing was lost since.
  buffer.Append("e");
  EXPECT_EQ(buffer.Take(), "e");
}

TEST(PrintBufferTest, ACallThatIsLargerThanTheBufferIsLost) {
  PrintBuffer buffer(4);
  buffer.Append("12");
  buffer.Append("12345");
  EXPECT_EQ(buffer.Take(),
            "(2 calls of printf() with 7 bytes were overwritten: the buffer "
            "has 4)\n");
}

}  // namespace
}  // namespace carillon::sim
