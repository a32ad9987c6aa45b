#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cuda/fake/fake_gpu_fixture.h"
#include "kernels/all_kernels.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

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

TEST_F(FakeGpuTest, StreamsBeyondTheHardwareQueuesWaitForWhoeverIsBusy) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.hardware_queues = 3; });
  std::atomic<bool> end{false};  // writer: the test; reader: the first kernel
  std::atomic<int> runs{0};      // writers: the others; reader: the test
  const CUfunction stays = Define("stays", [&](KernelCall& call, uint64_t) {
    while (!end && !call.stopped()) sched_yield();
    return CUDA_SUCCESS;
  });
  const CUfunction counts = Define("counts", [&](KernelCall&, uint64_t) {
    ++runs;
    return CUDA_SUCCESS;
  });
  const Stream first = NewStream();
  const Stream second = NewStream();  // and the default one: all queues
  const Stream third = NewStream();
  ASSERT_EQ(LaunchIn(first.get(), stays, 0), CUDA_SUCCESS);
  ASSERT_TRUE(Eventually([&] { return gpu_.launches("stays") == 1; }));
  ASSERT_EQ(LaunchIn(third.get(), counts, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchIn(second.get(), counts, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(second.get()), CUDA_SUCCESS);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(driver_.cuStreamQuery(third.get()), CUDA_ERROR_NOT_READY);
  end = true;
  EXPECT_EQ(driver_.cuStreamSynchronize(third.get()), CUDA_SUCCESS);
  EXPECT_EQ(runs, 2);
}

TEST_F(FakeGpuTest, ALaunchWithMoreStackThanAnyBeforeWaitsForAnIdleGpu) {
  std::atomic<bool> end{false};  // writer: the test; reader: the kernel
  const CUfunction stays = Define("stays", [&](KernelCall& call, uint64_t) {
    while (!end && !call.stopped()) sched_yield();
    return CUDA_SUCCESS;
  });
  // These have stacks of 256 and 1256 bytes.
  const auto nothing = [](KernelCall&, uint64_t) { return CUDA_SUCCESS; };
  const CUfunction small = Define("carillon_take_stack", nothing);
  const CUfunction large = Define("carillon_memc_get", nothing);
  int bytes = 0;
  EXPECT_EQ(driver_.cuFuncGetAttribute(
                &bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, large),
            CUDA_SUCCESS);
  EXPECT_EQ(bytes, 1256);
  const Stream stream = NewStream();
  const Stream resident = NewStream();
  ASSERT_EQ(LaunchIn(resident.get(), stays, 0), CUDA_SUCCESS);
  EXPECT_EQ(LaunchIn(stream.get(), small, 0), CUDA_ERROR_UNKNOWN);
  end = true;
  EXPECT_EQ(driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1256), CUDA_SUCCESS);
  EXPECT_EQ(LaunchIn(stream.get(), small, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_SUCCESS);
  end = false;
  ASSERT_EQ(LaunchIn(resident.get(), stays, 0), CUDA_SUCCESS);
  EXPECT_EQ(LaunchIn(stream.get(), large, 0), CUDA_SUCCESS)
      << "the small one took as much as the limit says";
  end = true;
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_SUCCESS);
}

TEST_F(FakeGpuTest, NothingIsMadeBesideAKernelThatStays) {
  std::atomic<bool> runs = false;
  std::atomic<bool> leave = false;
  const CUfunction stay = Define("stay", [&](KernelCall& call, uint64_t) {
    runs.store(true);
    while (!leave.load() && !call.stopped()) std::this_thread::yield();
    return CUDA_SUCCESS;
  });
  const Stream stream = NewStream();
  ASSERT_EQ(LaunchIn(stream.get(), stay, 0), CUDA_SUCCESS);
  while (!runs.load()) std::this_thread::yield();
  CUstream other = nullptr;
  CUevent event = nullptr;
  CUdeviceptr device = 0;
  CUmodule module = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp where = {};
  void* pinned = nullptr;
  alignas(4096) static uint32_t page[1024] = {};
  // Each waits for some seconds in vain: at once, then.
  const std::vector<std::function<CUresult()>> all = {
      [&] {
        return driver_.cuStreamCreateWithPriority(&other,
                                                  CU_STREAM_NON_BLOCKING, 0);
      },
      [&] { return driver_.cuEventCreate(&event, 0); },
      [&] { return driver_.cuMemAlloc(&device, 64); },
      [&] { return driver_.cuMemHostAlloc(&pinned, 64, 0); },
      [&] { return driver_.cuMemHostRegister(page, sizeof(page), 0); },
      [&] { return driver_.cuMemCreate(&handle, 2 << 20, &where, 0); },
      [&] {
        return driver_.cuModuleLoadData(&module, FakeGpu::Image().data());
      },
  };
  std::vector<std::thread> threads;
  std::vector<CUresult> results(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    threads.emplace_back([&, i] {
      driver_.cuCtxSetCurrent(context_);
      results[i] = all[i]();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, testing::Each(CUDA_ERROR_NOT_READY));
  leave.store(true);
  EXPECT_TRUE(MakeStream(driver_).ok());
  EXPECT_TRUE(MakeEvent(driver_).ok());
  EXPECT_TRUE(DeviceBytes::Make(driver_, 64).ok());
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

// --- Kernels of kernels/.

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
  simt::EventFrame* Frame(uint64_t sequence, uint32_t code) {
    auto* frame = memory_.as<simt::EventFrame>();
    // Device memory is the host's here, and nothing runs.
    *frame = {};
    frame->ecq = pinned_.as<shm::EcqEntry>(16 * (sequence % 8));
    frame->scratch = memory_.as<simt::EventScratch>(1024);
    frame->totals = memory_.as<simt::EventTotals>(2048);
    frame->life = pinned_.as<shm::EventLife>(1024);
    frame->sequence = sequence;
    std::memcpy(frame->args(), &code, sizeof(code));
    return frame;
  }
  CUresult Launch(simt::EventFrame* frame) {
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
    EXPECT_EQ(memory_.as<simt::EventScratch>(1024)->fail_status, 0u);
  }
  EXPECT_EQ(memory_.as<simt::EventTotals>(2048)->done, 1u);
  EXPECT_EQ(memory_.as<simt::EventTotals>(2048)->failed, 1u);
}

TEST_F(EventKernelTest, AScratchOutOfDeviceMemoryIsAFault) {
  simt::EventFrame* frame = Frame(1, 0);
  frame->scratch = pinned_.as<simt::EventScratch>(2048);
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

TEST_F(FakeGpuTest, AKernelBeginsWhenOneOfItsBlocksHasRoom) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.sms = 1; });
  std::atomic<bool> end = false;
  const CUfunction wait = Define("wait", [&](KernelCall&, uint64_t) {
    while (!end.load()) std::this_thread::yield();
    return CUDA_SUCCESS;
  });
  std::atomic<bool> ran = false;
  const CUfunction note = Define("note", [&](KernelCall&, uint64_t) {
    ran.store(true);
    return CUDA_SUCCESS;
  });
  const Stream full = NewStream();
  const Stream other = NewStream();
  uint64_t param = 0;
  void* params[] = {&param};
  // 2,048 threads are all that an SM has; more of them have their turn later.
  ASSERT_EQ(driver_.cuLaunchKernel(wait, 9, 1, 1, 512, 1, 1, 0, full.get(),
                                   params, nullptr),
            CUDA_SUCCESS);
  while (gpu_.launches("wait") == 0) std::this_thread::yield();
  ASSERT_EQ(LaunchIn(other.get(), note, 0), CUDA_SUCCESS);
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(driver_.cuStreamQuery(other.get()), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(ran.load());
  end.store(true);
  EXPECT_EQ(driver_.cuStreamSynchronize(full.get()), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(other.get()), CUDA_SUCCESS);
  EXPECT_TRUE(ran.load());
}

TEST_F(FakeGpuTest, TheStreamOfAGraphThatRelaunchesItselfMaySayThatItIsDone) {
  std::atomic<uint64_t> runs = 0;
  std::atomic<bool> end = false;
  const CUfunction self = Define("self", [&](KernelCall& call, uint64_t) {
    if (runs.fetch_add(1) == 0) {
      EXPECT_EQ(call.Launch(call.current_graph(), DeviceLaunch::kTail),
                CUDA_SUCCESS);
      return CUDA_SUCCESS;
    }
    while (!end.load()) std::this_thread::yield();
    return CUDA_SUCCESS;
  });
  const Stream stream = NewStream();
  const GraphExec exec = NewExec(self, 0);
  ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), stream.get()), CUDA_SUCCESS);
  while (runs.load() < 2) std::this_thread::yield();
  EXPECT_EQ(driver_.cuStreamQuery(stream.get()), CUDA_SUCCESS);
  end.store(true);
  EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
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
              CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
  });
  const GraphExec exec = NewExec(parent, 0);
  ASSERT_EQ(driver_.cuGraphLaunch(exec.get(), nullptr), CUDA_SUCCESS);
  ASSERT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(gpu_.launches("parent"), 1u);
  EXPECT_EQ(gpu_.launches("leaf"), 0u);
}

TEST_F(FakeGpuTest, AnUploadIsLateForKernelsOfOtherStreams) {
  const CUfunction leaf =
      Define("leaf", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  CUgraphExec target = nullptr;
  CUresult launched = CUDA_SUCCESS;
  const CUfunction parent = Define("parent", [&](KernelCall& call, uint64_t) {
    launched = call.Launch(target, DeviceLaunch::kFireAndForget);
    return CUDA_SUCCESS;
  });
  const GraphExec launcher = NewExec(parent, 0);
  const Stream stream = NewStream();
  const Stream upload = NewStream();
  const auto launch = [&] {
    EXPECT_EQ(driver_.cuGraphLaunch(launcher.get(), stream.get()),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    return launched;
  };
  uint64_t zero = 0;
  void* params[] = {&zero};
  const CUDA_KERNEL_NODE_PARAMS node = {leaf, 1, 1, 1, 32, 1, 1, 0, params};
  EXPECT_TRUE(Eventually([&] {
    const Graph graph = *MakeGraph(driver_);
    CUgraphNode handle = nullptr;
    EXPECT_EQ(
        driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
        CUDA_SUCCESS);
    const GraphExec exec =
        *Instantiate(driver_, graph.get(),
                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                         CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                     upload.get());
    target = exec.get();
    const CUresult before = launch();
    EXPECT_EQ(driver_.cuStreamSynchronize(upload.get()), CUDA_SUCCESS);
    EXPECT_EQ(launch(), CUDA_SUCCESS);
    return before == CUDA_ERROR_INVALID_HANDLE;
  }));
}

TEST_F(FakeGpuTest, PrioritiesOfNodesCountOnlyInGraphsThatAreMadeForThem) {
  constexpr uint64_t kUse = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  constexpr uint64_t kUploaded = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                 CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  const CUfunction leaf =
      Define("leaf", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  CUgraphExec target = nullptr;
  const CUfunction parent = Define("parent", [&](KernelCall& call, uint64_t) {
    EXPECT_EQ(call.Launch(target, DeviceLaunch::kFireAndForget), CUDA_SUCCESS);
    return CUDA_SUCCESS;
  });
  const GraphExec launcher = NewExec(parent, 0);
  const Graph graph = *MakeGraph(driver_);
  uint64_t zero = 0;
  void* params[] = {&zero};
  const CUDA_KERNEL_NODE_PARAMS node = {leaf, 1, 1, 1, 32, 1, 1, 0, params};
  CUgraphNode handle = nullptr;
  ASSERT_EQ(
      driver_.cuGraphAddKernelNode(&handle, graph.get(), nullptr, 0, &node),
      CUDA_SUCCESS);
  CUkernelNodeAttrValue value = {};
  value.priority = -4;
  ASSERT_EQ(driver_.cuGraphKernelNodeSetAttribute(
                handle, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
            CUDA_SUCCESS);
  const Stream stream = *MakeStream(driver_, -2);
  const auto priorities = [&](uint64_t flags, bool by_kernel) {
    gpu_.ForgetLaunches();
    const GraphExec exec =
        *Instantiate(driver_, graph.get(), flags, stream.get());
    EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    target = exec.get();
    EXPECT_EQ(driver_.cuGraphLaunch(by_kernel ? launcher.get() : exec.get(),
                                    stream.get()),
              CUDA_SUCCESS);
    EXPECT_EQ(driver_.cuStreamSynchronize(stream.get()), CUDA_SUCCESS);
    return gpu_.places().at("leaf").priorities;
  };
  EXPECT_EQ(priorities(0, false), std::set<int>{-2});
  EXPECT_EQ(priorities(kUse, false), std::set<int>{-4});
  EXPECT_EQ(priorities(kUploaded, true), std::set<int>{0});
  EXPECT_EQ(priorities(kUploaded | kUse, true), std::set<int>{-4});
}

// --- Faults.

TEST_F(FakeGpuTest, AFaultStaysWhateverIsReset) {
  const CUfunction faults =
      Define("faults", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  gpu_.FaultOn("faults", FakeGpu::Nth(1));
  ASSERT_EQ(LaunchIn(nullptr, faults, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver_.cuStreamSynchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(driver_.cuDevicePrimaryCtxReset(0), CUDA_ERROR_ILLEGAL_ADDRESS);
  module_.Abandon();
  driver_.cuDevicePrimaryCtxRelease(0);
  EXPECT_EQ(driver_.cuDevicePrimaryCtxRetain(&context_, 0),
            CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(driver_.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeGpuTest, AFaultSticksUntilTheContextIsNew) {
  gpu_.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
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

// What NVIDIA's driver does so on an H200 (probe beside_resident).
TEST_F(FakeGpuTest, WhatIsGivenBackWaitsUntilTheGpuIsIdle) {
  const CUfunction leaf =
      Define("leaf", [](KernelCall&, uint64_t) { return CUDA_SUCCESS; });
  std::atomic<bool> asked = false;
  std::atomic<bool> ended = false;
  const CUfunction wait = Define("wait", [&](KernelCall&, uint64_t) {
    while (!asked.load()) std::this_thread::yield();
    // Time for a call that does not wait to be found out.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    ended.store(true);
    return CUDA_SUCCESS;
  });
  CUdeviceptr address = 0;
  ASSERT_EQ(driver_.cuMemAlloc(&address, 64), CUDA_SUCCESS);
  GraphExec exec = NewExec(leaf, 0);
  const std::vector<std::function<CUresult()>> calls = {
      [&] { return driver_.cuMemFree(address); },
      [&] { return exec.Reset(), CUDA_SUCCESS; },
      [&] { return driver_.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192); }};
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    asked.store(false);
    ended.store(false);
    const Stream stream = NewStream();
    ASSERT_EQ(LaunchIn(stream.get(), wait, 0), CUDA_SUCCESS);
    asked.store(true);
    EXPECT_EQ(calls[i](), CUDA_SUCCESS);
    EXPECT_TRUE(ended.load());
  }
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
