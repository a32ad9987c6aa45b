#include "gpu_daemon/control/error_detail.h"

#include <gtest/gtest.h>

namespace carillon::gpud {
namespace {

TEST(ErrorDetail, CarriesCodeSentenceAndAllThreeParts) {
  const absl::Status status =
      Error(absl::StatusCode::kResourceExhausted, "the table is full",
            reason::kEktFull, "ekt_entries", "carillon ekt");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the table is full");
  const v1::ErrorDetail detail = DetailOf(status);
  EXPECT_EQ(detail.reason(), "EKT_FULL");
  EXPECT_EQ(detail.subject(), "ekt_entries");
  EXPECT_EQ(detail.hint(), "carillon ekt");
}

TEST(ErrorDetail, TheFirstDetailStays) {
  absl::Status status =
      WithDetail(absl::NotFoundError("no kernel"), reason::kUnknownKernel, "x");
  status = WithDetail(status, reason::kBadBinding, "y");
  EXPECT_EQ(DetailOf(status).reason(), "UNKNOWN_KERNEL");
  EXPECT_EQ(DetailOf(status).subject(), "x");
}

TEST(ErrorDetail, AnErrorWithoutOneIsNamedByItsCode) {
  EXPECT_EQ(DetailOf(absl::NotFoundError("x")).reason(), "NOT_FOUND");
  EXPECT_EQ(DetailOf(absl::OkStatus()).reason(), "");
  EXPECT_TRUE(WithDetail(absl::OkStatus(), reason::kEktFull).ok());
}

}  // namespace
}  // namespace carillon::gpud
