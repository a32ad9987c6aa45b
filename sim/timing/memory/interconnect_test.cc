// Networks of ports that pass 32 bytes a cycle, 5 cycles long. A packet is its
// header of 32 bytes, and data.
#include "sim/timing/memory/interconnect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace carillon::sim::timing {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class NetworkTest : public testing::Test {
 protected:
  using Arrived = std::vector<std::pair<uint32_t, Cycle>>;

  Network Make() { return {shape_, &flits_, &stalls_}; }
  static void Push(Network& network, uint32_t source, uint32_t tag,
                   uint32_t destination, uint32_t bytes = 0) {
    network.Push(
        source,
        {.request = {.tag = tag}, .destination = destination, .bytes = bytes});
  }
  // What the source sends from `now` on, as (tag, when it has arrived).
  static Arrived Run(Network& network, uint32_t source, Cycle now = 0) {
    Arrived arrived;
    while (now != kNever) {
      now = network.Advance(source, now, [&](const Packet& packet, Ticks at) {
        arrived.emplace_back(packet.request.tag, CycleAt(at));
      });
    }
    return arrived;
  }

  Network::Shape shape_ = {.sources = 3,
                           .destinations = 2,
                           .queue = 2,
                           .credits = 8,
                           .latency = TicksOf(5),
                           .flit = TicksOf(1),
                           .source_bytes = 32,
                           .destination_bytes = 32,
                           .header_bytes = 32};
  uint64_t flits_ = 0;
  uint64_t stalls_ = 0;
};

TEST_F(NetworkTest, PacketsPassAPortOneAfterTheOther) {
  Network network = Make();
  Push(network, 0, 1, 0, 96);
  Push(network, 0, 2, 1);
  EXPECT_THAT(Run(network, 0), ElementsAre(Pair(1, 9), Pair(2, 4 + 6)));
  // The port of destination 0 is taken until 9.
  Push(network, 1, 3, 0);
  EXPECT_THAT(Run(network, 1), ElementsAre(Pair(3, 10)));
  EXPECT_EQ(flits_, 6u);
}

TEST_F(NetworkTest, TheNarrowerPortDecides) {
  shape_.source_bytes = 16;
  {
    Network network = Make();
    Push(network, 0, 1, 0, 96);
    EXPECT_THAT(Run(network, 0), ElementsAre(Pair(1, 8 + 5)));
  }
  shape_.source_bytes = 128;
  Network network = Make();
  Push(network, 0, 1, 0, 96);
  Push(network, 0, 2, 0, 96);
  EXPECT_THAT(Run(network, 0), ElementsAre(Pair(1, 5 + 4), Pair(2, 5 + 8)));
}

TEST_F(NetworkTest, ASourceHasRoomForSoMany) {
  Network network = Make();
  EXPECT_TRUE(network.HasRoom(0));
  Push(network, 0, 1, 0);
  Push(network, 0, 2, 0);
  EXPECT_FALSE(network.HasRoom(0));
  EXPECT_TRUE(network.HasRoom(1));
  Run(network, 0);
  EXPECT_TRUE(network.HasRoom(0));
}

TEST_F(NetworkTest, APacketWithoutACreditHoldsUpThoseBehindIt) {
  shape_.credits = 1;
  Network network = Make();
  Push(network, 0, 1, 0);
  Push(network, 0, 2, 0);
  Push(network, 0, 3, 1);  // whose destination is free
  EXPECT_THAT(Run(network, 0), ElementsAre(Pair(1, 6)));
  EXPECT_EQ(stalls_, 1u);
  EXPECT_THAT(Run(network, 0, 40), IsEmpty());
  EXPECT_EQ(network.ReturnCredit(0), 0u);
  EXPECT_THAT(Run(network, 0, 50), ElementsAre(Pair(2, 56), Pair(3, 57)));
}

TEST_F(NetworkTest, CreditsGoToThoseWhoHaveWaitedLongest) {
  shape_.credits = 1;
  Network network = Make();
  Push(network, 0, 1, 0);
  Push(network, 0, 2, 0);
  Push(network, 2, 3, 0);
  Push(network, 1, 4, 0);
  EXPECT_THAT(Run(network, 0), ElementsAre(Pair(1, 6)));
  EXPECT_THAT(Run(network, 2), IsEmpty());
  EXPECT_THAT(Run(network, 1), IsEmpty());
  EXPECT_EQ(network.ReturnCredit(0), 0u);
  // Another packet of one that waits does not take the credit away.
  Push(network, 1, 5, 0);
  EXPECT_THAT(Run(network, 1, 10), IsEmpty());
  EXPECT_THAT(Run(network, 0, 10), ElementsAre(Pair(2, 16)));
  EXPECT_EQ(network.ReturnCredit(0), 2u);
  EXPECT_THAT(Run(network, 2, 20), ElementsAre(Pair(3, 26)));
  EXPECT_EQ(network.ReturnCredit(0), 1u);
  EXPECT_THAT(Run(network, 1, 30), ElementsAre(Pair(4, 36)));
  EXPECT_EQ(network.ReturnCredit(0), 1u);
  EXPECT_THAT(Run(network, 1, 40), ElementsAre(Pair(5, 46)));
  EXPECT_EQ(network.ReturnCredit(0), Network::kNone);
}

TEST_F(NetworkTest, CreditsCoverTheWay) {
  EXPECT_EQ(PacketsOnTheWay(0, 10), 0u);
  EXPECT_EQ(PacketsOnTheWay(95, 10), 10u);
  EXPECT_EQ(PacketsOnTheWay(100, 10), 10u);
}

}  // namespace
}  // namespace carillon::sim::timing
