#include "devices/nic/grxb_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

namespace carillon::nic {
namespace {

TEST(GrxbRing, ABuffersLifeIsFreeRegisteredBusyFree) {
  GrxbRing ring(4);
  EXPECT_EQ(ring.StateOf(0), GrxbState::kFree);
  ring.Register(2);
  EXPECT_EQ(ring.StateOf(0), GrxbState::kRegistered);
  EXPECT_EQ(ring.StateOf(2), GrxbState::kFree);
  ring.Fill(1);
  EXPECT_EQ(ring.StateOf(0), GrxbState::kRegistered);
  const GrxbBatch batch = ring.Submit(1);
  EXPECT_EQ(ring.StateOf(0), GrxbState::kBusy);
  EXPECT_EQ(ring.StateOf(1), GrxbState::kRegistered);
  EXPECT_TRUE(ring.Recycle(batch));
  EXPECT_EQ(ring.StateOf(0), GrxbState::kFree);
  EXPECT_FALSE(ring.Recycle(batch));
}

TEST(GrxbRing, RegistersNoMoreThanAreFree) {
  GrxbRing ring(4);
  ring.Register(10);
  EXPECT_EQ(ring.empty(), 4u);
  EXPECT_EQ(ring.free(), 0u);
  ring.Fill(4);
  ring.Register(10);
  EXPECT_EQ(ring.empty(), 0u);
  EXPECT_EQ(ring.filled(), 4u);
}

TEST(GrxbRing, OnlyTheOldestBatchIsRecycled) {
  GrxbRing ring(8);
  ring.Register(8);
  ring.Fill(6);
  const GrxbBatch first = ring.Submit(2);
  const GrxbBatch second = ring.Submit(3);
  EXPECT_FALSE(ring.Recycle(second));
  EXPECT_FALSE(ring.Recycle({first.first, 6}));
  EXPECT_TRUE(ring.Recycle(first));
  EXPECT_TRUE(ring.Recycle(second));
  EXPECT_FALSE(ring.Recycle(second));
  EXPECT_EQ(ring.free(), 5u);
}

// What each buffer's owner is, kept apart from the ring: whatever happens in
// whatever order, no buffer has two owners, and none is lost.
class Model {
 public:
  explicit Model(uint32_t size) : owner_(size, Owner::kNobody) {}
  enum class Owner : uint8_t { kNobody, kNetwork, kPacket, kGpu };

  // Takes it from one owner and gives it to another; fails if it is another's.
  void Pass(GrxbIndex buffer, Owner from, Owner to) {
    ASSERT_LT(buffer, owner_.size());
    ASSERT_EQ(owner_[buffer], from) << buffer;
    owner_[buffer] = to;
  }
  void PassAll(const GrxbBatch& batch, Owner from, Owner to) {
    for (uint32_t i = 0; i < batch.count; ++i) {
      Pass((batch.first + i) % owner_.size(), from, to);
    }
  }
  void Check(const GrxbRing& ring) const {
    uint32_t count[4] = {};
    for (GrxbIndex i = 0; i < owner_.size(); ++i) {
      const Owner owner = owner_[i];
      ++count[static_cast<size_t>(owner)];
      const GrxbState state = owner == Owner::kNobody ? GrxbState::kFree
                              : owner == Owner::kGpu  ? GrxbState::kBusy
                                                      : GrxbState::kRegistered;
      ASSERT_EQ(ring.StateOf(i), state) << i;
    }
    ASSERT_EQ(ring.free(), count[0]);
    ASSERT_EQ(ring.empty(), count[1]);
    ASSERT_EQ(ring.filled(), count[2]);
    ASSERT_EQ(ring.busy(), count[3]);
  }

 private:
  std::vector<Owner> owner_;
};

TEST(GrxbRing, NoBufferIsOwnedTwiceAndNoneIsLost) {
  using Owner = Model::Owner;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const uint32_t size = 1 + random() % 70;
    GrxbRing ring(size);
    Model model(size);
    std::deque<GrxbBatch> batches;
    uint32_t recycled = 0;
    for (int step = 0; step < 3000; ++step) {
      switch (random() % 4) {
        case 0: {
          const uint32_t before = ring.empty();
          ring.Register(random() % 80);
          for (uint32_t i = before; i < ring.empty(); ++i) {
            model.Pass(ring.Next(i), Owner::kNobody, Owner::kNetwork);
          }
          break;
        }
        case 1: {
          const uint32_t count = random() % (ring.empty() + 1);
          for (uint32_t i = 0; i < count; ++i) {
            model.Pass(ring.Next(i), Owner::kNetwork, Owner::kPacket);
          }
          ring.Fill(count);
          break;
        }
        case 2: {
          if (ring.filled() == 0) break;
          const GrxbBatch batch = ring.Submit(1 + random() % ring.filled());
          model.PassAll(batch, Owner::kPacket, Owner::kGpu);
          batches.push_back(batch);
          break;
        }
        case 3: {
          if (batches.size() > 1 && batches.back().count < ring.busy()) {
            // Sometimes the GPU claims to have ended a later one first.
            const bool same = batches.back().first == batches.front().first;
            ASSERT_FALSE(!same && ring.Recycle(batches.back()));
          }
          if (batches.empty()) break;
          ASSERT_TRUE(ring.Recycle(batches.front()));
          model.PassAll(batches.front(), Owner::kGpu, Owner::kNobody);
          recycled += batches.front().count;
          batches.pop_front();
          break;
        }
      }
      if (HasFatalFailure()) return;
      model.Check(ring);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(recycled, 10 * size) << seed;
  }
}

}  // namespace
}  // namespace carillon::nic
