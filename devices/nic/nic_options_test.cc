#include "devices/nic/nic_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::nic {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const NicOptions& options) {
  const absl::Status status = Check(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(NicOptions, GnomServesOneAddressOfIpv4) {
  EXPECT_TRUE(Check({.gnom = "lo"}).ok());
  EXPECT_TRUE(Check({.listen = "0.0.0.0"}).ok());
  EXPECT_TRUE(Check({.listen = "::"}).ok());
  EXPECT_THAT(Refusal({.listen = "0.0.0.0", .gnom = "lo"}),
              HasSubstr("other hosts' addresses"));
  for (const char* address : {"::", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_THAT(Refusal({.listen = address, .gnom = "lo"}),
                HasSubstr("is not an IPv4 address"));
  }
}

TEST(NicOptions, CopiesAreGnomsOnly) {
  EXPECT_TRUE(Check({.gnom = "lo", .gnom_copies = true}).ok());
  EXPECT_THAT(Refusal({.gnom_copies = true}), HasSubstr("needs --gnom"));
}

}  // namespace
}  // namespace carillon::nic
