// Copies to and from GPU memory through the control plane.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
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

// In simulated time, which stands because the other device never answers: a copy
// that has begun does not end.
class EndlessCopyTest : public testing::Test {
 protected:
  EndlessCopyTest() {
    const uint32_t in = device_.Buffer(v1::INPUT, 4096);
    memory_ = device_.Buffer(v1::GPU_MEMORY, 4096);
    request_ = CopyOf(device_, in, memory_, 4096);
    caller_ = std::thread([this] {
      v1::CopyResponse response;
      status_ = testbed_.events().Copy(context_.get(), request_, &response);
    });
    EXPECT_TRUE(Eventually([&] { return Drain(1) == reason::kNotDrained; }));
  }
  static v1::AttachRequest Attach(const std::string& name) {
    v1::AttachRequest request = AttachRequestFor(name);
    request.set_takes_simulated_time(true);
    return request;
  }
  std::string Drain(uint32_t within_ms) {
    v1::DrainRequest request;
    request.set_timeout_ms(within_ms);
    v1::DrainResponse response;
    return TestTestbed::Call(testbed_.admin(), &v1::Admin::Stub::Drain, request,
                             &response)
        .reason;
  }

  TestTestbed testbed_{
      {.backend = "sim",
       .backend_options = {.timing = "tiny", .first_devices = 2}}};
  AttachedDevice device_{&testbed_, Attach("host0")};
  AttachedDevice other_{&testbed_, Attach("host1")};
  uint32_t memory_ = 0;
  v1::CopyRequest request_;
  const std::unique_ptr<grpc::ClientContext> context_ = Within();
  grpc::Status status_;
  std::thread caller_;
};

TEST_F(EndlessCopyTest, ItsBuffersCannotBeFreed) {
  EXPECT_EQ(device_.FreeBuffer(memory_).reason, reason::kBufferInUse);
  context_->TryCancel();
  caller_.join();
}

TEST_F(EndlessCopyTest, ItIsListedBesideTheQueues) {
  v1::ListQueuesResponse queues;
  ASSERT_TRUE(TestTestbed::Call(testbed_.admin(), &v1::Admin::Stub::ListQueues,
                                v1::ListQueuesRequest(), &queues)
                  .ok());
  ASSERT_EQ(queues.copies_size(), 1);
  EXPECT_EQ(queues.copies(0).device(), "host0");
  EXPECT_TRUE(queues.copies(0).in());
  EXPECT_EQ(queues.copies(0).bytes(), 4096u);
  EXPECT_EQ(queues.copies_left_out(), 0u);
  context_->TryCancel();
  caller_.join();
}

TEST_F(EndlessCopyTest, ItsDevicesEndAbortsIt) {
  EXPECT_TRUE(device_.Detach().ok());
  caller_.join();
  EXPECT_EQ(status_.error_code(), StatusCode::ABORTED)
      << status_.error_message();
}

TEST_F(EndlessCopyTest, ACallerThatGivesUpTakesItBack) {
  context_->TryCancel();
  caller_.join();
  EXPECT_EQ(status_.error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(Drain(20'000), "");
  EXPECT_TRUE(Eventually([&] { return device_.FreeBuffer(memory_).ok(); }));
}

}  // namespace
}  // namespace carillon::gpud
