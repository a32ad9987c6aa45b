#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/cuda_module.h"
#include "gpu_daemon/backends/cuda/owned.h"
#include "gpu_daemon/kernels/all_kernels.h"
#include "gpu_daemon/kernels/registry.h"
#include "gpu_daemon/launch/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

using ::testing::HasSubstr;

// Waits (bounded) for what other threads do.
template <class Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// A GPU with its primary context current in this thread.
class FakeGpuTest : public testing::Test {
 protected:
  explicit FakeGpuTest(FakeSettings settings = {}) : gpu_(settings) {
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }
  ~FakeGpuTest() override { driver_.cuCtxSetCurrent(nullptr); }

  CUfunction FunctionOf(const char* name) {
    if (!module_) {
      absl::StatusOr<Module> module = LoadModule(driver_, FakeGpu::Image());
      EXPECT_TRUE(module.ok()) << module.status();
      module_ = *std::move(module);
    }
    absl::StatusOr<CUfunction> function =
        FindFunction(driver_, module_.get(), name);
    EXPECT_TRUE(function.ok()) << function.status();
    return function.value_or(nullptr);
  }
  // A kernel with one 64-bit parameter.
  CUfunction Define(const char* name,
                    std::function<CUresult(KernelCall&, uint64_t)> run) {
    gpu_.DefineKernel(name, {8}, [run](KernelCall& call) {
      return run(call, call.param<uint64_t>(0));
    });
    return FunctionOf(name);
  }
  CUresult LaunchIn(CUstream stream, CUfunction function, uint64_t param) {
    void* params[] = {&param};
    return driver_.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream,
                                  params, nullptr);
  }
  Stream NewStream() { return *MakeStream(driver_); }
  // A device graph of one kernel with one 64-bit parameter, uploaded.
  GraphExec NewExec(CUfunction function, uint64_t param) {
    const Graph graph = *MakeGraph(driver_);
    void* params[] = {&param};
    CUDA_KERNEL_NODE_PARAMS node = {};
    node.func = function;
    node.gridDimX = node.gridDimY = node.gridDimZ = 1;
    node.blockDimX = 32;
    node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = params;
    CUgraphNode handle = nullptr;
    EXPECT_EQ(
        driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
        CUDA_SUCCESS);
    absl::StatusOr<GraphExec> exec =
        Instantiate(driver_, graph.get(),
                    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    EXPECT_TRUE(exec.ok()) << exec.status();
    EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    return *std::move(exec);
  }
  // Destroys the context, faulted or not, and makes a new one current.
  void Rebuild() {
    module_.Abandon();
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  FakeGpu gpu_;
  const Driver driver_ = gpu_.driver();
  CUcontext context_ = nullptr;
  Module module_;
};

// --- Streams.

TEST_F(FakeGpuTest, AStreamRunsItsWorkInOrder) {
  std::vector<uint64_t> seen;  // written by the stream's thread alone
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t value) {
    seen.push_back(value);
    return CUDA_SUCCESS;
  });
  const Stream stream = NewStream();
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(LaunchIn(stream.get(), note, i), CUDA_SUCCESS);
  }
  ASSERT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
  ASSERT_EQ(seen.size(), 100u);
  for (uint64_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  EXPECT_EQ(gpu_.launches("note"), 100u);
}

TEST_F(FakeGpuTest, StreamsRunBesideEachOther) {
  // Each waits for the other: only both at once can end.
  std::atomic<int> inside = 0;
  const CUfunction meet = Define("meet", [&](KernelCall& call, uint64_t) {
    inside.fetch_add(1);
    while (inside.load() < 2 && !call.stopped()) std::this_thread::yield();
    return CUDA_SUCCESS;
  });
  const Stream one = NewStream();
  const Stream other = NewStream();
  ASSERT_EQ(LaunchIn(one.get(), meet, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchIn(other.get(), meet, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(FakeGpuTest, EventsSayWhenWorkIsDone) {
  std::atomic<bool> go = false;
  const CUfunction wait = Define("wait", [&](KernelCall&, uint64_t) {
    while (!go.load()) std::this_thread::yield();
    return CUDA_SUCCESS;
  });
  const Stream stream = NewStream();
  const Event before = *MakeEvent(driver_, CU_EVENT_DEFAULT);
  const Event after = *MakeEvent(driver_, CU_EVENT_DEFAULT);
  ASSERT_EQ(driver_.cuEventRecord(before.get(), stream.get()), CUDA_SUCCESS);
  ASSERT_EQ(LaunchIn(stream.get(), wait, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuEventRecord(after.get(), stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuEventQuery(after.get()), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(driver_.cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  go.store(true);
  EXPECT_EQ(driver_.cuEventSynchronize(after.get()), CUDA_SUCCESS);
  float milliseconds = -1;
  EXPECT_EQ(
      driver_.cuEventElapsedTime(&milliseconds, before.get(), after.get()),
      CUDA_SUCCESS);
  EXPECT_GT(milliseconds, 0);
}

TEST_F(FakeGpuTest, AWaitForAWordHoldsTheStreamUntilItIsThere) {
  std::atomic<uint64_t> ran = 0;
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  });
  const PinnedBytes words = *PinnedBytes::Make(driver_, 64);
  const std::atomic_ref<uint32_t> doorbell(*words.as<uint32_t>());
  const std::atomic_ref<uint32_t> reply(*words.as<uint32_t>(4));
  const auto address = reinterpret_cast<CUdeviceptr>(words.data());
  const Stream stream = NewStream();
  // Cyclically: the counter passes 2^32.
  doorbell.store(0xfffffffe);
  ASSERT_EQ(driver_.cuStreamWaitValue32(stream.get(), address, 1,
                                        CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  ASSERT_EQ(LaunchIn(stream.get(), note, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamWriteValue32(stream.get(), address + 4, 77, 0),
            CUDA_SUCCESS);
  doorbell.store(0);
  // Long enough for a stream that does not wait.
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(driver_.cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
    std::this_thread::yield();
  }
  EXPECT_EQ(ran.load(), 0u);
  doorbell.store(1);
  EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
  EXPECT_EQ(ran.load(), 1u);
  EXPECT_EQ(reply.load(), 77u);
  gpu_.ChangeSettings([](FakeSettings& settings) {
    settings.stream_memory_operations = false;
  });
  EXPECT_EQ(driver_.cuStreamWaitValue32(stream.get(), address, 1, 0),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(FakeGpuTest, ADestroyedContextReleasesAWaitingStream) {
  PinnedBytes words = *PinnedBytes::Make(driver_, 64);
  Stream stream = NewStream();
  ASSERT_EQ(driver_.cuStreamWaitValue32(
                stream.get(), reinterpret_cast<CUdeviceptr>(words.data()), 1,
                CU_STREAM_WAIT_VALUE_EQ),
            CUDA_SUCCESS);
  stream.Abandon();
  words.Abandon();
  Rebuild();
  EXPECT_EQ(gpu_.live_objects(), LiveObjects{.contexts = 1});
}

// --- Kernels of gpu_daemon/kernels.

TEST_F(FakeGpuTest, APlainKernelComputesAndReportsItsStatus) {
  const DeviceBytes memory = *DeviceBytes::Make(driver_, 4096);
  const std::vector<float> a = {1, 2, 3, 4};
  ASSERT_EQ(driver_.cuMemcpyHtoD(memory.address(), a.data(), 16), CUDA_SUCCESS);
  kernels::VectorAddArgs args = {{memory.as<float>(), 4},
                                 {memory.as<float>(), 4},
                                 {memory.as<float>(64), 4}};
  auto* fail_status = memory.as<uint32_t>(1024);
  void* params[] = {&args, &fail_status};
  const CUfunction add = FunctionOf("carillon_vector_add");
  ASSERT_EQ(driver_.cuLaunchKernel(add, 2, 1, 1, 2, 1, 1, 0, nullptr, params,
                                   nullptr),
            CUDA_SUCCESS);
  std::array<float, 4> sum;
  ASSERT_EQ(driver_.cuMemcpyDtoH(sum.data(), memory.address() + 64, 16),
            CUDA_SUCCESS);
  EXPECT_EQ(sum, (std::array<float, 4>{2, 4, 6, 8}));
  uint32_t status = 1;
  ASSERT_EQ(driver_.cuMemcpyDtoH(&status, memory.address() + 1024, 4),
            CUDA_SUCCESS);
  EXPECT_EQ(status, 0u);

  kernels::FailIfArgs fail = {77};
  params[0] = &fail;
  ASSERT_EQ(driver_.cuLaunchKernel(FunctionOf("carillon_fail_if"), 1, 1, 1, 1,
                                   1, 1, 0, nullptr, params, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemcpyDtoH(&status, memory.address() + 1024, 4),
            CUDA_SUCCESS);
  EXPECT_EQ(status, 77u);
}

// A frame of fail_if in device memory, its completion in pinned memory.
class EventKernelTest : public FakeGpuTest {
 protected:
  EventFrame* Frame(uint64_t sequence, uint32_t code) {
    auto* frame = memory_.as<EventFrame>();
    // Device memory is the host's here, and nothing runs.
    *frame = {};
    frame->ecq = pinned_.as<shm::EcqEntry>(16 * (sequence % 8));
    frame->scratch = memory_.as<EventScratch>(1024);
    frame->totals = memory_.as<EventTotals>(2048);
    frame->life = pinned_.as<shm::EventLife>(1024);
    frame->sequence = sequence;
    std::memcpy(frame->args(), &code, sizeof(code));
    return frame;
  }
  CUresult Launch(EventFrame* frame) {
    return LaunchIn(stream_.get(), FunctionOf("carillon_event_fail_if"),
                    reinterpret_cast<uint64_t>(frame));
  }

  const DeviceBytes memory_ = *DeviceBytes::Make(driver_, 4096);
  const PinnedBytes pinned_ = *PinnedBytes::Make(driver_, 4096);
  const Stream stream_ = NewStream();
};

TEST_F(EventKernelTest, CompletesItself) {
  const auto* entries = pinned_.as<shm::EcqEntry>();
  for (const uint32_t code : {0u, 5u}) {
    const uint64_t sequence = code == 0 ? 1 : 2;
    ASSERT_EQ(Launch(Frame(sequence, code)), CUDA_SUCCESS);
    // As a device does: the sequence alone says that all is there.
    ASSERT_TRUE(Eventually([&] {
      return std::atomic_ref(const_cast<uint64_t&>(entries[sequence].sequence))
                 .load(std::memory_order_acquire) == sequence;
    }));
    EXPECT_EQ(entries[sequence].state,
              code == 0 ? shm::EventState::kDone : shm::EventState::kFailed);
    EXPECT_EQ(entries[sequence].status, code == 0 ? 0 : 1000 + code);
    EXPECT_NE(pinned_.as<shm::EventLife>(1024)->finished_ns, 0u);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream_.get()), CUDA_SUCCESS);
    EXPECT_EQ(memory_.as<EventScratch>(1024)->fail_status, 0u);
  }
  EXPECT_EQ(memory_.as<EventTotals>(2048)->done, 1u);
  EXPECT_EQ(memory_.as<EventTotals>(2048)->failed, 1u);
}

TEST_F(EventKernelTest, AScratchOutOfDeviceMemoryIsAFault) {
  EventFrame* frame = Frame(1, 0);
  frame->scratch = pinned_.as<EventScratch>(2048);
  ASSERT_EQ(Launch(frame), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(stream_.get()),
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

// --- Graphs.

TEST_F(FakeGpuTest, AGraphRunsItsNodesInOrder) {
  std::vector<uint64_t> seen;
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t value) {
    seen.push_back(value);
    return CUDA_SUCCESS;
  });
  const Graph graph = *MakeGraph(driver_);
  std::vector<CUgraphNode> nodes;
  CUDA_KERNEL_NODE_PARAMS params = {note, 1, 1, 1, 32, 1, 1};
  for (uint64_t i = 0; i < 3; ++i) {
    void* values[] = {&i};
    params.kernelParams = values;
    CUgraphNode node = nullptr;
    ASSERT_EQ(driver_.cuGraphAddKernelNode(&node, graph.get(), nodes.data(),
                                           nodes.size(), &params),
              CUDA_SUCCESS);
    nodes.push_back(node);
  }
  const GraphExec exec = *Instantiate(driver_, graph.get(), 0);
  const Stream stream = NewStream();
  uint64_t other = 7;
  void* values[] = {&other};
  params.kernelParams = values;
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), stream.get()), CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    ASSERT_EQ(
        driver_.cuGraphExecKernelNodeSetParams(exec.get(), nodes[1], &params),
        CUDA_SUCCESS);
  }
  EXPECT_EQ(seen, (std::vector<uint64_t>{0, 1, 2, 0, 7, 2}));
}

TEST_F(FakeGpuTest, AKernelLaunchesGraphsUpToItsBudget) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.launch_budget = 3; });
  std::atomic<uint64_t> ran = 0;
  const CUfunction leaf = Define("leaf", [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  });
  std::vector<GraphExec> leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(NewExec(leaf, 0));
  std::vector<CUresult> results;
  std::atomic<int> rounds = 0;
  const CUfunction parent = Define("parent", [&](KernelCall& call, uint64_t) {
    for (const GraphExec& exec : leaves) {
      results.push_back(call.Launch(exec.get(), DeviceLaunch::kFireAndForget));
    }
    if (rounds.fetch_add(1) == 0) {
      EXPECT_EQ(call.Launch(call.current_graph(), DeviceLaunch::kTail),
                CUDA_SUCCESS);
      // One tail launch of itself may be pending.
      EXPECT_EQ(call.Launch(call.current_graph(), DeviceLaunch::kTail),
                CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
  });
  const GraphExec exec = NewExec(parent, 0);
  ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), nullptr), CUDA_SUCCESS);
  // Ends with all that it launched.
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(ran.load(), 6u);
  const std::vector<CUresult> round = {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS,
                                       CUDA_ERROR_INVALID_VALUE};
  std::vector<CUresult> expected = round;
  expected.insert(expected.end(), round.begin(), round.end());
  EXPECT_EQ(results, expected);
}

TEST_F(FakeGpuTest, AnExecThatStillRetiresCannotBeLaunched) {
  gpu_.ChangeSettings([](FakeSettings& settings) {
    settings.retire_delay = std::chrono::milliseconds(20);
  });
  std::atomic<uint64_t> ran = 0;
  const CUfunction leaf = Define("leaf", [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  });
  const GraphExec target = NewExec(leaf, 0);
  uint64_t refused = 0;
  const CUfunction parent = Define("parent", [&](KernelCall& call, uint64_t) {
    EXPECT_EQ(call.Launch(target.get(), DeviceLaunch::kFireAndForget),
              CUDA_SUCCESS);
    EXPECT_TRUE(Eventually([&] { return ran.load() == 1; }));
    // Its kernel is over, and it is not.
    EXPECT_TRUE(Eventually([&] {
      const CUresult result =
          call.Launch(target.get(), DeviceLaunch::kFireAndForget);
      if (result == CUDA_ERROR_INVALID_VALUE) ++refused;
      return result == CUDA_SUCCESS;
    }));
    return CUDA_SUCCESS;
  });
  const GraphExec exec = NewExec(parent, 0);
  ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_GT(refused, 0u);
  EXPECT_EQ(ran.load(), 2u);
}

TEST_F(FakeGpuTest, OnlyAnUploadedDeviceGraphIsLaunchedByKernels) {
  const CUfunction leaf =
      Define("leaf", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  uint64_t zero = 0;
  void* params[] = {&zero};
  CUDA_KERNEL_NODE_PARAMS node = {leaf, 1, 1, 1, 32, 1, 1, 0, params};
  const Graph graph = *MakeGraph(driver_);
  CUgraphNode handle = nullptr;
  ASSERT_EQ(
      driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
      CUDA_SUCCESS);
  const GraphExec host = *Instantiate(driver_, graph.get(), 0);
  const GraphExec fresh = *Instantiate(
      driver_, graph.get(), CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
  const CUfunction parent = Define("parent", [&](KernelCall& call, uint64_t) {
    EXPECT_EQ(call.Launch(host.get(), DeviceLaunch::kFireAndForget),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(call.Launch(fresh.get(), DeviceLaunch::kFireAndForget),
              CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
  });
  const GraphExec exec = NewExec(parent, 0);
  ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.launches("parent"), 1u);
  EXPECT_EQ(gpu_.launches("leaf"), 0u);
}

// --- Faults.

TEST_F(FakeGpuTest, AFaultSticksUntilTheContextIsNew) {
  std::atomic<uint64_t> ran = 0;
  const auto run = [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  };
  CUfunction note = Define("note", run);
  gpu_.FaultOn("note", FakeGpu::Nth(2), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  Stream stream = NewStream();
  DeviceBytes memory = *DeviceBytes::Make(driver_, 4096);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(LaunchIn(stream.get(), note, 0), CUDA_SUCCESS);
    ASSERT_EQ(driver_.cuStreamSynchronize(stream.get()),
              i == 0 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_INSTRUCTION);
  }
  CUdeviceptr address = 0;
  EXPECT_EQ(LaunchIn(stream.get(), note, 0), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(driver_.cuMemAlloc(&address, 16), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(driver_.cuMemFree(memory.address()),
            CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_INSTRUCTION);
  const CUcontext old = context_;
  const CUstream old_stream = stream.get();
  stream.Abandon();
  memory.Abandon();
  Rebuild();
  EXPECT_EQ(gpu_.live_objects(), LiveObjects{.contexts = 1});
  EXPECT_EQ(gpu_.memory_used(), 0u);
  EXPECT_EQ(driver_.cuCtxSetCurrent(old), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(driver_.cuStreamQuery(old_stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(gpu_.stale_uses(), 2u);
  note = Define("note", run);
  ASSERT_EQ(LaunchIn(nullptr, note, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(ran.load(), 2u);
}

TEST_F(EventKernelTest, AFaultCanDependOnTheArguments) {
  gpu_.FaultOn("fail_if", [](const KernelCall& call) {
    uint32_t code = 0;
    std::memcpy(&code, call.args().data(), sizeof(code));
    return code == 13;
  });
  ASSERT_EQ(Launch(Frame(1, 12)), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(stream_.get()), CUDA_SUCCESS);
  ASSERT_EQ(Launch(Frame(2, 13)), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(stream_.get()),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(pinned_.as<shm::EcqEntry>()[2].sequence, 0u);
}

TEST_F(FakeGpuTest, AKernelThatNeverEndsEndsWithItsContext) {
  const CUfunction note =
      Define("note", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  gpu_.HangOn("note", FakeGpu::Always());
  Stream stream = NewStream();
  ASSERT_EQ(LaunchIn(stream.get(), note, 0), CUDA_SUCCESS);
  ASSERT_TRUE(Eventually([&] { return gpu_.launches("note") == 1; }));
  EXPECT_EQ(driver_.cuStreamQuery(stream.get()), CUDA_ERROR_NOT_READY);
  stream.Abandon();
  Rebuild();
  EXPECT_EQ(gpu_.live_objects(), LiveObjects{.contexts = 1});
}

TEST_F(FakeGpuTest, MemoryIsFreedOnlyWhenTheGpuIsIdle) {
  std::atomic<bool> freeing = false;
  std::atomic<bool> ended = false;
  const CUfunction wait = Define("wait", [&](KernelCall&, uint64_t) {
    while (!freeing.load()) std::this_thread::yield();
    // Time for a free that does not wait to be found out.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended.store(true);
    return CUDA_SUCCESS;
  });
  CUdeviceptr address = 0;
  ASSERT_EQ(driver_.cuMemAlloc(&address, 64), CUDA_SUCCESS);
  const Stream stream = NewStream();
  ASSERT_EQ(LaunchIn(stream.get(), wait, 0), CUDA_SUCCESS);
  freeing.store(true);
  EXPECT_EQ(driver_.cuMemFree(address), CUDA_SUCCESS);
  EXPECT_TRUE(ended.load());
}

// --- Memory.

TEST_F(FakeGpuTest, DeviceMemoryIsLimited) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.memory_bytes = 10000; });
  {
    const DeviceBytes some = *DeviceBytes::Make(driver_, 8000);
    const absl::StatusOr<DeviceBytes> more = DeviceBytes::Make(driver_, 4000);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(more.status().message()),
                HasSubstr("allocate 4000 bytes of GPU memory"));
    size_t free_bytes = 0;
    size_t total = 0;
    EXPECT_EQ(driver_.cuMemGetInfo(&free_bytes, &total), CUDA_SUCCESS);
    EXPECT_EQ(free_bytes, 2000u);
    EXPECT_EQ(total, 10000u);
  }
  EXPECT_TRUE(DeviceBytes::Make(driver_, 9000).ok());
}

TEST_F(FakeGpuTest, HostMemoryIsRegisteredOnceAndUsedWhileItIs) {
  constexpr size_t kSize = 8 << 12;
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const CUfunction null_event = FunctionOf("carillon_null_event");
  EXPECT_NE(null_event, nullptr);
  CUdeviceptr address = 0;
  EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_.cuMemHostUnregister(memory),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  {
    const absl::StatusOr<HostRegistration> first =
        HostRegistration::Make(driver_, {memory, kSize / 2});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_EQ(driver_.cuMemHostGetDevicePointer(&address, memory + 100, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(address, reinterpret_cast<CUdeviceptr>(memory + 100));
    EXPECT_EQ(HostRegistration::Make(driver_, {memory + kSize / 4, kSize / 2})
                  .status()
                  .code(),
              absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(gpu_.live_objects().registrations, 1u);
  }
  EXPECT_EQ(gpu_.live_objects().registrations, 0u);
  ASSERT_EQ(munmap(memory + kSize / 2, kSize / 2), 0);
  EXPECT_EQ(HostRegistration::Make(driver_, {memory, kSize}).status().code(),
            absl::StatusCode::kInvalidArgument);
  gpu_.ChangeSettings([](FakeSettings& s) { s.host_pointers = false; });
  EXPECT_EQ(
      HostRegistration::Make(driver_, {memory, kSize / 2}).status().code(),
      absl::StatusCode::kUnimplemented);
  EXPECT_EQ(gpu_.live_objects().registrations, 0u);
  munmap(memory, kSize / 2);
}

TEST_F(FakeGpuTest, MappedMemoryOutlivesTheContext) {
  constexpr size_t kSize = 2 << 20;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp where = {};
  CUmemAccessDesc access = {};
  ASSERT_EQ(driver_.cuMemAddressReserve(&address, kSize, 0, 0, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemCreate(&handle, kSize, &where, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemMap(address, 2 * kSize, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(driver_.cuMemMap(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemSetAccess(address, kSize, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemsetD32(address, 77, 4), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  Rebuild();
  ASSERT_EQ(driver_.cuMemUnmap(address, kSize), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemMap(address, kSize, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuMemSetAccess(address, kSize, &access, 1), CUDA_SUCCESS);
  uint32_t word = 0;
  ASSERT_EQ(driver_.cuMemcpyDtoH(&word, address, sizeof(word)), CUDA_SUCCESS);
  EXPECT_EQ(word, 77u);
  EXPECT_EQ(gpu_.live_objects().mappings, 2u);
  EXPECT_EQ(driver_.cuMemAddressFree(address, kSize), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(driver_.cuMemUnmap(address, kSize), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuMemAddressFree(address, kSize), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.live_objects().mappings, 0u);
  EXPECT_EQ(gpu_.memory_used(), 0u);
}

TEST_F(FakeGpuTest, ABufferThatIsNotRegisteredIsAFault) {
  const DeviceBytes memory = *DeviceBytes::Make(driver_, 4096);
  std::vector<float> host(4);
  kernels::VectorAddArgs args = {
      {host.data(), 4}, {memory.as<float>(), 4}, {memory.as<float>(64), 4}};
  auto* fail_status = memory.as<uint32_t>(1024);
  void* params[] = {&args, &fail_status};
  ASSERT_EQ(driver_.cuLaunchKernel(FunctionOf("carillon_vector_add"), 1, 1, 1,
                                   4, 1, 1, 0, nullptr, params, nullptr),
            CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// --- Modules.

constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter[16];
.visible .entry scale(
	.param .align 8 .b8 scale_param_0[24],
	.param .u32 scale_param_1,
	.param .u64 .ptr .global .align 4 scale_param_2
)
.maxntid 128
{ ret; }
.visible .entry nothing()
{ ret; }
)";

std::span<const std::byte> Text(const char* text) {
  return std::as_bytes(std::span(text, std::strlen(text) + 1));
}

TEST_F(FakeGpuTest, APtxFileHasTheKernelsThatItNames) {
  const absl::StatusOr<Module> module = LoadModule(driver_, Text(kPtx));
  ASSERT_TRUE(module.ok()) << module.status();
  const absl::StatusOr<CUfunction> scale =
      FindFunction(driver_, module->get(), "scale");
  ASSERT_TRUE(scale.ok()) << scale.status();
  const std::pair<size_t, size_t> params[] = {{0, 24}, {24, 4}, {32, 8}};
  size_t offset = 0;
  size_t size = 0;
  for (size_t i = 0; i < std::size(params); ++i) {
    ASSERT_EQ(driver_.cuFuncGetParamInfo(*scale, i, &offset, &size),
              CUDA_SUCCESS);
    EXPECT_EQ(std::pair(offset, size), params[i]) << i;
  }
  EXPECT_EQ(driver_.cuFuncGetParamInfo(*scale, 3, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
  const absl::StatusOr<CUfunction> nothing =
      FindFunction(driver_, module->get(), "nothing");
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(driver_.cuFuncGetParamInfo(*nothing, 0, &offset, &size),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      FindFunction(driver_, module->get(), "carillon_echo").status().code(),
      absl::StatusCode::kNotFound);
  // It has no CPU form.
  EXPECT_EQ(driver_.cuLaunchKernel(*nothing, 1, 1, 1, 1, 1, 1, 0, nullptr,
                                   nullptr, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  CUdeviceptr counter = 0;
  EXPECT_EQ(
      driver_.cuModuleGetGlobal(&counter, &size, module->get(), "counter"),
      CUDA_SUCCESS);
  EXPECT_EQ(size, 64u);
}

TEST_F(FakeGpuTest, ABadImageIsRefusedWithItsReason) {
  const auto load = [&](const std::string& text) {
    return LoadModule(driver_, Text(text.c_str())).status();
  };
  CUmodule module = nullptr;
  EXPECT_EQ(driver_.cuModuleLoadData(&module, "garbage"),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load("garbage").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(load("// no version\n").ToString(),
              HasSubstr("Missing .version directive"));
  EXPECT_THAT(load(".version 99.0\n.target sm_80\n").ToString(),
              HasSubstr("UNSUPPORTED_PTX_VERSION"));
  EXPECT_THAT(load(".version 8.0\n.target sm_120\n").ToString(),
              HasSubstr("NO_BINARY_FOR_GPU"));
  EXPECT_THAT(load(".version 8.0\n.target sm_80\n.visible .entry x(.param {")
                  .ToString(),
              HasSubstr("INVALID_PTX"));
  EXPECT_EQ(gpu_.live_objects().modules, 0u);
}

TEST_F(FakeGpuTest, OurFatbinHasEveryKernelForEveryGpu) {
  absl::StatusOr<Module> module = LoadModule(driver_, CudaModule());
  ASSERT_TRUE(module.ok()) << module.status();
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    const std::string name = "carillon_" + std::string(kernel->name);
    EXPECT_TRUE(FindFunction(driver_, module->get(), name.c_str()).ok())
        << name;
  }
  const absl::StatusOr<CUfunction> add =
      FindFunction(driver_, module->get(), "carillon_vector_add");
  ASSERT_TRUE(add.ok()) << add.status();
  size_t offset = 0;
  size_t size = 0;
  ASSERT_EQ(driver_.cuFuncGetParamInfo(*add, 0, &offset, &size), CUDA_SUCCESS);
  EXPECT_EQ(size, sizeof(kernels::VectorAddArgs));
  EXPECT_EQ(FindFunction(driver_, module->get(), "carillon_no_such_kernel")
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  // Machine code for 8.x and 9.x, PTX for what is newer, nothing for older.
  const std::pair<int, CUresult> majors[] = {
      {7, CUDA_ERROR_NO_BINARY_FOR_GPU}, {8, CUDA_SUCCESS}, {12, CUDA_SUCCESS}};
  for (const auto& [major, result] : majors) {
    gpu_.ChangeSettings(
        [major = major](FakeSettings& s) { s.compute_major = major; });
    CUmodule loaded = nullptr;
    EXPECT_EQ(driver_.cuModuleLoadData(&loaded, CudaModule().data()), result)
        << major;
  }
}

// --- Green contexts.

TEST_F(FakeGpuTest, GreenContextsShareTheSms) {
  CUdevResource all = {};
  ASSERT_EQ(driver_.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_SUCCESS);
  EXPECT_EQ(all.sm.smCount, 132u);
  CUdevResource group = {};
  CUdevResource rest = {};
  unsigned groups = 1;
  ASSERT_EQ(
      driver_.cuDevSmResourceSplitByCount(&group, &groups, &all, &rest, 0, 9),
      CUDA_SUCCESS);
  EXPECT_EQ(group.sm.smCount, 16u);
  EXPECT_EQ(rest.sm.smCount, 116u);
  ASSERT_EQ(driver_.cuDevSmResourceSplitByCount(nullptr, &groups, &all, nullptr,
                                                0, 1),
            CUDA_SUCCESS);
  EXPECT_EQ(groups, 16u);
  EXPECT_EQ(
      driver_.cuDevSmResourceSplitByCount(&group, &groups, &all, &rest, 0, 133),
      CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);

  CUdevResourceDesc desc = nullptr;
  ASSERT_EQ(driver_.cuDevResourceGenerateDesc(&desc, &group, 1), CUDA_SUCCESS);
  CUgreenCtx handle = nullptr;
  ASSERT_EQ(
      driver_.cuGreenCtxCreate(&handle, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
      CUDA_SUCCESS);
  const GreenContext green(&driver_, handle);
  CUstream stream = nullptr;
  ASSERT_EQ(driver_.cuGreenCtxStreamCreate(&stream, green.get(),
                                           CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  const Stream owner(&driver_, stream);
  std::atomic<uint64_t> ran = 0;
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t) {
    ran.fetch_add(1);
    return CUDA_SUCCESS;
  });
  ASSERT_EQ(LaunchIn(stream, note, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(ran.load(), 1u);

  gpu_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  EXPECT_EQ(driver_.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM),
            CUDA_ERROR_NOT_SUPPORTED);
}

// --- Leaks and injected failures.

TEST_F(FakeGpuTest, SaysWhatIsLeft) {
  const LiveObjects before = gpu_.live_objects();
  EXPECT_EQ(before, LiveObjects{.contexts = 1});
  {
    const CUfunction leaf =
        Define("leaf", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
    const Stream stream = NewStream();
    const Event event = *MakeEvent(driver_);
    const DeviceBytes memory = *DeviceBytes::Make(driver_, 64);
    const PinnedBytes pinned = *PinnedBytes::Make(driver_, 64);
    const Graph graph = *MakeGraph(driver_);
    const GraphExec exec = NewExec(leaf, 0);
    EXPECT_EQ(gpu_.live_objects(), (LiveObjects{.contexts = 1,
                                                .streams = 1,
                                                .events = 1,
                                                .allocations = 1,
                                                .pinned = 1,
                                                .modules = 1,
                                                .graphs = 1,
                                                .execs = 1}));
    module_.Reset();
  }
  EXPECT_EQ(gpu_.live_objects(), before);
  EXPECT_EQ(gpu_.stale_uses(), 0u);
}

TEST_F(FakeGpuTest, ACallFailsWhenToldTo) {
  gpu_.FailNext("cuStreamCreateWithPriority", CUDA_ERROR_OUT_OF_MEMORY);
  gpu_.FailNext("cuMemAlloc", CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(MakeStream(driver_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(MakeStream(driver_).ok());
  EXPECT_EQ(DeviceBytes::Make(driver_, 16).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(FakeGpu, WithoutADeviceNothingStarts) {
  FakeGpu gpu({.devices = 0});
  const Driver driver = gpu.driver();
  EXPECT_EQ(driver.cuInit(0), CUDA_ERROR_NO_DEVICE);
  int count = 0;
  EXPECT_EQ(driver.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

}  // namespace
}  // namespace carillon::gpud::cuda
