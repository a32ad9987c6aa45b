// Shared memory and barriers of an MTB, against allocators that keep lists.
#include "gpu_daemon/backends/cuda/pagoda/buddy_tree.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <vector>

#include "gpu_daemon/backends/cuda/pagoda/barrier_ids.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_thread_port.h"
#include "rapidcheck/gtest.h"

namespace carillon::gpud {
namespace {

// Leaves, and nothing else: the lowest aligned run of free ones.
class LeafList {
 public:
  struct Range {
    uint32_t offset = 0;
    uint32_t bytes = 0;  // 0: none was free
  };
  Range Allocate(uint32_t bytes) {
    const uint32_t leaves =
        std::bit_ceil((bytes + kBuddyLeafBytes - 1) / kBuddyLeafBytes);
    for (uint32_t first = 0; first < kBuddyLeaves; first += leaves) {
      bool free = true;
      for (uint32_t i = first; i < first + leaves; ++i) free &= !taken_[i];
      if (!free) continue;
      for (uint32_t i = first; i < first + leaves; ++i) taken_[i] = true;
      return {first * kBuddyLeafBytes, leaves * kBuddyLeafBytes};
    }
    return {};
  }
  void Free(const Range& range) {
    for (uint32_t i = 0; i < range.bytes; i += kBuddyLeafBytes) {
      taken_[(range.offset + i) / kBuddyLeafBytes] = false;
    }
  }
  bool IsFree(uint32_t offset, uint32_t bytes) const {
    for (uint32_t i = 0; i < bytes; i += kBuddyLeafBytes) {
      if (taken_[(offset + i) / kBuddyLeafBytes]) return false;
    }
    return true;
  }

 private:
  std::array<bool, kBuddyLeaves> taken_ = {};
};

struct Tree {
  PagodaThreadPort port{nullptr, 0};
  BuddyTree<PagodaThreadPort> tree{port};
};

RC_GTEST_PROP(BuddyTree, AllocatesAsAListOfLeavesDoes, ()) {
  Tree buddy;
  LeafList leaves;
  std::vector<std::pair<uint32_t, LeafList::Range>> held;
  const auto steps = *rc::gen::inRange(1, 200);
  for (int step = 0; step < steps; ++step) {
    if (held.empty() || *rc::gen::inRange(0, 5) < 3) {
      const uint32_t level = *rc::gen::inRange(0, 7);
      const uint32_t bytes =
          *rc::gen::inRange<uint32_t>(1, (kBuddyLeafBytes << level) + 1);
      const uint32_t node = buddy.tree.Allocate(bytes);
      const LeafList::Range range = leaves.Allocate(bytes);
      RC_ASSERT((node == 0) == (range.bytes == 0));
      if (node == 0) continue;
      RC_ASSERT(BuddyOffset(node) == range.offset);
      RC_ASSERT(BuddyBytes(node) == range.bytes);
      held.emplace_back(node, range);
    } else {
      const size_t i = *rc::gen::inRange<size_t>(0, held.size());
      buddy.tree.Free(held[i].first);
      leaves.Free(held[i].second);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
    }
    // A node is marked if and only if something of it is allocated; so a marked
    // node's parent is, too (Pagoda 5.1).
    for (uint32_t node = 1; node < 2 * kBuddyLeaves; ++node) {
      RC_ASSERT(buddy.tree.IsMarked(node) ==
                !leaves.IsFree(BuddyOffset(node), BuddyBytes(node)));
    }
  }
}

// Pagoda's Figures 4 and 5.
TEST(BuddyTreeTest, EightKilobytesMarkWhatLiesAboveAndBelow) {
  Tree buddy;
  EXPECT_EQ(buddy.tree.Allocate(8 * 1024), 4u);
  EXPECT_EQ(buddy.tree.Allocate(16 * 1024), 3u);
  EXPECT_EQ(buddy.tree.Allocate(16 * 1024), 0u);
  EXPECT_EQ(buddy.tree.Allocate(8 * 1024), 5u);
  EXPECT_EQ(buddy.tree.Allocate(1), 0u);
  buddy.tree.Free(4);
  EXPECT_TRUE(buddy.tree.IsMarked(2)) << "node 5 is in use";
  buddy.tree.Free(3);
  EXPECT_TRUE(buddy.tree.IsMarked(1)) << "node 5 is in use";
  buddy.tree.Free(5);
  EXPECT_EQ(buddy.tree.Allocate(kTaskSharedBytes), 1u);
}

TEST(BarrierIdsTest, FifteenAreGivenOnceEachAndAgainWhenFreed) {
  BarrierIds barriers;
  std::set<uint32_t> taken;
  for (uint32_t i = 0; i < kTaskBarriers; ++i) {
    const uint32_t id = barriers.Take();
    EXPECT_GE(id, 1u) << "0 is the MTB's own";
    EXPECT_LE(id, 15u) << "bar.sync has 16";
    EXPECT_TRUE(taken.insert(id).second) << id;
  }
  EXPECT_EQ(barriers.Take(), 0u);
  barriers.Free(0);
  EXPECT_EQ(barriers.Take(), 0u) << "0 frees nothing";
  barriers.Free(7);
  EXPECT_EQ(barriers.Take(), 7u);
  EXPECT_EQ(barriers.Take(), 0u);
}

}  // namespace
}  // namespace carillon::gpud
