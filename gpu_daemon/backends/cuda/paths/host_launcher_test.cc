// What cuda_backend_test.cc cannot ask of the paths whose kernels a CPU thread
// launches, as that thread looks all the time.
#include "gpu_daemon/backends/cuda/paths/host_launcher.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "base/clock.h"
#include "base/status.h"
#include "gpu_daemon/backends/cuda/cuda_backend_fixture.h"
#include "gpu_daemon/backends/cuda/driver/cuda_memory.h"
#include "gpu_daemon/event/checked_entry.h"

namespace carillon::gpud::cuda {
namespace {

// Its events are completed by their epilogues, and it sees none of them end.
class BlindPath final : public HostLauncher {
 public:
  BlindPath(Gpu* gpu, LaunchGate* gate) : HostLauncher(gpu, gate) { Begin(); }
  ~BlindPath() override { End(); }

 private:
  absl::StatusOr<std::unique_ptr<Resources>> MakeResources(
      EventKernel& event) override {
    event.ledger().ExpectEpilogues();
    auto resources = std::make_unique<Resources>();
    RETURN_IF_ERROR(FillIn(event, *resources));
    return resources;
  }
  CUresult Enqueue(Resources& resources, Flight& flight) override {
    return resources.sequence.Launch(gpu().driver(), flight.kmd,
                                     FrameOf(flight, resources),
                                     flight.args.data(), StreamOf(flight));
  }
  Outcome Look(Resources&, Flight&, bool) override { return Outcome::kRuns; }
};

TEST(HostLauncherTest, WhoseEventEndedBeforeTheContextWasLostIsWoken) {
  FakeGpu fake;
  fake.ChangeSettings([](FakeSettings& s) { s.faults_stay = false; });
  auto gpu =
      Gpu::Open(fake.driver(), {.image = FakeGpu::Image(),
                                .recovers = true,
                                .look_every = std::chrono::milliseconds(5)});
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  CudaMemory memory(gpu->get());
  MappedDevice device(memory, "sleeper");
  LaunchGate gate((*gpu)->model(), 0);
  BlindPath path(gpu->get(), &gate);
  auto event = device.Register({.kernel = simt::FindKernel("fail_if"),
                                .bindings = {{.writable = true}}});
  ASSERT_TRUE(path.Prepare(*event.kernel).ok());
  event.ring->Commit();
  event.ring->RingDoorbell();
  CheckedEntry entry;
  ASSERT_EQ(
      CheckEntry(*event.kernel, shm::Sequence(1), 0, (*gpu)->model(), entry),
      shm::EventStatus::kOk);
  EXPECT_FALSE(path.Launch(event.kernel, shm::Sequence(1), entry));
  const auto limit = NowNs() + 10'000'000'000;
  while (!event.ring->Poll() && NowNs() < limit) sched_yield();
  ASSERT_TRUE(event.ring->Poll().has_value());

  device.waiter->ArmCompletionEvent();
  {
    const Gpu::ContextLease use = (*gpu)->Enter();
    (*gpu)->StopEverything();
  }
  ASSERT_TRUE((*gpu)->Enter());  // there is a new context
  EXPECT_EQ((*gpu)->losses(), 1u);
  pollfd woken = {device.memory->completion_event(), POLLIN, 0};
  EXPECT_EQ(poll(&woken, 1, 0), 1);
  path.Release(*event.kernel);
}

}  // namespace
}  // namespace carillon::gpud::cuda
