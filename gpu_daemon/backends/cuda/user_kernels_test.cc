// A user's own kernels on the CUDA back-end: launched by every path that can, and
// loaded again after a fault.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/user_kernels_fixture.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::AllOf;
using ::testing::HasSubstr;

class UserPathsTest : public UserKernelsTest,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  TestDevice::Event Add(const simt::KernelInfo* kernel,
                        std::vector<ParameterBinding> bindings,
                        uint32_t entries = 8, simt::Dim3 grid = {1, 1, 1},
                        uint32_t priority = 0) {
    const auto found = backend_->paths().Find(GetParam());
    EXPECT_TRUE(found.ok()) << found.status();
    path_ = found->path;
    auto event = device_->Register({.kernel = kernel,
                                    .bindings = std::move(bindings),
                                    .grid = grid,
                                    .block = {kFloats, 1, 1},
                                    .entries = entries,
                                    .priority = priority});
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  TestDevice::Event AddSaxpy(const simt::KernelInfo* kernel,
                             simt::Dim3 grid = {1, 1, 1}) {
    return Add(
        kernel,
        {Buffer(SaxpyDevice::Range(device_->x)),
         Buffer(SaxpyDevice::Range(device_->y)), Writable(), Constant(kFloats)},
        8, grid);
  }
  void TakeAway(const TestDevice::Event& event) {
    path_->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
    event.kernel->AbortUnfinished(EventStatus::kUnregistered);
    EXPECT_EQ(event.kernel->counts().aborted, 0u);
  }
  static void Commit(const TestDevice::Event& event, float a) {
    std::memcpy(event.ring->parameters(), &a, sizeof(a));
    event.ring->Commit();
  }
  void ExpectY(float factor, float sum) {
    for (uint32_t i = 0; i < kFloats; ++i) {
      EXPECT_EQ(device_->y[i], factor * (1 + sum * static_cast<float>(i)));
    }
  }

  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, UserPathsTest,
                         ::testing::Values("baseline", "baseline_flag",
                                           "graph"),
                         [](const auto& info) { return info.param; });

// With more blocks than the GPU holds.
TEST_P(UserPathsTest, RunInSlicesOrWholeAsTheirFileAllows) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  std::string syncs = kPtx;
  syncs.replace(syncs.find("{ ret; }"), 8,
                "{ .reg .b32 %r; mov.b32 %r, %envreg2; ret; }");
  std::string unknown = kPtx;
  unknown.replace(unknown.find("{ ret; }"), 8, "{ .unknown; ret; }");
  const auto run = [&](const std::string& image, const std::string& name) {
    const auto loaded = Load(image, {Saxpy(name)});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    auto event = AddSaxpy(loaded->front(), {1000, 1, 1});
    Commit(event, 0.0f);
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  };
  const auto counts = [&] {
    const SliceFigures figures = backend_->figures().slices;
    std::string text = std::to_string(figures.sliced);
    for (const PathCounter& whole : figures.whole) {
      text += ", " + std::to_string(whole.value) + " ";
      text += whole.name;
    }
    return text;
  };
  run(kPtx, "sliced");
  EXPECT_EQ(counts(), "1");
  EXPECT_EQ(fake_.launches("saxpy"), 0u);
  const uint64_t slices = backend_->figures().slices.slices;
  EXPECT_GT(slices, 1u);
  EXPECT_EQ(fake_.launches("carillon_slice_saxpy"), slices);
  run(syncs, "syncs");
  EXPECT_EQ(counts(), "1, 1 grid_wide");
  run(unknown, "unknown");
  EXPECT_EQ(counts(), "1, 1 unknown_ptx, 1 grid_wide");
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
}

// The driver takes the user's own text, as it is.
TEST_P(UserPathsTest, RunWholeWhenTheDriverRefusesTheirSlicedVersion) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  fake_.FailNext("cuModuleLoadDataEx", CUDA_ERROR_INVALID_PTX);
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  Commit(event, 2.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "refused");
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  TakeAway(event);
}

// What the driver says of slices' functions.
std::atomic<CUresult (*)(CUfunction*, CUmodule, const char*)> real_find;
std::atomic<CUresult (*)(int*, CUfunction_attribute, CUfunction)> real_ask;
std::atomic<CUfunction> a_slice;
CUresult FindButForSlices(CUfunction* function, CUmodule module,
                          const char* name) {
  if (std::string_view(name).starts_with("carillon_slice_")) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return real_find.load()(function, module, name);
}
CUresult FindAndNoteSlice(CUfunction* function, CUmodule module,
                          const char* name) {
  const CUresult result = real_find.load()(function, module, name);
  if (std::string_view(name) == "carillon_slice_saxpy") a_slice = *function;
  return result;
}
// A block has an SM's registers.
CUresult SaySlicesAreLarge(int* value, CUfunction_attribute attribute,
                           CUfunction function) {
  const CUresult result = real_ask.load()(value, attribute, function);
  if (function == a_slice && attribute == CU_FUNC_ATTRIBUTE_NUM_REGS) {
    *value = 2048;
  }
  return result;
}

TEST_P(UserPathsTest, RunWholeWhenTheDriverDoesNotFindTheirSlices) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Driver driver = fake_.driver();
  real_find = driver.cuModuleGetFunction;
  driver.cuModuleGetFunction = &FindButForSlices;
  OpenOn(driver);
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  Commit(event, 2.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ExpectY(1, 2);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "refused");
  TakeAway(event);
}

TEST_P(UserPathsTest, ASliceHasTheBlocksThatTheGpuHoldsOfItsVersion) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Driver driver = fake_.driver();
  real_find = driver.cuModuleGetFunction;
  driver.cuModuleGetFunction = &FindAndNoteSlice;
  real_ask = driver.cuFuncGetAttribute;
  driver.cuFuncGetAttribute = &SaySlicesAreLarge;
  OpenOn(driver);
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {64, 1, 1});
  Commit(event, 0.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  // One an SM; of the kernel itself there would be more.
  EXPECT_EQ(backend_->figures().slices.slices, 32u);
  TakeAway(event);
}

// A more urgent launch has the GPU, between two slices, when it is cancelled.
TEST_P(UserPathsTest, OneThatIsCancelledBetweenSlicesRunsNoFurther) {
  std::atomic<int> slices{0};
  std::atomic<bool> holds_slice{true};
  std::atomic<bool> holds_urgent{true};
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  const auto wait_while = [](KernelCall& call, std::atomic<bool>& holds) {
    while (holds && !call.stopped()) std::this_thread::yield();
    return CUDA_SUCCESS;
  };
  fake_.DefineKernel("carillon_slice_saxpy", {8, 8, 4, 4, 24},
                     [&](KernelCall& call) {
                       ++slices;
                       return wait_while(call, holds_slice);
                     });
  fake_.DefineKernel("tick", {}, [&](KernelCall& call) {
    return wait_while(call, holds_urgent);
  });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  const auto loaded = Load(
      kPtx,
      {Saxpy(),
       {.symbol = "tick", .name = "tick", .summary = "", .parameters = {}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  auto event = AddSaxpy(loaded->front(), {1000, 1, 1});
  auto urgent = Add(loaded->back(), {}, 8, {1, 1, 1}, 5);
  const auto until = [&](const std::function<bool(const LaunchProgress&)>& is) {
    while (!std::ranges::any_of(backend_->launches(), is)) {
      std::this_thread::yield();
    }
  };
  Commit(event, 1.0f);
  event.ring->RingDoorbell();
  while (slices == 0) std::this_thread::yield();
  urgent.ring->Commit();
  urgent.ring->RingDoorbell();
  until([](const LaunchProgress& launch) {
    return launch.priority == 5 && launch.wait_ns != 0;
  });
  holds_slice = false;
  until([](const LaunchProgress& launch) {
    return launch.priority == 0 && launch.slices == 1 && launch.running == 0;
  });
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kAborted);
  holds_urgent = false;
  EXPECT_EQ(device_->Wait(*urgent.ring).state, EventState::kDone);
  EXPECT_EQ(slices, 1);
  // The next launch has its whole grid.
  Commit(event, 1.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(backend_->figures().slices.slices,
            static_cast<uint64_t>(slices.load()));
  EXPECT_EQ(fake_.launches("saxpy"), 0u);
  path_->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
  TakeAway(urgent);
}

// Its blocks may wait for those of later slices, as they may in a whole launch.
TEST_P(UserPathsTest, OneWhoseSliceDoesNotEndRunsWholeFromThenOn) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  fake_.HangOn("carillon_slice_saxpy", FakeGpu::Nth(1));
  Commit(event, 0.0f);  // it may be added twice
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  Commit(event, 3.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  ExpectY(1, 3);
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "waits");
  TakeAway(event);
}

TEST_P(UserPathsTest, AContextLostInMidSliceRunsAllOfItAgainInSlices) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  auto event = AddSaxpy(MustLoad(Saxpy()), {1000, 1, 1});
  fake_.FaultOn("carillon_slice_saxpy", FakeGpu::Nth(2));
  Commit(event, 0.0f);  // it may be added twice
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  // One that faulted, and all of them again.
  const uint64_t slices = fake_.launches("carillon_slice_saxpy");
  EXPECT_GT(slices, 3u);
  Commit(event, 3.0f);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_GT(fake_.launches("carillon_slice_saxpy"), slices);
  EXPECT_EQ(fake_.launches("saxpy"), 0u) << "nothing runs whole";
  ExpectY(1, 3);
  TakeAway(event);
}

TEST_P(UserPathsTest, EveryEventComputesBeforeItCompletes) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  float sum = 0;
  for (int i = 1; i <= 50; ++i) {
    const auto a = static_cast<float>(i);
    Commit(event, a);
    event.ring->RingDoorbell();
    const Completion completion = device_->Wait(*event.ring);
    ASSERT_EQ(completion.state, EventState::kDone);
    ASSERT_EQ(completion.sequence.value(), static_cast<uint64_t>(i));
    sum += a;
    ExpectY(1, sum);
  }
  EXPECT_EQ(fake_.launches("saxpy"), 50u);
  EXPECT_EQ(fake_.launches("carillon_complete"), 50u);
  TakeAway(event);
  EXPECT_EQ(event.kernel->counts().done, 50u);
}

TEST_P(UserPathsTest, SpansAndKernelsWithoutParametersRunToo) {
  Open();
  std::atomic<int> ticks{0};
  fake_.DefineKernel("tick", {}, [&](KernelCall&) {
    ticks.fetch_add(1, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  });
  auto scale = Add(MustLoad(Scale()),
                   {Buffer(SaxpyDevice::Range(device_->y)), Writable()});
  auto tick = Add(
      MustLoad(
          {.symbol = "tick", .name = "tick", .summary = "", .parameters = {}}),
      {});
  Commit(scale, 3);
  scale.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*scale.ring).state, EventState::kDone);
  ExpectY(3, 0);
  tick.ring->Commit();
  tick.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*tick.ring).state, EventState::kDone);
  EXPECT_EQ(ticks.load(std::memory_order_relaxed), 1);
  TakeAway(scale);
  TakeAway(tick);
}

TEST_P(UserPathsTest, AFaultFailsItsOwnEventAndTheModuleIsLoadedAgain) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.FaultOn("saxpy", [](const KernelCall& call) {
    return call.param<float>(2) == 13;
  });
  for (const float a : {13.f, 2.f}) Commit(event, a);
  event.ring->RingDoorbell();
  const Completion fault = device_->Wait(*event.ring);
  EXPECT_EQ(fault.state, EventState::kFailed);
  EXPECT_EQ(fault.status, static_cast<uint32_t>(EventStatus::kKernelFault));
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  // The good one may have added twice.
  std::fill_n(device_->y, kFloats, 1.0f);
  Commit(event, 4);
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  ExpectY(1, 4);
  // What comes later finds the new context, too.
  auto later = AddSaxpy(MustLoad(Saxpy("later")));
  Commit(later, 1);
  later.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*later.ring).state, EventState::kDone);
  TakeAway(event);
  TakeAway(later);
}

TEST_P(UserPathsTest, OneThatDoesNotEndIsStopped) {
  Open();
  auto event = AddSaxpy(MustLoad(Saxpy()));
  fake_.HangOn("saxpy", FakeGpu::Nth(1));
  Commit(event, 1);
  event.ring->RingDoorbell();
  const Completion stopped = device_->Wait(*event.ring);
  EXPECT_EQ(stopped.state, EventState::kFailed);
  EXPECT_EQ(stopped.status, static_cast<uint32_t>(EventStatus::kTimedOut));
  TakeAway(event);
}

TEST_F(UserKernelsTest, WhoNamesNoPathIsServedByOneThatTakesItsArguments) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  const float two = 2;
  for (const bool writable : {false, true}) {
    TestDevice::Event event;
    const auto served =
        backend_->paths().Serve("", [&](const StartedPath& path) {
          event = device_->Register(
              {.kernel = kernel,
               .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                            Buffer(SaxpyDevice::Range(device_->y)),
                            writable ? Writable()
                                     : Constant(std::bit_cast<uint32_t>(two)),
                            Constant(kFloats)},
               .block = {kFloats, 1, 1}});
          return path.path->Add(event.kernel);
        });
    ASSERT_TRUE(served.ok()) << served.status();
    EXPECT_EQ(served->name, writable ? "graph" : "edge");
    device_->y[3] = 1;
    if (writable) std::memcpy(event.ring->parameters(), &two, sizeof(two));
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    EXPECT_EQ(device_->y[3], 7.0f);
    served->path->Remove(event.kernel);
    backend_->Cancel(LaunchFilter::Of(*event.kernel),
                     EventStatus::kUnregistered);
  }
}

TEST_F(UserKernelsTest, PathsSayWhyTheyDoNotTakeOne) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  auto event =
      device_->Register({.kernel = kernel,
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Writable(), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  const struct {
    std::string path;
    std::string why;
  } cases[] = {
      {"edge",
       "parameter 'a' of kernel 'saxpy' of user.ptx is to be written "
       "with every event"},
      {"stream_wait",
       "launch path stream_wait takes constants and fixed buffers for it"},
      {"pagoda_ring", "launch path pagoda_ring runs kernels as functions"},
      {"pagoda", "launch path pagoda runs kernels as functions"},
      {"persistent",
       "and CUDA calls no kernel, and no function of another "
       "module; use launch path edge or stream_wait, if no parameter is "
       "written with the event, or graph"},
  };
  for (const auto& [path, why] : cases) {
    const auto status = backend_->paths().Find(path)->path->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

// And another path serves.
TEST_F(UserKernelsTest, AGpuThatLaunchesNoGraphsSaysSo) {
  fake_.ChangeSettings([](FakeSettings& s) { s.device_graphs = false; });
  Open();
  auto event =
      device_->Register({.kernel = MustLoad(Saxpy()),
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Constant(0), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  const auto status =
      backend_->paths().Find("stream_wait")->path->Add(event.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("this GPU launches no graphs (instantiate"),
                    HasSubstr("use launch path graph, baseline")));
  const auto served = backend_->paths().Serve("", [&](const StartedPath& path) {
    return path.path->Add(event.kernel);
  });
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->name, "graph");
  served->path->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
}

// The kernel was launched, and then the driver refused what would have told its
// end.
std::atomic<CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                         unsigned, unsigned, unsigned, CUstream, void**,
                         void**)>
    real_launch;
std::atomic<int> launches_to_refuse{0};  // the second of them
CUresult LaunchButForTheSecond(CUfunction function, unsigned gx, unsigned gy,
                               unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream,
                               void** params, void** extra) {
  if (launches_to_refuse.load() > 0 && launches_to_refuse.fetch_sub(1) == 1) {
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  }
  return real_launch.load()(function, gx, gy, gz, bx, by, bz, shared, stream,
                            params, extra);
}

TEST_F(UserKernelsTest, AKernelThatNothingFollowsRunsAgainInANewContext) {
  Driver driver = fake_.driver();
  real_launch = driver.cuLaunchKernel;
  driver.cuLaunchKernel = &LaunchButForTheSecond;
  OpenOn(driver);
  const auto path = backend_->paths().Find("baseline_flag");
  ASSERT_TRUE(path.ok());
  auto event =
      device_->Register({.kernel = MustLoad(Saxpy()),
                         .bindings = {Buffer(SaxpyDevice::Range(device_->x)),
                                      Buffer(SaxpyDevice::Range(device_->y)),
                                      Constant(0), Constant(kFloats)},
                         .block = {kFloats, 1, 1}});
  ASSERT_TRUE(path->path->Add(event.kernel).ok());
  launches_to_refuse = 2;
  event.ring->Commit();
  event.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost 1 time"));
  path->path->Remove(event.kernel);
  backend_->Cancel(LaunchFilter::Of(*event.kernel), EventStatus::kUnregistered);
}

// Background kernels.

class UserBackgroundTest : public UserKernelsTest {
 protected:
  // y += a * x, to its end.
  LaunchResult Run(const simt::KernelInfo* kernel, float a,
                   simt::Dim3 grid = {1, 1, 1}) {
    const auto plan = ArgumentPlan::Make(
        *kernel, {Buffer(SaxpyDevice::Range(device_->x)),
                  Buffer(SaxpyDevice::Range(device_->y)),
                  Constant(std::bit_cast<uint32_t>(a)), Constant(kFloats)});
    EXPECT_TRUE(plan.ok()) << plan.status();
    auto launch = std::make_unique<KernelLaunch>();
    launch->kmd = {.kernel = kernel, .grid = grid, .block = {kFloats, 1, 1}};
    launch->args = std::make_unique<std::byte[]>(kernel->args_size);
    plan->Build(0, nullptr, launch->args.get());
    launch->memory = device_->memory;
    launch->from_host = true;
    auto promise = std::make_shared<std::promise<LaunchResult>>();
    launch->on_end = [promise](const LaunchResult& result) {
      promise->set_value(result);
    };
    auto result = promise->get_future();
    backend_->Submit(std::move(launch));
    return result.get();
  }
};

TEST_F(UserBackgroundTest, RunAndAgainAfterAFault) {
  Open();
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  fake_.FaultOn("saxpy", FakeGpu::Nth(1));  // once
  // One after the other: they add to the same memory.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Run(kernel, 2).state, EventState::kDone);
  }
  for (uint32_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(device_->y[i], 1 + 6.0f * static_cast<float>(i));
  }
}

TEST_F(UserBackgroundTest, OneWhoseSliceDoesNotEndRunsWholeFromThenOn) {
  fake_.ChangeSettings([](FakeSettings& settings) { settings.sms = 2; });
  Open();
  ASSERT_TRUE(backend_->SetPolicy("gpes").ok());
  const simt::KernelInfo* kernel = MustLoad(Saxpy());
  fake_.HangOn("carillon_slice_saxpy", FakeGpu::Nth(1));
  EXPECT_EQ(Run(kernel, 0, {1000, 1, 1}).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 1u);
  EXPECT_EQ(Run(kernel, 3, {1000, 1, 1}).state, EventState::kDone);
  EXPECT_EQ(fake_.launches("saxpy"), 2u);
  for (uint32_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(device_->y[i], 1 + 3.0f * static_cast<float>(i));
  }
  ASSERT_EQ(backend_->figures().slices.whole.size(), 1u);
  EXPECT_EQ(backend_->figures().slices.whole[0].name, "waits");
}

}  // namespace
}  // namespace carillon::gpud::cuda
