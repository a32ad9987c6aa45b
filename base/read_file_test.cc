#include "base/read_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace carillon {
namespace {

TEST(ReadFileTest, GivesAllBytesOrSaysWhyNot) {
  const std::string folder = testing::TempDir();
  const std::string path = folder + "/bytes";
  std::string bytes(200'000, 'x');
  bytes[100'000] = '\0';
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*ReadFile(path, "text"), bytes);
  std::ofstream(path, std::ios::binary | std::ios::trunc);
  EXPECT_EQ(*ReadFile(path, "text"), "");

  const auto none = ReadFile(folder + "/none", "PTX text");
  EXPECT_EQ(none.status(),
            absl::NotFoundError("cannot read the PTX text " + folder +
                                "/none: No such file or directory"));
  const auto of_folder = ReadFile(folder, "PTX text");
  EXPECT_EQ(of_folder.status(),
            absl::InvalidArgumentError(
                folder + " is a folder: the PTX text must be a file"));
}

TEST(ReadFileTest, RefusesAFileWithoutEnd) {
  EXPECT_EQ(ReadFile("/dev/zero", "PTX text").status(),
            absl::InvalidArgumentError("/dev/zero is larger than 64 MiB: the "
                                       "PTX text must be a smaller file"));
}

TEST(ReadFileTest, ReadsAsMuchAsTheCallerAllows) {
  const std::string path = testing::TempDir() + "/four";
  std::ofstream(path) << "four";
  EXPECT_EQ(*ReadFile(path, "text", 4), "four");
  EXPECT_EQ(ReadFile(path, "text", 3).status(),
            absl::InvalidArgumentError(
                path + " is larger than 3 B: the text must be a smaller file"));
}

}  // namespace
}  // namespace carillon
