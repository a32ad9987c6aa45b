// The machine code's source, run: gpud's PTX on the simulated GPU, behind every
// launch path.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/edge/cuda_module.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using ::testing::HasSubstr;

// wait: data = 1, and then waits at the barrier for a release. bad: stores nowhere.
constexpr std::string_view kPtx = R"(.version 9.0
.target sm_75
.address_size 64
.global .align 8 .u64 carillon_releases;
.visible .entry wait(.param .u64 data)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [data];
  ld.global.u64 %rd2, [carillon_releases];
  ld.volatile.global.u64 %rd3, [%rd2];
  mov.u32 %r1, 1;
  st.volatile.global.u32 [%rd1], %r1;
$again:
  ld.volatile.global.u64 %rd4, [%rd2];
  setp.eq.s64 %p1, %rd4, %rd3;
  @%p1 bra $again;
  ret;
}
.visible .entry bad(.param .u64 data)
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, 0;
  st.global.u64 [%rd1], %rd1;
  ret;
}
)";

class SimDriverTest : public CudaBackendFixture,
                      public ::testing::WithParamInterface<std::string> {
 protected:
  void Open() {
    Gpu::Options gpu;
    gpu.image = CudaModule();
    ASSERT_NO_FATAL_FAILURE(CudaBackendFixture::Open(gpu));
    Use(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(All, SimDriverTest,
                         ::testing::Values("baseline", "baseline_flag", "graph",
                                           "stream_wait", "persistent", "edge"),
                         [](const auto& info) { return info.param; });

TEST_P(SimDriverTest, ServesEventsAndTheirFailures) {
  ASSERT_NO_FATAL_FAILURE(Open());
  auto event = AddFailIf(*device_, 4);
  for (uint32_t i = 0; i < 20; ++i) {
    const uint32_t code = i % 3 == 0 ? i : 0;
    const shm::Completion completion = RingAndWait(*device_, event, code);
    ASSERT_EQ(completion.sequence.value(), i + 1);
    ASSERT_EQ(completion.status, code != 0 ? KernelCode(code) : 0u);
    ASSERT_EQ(completion.state,
              code != 0 ? EventState::kFailed : EventState::kDone);
  }
  EXPECT_EQ(TakeAway(event), 0u);
  EXPECT_EQ(violations(), 0u);
}

// Users' kernels.
class SimUserTest : public SimDriverTest {
 protected:
  void Open() {
    ASSERT_NO_FATAL_FAILURE(SimDriverTest::Open());
    data_ = device_->memory->completion().At(
        *device_->completion_heap->Allocate(kBytes));
  }
  TestDevice::Event AddUsers(const char* symbol) {
    const auto loaded = backend_->LoadKernels(
        {.image = std::as_bytes(std::span(kPtx)),
         .file = "user.ptx",
         .kernels = {
             {.symbol = symbol,
              .name = symbol,
              .summary = "",
              .parameters = {{"data", simt::ParamKind::kWriteBuffer, 4}}}}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return Add(*device_, {.kernel = loaded->front(),
                          .bindings = {{.buffer = {data_, kBytes}}},
                          .block = {1, 1, 1}});
  }
  // Has an event begun that waits, and lets it go.
  void ExpectOneWaits(const TestDevice::Event& event) {
    const std::atomic_ref began(*reinterpret_cast<uint32_t*>(data_));
    began = 0;
    event.ring->Commit();
    event.ring->RingDoorbell();
    ASSERT_TRUE(Until([&] { return began == 1; }));
    EXPECT_EQ(event.ring->Poll(), std::nullopt);
    const absl::Status released = backend_->ReleaseBarrier(*device_->memory);
    EXPECT_TRUE(released.ok()) << released;
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
  }

  static constexpr uint32_t kBytes = 64;
  std::byte* data_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(All, SimUserTest,
                         ::testing::Values("baseline", "baseline_flag", "graph",
                                           "stream_wait", "edge"),
                         [](const auto& info) { return info.param; });

TEST_P(SimUserTest, WaitsForAReleaseAlsoInANewContext) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const absl::Status none = backend_->ReleaseBarrier(*device_->memory);
  EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(none.message()), HasSubstr("'carillon_releases'"));
  auto waits = AddUsers("wait");
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(ExpectOneWaits(waits));
  auto bad = AddUsers("bad");
  bad.ring->Commit();
  bad.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*bad.ring).status,
            static_cast<uint32_t>(shm::EventStatus::kKernelFault));
  ASSERT_NO_FATAL_FAILURE(ExpectOneWaits(waits));
  EXPECT_EQ(TakeAway(bad), 0u);
  EXPECT_EQ(TakeAway(waits), 0u);
}

}  // namespace
}  // namespace carillon::gpud::cuda
