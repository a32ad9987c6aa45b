#include "base/headroom.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "base/unique_fd.h"

namespace carillon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

int NextDescriptor() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

TEST(HeadroomTest, WhatThereIsIsFoundAndGivenBack) {
  const int next = NextDescriptor();
  EXPECT_TRUE(CheckHeadroom(64, 16).ok());
  EXPECT_EQ(NextDescriptor(), next);
}

TEST(HeadroomTest, DescriptorsThatAreMissingAreCounted) {
  const int next = NextDescriptor();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit limit{static_cast<rlim_t>(next + 10), before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &limit);
  const absl::Status enough = CheckHeadroom(10, 0);
  const absl::Status missing = CheckHeadroom(11, 0);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(enough.ok());
  EXPECT_EQ(missing.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr("11 descriptors are needed and 10 can be had"),
                    HasSubstr("ulimit -n")));
  EXPECT_EQ(NextDescriptor(), next);
}

TEST(HeadroomTest, TheDescriptorLimitIsRaisedAsFarAsItGoes) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low{before.rlim_max / 2, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &low);
  RaiseDescriptorLimit();
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace carillon
