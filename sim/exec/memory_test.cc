#include "sim/exec/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace carillon::sim {
namespace {

// An address depends on what its device has taken before, and so on nothing that
// others do. The price: a device that comes and goes uses its range up.
TEST(MemoryTest, ARangeGivesEachAddressOnceAndSaysWhenThereAreNoMore) {
  Memory memory;
  AddressRange range = RangeOf(3);
  std::vector<std::byte> aperture(1 << 20);
  const auto map = [&] {
    return memory.Map(aperture, /*writable=*/true, "host memory", &range);
  };
  DeviceAddress last = 0;
  int mapped = 0;
  auto address = map();
  for (; address.ok(); address = map(), ++mapped) {
    ASSERT_GT(*address, last);
    last = *address;
    ASSERT_TRUE(memory.Free(*address).ok());
  }
  EXPECT_EQ(mapped, 130'561) << "docs/simulated_time.md says so";
  EXPECT_TRUE(absl::IsResourceExhausted(address.status()));
  EXPECT_THAT(std::string(address.status().message()),
              ::testing::HasSubstr("a new GPU has all of them"));
  // The next device's is as it was.
  AddressRange next = RangeOf(4);
  EXPECT_TRUE(memory.Map(aperture, true, "host memory", &next).ok());
}

}  // namespace
}  // namespace carillon::sim
