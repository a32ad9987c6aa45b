#include "tools/testbed/supervisor/log_rotation.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/temp_directory.h"
#include "base/unique_fd.h"
#include "tools/testbed/supervisor/test_util.h"

namespace carillon::testbed {
namespace {

namespace fs = std::filesystem;

TEST(RotateLogs, BoundsWhatAProcessWritesAndKeepsTheNewest) {
  auto folder = TempDirectory::Make();
  ASSERT_TRUE(folder.ok());
  const std::string log = folder->path() + "/gpud.log";
  const std::string old = folder->path() + "/gpud.old.log";
  // As a process of a testbed has it open.
  const UniqueFd writer(
      open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const auto write = [&](const std::string& text) {
    ASSERT_EQ(::write(writer.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  };
  write("a short log\n");
  RotateLogs(folder->path());
  EXPECT_EQ(FileText(log), "a short log\n");
  EXPECT_FALSE(fs::exists(old));

  for (int round = 0; round < 3; ++round) {
    write(std::string(3 * kMaxLogBytes, 'x') + "the last line\n");
    RotateLogs(folder->path());
    EXPECT_EQ(fs::file_size(log), 0u);
    EXPECT_EQ(fs::file_size(old), kMaxLogBytes);
    EXPECT_TRUE(FileText(old).ends_with("xthe last line\n"));
  }
  write("it goes on\n");
  RotateLogs(folder->path());
  EXPECT_EQ(FileText(log), "it goes on\n");
  const fs::directory_iterator files(folder->path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

}  // namespace
}  // namespace carillon::testbed
