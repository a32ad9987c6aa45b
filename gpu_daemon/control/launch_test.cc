// Ordinary (background) kernels through the control plane.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"
#include "kernels/simt/simt.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

// A kernel that was added to the list and not to kernels.ptx.
struct NoPtxArgs {
  uint32_t x;
};
CARILLON_KERNEL(without_ptx, NoPtxArgs, args, self) {}
CARILLON_KERNEL_INFO(without_ptx, NoPtxArgs, "test", simt::Registers(1),
                     CARILLON_PARAM(NoPtxArgs, x, "unused"));

// A launch that outlasts any test, of blocks that each end soon.
constexpr uint32_t kManyBlocks = 10'000'000;
constexpr uint64_t kIterations = 1'000'000;

v1::LaunchKernelRequest Launch(const AttachedDevice& device,
                               const std::string& kernel, uint32_t blocks) {
  v1::LaunchKernelRequest request;
  request.set_session(device.session());
  request.set_kernel(kernel);
  request.mutable_grid()->set_x(blocks);
  request.mutable_grid()->set_y(1);
  request.mutable_grid()->set_z(1);
  request.mutable_block()->set_x(1);
  request.mutable_block()->set_y(1);
  request.mutable_block()->set_z(1);
  return request;
}

Outcome RunKernel(TestTestbed& testbed, const v1::LaunchKernelRequest& request,
                  v1::LaunchKernelResponse* response) {
  return TestTestbed::Call(testbed.events(), &v1::Events::Stub::LaunchKernel,
                           request, response);
}

TEST(Launch, RunsToItsEndAndTellsItsTimes) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  v1::AllocateBufferResponse in;
  v1::AllocateBufferResponse out;
  ASSERT_TRUE(device.AllocateBuffer(v1::INPUT, 64, &in).ok());
  ASSERT_TRUE(device.AllocateBuffer(v1::OUTPUT, 64, &out).ok());
  std::strcpy(reinterpret_cast<char*>(device.submission().At(in.offset())),
              "ordinary");
  auto request = Launch(device, "echo", 4);
  *request.add_parameters() = Part("in", in.buffer_id());
  *request.add_parameters() = Part("out", out.buffer_id());
  v1::LaunchKernelResponse response;
  const Outcome outcome = RunKernel(testbed, request, &response);
  ASSERT_TRUE(outcome.ok()) << outcome.status.error_message();
  EXPECT_EQ(response.status(), 0u);
  EXPECT_GT(response.dispatched_ns(), 0u);
  EXPECT_GE(response.finished_ns(), response.dispatched_ns());
  EXPECT_STREQ(
      reinterpret_cast<const char*>(device.completion().At(out.offset())),
      "ordinary");
  EXPECT_EQ(testbed.Status().background_kernels(), 1u);
  EXPECT_EQ(testbed.Status().background_blocks(), 4u);
}

TEST(Launch, AFailingKernelIsAResultWithItsStatus) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  auto request = Launch(device, "fail_if", 1);
  *request.add_parameters() = Value("code", 7);
  v1::LaunchKernelResponse response;
  ASSERT_TRUE(RunKernel(testbed, request, &response).ok());
  EXPECT_EQ(response.status(), 1007u);
}

TEST(Launch, BadRequestsAreRefused) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  v1::LaunchKernelResponse response;
  EXPECT_EQ(RunKernel(testbed, Launch(device, "bussy", 1), &response).reason,
            reason::kUnknownKernel);
  auto request = Launch(device, "busy", 1);
  *request.add_parameters() = WritableParameter("iterations");
  EXPECT_EQ(RunKernel(testbed, request, &response).reason, reason::kBadBinding);
  request = Launch(device, "busy", 0);
  *request.add_parameters() = Value("iterations", 1);
  EXPECT_EQ(RunKernel(testbed, request, &response).reason,
            reason::kBadDimensions);
  request = Launch(device, "busy", 1);
  *request.add_parameters() = Value("iterations", 1);
  request.set_priority(8);
  EXPECT_EQ(RunKernel(testbed, request, &response).reason,
            reason::kBadPriority);
  EXPECT_EQ(testbed.Status().background_kernels(), 0u);
}

TEST(Launch, AKernelWithoutPtxIsRefusedBeforeItRunsOnTheSimulatedGpu) {
  for (const char* backend : {"sim", "cpu"}) {
    TestTestbed testbed({.backend = backend});
    AttachedDevice device(&testbed, "host0");
    auto launch = Launch(device, "without_ptx", 1);
    *launch.add_parameters() = Value("x", 1);
    v1::LaunchKernelResponse launched;
    auto event = device.NullEvent();
    event.set_kernel("without_ptx");
    event.mutable_parameters(0)->set_name("x");
    v1::RegisterEventResponse registered;
    for (const Outcome& outcome : {RunKernel(testbed, launch, &launched),
                                   device.Register(event, &registered)}) {
      if (backend == std::string("cpu")) {
        EXPECT_TRUE(outcome.ok()) << outcome.status.error_message();
        continue;
      }
      EXPECT_EQ(outcome.status.error_code(), StatusCode::FAILED_PRECONDITION);
      EXPECT_EQ(outcome.reason, reason::kNoGpuCode);
      EXPECT_EQ(outcome.status.error_message(),
                "kernel 'without_ptx': this gpud has no PTX of it, and its sim "
                "back-end runs nothing else; 'bazel test "
                "//kernels:kernels_ptx_test' says how kernels.ptx is made "
                "again, and the cpu back-end runs the kernel as it is");
    }
  }
}

TEST(Launch, NoKernelGetsAPriorityAboveTheOperators) {
  TestTestbed testbed({.max_priority = 2});
  AttachedDevice device(&testbed, "host0");
  v1::LaunchKernelResponse response;
  auto request = Launch(device, "busy", 1);
  *request.add_parameters() = Value("iterations", 1);
  request.set_priority(3);
  const Outcome refused = RunKernel(testbed, request, &response);
  EXPECT_EQ(refused.status.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(refused.reason, reason::kBadPriority);
  EXPECT_EQ(testbed.Status().background_kernels(), 0u);
  request.set_priority(2);
  EXPECT_TRUE(RunKernel(testbed, request, &response).ok());
}

TEST(Launch, ACallerThatGivesUpTakesItsKernelBack) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  // Its blocks would take hours; after the first ones, none may start.
  auto request = Launch(device, "busy", kManyBlocks);
  *request.add_parameters() = Value("iterations", kIterations);
  v1::LaunchKernelResponse response;
  const auto context = Within(std::chrono::milliseconds(300));
  const grpc::Status status =
      testbed.events().LaunchKernel(context.get(), request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  v1::DrainRequest drain;
  drain.set_timeout_ms(20'000);
  v1::DrainResponse drained;
  EXPECT_TRUE(TestTestbed::Call(testbed.admin(), &v1::Admin::Stub::Drain, drain,
                                &drained)
                  .ok());
}

TEST(Launch, BuffersOfARunningKernelCannotBeFreed) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  const uint32_t in = device.Buffer(v1::GPU_MEMORY, 8 << 20);
  const uint32_t out = device.Buffer(v1::GPU_MEMORY, 8 << 20);
  auto request = Launch(device, "echo", 200'000);
  *request.add_parameters() = Part("in", in);
  *request.add_parameters() = Part("out", out);
  const auto context = Within();
  v1::LaunchKernelResponse response;
  std::thread caller([&] {
    testbed.events().LaunchKernel(context.get(), request, &response);
  });
  ASSERT_TRUE(
      Eventually([&] { return testbed.Status().background_kernels() == 1; }));
  const Outcome outcome = device.FreeBuffer(in);
  EXPECT_EQ(outcome.reason, reason::kBufferInUse)
      << outcome.status.error_message();
  context->TryCancel();
  caller.join();
  EXPECT_TRUE(Eventually([&] { return device.FreeBuffer(in).ok(); }));
}

TEST(Launch, ItsDevicesEndAbortsIt) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  auto request = Launch(device, "busy", kManyBlocks);
  *request.add_parameters() = Value("iterations", kIterations);
  grpc::Status status;
  std::thread caller([&] {
    const auto context = Within();
    v1::LaunchKernelResponse response;
    status = testbed.events().LaunchKernel(context.get(), request, &response);
  });
  ASSERT_TRUE(
      Eventually([&] { return testbed.Status().background_kernels() == 1; }));
  EXPECT_TRUE(device.Detach().ok());
  caller.join();
  EXPECT_EQ(status.error_code(), StatusCode::ABORTED) << status.error_message();
}

TEST(Launch, ADeviceMayHaveSoManyAtOnce) {
  TestTestbed testbed;
  AttachedDevice device(&testbed, "host0");
  auto request = Launch(device, "busy", kManyBlocks);
  *request.add_parameters() = Value("iterations", kIterations);
  std::vector<std::thread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&] {
      const auto context = Within();
      v1::LaunchKernelResponse response;
      testbed.events().LaunchKernel(context.get(), request, &response);
    });
  }
  EXPECT_TRUE(
      Eventually([&] { return testbed.Status().background_kernels() == 32; }));
  v1::LaunchKernelResponse response;
  const Outcome outcome = RunKernel(testbed, request, &response);
  EXPECT_EQ(outcome.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(outcome.reason, reason::kTooMany);
  EXPECT_TRUE(device.Detach().ok());
  for (auto& caller : callers) caller.join();
}

}  // namespace
}  // namespace carillon::gpud
