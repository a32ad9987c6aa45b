// A device that spawns tasks by Pagoda's API, against gpud with its launch paths;
// and devices that die while their tasks run.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "devices/sdk/edge.h"
#include "devices/sdk/pagoda.h"
#include "integration_tests/fake_driver.h"
#include "integration_tests/testbed_process.h"

namespace carillon {
namespace {

using edge::Place;
using ::testing::HasSubstr;
using testing::kBound;
using testing::Testbed;

struct Served {
  std::string backend;
  std::string launch_path;
};

class PagodaTasksTest : public ::testing::TestWithParam<Served> {
 protected:
  // Else it fails.
  static bool LaunchesWhatNoMtbHolds() { return GetParam().backend != "cuda"; }
  void SetUp() override {
    if (GetParam().backend == "cuda") {
      driver_.emplace();
    }
    auto testbed =
        Testbed::Start({"--backend", GetParam().backend, "--workers", "3"});
    ASSERT_TRUE(testbed.ok()) << testbed.status();
    testbed_ = *std::move(testbed);
    edge::AttachOptions options;
    options.testbed_directory = testbed_->directory();
    options.name = "host";
    options.kind = "test";
    auto device = edge::Device::Attach(options);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  edge::Buffer Allocate(Place place, uint64_t bytes) {
    const auto buffer = device_->AllocateBuffer(place, bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *buffer;
  }
  uint64_t Counter(std::string_view name) {
    const v1::GetStatusResponse status = testbed_->Status();
    for (const v1::LaunchPath& path : status.launch_paths()) {
      if (path.name() != GetParam().launch_path) continue;
      for (const v1::Counter& counter : path.counters()) {
        if (counter.name() == name) return counter.value();
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  std::optional<testing::FakeDriver> driver_;
  std::unique_ptr<Testbed> testbed_;
  std::unique_ptr<edge::Device> device_;
};

INSTANTIATE_TEST_SUITE_P(
    All, PagodaTasksTest,
    ::testing::Values(Served{"cpu", "pagoda"}, Served{"cpu", "pagoda_ring"},
                      Served{"sim", "pagoda"}, Served{"sim", "pagoda_ring"}),
    [](const auto& info) {
      return info.param.backend + "_" + info.param.launch_path;
    });

#ifdef CARILLON_HAVE_CUDA
INSTANTIATE_TEST_SUITE_P(CudaOnTheFakeDriver, PagodaTasksTest,
                         ::testing::Values(Served{"cuda", "pagoda_ring"},
                                           Served{"cuda", "pagoda"}),
                         [](const auto& info) {
                           return info.param.launch_path;
                         });
#else
TEST(PagodaTasksOnCuda, AreNotTestedHere) {
  GTEST_SKIP() << "built without the CUDA toolkit";
}
#endif

TEST_P(PagodaTasksTest, TasksOfAnyShapeDoTheirOwnWorkAndNoOthers) {
  constexpr uint64_t kTasks = 300;
  constexpr uint64_t kElements = 512;  // room of each
  constexpr uint64_t kBytes = kElements * sizeof(float);
  const edge::Buffer a = Allocate(Place::kInput, kTasks * kBytes);
  const edge::Buffer b = Allocate(Place::kInput, kTasks * kBytes);
  const edge::Buffer c = Allocate(Place::kOutput, kTasks * kBytes);
  const auto floats = [](const edge::Buffer& buffer) {
    return reinterpret_cast<float*>(buffer.bytes.data());
  };
  for (uint64_t i = 0; i < kTasks * kElements; ++i) {
    floats(a)[i] = static_cast<float>(i % 1000);
    floats(b)[i] = static_cast<float>(i / 1000);
  }
  pagoda::Tasks tasks(device_.get());
  const auto add =
      tasks.AddFunction({.kernel = "vector_add",
                         .max_in_flight = 64,
                         .launch_path = GetParam().launch_path,
                         .parameters = {edge::WritableBuffer("a", a),
                                        edge::WritableBuffer("b", b),
                                        edge::WritableBuffer("c", c)}});
  ASSERT_TRUE(add.ok()) << add.status();
  std::mt19937 random(1);
  std::vector<uint64_t> lengths;
  std::vector<pagoda::TaskId> ids;
  uint64_t wide = 0;
  for (uint64_t n = 0; n < kTasks; ++n) {
    // Every tenth is larger than an MTB.
    const uint32_t threads =
        n % 10 == 9 && LaunchesWhatNoMtbHolds() ? 1024 : 1 + random() % 512;
    wide += threads > 992;
    lengths.push_back(1 + random() % kElements);
    const shm::BufferRef part{n * kBytes, lengths[n] * sizeof(float)};
    const auto blocks =
        static_cast<uint32_t>((lengths[n] + threads - 1) / threads);
    const auto id = tasks.taskSpawn(threads, blocks, 0, *add, part, part, part);
    ASSERT_TRUE(id.ok()) << id.status();
    ids.push_back(*id);
    if (n % 7 != 0) continue;
    const absl::Status status = tasks.wait(ids[random() % ids.size()], kBound);
    EXPECT_TRUE(status.ok() ||
                status.code() == absl::StatusCode::kFailedPrecondition)
        << status;
  }
  const absl::Status all = tasks.waitAll(kBound);
  ASSERT_TRUE(all.ok()) << all;
  for (uint64_t n = 0; n < kTasks; ++n) {
    for (uint64_t i = 0; i < kElements; ++i) {
      const uint64_t at = n * kElements + i;
      const float sum = floats(a)[at] + floats(b)[at];
      ASSERT_EQ(floats(c)[at], i < lengths[n] ? sum : 0) << n << " " << i;
    }
  }
  EXPECT_TRUE(Eventually([&] { return Counter("tasks") == kTasks - wide; }));
  if (LaunchesWhatNoMtbHolds()) {
    EXPECT_EQ(Counter("kernels"), wide);
    return;
  }
  const shm::BufferRef one{0, sizeof(float)};
  const auto large = tasks.taskSpawn(1024, 1, 0, *add, one, one, one);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_FALSE(tasks.wait(*large, kBound).ok());
}

TEST_P(PagodaTasksTest, ATaskSaysHowItHasFailed) {
  pagoda::Tasks tasks(device_.get());
  const auto fail_if =
      tasks.AddFunction({.kernel = "fail_if",
                         .launch_path = GetParam().launch_path,
                         .parameters = {edge::Writable("code")}});
  ASSERT_TRUE(fail_if.ok()) << fail_if.status();
  for (const uint32_t code : {0u, 5u, 0u}) {
    const auto id = tasks.taskSpawn(64, 2, 0, *fail_if, code);
    ASSERT_TRUE(id.ok()) << id.status();
    const absl::Status status = tasks.wait(*id, kBound);
    EXPECT_EQ(status.code(),
              code == 0 ? absl::StatusCode::kOk : absl::StatusCode::kInternal)
        << status;
  }
}

TEST_P(PagodaTasksTest, WhatNoTaskCanBeIsRefusedWhenItIsAdded) {
  pagoda::Tasks tasks(device_.get());
  const auto busy =
      tasks.AddFunction({.kernel = "busy",
                         .launch_path = GetParam().launch_path,
                         .parameters = {edge::Writable("iterations")}});
  EXPECT_EQ(busy.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(busy.status().message()),
              HasSubstr("cannot be a task of an MTB"));
  EXPECT_EQ(testbed_->Status().ekt_used(), 0u);
}

TEST_P(PagodaTasksTest, ADeviceThatDiesAmidItsTasksLeavesNothing) {
  device_.reset();
  for (int death = 0; death < 4; ++death) {
    auto dying = testbed_->StartDevice(
        "echo", testing::Program("integration_tests/echo_device"),
        {"--path", GetParam().launch_path});
    ASSERT_TRUE(dying.ok()) << dying.status();
    const uint64_t before = testbed_->Status().events().done();
    ASSERT_TRUE(Eventually(
        [&] { return testbed_->Status().events().done() > before + 50; }));
    (*dying)->Kill();
    ASSERT_TRUE(Eventually([&] {
      const v1::GetStatusResponse status = testbed_->Status();
      return status.devices() == 0 && status.ekt_used() == 0 &&
             status.memory_used() == 0;
    }));
    const v1::EventCounts events = testbed_->Status().events();
    EXPECT_EQ(events.rung(),
              events.done() + events.failed() + events.aborted());
  }
  EXPECT_EQ(testbed_->Status().gpu().resident_blocks(), 0u);
}

}  // namespace
}  // namespace carillon
