#include "shm/recorder/peer_clock.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_directory.h"

namespace carillon::shm {
namespace {

TEST(PeerClock, IsReadAsItWasWritten) {
  const TempDirectory directory = *TempDirectory::Make();
  const auto none = ReadPeerClock(directory.path());
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  for (const int64_t offset : {int64_t{-5'000'000'000}, int64_t{7}}) {
    const PeerClock clock{"a", "b", offset, 12'000};
    ASSERT_TRUE(WritePeerClock(directory.path(), clock).ok());
    const auto read = ReadPeerClock(directory.path());
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, clock);
  }
}

TEST(PeerClock, WhatIsNoneIsRefused) {
  const TempDirectory directory = *TempDirectory::Make();
  for (const char* const text :
       {"", "a b 1", "a b x 1", "a b 1 2 3", "a b 9223372036854775807 1"}) {
    std::ofstream(directory.path() + "/peer.clock") << text;
    EXPECT_TRUE(
        absl::IsInvalidArgument(ReadPeerClock(directory.path()).status()))
        << text;
  }
}

}  // namespace
}  // namespace carillon::shm
