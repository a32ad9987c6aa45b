// gpud's kernels without a CPU form.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/edge/launch_staged.h"
#include "gpu_daemon/backends/cuda/edge/stage_entry.h"
#include "gpu_daemon/backends/cuda/fake/fake_epilogue.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"
#include "gpu_daemon/event/kernel_metadata.h"
#include "kernels/simt/event_frame.h"

namespace carillon::gpud::cuda {
namespace {

const FakeKernelRegistration kTrap("carillon_trap", {}, [](KernelCall&) {
  return CUDA_ERROR_LAUNCH_FAILED;
});

const FakeKernelRegistration kTakeStack("carillon_take_stack", {},
                                        [](KernelCall&) {
                                          return CUDA_SUCCESS;
                                        });

const FakeKernelRegistration kClock("carillon_clock", {sizeof(uint64_t*)},
                                    [](KernelCall& call) {
                                      std::atomic_ref(*call.param<uint64_t*>(0))
                                          .store(NowNs(),
                                                 std::memory_order_relaxed);
                                      return CUDA_SUCCESS;
                                    });

// Behind a user's kernel, in its stream: the memory that it wrote is there.
const FakeKernelRegistration kComplete("carillon_complete",
                                       {sizeof(simt::EventFrame)},
                                       [](KernelCall& call) {
                                         auto frame =
                                             call.param<simt::EventFrame>(0);
                                         CompleteEvent(frame);
                                         return CUDA_SUCCESS;
                                       });

// The kernel's number is a KernelInfo's address, as cuModuleGetGlobal has it.
const FakeKernelRegistration kRunInline(
    "carillon_run_inline",
    {sizeof(uint64_t), sizeof(std::byte*), sizeof(simt::Dim3),
     sizeof(uint32_t*)},
    [](KernelCall& call) {
      KernelMetadata kmd;
      kmd.kernel =
          reinterpret_cast<const simt::KernelInfo*>(call.param<uint64_t>(0));
      kmd.block = call.param<simt::Dim3>(2);
      RunBlock(kmd, 0, call.param<const std::byte*>(1),
               call.param<uint32_t*>(3));
      return CUDA_SUCCESS;
    });

// What a warp that is no dispatcher's needs of its GPU.
class OneWarp : public EdgeThreadGpu {
 public:
  explicit OneWarp(KernelCall& call) : call_(call) {}
  LaunchOutcome Launch(uint32_t, uint64_t exec, uint64_t* error) override {
    *error = call_.Launch(reinterpret_cast<CUgraphExec>(exec),
                          DeviceLaunch::kFireAndForget);
    return *error == CUDA_SUCCESS ? LaunchOutcome::kLaunched
                                  : LaunchOutcome::kError;
  }
  bool Relaunch(uint32_t, uint64_t*) override { return false; }
  void RunInline(const EdgeEntry&, const std::byte*, uint32_t*) override {}
  void Trap() override {}
  bool alive() const override { return !call_.stopped(); }
  const void* HostMemory(const void* address) const override {
    return call_.HostMemory(address);
  }

 private:
  KernelCall& call_;
};

CUresult StageEntryOnCpu(KernelCall& call) {
  const auto* entry = call.param<const EdgeEntry*>(0);
  auto* gate = call.param<StageGate*>(1);
  const auto sequence = call.param<uint64_t>(2);
  // A GPU looks at it after it has copied the entry, which nobody may have
  // written yet then; on a CPU that would be a race.
  if (std::atomic_ref(gate->closed).load(std::memory_order_acquire) != 0) {
    std::atomic_ref(gate->staged).store(sequence, std::memory_order_relaxed);
    entry->Frame(entry->SlotOf(sequence), 0)->ecq = nullptr;
    return CUDA_SUCCESS;
  }
  OneWarp warp(call);
  EdgeThreadPort port(&warp, 0);
  alignas(16)
      std::byte copy[sizeof(shm::EsqEntryHeader) + shm::kMaxParameterBytes];
  try {
    StageEntry(port, *entry, nullptr, gate, sequence, copy);
  } catch (const EdgeContextLost&) {
  }
  return CUDA_SUCCESS;
}

const FakeKernelRegistration kStageEntry("carillon_stage_entry",
                                         {sizeof(EdgeEntry*),
                                          sizeof(StageGate*), sizeof(uint64_t)},
                                         StageEntryOnCpu);

const FakeKernelRegistration kLaunchStaged(
    "carillon_launch_staged", {sizeof(simt::EventFrame*), sizeof(uint64_t)},
    [](KernelCall& call) {
      OneWarp warp(call);
      EdgeThreadPort port(&warp, 0);
      LaunchStaged(port, *call.param<const simt::EventFrame*>(0),
                   call.param<uint64_t>(1));
      return CUDA_SUCCESS;
    });

}  // namespace
}  // namespace carillon::gpud::cuda
