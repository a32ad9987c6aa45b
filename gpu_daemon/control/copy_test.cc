// Copies to and from GPU memory through the control plane.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "gpu_daemon/control/error_detail.h"
#include "gpu_daemon/control/testing/test_testbed.h"

namespace carillon::gpud {
namespace {

using grpc::StatusCode;

v1::CopyRequest CopyOf(const AttachedDevice& device, uint32_t from, uint32_t to,
                       uint64_t bytes) {
  v1::CopyRequest request;
  request.set_session(device.session());
  request.set_from_buffer(from);
  request.set_to_buffer(to);
  request.set_bytes(bytes);
  return request;
}

Outcome RunCopy(TestTestbed& testbed, const v1::CopyRequest& request,
                v1::CopyResponse* response) {
  return TestTestbed::Call(testbed.events(), &v1::Events::Stub::Copy, request,
                           response);
}

class CopyTest : public testing::TestWithParam<std::string> {
 protected:
  TestTestbed testbed_{
      {.backend = GetParam(),
       .backend_options = {.copy_in_chunk = 4096, .copy_out_chunk = 4096},
       .memory_bytes = uint64_t{64} << 20}};
};

INSTANTIATE_TEST_SUITE_P(All, CopyTest, testing::Values("cpu", "sim"),
                         [](const auto& info) { return info.param; });

TEST_P(CopyTest, WhatGoesInThroughAKernelAndOutIsWhatItWas) {
  constexpr uint64_t kBytes = 50'000;
  AttachedDevice device(&testbed_, "host0");
  v1::AllocateBufferResponse in;
  v1::AllocateBufferResponse out;
  ASSERT_TRUE(device.AllocateBuffer(v1::INPUT, kBytes, &in).ok());
  ASSERT_TRUE(device.AllocateBuffer(v1::OUTPUT, kBytes, &out).ok());
  const uint32_t first = device.Buffer(v1::GPU_MEMORY, kBytes);
  const uint32_t second = device.Buffer(v1::GPU_MEMORY, kBytes);
  auto* const written =
      reinterpret_cast<uint8_t*>(device.submission().At(in.offset()));
  for (uint64_t i = 0; i < kBytes; ++i) written[i] = uint8_t(i * i >> 3);
  v1::CopyResponse response;
  Outcome outcome = RunCopy(
      testbed_, CopyOf(device, in.buffer_id(), first, kBytes), &response);
  ASSERT_TRUE(outcome.ok()) << outcome.status.error_message();
  EXPECT_GE(response.finished_ns(), response.started_ns());
  EXPECT_GT(response.finished_ns(), 0u);

  v1::LaunchKernelRequest launch;
  launch.set_session(device.session());
  launch.set_kernel("echo");
  launch.mutable_block()->set_x(64);
  launch.mutable_block()->set_y(1);
  launch.mutable_block()->set_z(1);
  *launch.add_parameters() = Part("in", first);
  *launch.add_parameters() = Part("out", second);
  v1::LaunchKernelResponse launched;
  ASSERT_TRUE(TestTestbed::Call(testbed_.events(),
                                &v1::Events::Stub::LaunchKernel, launch,
                                &launched)
                  .ok());
  ASSERT_EQ(launched.status(), 0u);

  // All of it but what is before and behind.
  auto back = CopyOf(device, second, out.buffer_id(), kBytes - 200);
  back.set_from_offset(100);
  back.set_to_offset(150);
  outcome = RunCopy(testbed_, back, &response);
  ASSERT_TRUE(outcome.ok()) << outcome.status.error_message();
  const auto* const read =
      reinterpret_cast<const uint8_t*>(device.completion().At(out.offset()));
  EXPECT_EQ(std::memcmp(read + 150, written + 100, kBytes - 200), 0);
  for (uint64_t i = 0; i < 150; ++i) ASSERT_EQ(read[i], 0) << i;
  for (uint64_t i = kBytes - 50; i < kBytes; ++i) ASSERT_EQ(read[i], 0) << i;
}

TEST_P(CopyTest, BadRequestsAreRefused) {
  AttachedDevice device(&testbed_, "host0");
  AttachedDevice other(&testbed_, "host1");
  const uint32_t in = device.Buffer(v1::INPUT, 100);
  const uint32_t out = device.Buffer(v1::OUTPUT, 100);
  const uint32_t memory = device.Buffer(v1::GPU_MEMORY, 100);
  const auto refused = [&](const v1::CopyRequest& request) {
    v1::CopyResponse response;
    return RunCopy(testbed_, request, &response);
  };
  for (const auto& [from, to] : {std::pair(in, out),
                                 {memory, memory},
                                 {out, memory},
                                 {memory, in},
                                 {in, in}}) {
    const Outcome outcome = refused(CopyOf(device, from, to, 10));
    EXPECT_EQ(outcome.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(outcome.reason, reason::kBadCopy) << from << " to " << to;
  }
  EXPECT_EQ(refused(CopyOf(device, in, memory, 0)).reason, reason::kBadCopy);
  EXPECT_EQ(refused(CopyOf(device, in, 999, 10)).reason,
            reason::kUnknownBuffer);
  EXPECT_EQ(refused(CopyOf(other, in, memory, 10)).reason,
            reason::kUnknownBuffer);

  struct Past {
    uint64_t from_offset, to_offset, bytes;
  };
  for (const Past& past :
       {Past{0, 0, 101}, Past{1, 0, 100}, Past{0, 1, 100}, Past{~0ull, 0, 2},
        Past{0, ~0ull, 2}, Past{100, 0, ~0ull}, Past{101, 0, 1}}) {
    auto request = CopyOf(device, in, memory, past.bytes);
    request.set_from_offset(past.from_offset);
    request.set_to_offset(past.to_offset);
    const Outcome outcome = refused(request);
    EXPECT_EQ(outcome.status.error_code(), StatusCode::OUT_OF_RANGE)
        << past.from_offset << " " << past.to_offset << " " << past.bytes;
    EXPECT_EQ(outcome.reason, reason::kBadCopy);
  }
  auto urgent = CopyOf(device, in, memory, 10);
  urgent.set_priority(8);
  EXPECT_EQ(refused(urgent).reason, reason::kBadPriority);
  urgent.set_priority(7);
  EXPECT_TRUE(refused(urgent).ok());
}

// A copy of many chunks, until what `during` does to it has its effect.
template <class During>
grpc::Status WhileCopying(TestTestbed& testbed, AttachedDevice& device,
                          grpc::ClientContext& context, uint32_t* in,
                          const During& during) {
  constexpr uint64_t kBytes = 16 << 20;
  *in = device.Buffer(v1::INPUT, kBytes);
  const uint32_t memory = device.Buffer(v1::GPU_MEMORY, kBytes);
  grpc::Status status;
  std::thread caller([&] {
    v1::CopyResponse response;
    status = testbed.events().Copy(
        &context, CopyOf(device, *in, memory, kBytes), &response);
  });
  during();
  caller.join();
  return status;
}

TEST_P(CopyTest, ItsDevicesEndEndsIt) {
  AttachedDevice device(&testbed_, "host0");
  const auto context = Within();
  uint32_t in = 0;
  const grpc::Status status =
      WhileCopying(testbed_, device, *context, &in,
                   [&] { EXPECT_TRUE(device.Detach().ok()); });
  // It may have been done by then, or not have come.
  EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::ABORTED ||
              status.error_code() == StatusCode::FAILED_PRECONDITION ||
              status.error_code() == StatusCode::NOT_FOUND)
      << status.error_message();
}

TEST_P(CopyTest, ACallerThatGivesUpLeavesNothingBehind) {
  AttachedDevice device(&testbed_, "host0");
  const auto context = Within();
  uint32_t in = 0;
  WhileCopying(testbed_, device, *context, &in, [&] { context->TryCancel(); });
  v1::DrainRequest drain;
  drain.set_timeout_ms(20'000);
  v1::DrainResponse drained;
  EXPECT_TRUE(TestTestbed::Call(testbed_.admin(), &v1::Admin::Stub::Drain,
                                drain, &drained)
                  .ok());
  EXPECT_TRUE(Eventually([&] { return device.FreeBuffer(in).ok(); }));
}

}  // namespace
}  // namespace carillon::gpud
