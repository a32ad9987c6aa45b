// Calls by address: functions in tables, virtual functions, recursion.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "sim/everyday/cuda_test.h"

namespace carillon::sim {
namespace {

using testing::HasSubstr;

class CallsTest : public CudaTest {
 protected:
  void SetUp() override { Load("calls"); }
};
CUDA_TEST(CallsTest);

TEST_P(CallsTest, EachLaneHasAnObjectOfItsOwnClass) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("shapes", 1, 64, {out}), absl::OkStatus());
  const auto got = Values(out, 64);
  const auto area = [](int i) {
    return i % 3 == 0 ? i * i : i % 3 == 1 ? i * (i + 1) / 2 : 3 * i * i;
  };
  for (int i = 0; i < 64; ++i) {
    const int edges = i % 3 == 0 ? 4 : i % 3 == 1 ? 3 : 0;
    EXPECT_EQ(got[i], area(i) * 100 + edges + area(i ^ 5) * 100000) << i;
  }
}

TEST_P(CallsTest, LanesCallFunctionsOfTablesAndMeetAgain) {
  std::vector<int> in(128);
  for (int i = 0; i < 128; ++i) in[i] = (i * 2654435761u) >> 20;
  const DeviceAddress out = Zeroes(96);
  ASSERT_EQ(Run("tables", 1, 96, {Copy(in), out}), absl::OkStatus());
  const auto call = [](int which, int a, int b) {
    return which == 0   ? a + b
           : which == 1 ? a - b
           : which == 2 ? a * b
                        : std::max(a, b);
  };
  std::vector<uint32_t> values(96);
  for (int i = 0; i < 96; ++i) {
    int value = 0;
    for (int k = 0; k < 5; ++k) {
      value += call(in[i + k] & 3, in[i], k);
      value ^= call(3 - (in[i + k] >> 2 & 3), value, in[k]);
    }
    values[i] = static_cast<uint32_t>(value);
  }
  const auto got = Values<uint32_t>(out, 96);
  for (int i = 0; i < 96; ++i) {
    uint32_t sum = 0;
    for (int k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) sum += values[k];
    EXPECT_EQ(got[i], sum) << i;
  }
}

TEST_P(CallsTest, AnAddressComesByTheHost) {
  const DeviceAddress address = Zeroes(2);
  const DeviceAddress out = Zeroes(32);
  ASSERT_EQ(Run("address_of", 1, 1, {2, address}), absl::OkStatus());
  ASSERT_EQ(Run("call_address", 1, 32, {Values<uint64_t>(address, 1)[0], out}),
            absl::OkStatus());
  EXPECT_EQ(Values(out, 32)[6], 0);
  EXPECT_EQ(Values(out, 32)[31], 93);
}

TEST_P(CallsTest, RecursionByPointersHasADepthOfEachLane) {
  const DeviceAddress out = Zeroes(64);
  ASSERT_EQ(Run("recursion", 1, 64, {out}), absl::OkStatus());
  const auto got = Values(out, 64);
  std::function<int(bool, bool, int)> call = [&](bool first, bool even,
                                                 int n) -> int {
    // The functions of walk 1 are the other way round.
    if (first == even) {
      return n <= 0 ? 1 : 1 + call(false, even, n - 1);
    }
    return n <= 0 ? 1000 : 2 * call(true, even, n - 2) % 10007;
  };
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], call(true, i % 2 == 0, i)) << i;
  }
}

TEST_P(CallsTest, ASortTakesItsOrderAsAFunction) {
  constexpr int kCount = 40;
  std::vector<int> values(40 * kCount);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>((i * 2654435761u) >> 22);
  }
  const DeviceAddress at = Copy(values);
  ASSERT_EQ(Run("sorts", 1, 40, {at, kCount}), absl::OkStatus());
  for (int i = 0; i < 40; ++i) {
    std::sort(values.begin() + i * kCount, values.begin() + (i + 1) * kCount,
              [&](int a, int b) {
                if (i % 3 == 0) return a < b;
                if (i % 3 == 1) return a > b;
                return a % 10 != b % 10 ? a % 10 < b % 10 : a < b;
              });
  }
  EXPECT_EQ(Values(at, values.size()), values);
}

TEST_P(CallsTest, ACallToNoFunctionNamesItsPlace) {
  const DeviceAddress out = Zeroes(32);
  for (const uint64_t address : {uint64_t{0}, out, uint64_t{0x400000018}}) {
    const absl::Status status = Run("call_address", 1, 32, {address, out});
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                testing::MatchesRegex(
                    "call_address: sim/everyday/calls[^:]*:[0-9]+: call: there "
                    "is no function at 0x[0-9a-f]+; lane 7 of warp 0, block "
                    "\\(0, 0, 0\\)"));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(fmt::format("at {:#x};", address)));
  }
  // A kernel is none that can be called.
  uint64_t kernel = 0;
  for (const ProgramFunction& function : program_->functions) {
    if (!function.is_entry) continue;
    kernel = AddressOfFunction(
        static_cast<uint32_t>(&function - program_->functions.data()));
  }
  EXPECT_THAT(std::string(Run("call_address", 1, 32, {kernel, out}).message()),
              HasSubstr("there is no function at"));
}

TEST_P(CallsTest, ACallWithOtherParametersIsRefused) {
  EXPECT_THAT(
      std::string(Run("wrong_prototype", 1, 1, {Zeroes(1)}).message()),
      HasSubstr("has other parameters or results than the call's prototype"));
}

}  // namespace
}  // namespace carillon::sim
