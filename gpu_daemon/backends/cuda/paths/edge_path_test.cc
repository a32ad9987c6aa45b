// Launch path edge on a driver made of CPU threads: what cuda_backend_test.cc
// does not ask of every path.
#include "gpu_daemon/backends/cuda/paths/edge_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"

namespace carillon::gpud::cuda {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;
using ::testing::HasSubstr;

constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

class EdgePathTest : public CudaBackendFixture {
 protected:
  void Open() { OpenPath("edge"); }
  uint64_t Counter(std::string_view name) {
    for (const PathCounter& counter : path_->counters()) {
      if (counter.name == name) return counter.value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }
  void RefuseTails(uint32_t count) {
    fake_.ChangeSettings([=](FakeSettings& s) { s.refused_tails = count; });
  }
  // Bursts of events, more than one dispatcher can launch. Each ends as it
  // should.
  void Serve(const TestDevice::Event& event, uint64_t events) {
    Serve(*device_, event, events);
  }
  static void Serve(TestDevice& device, const TestDevice::Event& event,
                    uint64_t events) {
    const uint64_t before = event.kernel->counts().rung;
    for (uint64_t rung = 0, ended = 0; ended < events; ++ended) {
      while (rung < events && event.ring->free_slots() > 0) {
        ++rung;
        Commit(event, rung % 3 == 0 ? static_cast<uint32_t>(rung) : 0);
        event.ring->RingDoorbell();
      }
      const Completion completion = device.Wait(*event.ring);
      const uint64_t n = ended + 1;
      ASSERT_EQ(completion.sequence.value(), before + n);
      ASSERT_EQ(completion.status,
                n % 3 == 0 ? KernelCode(static_cast<uint32_t>(n)) : 0u);
    }
  }
  const PathSet::Description Described() {
    return backend_->paths().Describe().front();
  }
};

TEST_F(EdgePathTest, LostDispatchersAreStartedAgainAndNoRingIsLost) {
  // Some; all.
  for (const uint32_t lost : {1, 2, 3}) {
    SCOPED_TRACE(lost);
    if (backend_ == nullptr) Open();
    auto event = AddFailIf(*device_, 16);
    const uint64_t before = Counter("restarts");
    RefuseTails(lost);
    Serve(event, 1'000);
    EXPECT_TRUE(Until([&] { return Counter("restarts") > before; }));
    EXPECT_EQ(TakeAway(event), 0u);
    EXPECT_EQ(event.kernel->counts().rung, 1'000u);
    EXPECT_EQ(event.kernel->counts().failed, 333u);
  }
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  EXPECT_EQ(Described().notice, "");
}

TEST_F(EdgePathTest, AsLongAsEventsEndItStartsDispatchersAgain) {
  Open();
  auto event = AddFailIf(*device_, 16);
  RefuseTails(kAll);
  Serve(event, 2'000);
  EXPECT_GE(Counter("restarts"), 4u);
  EXPECT_EQ(Described().notice, "");
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(Counter("graph launches"), 2'000u);
}

TEST_F(EdgePathTest, DispatchersThatAreLostForNothingAreGivenUp) {
  Open();
  auto event = AddFailIf(*device_, 16);
  auto inlined = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}}});
  Serve(event, 30);
  ASSERT_EQ(RingAndWait(*device_, inlined, 4).status, KernelCode(4));
  fake_.ChangeSettings([](FakeSettings& s) {
    s.launch_budget = 0;
    s.refused_tails = kAll;
  });
  // Those that wait, and those that come later.
  for (int i = 0; i < 3; ++i) {
    for (const TestDevice::Event* of : {&event, &inlined}) {
      if (i == 0 && of == &inlined) continue;
      const Completion completion = RingAndWait(*device_, *of, 7);
      EXPECT_EQ(completion.state, EventState::kFailed);
      EXPECT_EQ(completion.status,
                static_cast<uint32_t>(EventStatus::kNotLaunched));
    }
  }
  EXPECT_EQ(Counter("restarts"), 2u);
  EXPECT_THAT(Described().notice,
              HasSubstr("has given up: the GPU refused to launch a dispatcher "
                        "again (CUDA error 701)"));
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  auto late = device_->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {{}}});
  const auto status = path_->Add(late.kernel);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has given up"));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(event.kernel->counts().rung, 33u);
  EXPECT_EQ(event.kernel->counts().failed, 13u);
  EXPECT_EQ(TakeAway(inlined), 0u);
  EXPECT_EQ(inlined.kernel->counts().failed, 3u);
}

TEST_F(EdgePathTest, DispatchersThatTheDriverRefusesAreTriedAgain) {
  Open();
  fake_.FailNext("cuGraphLaunch", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 2);
  auto event = AddFailIf(*device_, 16);
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_EQ(Described().notice, "");
  EXPECT_EQ(TakeAway(event), 0u);
  // And so for ever.
  fake_.FailNext("cuGraphLaunch", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, kAll);
  auto other = AddFailIf(*device_, 16);
  EXPECT_EQ(RingAndWait(*device_, other).status,
            static_cast<uint32_t>(EventStatus::kNotLaunched));
  EXPECT_THAT(Described().notice,
              HasSubstr("launch a dispatcher: "
                        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"));
  EXPECT_EQ(TakeAway(other), 0u);
}

// Then nobody is left who could say that it has halted.
TEST_F(EdgePathTest, TheOnlyDispatcherIsStartedAgain) {
  auto gpu = Gpu::Open(fake_.driver(), {.image = FakeGpu::Image()});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  {
    CudaMemory memory(gpu->get());
    auto path = MakeEdgePath(gpu->get(), {}, {.dispatchers = 1});
    ASSERT_TRUE(path.ok()) << path.status();
    path_ = path->get();
    MappedDevice device(memory, "test0");
    auto event = AddFailIf(device, 16);
    RefuseTails(2);
    Serve(device, event, 400);
    EXPECT_GE(Counter("restarts"), 2u);
    EXPECT_EQ((*gpu)->losses(), 0u);
    path_->Remove(event.kernel);
    path_->Stop();
  }
  gpu->reset();
  EXPECT_EQ(fake_.live_objects(), LiveObjects{});
}

// By a dispatcher of whatever stream.
TEST_F(EdgePathTest, EveryGraphIsOnTheGpuBeforeADispatcherIs) {
  Open();
  for (int i = 0; i < 5; ++i) {
    auto event = AddFailIf(*device_, 16);
    Serve(event, 32);
    EXPECT_EQ(TakeAway(event), 0u);
  }
  EXPECT_EQ(Counter("launch errors"), 0u);
  EXPECT_EQ(Counter("graph launches"), 160u);
}

// The residents stand still meanwhile, and what they wait for is the driver.
TEST_F(EdgePathTest, RegisteringALongRingTakesTheDriverNoMoreCalls) {
  Open();
  const auto calls_for = [&](uint32_t entries) {
    auto before = fake_.calls();
    auto event = AddFailIf(*device_, entries);
    uint64_t calls = 0;
    for (const auto& [function, count] : fake_.calls()) {
      // Looks at what runs, as many as there is time for.
      if (function == "cuStreamQuery" || function == "cuMemcpyDtoH") continue;
      // Of a thread's first use of the context.
      if (function.starts_with("cuCtx")) continue;
      calls += count - before[function];
    }
    Serve(event, 2 * entries);
    EXPECT_EQ(TakeAway(event), 0u);
    return calls;
  };
  for (const uint32_t entries : {32, 64, 256}) {
    EXPECT_LE(calls_for(entries), 400u) << entries;
  }
}

// The graph of the first dispatcher says what the driver takes.
TEST_F(EdgePathTest, ADriverWithoutHintsForGraphsIsServedWithoutThem) {
  for (const char* function :
       {"cuGraphInstantiateWithParams", "cuGraphKernelNodeSetAttribute"}) {
    SCOPED_TRACE(function);
    CudaBackendFixture::Open();
    fake_.FailNext(function, CUDA_ERROR_INVALID_VALUE);
    ASSERT_NO_FATAL_FAILURE(Use("edge"));
    EXPECT_THAT(Described().notice,
                AllOf(HasSubstr("have the lowest priority"),
                      HasSubstr("CUDA_ERROR_INVALID_VALUE")));
    fake_.ForgetLaunches();
    auto event = AddFailIf(*device_, 16);
    Serve(event, 32);
    EXPECT_EQ(TakeAway(event), 0u);
    const auto places = fake_.places();
    const LaunchPlaces& kernel = places.at("carillon_event_fail_if");
    EXPECT_EQ(kernel.priorities, std::set<int>{0});
    EXPECT_EQ(kernel.memory_domains,
              places.at("carillon_edge_dispatcher").memory_domains);
    Close();
  }
}

TEST_F(EdgePathTest, AKernelThatNeedsSharedMemoryIsLaunched) {
  Open();
  auto event = Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}},
                              .shared_bytes = 16});
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(Counter("inlined"), 0u);
  EXPECT_EQ(Counter("graph launches"), 1u);
}

// An event warp of the real module would have none of its code.
TEST_F(EdgePathTest, AKernelWithManyRegistersIsLaunched) {
  Open();
  const simt::KernelInfo* kernel = simt::FindKernel("dct8x8");
  ASSERT_GT(kernel->registers_per_thread, simt::kMostInlineRegisters);
  // An image of one row of as many pixels as the entry says.
  const auto& in = device_->memory->submission();
  const auto& out = device_->memory->completion();
  auto event = Add(
      *device_,
      {.kernel = kernel,
       .bindings = {
           {.buffer = {in.At(*device_->submission_heap->Allocate(64)), 64}},
           {.buffer = {out.At(*device_->completion_heap->Allocate(256)), 256}},
           {.writable = true},
           {.constant_bits = 1}}});
  EXPECT_EQ(RingAndWait(*device_, event, 8).status, 0u);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(Counter("inlined"), 0u);
  EXPECT_EQ(Counter("graph launches"), 1u);
}

// The rest cannot be stopped: a kernel of theirs does not end.
TEST_F(EdgePathTest, DispatchersThatAreLostBesideAKernelThatHangsStillGo) {
  OpenPath("edge", std::chrono::milliseconds(1'000));
  auto event = AddFailIf(*device_, 256);
  fake_.HangOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  RefuseTails(1);
  for (uint32_t i = 1; i <= 200; ++i) Commit(event, i == 1 ? 13 : 0);
  event.ring->RingDoorbell();
  for (uint32_t i = 1; i <= 200; ++i) {
    const Completion completion = device_->Wait(*event.ring);
    ASSERT_EQ(completion.sequence.value(), i);
    ASSERT_EQ(completion.status,
              i == 1 ? static_cast<uint32_t>(EventStatus::kTimedOut) : 0u);
  }
  EXPECT_EQ(RingAndWait(*device_, event, 5).status, KernelCode(5));
  EXPECT_EQ(TakeAway(event), 0u);
}

// Each event warp has its share of every ring: the second event waits for the
// first.
TEST_F(EdgePathTest, WhoWaitsBehindAKernelThatHangsIsNotBlamed) {
  constexpr std::chrono::milliseconds kLongest(300);
  auto gpu =
      Gpu::Open(fake_.driver(), {.image = FakeGpu::Image(),
                                 .recovers = true,
                                 .longest_kernel = kLongest,
                                 .look_every = std::chrono::milliseconds(5)});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  {
    CudaMemory memory(gpu->get());
    auto path = MakeEdgePath(gpu->get(), {.longest_kernel = kLongest},
                             {.dispatchers = 1});
    ASSERT_TRUE(path.ok()) << path.status();
    path_ = path->get();
    MappedDevice device(memory, "test0");
    const auto add = [&] {
      return Add(device, {.kernel = simt::FindKernel("fail_if"),
                          .bindings = {{.writable = true}}});
    };
    auto waits = add();
    auto hangs = add();
    std::atomic<bool> runs{false};
    fake_.HangOn("fail_if", [&runs](const KernelCall& call) {
      uint32_t code = 0;
      std::memcpy(&code, call.args().data(), sizeof(code));
      if (code == 13) runs.store(true);
      return code == 13;
    });
    Commit(hangs, 13);
    hangs.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return runs.load(); }));
    EXPECT_EQ(RingAndWait(device, waits, 5).status, KernelCode(5));
    EXPECT_EQ(device.Wait(*hangs.ring).status,
              static_cast<uint32_t>(EventStatus::kTimedOut));
    EXPECT_EQ((*gpu)->losses(), 1u);
    path_->Remove(waits.kernel);
    path_->Remove(hangs.kernel);
    path_->Stop();
  }
  gpu->reset();
  EXPECT_EQ(fake_.live_objects(), LiveObjects{});
}

class InlineOnlyTest : public EdgePathTest {
 protected:
  InlineOnlyTest() {
    fake_.ChangeSettings([](FakeSettings& s) { s.device_graphs = false; });
  }
  TestDevice::Event AddOneWarp(uint32_t entries = 16) {
    return Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                          .bindings = {{.writable = true}},
                          .entries = entries});
  }
};

TEST_F(InlineOnlyTest, EventsOfOneWarpAreServedByOneOrdinaryKernel) {
  Open();
  EXPECT_THAT(Described().notice, AllOf(HasSubstr("inline only"),
                                        HasSubstr("CUDA_ERROR_NOT_SUPPORTED")));
  EXPECT_EQ(Described().unavailable, "");
  auto event = AddOneWarp();
  Serve(event, 1'000);
  EXPECT_EQ(fake_.launches("carillon_edge_dispatcher"), 2u)
      << "the trial, and who serves";
  EXPECT_EQ(fake_.live_objects().execs, 0u);
  EXPECT_EQ(Counter("restarts"), 0u);
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(Counter("inlined"), 1'000u);
  EXPECT_EQ(event.kernel->counts().failed, 333u);
}

TEST_F(InlineOnlyTest, OtherKernelsAreRefusedAndLeaveNothing) {
  Open();
  const LiveObjects before = fake_.live_objects();
  const auto refusal = [&](const char* kernel, simt::Dim3 grid,
                           simt::Dim3 block) {
    const simt::KernelInfo& info = *simt::FindKernel(kernel);
    auto event = device_->Register(
        {.kernel = &info,
         .bindings = std::vector<ParameterBinding>(info.params.size()),
         .grid = grid,
         .block = block});
    const auto status = path_->Add(event.kernel);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal("null_event", {3, 1, 1}, {32, 1, 1}),
              HasSubstr("'null_event' with 3 blocks of 32 threads needs a "
                        "launch, and this GPU launches no graphs"));
  refusal("null_event", {1, 1, 1}, {64, 1, 1});
  refusal("busy", {1, 1, 1}, {32, 1, 1});
  EXPECT_EQ(fake_.live_objects(), before);
  auto event = AddOneWarp();
  EXPECT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  EXPECT_EQ(TakeAway(event), 0u);
}

TEST_F(InlineOnlyTest, ALostContextIsServedAgain) {
  Open();
  auto event = AddOneWarp();
  ASSERT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  // On another path.
  const auto flag = backend_->paths().Find("baseline_flag");
  ASSERT_TRUE(flag.ok());
  fake_.FaultOn("null_event", FakeGpu::Nth(1));
  auto other = device_->Register(
      {.kernel = simt::FindKernel("null_event"), .bindings = {{}}});
  ASSERT_TRUE(flag->path->Add(other.kernel).ok());
  other.ring->Commit();
  other.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*other.ring).state, EventState::kDone);
  EXPECT_THAT(backend_->description(), HasSubstr("context lost"));
  EXPECT_EQ(RingAndWait(*device_, event, 4).status, KernelCode(4));
  EXPECT_EQ(TakeAway(event), 0u);
  flag->path->Remove(other.kernel);
  backend_->Cancel(LaunchFilter::Of(*other.kernel), EventStatus::kUnregistered);
}

TEST_F(InlineOnlyTest, DevicesComeAndGo) {
  Open();
  auto event = AddOneWarp();
  ASSERT_EQ(RingAndWait(*device_, event, 3).status, KernelCode(3));
  for (int i = 0; i < 5; ++i) {
    MappedDevice& other = OtherDevice();
    auto beside = Add(other, {.kernel = simt::FindKernel("fail_if"),
                              .bindings = {{.writable = true}}});
    EXPECT_EQ(RingAndWait(other, beside, 5).status, KernelCode(5));
    EXPECT_EQ(RingAndWait(*device_, event, 6).status, KernelCode(6));
    EXPECT_EQ(TakeAway(beside), 0u);
  }
  EXPECT_EQ(TakeAway(event), 0u);
}

// Close() looks for handles of a lost context that were used.
TEST_F(EdgePathTest, AContextThatIsLostWhileItOpensIsLeftBehind) {
  CudaBackendFixture::Open();
  fake_.FaultOn("carillon_edge_dispatcher", FakeGpu::Nth(1));
  ASSERT_NO_FATAL_FAILURE(Use("edge"));
  const auto event = AddFailIf(*device_, 8);
  Serve(event, 100);
  EXPECT_EQ(TakeAway(event), 0u);
}

// A GPU without memory is not one without graphs.
TEST_F(EdgePathTest, WithoutMemoryItDoesNotStart) {
  CudaBackendFixture::Open();
  fake_.FailNext("cuGraphInstantiateWithParams", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(backend_->paths().Find("edge").status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(backend_->paths().Find("edge").ok());
  EXPECT_EQ(Described().notice, "");
}

}  // namespace
}  // namespace carillon::gpud::cuda
