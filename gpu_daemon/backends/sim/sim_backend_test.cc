// The sim back-end behind the launch paths: gpud's own kernels, as PTX.
#include "gpu_daemon/backends/sim/sim_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gpu_daemon/backends/sim/sim_kernels.h"
#include "gpu_daemon/event/test_device.h"
#include "kernels/registry.h"

namespace carillon::gpud {
namespace {

using shm::Completion;
using shm::EventState;
using shm::EventStatus;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }
ParameterBinding Writable() { return {.writable = true}; }
ParameterBinding Fixed(const HostMapping& mapping, size_t bytes) {
  return {.buffer = {mapping.data(), bytes}};
}

void RingWith(shm::DeviceRing& ring, uint32_t value) {
  std::memcpy(ring.parameters(), &value, sizeof(value));
  ring.Commit();
  ring.RingDoorbell();
}

uint32_t Number(EventStatus status) { return static_cast<uint32_t>(status); }

class SimBackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  SimBackendTest() {
    backend_ = *SimBackend::Create({.workers = 2});
    path_ = backend_->paths().Find(GetParam())->path;
  }
  ~SimBackendTest() override {
    backend_->Stop();
    backend_->Join();
  }

  TestDevice::Event Add(const TestDevice::Spec& spec) {
    auto event = device_.Register(spec);
    const auto status = path_->Add(event.kernel);
    EXPECT_TRUE(status.ok()) << status;
    return event;
  }
  template <class T>
  ParameterBinding Map(std::vector<T>& values) {
    const auto bytes = std::as_writable_bytes(std::span(values));
    mappings_.push_back(*backend_->memory().MapHost(bytes));
    return Fixed(*mappings_.back(), bytes.size());
  }

  TestDevice device_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<HostMapping>> mappings_;
  LaunchPath* path_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, SimBackendTest,
                         ::testing::Values("edge", "baseline", "baseline_flag",
                                           "persistent", "pagoda",
                                           "pagoda_ring"),
                         [](const auto& info) { return info.param; });

TEST_P(SimBackendTest, AKernelsOwnStatusReachesItsEvent) {
  for (const uint32_t blocks : {1, 5}) {
    auto event = Add({.kernel = simt::FindKernel("fail_if"),
                      .bindings = {Writable()},
                      .grid = {blocks, 1, 1},
                      .entries = 4});
    for (uint32_t i = 1; i <= 50; ++i) {
      const uint32_t code = i % 3 == 0 ? i : 0;
      RingWith(*event.ring, code);
      const Completion completion = device_.Wait(*event.ring);
      ASSERT_EQ(completion.sequence.value(), i);
      ASSERT_EQ(completion.state,
                code == 0 ? EventState::kDone : EventState::kFailed);
      ASSERT_EQ(completion.status,
                code == 0 ? 0 : Number(EventStatus::kKernelStatusBase) + code);
    }
  }
}

TEST_P(SimBackendTest, BlocksComputeInTheHostsMemory) {
  constexpr uint32_t kCount = 1000;
  std::vector<float> a(kCount), b(kCount), c(kCount, -1);
  for (uint32_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  auto event = Add({.kernel = simt::FindKernel("vector_add"),
                    .bindings = {Map(a), Map(b), Map(c)},
                    .grid = {4, 1, 1},
                    .block = {256, 1, 1}});
  event.ring->Commit();
  event.ring->RingDoorbell();
  const Completion completion = device_.Wait(*event.ring);
  ASSERT_EQ(completion.state, EventState::kDone) << completion.status;
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(c[i], static_cast<float>(3 * i));
  }
}

TEST(SimBackend, RefusesWhatAnotherBackEndHas) {
  EXPECT_EQ(SimBackend::Create({.reserved_sms = 8}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(SimBackend, HasPtxOfEveryKernelOfGpud) {
  // Those that a test registers beside them have none.
  const auto backend = *SimBackend::Create({.workers = 1});
  LaunchPath* const path = backend->paths().Find("edge")->path;
  std::vector<uint64_t> nothing(256);
  const auto mapping =
      backend->memory().MapHost(std::as_writable_bytes(std::span(nothing)));
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    TestDevice device;
    std::vector<ParameterBinding> bindings;
    for (const simt::ParamInfo& param : kernel->params) {
      // 128 bytes, or one element that is larger.
      const uint64_t size = param.element_size;
      bindings.push_back(
          param.is_buffer()
              ? Fixed(**mapping, std::max<uint64_t>(1, 128 / size) * size)
              : Constant(0));
    }
    auto event = device.Register({.kernel = kernel, .bindings = bindings});
    ASSERT_TRUE(path->Add(event.kernel).ok()) << kernel->name;
    event.ring->Commit();
    event.ring->RingDoorbell();
    const Completion completion = device.Wait(*event.ring);
    EXPECT_NE(completion.state, EventState::kNone) << kernel->name;
    EXPECT_NE(completion.status, Number(EventStatus::kBadLaunch))
        << kernel->name;
    EXPECT_NE(completion.status, Number(EventStatus::kKernelFault))
        << kernel->name;
  }
  backend->Stop();
  backend->Join();
}

// Tables of a kernel that is looked for later lie where they would lie anyway.
TEST(SimKernelsTest, WhatIsLoweredAtTheStartTakesNoAddressesLater) {
  PtxEngine ptx(sim::Addresses::kOwn);
  ASSERT_TRUE(ptx.kernels.LoadOwn().ok());
  ptx.kernels.LowerAllOwn();
  const auto before = ptx.memory.Allocate(1, "before");
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    ptx.kernels.Find(kernel);
  }
  const auto after = ptx.memory.Allocate(1, "after");
  ASSERT_TRUE(before.ok() && after.ok());
  const auto next = ptx.memory.Allocate(1, "next");
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(*after - *before, *next - *after);
}

}  // namespace
}  // namespace carillon::gpud
