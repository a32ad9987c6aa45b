// Streams of the CUDA back-end: how many, their priorities, domains and SMs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu_daemon/backends/cuda/background_fixture.h"
#include "gpu_daemon/backends/cuda/cuda_backend.h"

namespace carillon::gpud::cuda {
namespace {

using shm::EventState;
using ::testing::HasSubstr;
using ::testing::Not;

ParameterBinding Constant(uint64_t bits) { return {.constant_bits = bits}; }

TEST_F(CudaBackendTest, AllPathsAtOnceHaveHardwareQueuesOfTheirOwn) {
  Open();
  std::vector<std::pair<LaunchPath*, TestDevice::Event>> events;
  for (const char* path : {"edge", "stream_wait", "persistent", "pagoda_ring",
                           "pagoda", "baseline", "baseline_flag", "graph"}) {
    Use(path);
    events.emplace_back(path_, AddFailIf(*device_));
  }
  EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  for (uint32_t code = 1; code < 5; ++code) {
    for (auto& [path, event] : events) {
      EXPECT_EQ(RingAndWait(*device_, event, code).status, KernelCode(code));
    }
  }
  EXPECT_THAT(backend_->description(), Not(HasSubstr("context lost")));
  for (auto& [path, event] : events) {
    path_ = path;
    EXPECT_EQ(TakeAway(event), 0u);
  }
}

TEST_F(CudaBackendTest, AStreamMoreThanTheLimitIsRefused) {
  Open();
  absl::Status refused;
  std::vector<std::pair<LaunchPath*, TestDevice::Event>> events;
  for (const char* name : {"stream_wait", "persistent"}) {
    Use(name);
    refused = absl::OkStatus();
    while (refused.ok()) {
      auto event = device_->Register({.kernel = simt::FindKernel("null_event"),
                                      .bindings = {Constant(0)}});
      refused = path_->Add(event.kernel);
      if (refused.ok()) events.emplace_back(path_, std::move(event));
    }
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_LE(fake_.live_objects().streams, Context::kMaxStreams);
  }
  EXPECT_THAT(std::string(refused.message()), HasSubstr("31 CUDA streams"));
  // One that goes makes room for one.
  path_->Remove(events.back().second.kernel);
  events.pop_back();
  events.emplace_back(path_,
                      Add(*device_, {.kernel = simt::FindKernel("fail_if"),
                                     .bindings = {{.writable = true}}}));
  EXPECT_EQ(RingAndWait(*device_, events.back().second, 3).status,
            KernelCode(3));
}

TEST_F(CudaBackendTest, WhoGetsTooFewStreamsKeepsNone) {
  Open();
  std::vector<TestDevice::Event> events;
  uint32_t refusals = 0;
  for (const char* name : {"baseline", "graph"}) {
    Use(name);
    for (uint32_t priority = 0; priority < kPriorities; ++priority) {
      const uint64_t before = fake_.live_objects().streams;
      events.push_back(
          device_->Register({.kernel = simt::FindKernel("null_event"),
                             .bindings = {Constant(0)},
                             .priority = priority}));
      const auto status = path_->Add(events.back().kernel);
      if (status.ok()) continue;
      ++refusals;
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_EQ(fake_.live_objects().streams, before);
    }
  }
  EXPECT_GT(refusals, 0u);
}

TEST_F(CudaBackendTest, KernelsWithAStackRunBesideResidentOnes) {
  fake_.ChangeSettings([](FakeSettings& s) { s.stacks["fail_if"] = 4096; });
  Open();
  Use("persistent");
  LaunchPath* const persistent = path_;
  const auto resident = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                       .bindings = {Constant(0)}});
  for (const char* name : {"baseline", "graph", "stream_wait", "edge"}) {
    Use(name);
    const auto event = AddFailIf(*device_);
    EXPECT_EQ(RingAndWait(*device_, event, 7).status, KernelCode(7)) << name;
    EXPECT_EQ(TakeAway(event), 0u);
  }
  resident.ring->Commit();
  resident.ring->RingDoorbell();
  EXPECT_EQ(device_->Wait(*resident.ring).state, EventState::kDone);
  path_ = persistent;
  EXPECT_EQ(TakeAway(resident), 0u);
}

TEST_F(CudaBackendTest, EdgesGraphsHaveTheirEventKernelsPriority) {
  Open();
  Use("edge");
  for (const uint32_t priority : {0u, kPriorities - 1}) {
    auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                .bindings = {Constant(0)},
                                .block = {64, 1, 1},
                                .priority = priority});
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  }
  const auto places = fake_.places();
  EXPECT_EQ(places.at("carillon_event_null_event").priorities,
            (std::set<int>{-5, 0}));
  EXPECT_EQ(places.at("carillon_edge_dispatcher").priorities,
            std::set<int>{-5});
  // What one hands to the other is ordered within a domain.
  EXPECT_EQ(places.at("carillon_event_null_event").memory_domains,
            places.at("carillon_edge_dispatcher").memory_domains);
}

// What event kernels hand to each other is ordered within a domain only.
TEST_F(CudaBackgroundTest, EventKernelsOfAllPathsHaveOneDomainAndNobodyElse) {
  Open();
  for (const char* path : {"edge", "stream_wait", "persistent", "pagoda_ring",
                           "pagoda", "baseline", "baseline_flag", "graph"}) {
    Use(path);
    auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                .bindings = {Constant(0)},
                                .block = {64, 1, 1}});
    event.ring->Commit();
    event.ring->RingDoorbell();
    EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
    TakeAway(event);
  }
  std::set<int> domains;
  for (const auto& [function, places] : fake_.places()) {
    domains.insert(places.memory_domains.begin(), places.memory_domains.end());
  }
  EXPECT_EQ(domains, std::set<int>{CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT});
  fake_.ForgetLaunches();
  EXPECT_EQ(Submit(0).get().state, EventState::kDone);
  EXPECT_EQ(fake_.places().at("carillon_call_fail_if").memory_domains,
            std::set<int>{CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE});
}

// Reserved SMs.

class ReservedSmsTest : public CudaBackgroundTest {
 protected:
  static Gpu::Options Options(uint32_t sms) {
    Gpu::Options options = GpuOptions();
    options.reserved_sms = sms;
    return options;
  }
  void SetUp() override { fake_.ChangeSettings(&FewSms); }
  static void FewSms(FakeSettings& settings) { settings.sms = 32; }

  // On how many SMs kernels began since the last call; without those of gpud's
  // own that belong to no path.
  std::set<uint32_t> SmsUsed() {
    std::set<uint32_t> used;
    for (const auto& [function, places] : fake_.places()) {
      if (function != "carillon_clock" && function != "carillon_trap" &&
          function != "carillon_take_stack") {
        used.insert(places.sms.begin(), places.sms.end());
      }
    }
    return used;
  }
};

TEST_F(ReservedSmsTest, AreEdgesAndNobodyElses) {
  for (const std::string name :
       {"edge", "graph", "baseline", "baseline_flag", "stream_wait",
        "persistent", "pagoda_ring", "pagoda"}) {
    SCOPED_TRACE(name);
    fake_.ForgetLaunches();
    Open(Options(5));
    Use(name);
    // One that an event warp runs, and one that needs a launch.
    for (const uint32_t threads : {32u, 64u}) {
      auto event = Add(*device_, {.kernel = simt::FindKernel("null_event"),
                                  .bindings = {Constant(0)},
                                  .block = {threads, 1, 1}});
      for (int i = 0; i < 3; ++i) {
        event.ring->Commit();
        event.ring->RingDoorbell();
        EXPECT_EQ(device_->Wait(*event.ring).state, EventState::kDone);
      }
      TakeAway(event);
    }
    EXPECT_EQ(SmsUsed(), (std::set<uint32_t>{name == "edge" ? 6u : 26u}));
    EXPECT_THAT(backend_->description(),
                HasSubstr("6 SMs reserved for launch path edge"));
    Close();
  }
}

TEST_F(ReservedSmsTest, ServeBackgroundKernelsNever) {
  Open(Options(8));
  EXPECT_EQ(Submit(0).get().state, EventState::kDone);
  EXPECT_EQ(SmsUsed(), std::set<uint32_t>{24});
}

TEST_F(ReservedSmsTest, AreReservedAgainInANewContext) {
  Open(Options(8));
  Use("edge");
  auto event = AddFailIf(*device_);
  fake_.FaultOn("fail_if", FakeGpu::Nth(1));
  RingAndWait(*device_, event);
  fake_.ForgetLaunches();
  EXPECT_EQ(RingAndWait(*device_, event).state, EventState::kDone);
  EXPECT_EQ(SmsUsed(), std::set<uint32_t>{8});
  TakeAway(event);
}

TEST_F(ReservedSmsTest, MoreThanTheGpuCanSpareAreRefused) {
  for (const uint32_t sms : {31u, 32u, 1000u}) {
    const auto backend =
        CudaBackend::CreateOn(fake_.driver(), {}, Options(sms));
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument)
        << sms;
    EXPECT_THAT(std::string(backend.status().message()),
                HasSubstr("of 32 SMs"));
  }
  fake_.ChangeSettings([](FakeSettings& s) { s.green_contexts = false; });
  const auto backend = CudaBackend::CreateOn(fake_.driver(), {}, Options(8));
  EXPECT_THAT(std::string(backend.status().message()),
              HasSubstr("reserve 8 of 32 SMs"));
}

}  // namespace
}  // namespace carillon::gpud::cuda
