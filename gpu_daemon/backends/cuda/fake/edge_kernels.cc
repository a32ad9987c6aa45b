// The resident dispatcher of launch path `edge` on the fake GPU: its own code,
// each warp a thread.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gpu_daemon/backends/cpu/run_block.h"
#include "gpu_daemon/backends/cuda/edge/edge_dispatch.h"
#include "gpu_daemon/backends/cuda/edge/edge_thread_port.h"
#include "gpu_daemon/backends/cuda/fake/fake_gpu.h"

namespace carillon::gpud::cuda {
namespace {

class DispatcherGpu : public EdgeThreadGpu {
 public:
  explicit DispatcherGpu(KernelCall* call) : call_(call) {}

  LaunchOutcome Launch(uint32_t, uint64_t exec, uint64_t* error) override {
    const CUresult result = call_->Launch(reinterpret_cast<CUgraphExec>(exec),
                                          DeviceLaunch::kFireAndForget);
    if (result == CUDA_SUCCESS) return LaunchOutcome::kLaunched;
    if (result == CUDA_ERROR_INVALID_VALUE) return LaunchOutcome::kBusy;
    *error = result;
    return LaunchOutcome::kError;
  }
  bool Relaunch(uint32_t, uint64_t* error) override {
    const CUresult result =
        call_->Launch(call_->current_graph(), DeviceLaunch::kTail);
    *error = result;
    return result == CUDA_SUCCESS;
  }
  // The function's address is a KernelInfo's, as cuModuleGetGlobal has it.
  void RunInline(const EdgeEntry& entry, const std::byte* args,
                 uint32_t* fail_status) override {
    KernelMetadata kmd;
    kmd.kernel = reinterpret_cast<const simt::KernelInfo*>(entry.inline_kernel);
    kmd.block = {entry.block[0], entry.block[1], entry.block[2]};
    const CUresult met = call_->Meet(*kmd.kernel, args);
    if (met != CUDA_SUCCESS) {
      CUresult none = CUDA_SUCCESS;
      if (!call_->stopped()) fault_.compare_exchange_strong(none, met);
      throw EdgeContextLost();
    }
    RunBlock(kmd, 0, args, fail_status);
  }
  void Trap() override { fault_ = CUDA_ERROR_LAUNCH_FAILED; }
  bool alive() const override {
    return fault_ == CUDA_SUCCESS && !call_->stopped();
  }
  const void* HostMemory(const void* address) const override {
    return call_->HostMemory(address);
  }

  CUresult fault() const { return fault_; }

 private:
  KernelCall* const call_;
  std::atomic<CUresult> fault_{CUDA_SUCCESS};  // writers, readers: the warps
};

CUresult RunDispatcher(KernelCall& call) {
  auto& table = *call.param<EdgeTable*>(0);
  const auto dispatcher = call.param<uint32_t>(1);
  DispatcherGpu gpu(&call);
  const auto block = std::make_unique<EdgeBlock>();
  std::vector<std::thread> warps;
  for (uint32_t warp = 0; warp < table.pollers + table.event_warps; ++warp) {
    warps.emplace_back([&, warp] {
      EdgeThreadPort port(&gpu, dispatcher);
      try {
        RunEdgeDispatcher(port, table, *block, dispatcher, warp);
      } catch (const EdgeContextLost&) {
      }
    });
  }
  for (std::thread& warp : warps) warp.join();
  return gpu.fault();
}

const FakeKernelRegistration kDispatcher("carillon_edge_dispatcher",
                                         {sizeof(EdgeTable*), sizeof(uint32_t)},
                                         RunDispatcher);

}  // namespace
}  // namespace carillon::gpud::cuda
