#include "shm/ring_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "shm/testing/ring_fixture.h"

namespace carillon::shm {
namespace {

using testing::HasSubstr;

TEST(RingEntriesTest, OnlyPowersOfTwoInRange) {
  for (uint64_t entries = 1; entries <= kMaxRingEntries; entries *= 2) {
    EXPECT_TRUE(CheckRingEntries(entries).ok()) << entries;
  }
  for (const uint64_t entries :
       {uint64_t{0}, uint64_t{3}, uint64_t{65}, uint64_t{kMaxRingEntries} * 2,
        uint64_t{kMaxRingEntries} + 1, uint64_t{1} << 32, ~uint64_t{0}}) {
    const absl::Status status = CheckRingEntries(entries);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entries;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(std::to_string(entries) +
                          " entries: must be a power of two from 1 to 65536"));
  }
}

TEST(MakeRingLayoutTest, EntriesHoldHeaderOverrideAndParametersInWholeLines) {
  for (const bool modifyable : {false, true}) {
    for (uint32_t bytes = 0; bytes <= kMaxParameterBytes; ++bytes) {
      const RingLayout layout = MakeRingLayout(8, bytes, modifyable);
      EXPECT_EQ(layout.modifyable(), modifyable);
      EXPECT_EQ(layout.parameter_offset, modifyable ? 64u : 32u);
      EXPECT_EQ(layout.entry_bytes % 64, 0u);
      EXPECT_GE(layout.entry_bytes, layout.parameter_offset + bytes);
      EXPECT_LT(layout.entry_bytes, layout.parameter_offset + bytes + 64);
    }
  }
}

TEST(MakeRingLayoutTest, SequencesFillTheSlotsInTurn) {
  const RingLayout layout = MakeRingLayout(4, 8, false);
  for (uint64_t sequence = 1; sequence < 20; ++sequence) {
    EXPECT_EQ(layout.SlotOf(Sequence(sequence)), sequence % 4);
  }
  EXPECT_EQ(layout.SlotOf(Sequence(~uint64_t{0})), 3u);
}

struct BadLayout {
  const char* name;
  std::function<void(RingLayout&)> spoil;
  const char* message;
};
void PrintTo(const BadLayout& bad, std::ostream* out) { *out << bad.name; }

class BadLayoutTest : public testing::TestWithParam<BadLayout> {};

TEST_P(BadLayoutTest, IsRefusedByName) {
  auto rings = RingFixture::Make({.entries = 16, .rings = 2});
  ASSERT_TRUE(rings.ok()) << rings.status();
  const Aperture& submission = (*rings)->device_submission();
  const Aperture& completion = (*rings)->device_completion();
  RingLayout layout = (*rings)->layout(1);
  ASSERT_TRUE(CheckRingLayout(layout, submission, completion).ok());
  GetParam().spoil(layout);
  const absl::Status status = CheckRingLayout(layout, submission, completion);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, BadLayoutTest,
    testing::Values(
        BadLayout{"NoEntries", [](auto& bad) { bad.entries = 0; },
                  "entries is 0, must be a power of two"},
        BadLayout{"OddEntries", [](auto& bad) { bad.entries = 12; },
                  "entries is 12"},
        BadLayout{"ManyEntries", [](auto& bad) { bad.entries = 1u << 17; },
                  "entries is 131072"},
        BadLayout{"NoGeneration",
                  [](auto& bad) { bad.generation = Generation(); },
                  "generation is 0"},
        BadLayout{"DoorbellBeyondTheLine",
                  [](auto& bad) { bad.doorbell = DoorbellIndex(32); },
                  "doorbell is 32, must be below 32"},
        BadLayout{"ParameterOffset",
                  [](auto& bad) { bad.parameter_offset = 48; },
                  "parameter offset is 48, must be 32 or 64"},
        BadLayout{"ManyParameters",
                  [](auto& bad) { bad.parameter_bytes = 4097; },
                  "parameter bytes is 4097, must be at most 4096"},
        BadLayout{"ParametersBeyond32Bits",
                  [](auto& bad) { bad.parameter_bytes = ~0u; },
                  "parameter bytes is 4294967295"},
        BadLayout{"NoEntrySize", [](auto& bad) { bad.entry_bytes = 0; },
                  "entry size is 0"},
        BadLayout{"OddEntrySize", [](auto& bad) { bad.entry_bytes = 130; },
                  "entry size is 130"},
        BadLayout{"SmallEntries", [](auto& bad) { bad.entry_bytes = 64; },
                  "entry size is 64, must be a multiple of 64 from 128 on"},
        BadLayout{"HugeEntries",
                  [](auto& bad) { bad.entry_bytes = 0xffffffc0; },
                  "ESQ offset is"},
        BadLayout{"EsqInTheControlPages", [](auto& bad) { bad.esq_offset = 0; },
                  "ESQ offset is 0"},
        BadLayout{"EsqOffItsLine", [](auto& bad) { bad.esq_offset += 8; },
                  "ESQ offset is"},
        BadLayout{"EsqBeyondTheEnd",
                  [](auto& bad) { bad.esq_offset += 1 << 20; },
                  "ESQ offset is"},
        BadLayout{"EsqWrapsAround",
                  [](auto& bad) { bad.esq_offset = ~uint64_t{63}; },
                  "ESQ offset is 18446744073709551552"},
        BadLayout{"EcqInTheControlPages",
                  [](auto& bad) { bad.ecq_offset = 4096; },
                  "ECQ offset is 4096"},
        BadLayout{"EcqOffItsLine", [](auto& bad) { bad.ecq_offset += 16; },
                  "ECQ offset is"},
        BadLayout{"EcqBeyondTheEnd",
                  [](auto& bad) { bad.ecq_offset = 1 << 30; },
                  "ECQ offset is 1073741824"},
        BadLayout{"EcqWrapsAround",
                  [](auto& bad) { bad.ecq_offset = ~uint64_t{63}; },
                  "ECQ offset is"},
        BadLayout{"LivesInTheControlPages",
                  [](auto& bad) { bad.life_offset = 64; }, "life offset is 64"},
        BadLayout{"LivesOffTheirLine", [](auto& bad) { bad.life_offset += 32; },
                  "life offset is"},
        BadLayout{"LivesBeyondTheEnd",
                  [](auto& bad) { bad.life_offset = 1 << 30; },
                  "life offset is"},
        BadLayout{"LivesOverTheEcq",
                  [](auto& bad) { bad.life_offset = bad.ecq_offset; },
                  "outside the ECQ"},
        BadLayout{"LivesEndInTheEcq",
                  [](auto& bad) {
                    bad.ecq_offset = bad.life_offset + 15 * sizeof(EventLife);
                  },
                  "outside the ECQ"}),
    [](const auto& bad) { return bad.param.name; });

}  // namespace
}  // namespace carillon::shm
