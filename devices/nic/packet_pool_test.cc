#include "devices/nic/packet_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace carillon::nic {
namespace {

TEST(PacketPool, GivesEveryBufferOnceAndThenNone) {
  std::vector<std::byte> memory(5 * kPacketBytes + 100);
  PacketPool pool(memory);
  ASSERT_EQ(pool.size(), 5u);
  std::set<BufferIndex> seen;
  for (int i = 0; i < 5; ++i) {
    const auto buffer = pool.Take();
    ASSERT_TRUE(buffer.has_value());
    EXPECT_LT(*buffer, 5u);
    EXPECT_TRUE(seen.insert(*buffer).second);
  }
  EXPECT_FALSE(pool.Take().has_value());
  EXPECT_EQ(pool.free(), 0u);
}

TEST(PacketPool, ReusesTheBufferGivenBackLast) {
  std::vector<std::byte> memory(3 * kPacketBytes);
  PacketPool pool(memory);
  const BufferIndex a = *pool.Take();
  const BufferIndex b = *pool.Take();
  EXPECT_TRUE(pool.Give(a));
  EXPECT_TRUE(pool.Give(b));
  EXPECT_EQ(*pool.Take(), b);
  EXPECT_EQ(*pool.Take(), a);
}

TEST(PacketPool, RefusesWhatIsNotInUse) {
  std::vector<std::byte> memory(2 * kPacketBytes);
  PacketPool pool(memory);
  const BufferIndex a = *pool.Take();
  EXPECT_TRUE(pool.Give(a));
  EXPECT_FALSE(pool.Give(a));
  EXPECT_FALSE(pool.Give(2));
  EXPECT_FALSE(pool.Give(0xffffffff));
  EXPECT_EQ(pool.free(), 2u);
}

TEST(PacketPool, SaysWhetherItHasRoomForALongOne) {
  std::vector<std::byte> memory(PacketPool::kMaxLong * kPacketBytes);
  PacketPool pool(memory);
  const std::string bytes(kPacketBytes + 1, 'x');
  while (const auto buffer = pool.Take()) {
    EXPECT_TRUE(pool.HasRoomForLong());
    EXPECT_TRUE(pool.KeepLong(*buffer, bytes));
  }
  EXPECT_FALSE(pool.HasRoomForLong());
  EXPECT_FALSE(pool.KeepLong(0, bytes));
  EXPECT_TRUE(pool.Give(3));
  EXPECT_TRUE(pool.HasRoomForLong());
}

TEST(PacketPool, BuffersDoNotOverlap) {
  std::vector<std::byte> memory(4 * kPacketBytes);
  PacketPool pool(memory);
  for (BufferIndex i = 0; i < pool.size(); ++i) {
    EXPECT_EQ(pool.bytes(i).size(), kPacketBytes);
    EXPECT_EQ(pool.bytes(i).data(), memory.data() + PacketPool::OffsetOf(i));
  }
  EXPECT_EQ(PacketPool::OffsetOf(3), 3 * kPacketBytes);
}

}  // namespace
}  // namespace carillon::nic
