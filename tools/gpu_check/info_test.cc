#include "tools/gpu_check/info.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/temp_directory.h"

namespace carillon::gpu_check {
namespace {

TEST(InfoTest, Bar1IsTheLargestOfTheFirstSixRegions) {
  const TempDirectory folder;
  // As an H200 shows them, with those of its virtual functions behind.
  std::ofstream(folder.path() + "/resource")
      << "0x00000f4042000000 0x00000f4042ffffff 0x000000000014220c\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
         "0x00000f0000000000 0x00000f3fffffffff 0x000000000014220c\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
         "0x00000f4040000000 0x00000f4041ffffff 0x000000000014220c\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
         "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
         "0x0000100000000000 0x00001fffffffffff 0x000000000014220c\n";
  EXPECT_EQ(LargestBar(folder.path()), uint64_t{256} << 30);
  EXPECT_EQ(LargestBar("/nonexistent"), 0u);
}

TEST(InfoTest, AMachineWithoutANameHasNone) {
  const auto machine = DescribeMachine()["machine"];
  if (!machine.is_null()) {
    EXPECT_TRUE(machine[0].is_string()) << machine;
  }
}

}  // namespace
}  // namespace carillon::gpu_check
