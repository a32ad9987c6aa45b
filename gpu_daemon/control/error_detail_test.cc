#include "gpu_daemon/control/error_detail.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(ErrorDetail, WhatAClientSentIsCutBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 100'000; ++i) name += "\xc3\xa4";
  for (const std::string& subject : {name, "x" + name}) {
    const v1::ErrorDetail detail = DetailOf(Error(
        absl::StatusCode::kNotFound, "", reason::kUnknownKernel, subject));
    EXPECT_GE(detail.subject().size(), 127u);
    EXPECT_LE(detail.subject().size(), 128u);
    EXPECT_EQ(detail.subject(), subject.substr(0, detail.subject().size()));
    EXPECT_EQ(detail.subject().back(), '\xa4');
  }
}

TEST(ErrorDetail, WhatAClientSentSteersNoTerminal) {
  const absl::Status status =
      Error(absl::StatusCode::kNotFound, "no policy '\x1b[2J\r\n'",
            reason::kUnknownPolicy, "\x1b]0;\a\x7f\xc3\xa4");
  EXPECT_EQ(DetailOf(status).subject(), "\\x1b]0;\\x07\\x7f\xc3\xa4");
  grpc::ServerContext context;
  EXPECT_EQ(ToGrpc(status, &context).error_message(),
            "no policy '\\x1b[2J\\x0d\\x0a'");
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
