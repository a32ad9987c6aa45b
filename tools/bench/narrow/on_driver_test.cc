// The calls of the driver that narrow tasks cost without a gpud, seen and changed
// on their way, on the drivers without a GPU. No number of wall time is judged.
#include "tools/bench/narrow/on_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "base/status.h"
#include "gpu_daemon/backends/cuda/driver/driver.h"

namespace carillon::bench {
namespace {

namespace cuda = gpud::cuda;

#define CARILLON_NAME(function) k_##function,
enum Function { CARILLON_CUDA_FUNCTIONS(CARILLON_NAME) };
#undef CARILLON_NAME

struct Call {
  Function function;
  CUresult result;
};

// What stands between the program and the driver. One thread.
struct Spy {
  cuda::Driver real;
  std::vector<Call> calls;
  // In place of the driver, where it has a value.
  std::function<std::optional<CUresult>(Function)> instead;

  size_t Count(Function function) const {
    return static_cast<size_t>(std::ranges::count_if(
        calls, [&](const Call& call) { return call.function == function; }));
  }
} spy;

template <auto kMember, Function kFunction, class... Args>
CUresult Seen(Args... args) {
  std::optional<CUresult> result;
  if (spy.instead) result = spy.instead(kFunction);
  if (!result) result = (spy.real.*kMember)(args...);
  spy.calls.push_back({kFunction, *result});
  return *result;
}
template <auto kMember, Function kFunction, class... Args>
void See(cuda::Driver& driver, CUresult (*)(Args...)) {
  driver.*kMember = &Seen<kMember, kFunction, Args...>;
}

absl::StatusOr<cuda::Driver> Load(const char* name) {
  ASSIGN_OR_RETURN(spy.real,
                   cuda::Driver::Load(std::string("gpu_daemon/backends/cuda/") +
                                      name + "/libcuda.so.1"));
  spy.calls.clear();
  spy.instead = nullptr;
  cuda::Driver driver;
#define CARILLON_SEE(function) \
  See<&cuda::Driver::function, k_##function>(driver, spy.real.function);
  CARILLON_CUDA_FUNCTIONS(CARILLON_SEE)
#undef CARILLON_SEE
  return driver;
}

absl::Status GoOn() { return absl::OkStatus(); }

struct Way {
  const char* driver;
  std::string_view path;
  bool copies;
  const char* workload;
};
// The fake driver has no fused forms. CONV has two phases, so two fused launches.
const Way kWays[] = {{"fake", kHyperQ, false, "dct"},
                     {"fake", kHyperQ, true, "dct"},
                     {"sim_driver", kFusion, false, "conv"},
                     {"sim_driver", kFusion, true, "conv"}};

NarrowWorkload Tasks(const char* name = "dct") {
  return *NarrowWorkload::Make(name, 4, 1, 0);
}

TEST(NarrowOnDriver, NothingIsMadeOrLoadedFromTheFirstMeasuredTaskOn) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(testing::Message() << way.path << " copies " << way.copies);
    const auto driver = Load(way.driver);
    ASSERT_TRUE(driver.ok()) << driver.status();
    const auto narrow = NarrowDriver::Open(*driver);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    const NarrowWorkload workload = Tasks(way.workload);
    const auto outcome = (*narrow)->Run(workload, {way.path, way.copies}, GoOn);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    // The first half is in vain.
    const size_t launches = spy.Count(k_cuLaunchKernel);
    EXPECT_EQ(launches, 2 * outcome->launches);
    size_t launch = 0;
    for (const Call& call : spy.calls) {
      launch += call.function == k_cuLaunchKernel;
      if (launch < launches / 2 || launch == launches) continue;
      EXPECT_THAT((std::set<Function>{k_cuModuleLoadData, k_cuModuleLoadDataEx,
                                      k_cuModuleGetFunction, k_cuMemAlloc,
                                      k_cuMemHostAlloc, k_cuEventCreate,
                                      k_cuStreamCreateWithPriority}),
                  testing::Not(testing::Contains(call.function)))
          << "behind launch " << launch << " of " << launches;
    }
  }
}

// A look is a call: looking at all streams behind each launch would hold it back.
TEST(NarrowOnDriver, TheHostLooksAtOneStreamBehindALaunch) {
  const auto driver = Load("fake");
  ASSERT_TRUE(driver.ok()) << driver.status();
  const auto narrow = NarrowDriver::Open(*driver);
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  const NarrowWorkload workload = Tasks();
  ASSERT_TRUE(std::ranges::all_of(workload.tasks(), [](const NarrowUnit& one) {
    return one.phase == 0;  // so that all may begin at once
  }));
  const auto outcome = (*narrow)->Run(workload, {kHyperQ}, GoOn);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const size_t launches = spy.Count(k_cuLaunchKernel);
  size_t launch = 0;
  size_t vain = 0;
  for (const Call& call : spy.calls) {
    if (call.function == k_cuLaunchKernel) {
      ++launch;
      vain = 0;
    }
    if (launch == launches / 2 || launch == launches) continue;
    vain +=
        call.function == k_cuEventQuery && call.result == CUDA_ERROR_NOT_READY;
    EXPECT_LE(vain, 1u) << "behind launch " << launch;
  }
}

TEST(NarrowOnDriver, ALaunchThatFailsIsNoRefusalAndTheNextDriverRuns) {
  const auto driver = Load("fake");
  ASSERT_TRUE(driver.ok()) << driver.status();
  for (const CUresult result :
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_CONTEXT_IS_DESTROYED}) {
    auto narrow = NarrowDriver::Open(*driver);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    spy.instead = [&, launch = 0](Function function) mutable {
      if (function == k_cuLaunchKernel && ++launch == 4) {
        return std::optional(result);
      }
      return std::optional<CUresult>();
    };
    const auto outcome = (*narrow)->Run(Tasks(), {kHyperQ}, GoOn);
    EXPECT_TRUE(absl::IsInternal(outcome.status())) << outcome.status();
    spy.instead = nullptr;
    narrow->reset();
    narrow = NarrowDriver::Open(*driver);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    EXPECT_TRUE((*narrow)->Run(Tasks(), {kHyperQ}, GoOn).ok());
  }
}

// Nothing that the GPU may still use is freed, and nothing waits for it.
void ExpectNothingFreed() {
  for (const Call& call : spy.calls) {
    EXPECT_THAT(
        (std::set<Function>{k_cuCtxSynchronize, k_cuDevicePrimaryCtxRelease,
                            k_cuMemFree, k_cuMemFreeHost, k_cuStreamDestroy,
                            k_cuEventDestroy, k_cuModuleUnload}),
        testing::Not(testing::Contains(call.function)));
  }
}

TEST(NarrowOnDriver, WhatHangsIsGivenUpAndNothingWaitsForIt) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(testing::Message() << way.path << " copies " << way.copies);
    const auto driver = Load(way.driver);
    ASSERT_TRUE(driver.ok()) << driver.status();
    auto narrow = NarrowDriver::Open(*driver);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    spy.instead = [](Function function) {
      return function == k_cuEventQuery || function == k_cuStreamQuery
                 ? std::optional(CUDA_ERROR_NOT_READY)
                 : std::nullopt;
    };
    const auto outcome = (*narrow)->Run(
        Tasks(way.workload),
        {.path = way.path, .copies = way.copies, .patience_ns = 1'000'000},
        GoOn);
    EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.status())) << outcome.status();
    narrow->reset();
    ExpectNothingFreed();
  }
}

TEST(NarrowOnDriver, AnInterruptWaitsForNothing) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(testing::Message() << way.path << " copies " << way.copies);
    const auto driver = Load(way.driver);
    ASSERT_TRUE(driver.ok()) << driver.status();
    auto narrow = NarrowDriver::Open(*driver);
    ASSERT_TRUE(narrow.ok()) << narrow.status();
    bool interrupted = false;
    spy.instead = [&](Function function) -> std::optional<CUresult> {
      if (function != k_cuEventQuery && function != k_cuStreamQuery) return {};
      interrupted = true;
      return CUDA_ERROR_NOT_READY;
    };
    const auto outcome = (*narrow)->Run(
        Tasks(way.workload), {way.path, way.copies}, [&]() -> absl::Status {
          return interrupted ? absl::CancelledError("interrupted")
                             : absl::OkStatus();
        });
    EXPECT_TRUE(absl::IsCancelled(outcome.status())) << outcome.status();
    narrow->reset();
    ExpectNothingFreed();
  }
}

}  // namespace
}  // namespace carillon::bench
