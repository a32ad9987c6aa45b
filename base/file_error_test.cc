#include "base/file_error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace carillon {
namespace {

absl::StatusCode CodeOf(int error) {
  errno = error;
  return FileError("make", "folder", "/x").code();
}

TEST(FileErrorTest, OnlyWhatIsSomebodyElsesIsDenied) {
  EXPECT_EQ(CodeOf(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(EROFS), absl::StatusCode::kInternal);
  EXPECT_EQ(CodeOf(ENOSPC), absl::StatusCode::kResourceExhausted);
}

TEST(FileErrorTest, SaysWhatWhichAndWhy) {
  errno = EROFS;
  EXPECT_EQ(FileError("make", "folder", "/x").message(),
            "cannot make the folder /x: Read-only file system");
}

}  // namespace
}  // namespace carillon
