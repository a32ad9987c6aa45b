#include "gpu_daemon/backends/cuda/paths/pagoda/mtbs.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/edge/edge_table.h"
#include "gpu_daemon/backends/cuda/pagoda/barrier_ids.h"
#include "gpu_daemon/backends/cuda/pagoda/buddy_tree.h"
#include "gpu_daemon/backends/cuda/pagoda/pagoda_module.h"
#include "gpu_daemon/backends/cuda/pagoda/task_kernels.h"
#include "gpu_daemon/backends/cuda/pagoda/task_spawner.h"
#include "gpu_daemon/event/user_kernel.h"

namespace carillon::gpud::cuda {
namespace {

// What CUDA takes of shared memory for itself.
constexpr uint32_t kSharedBytesBeside = 1024;
// Registers are given out so many a thread at a time.
constexpr uint32_t kRegisterUnit = 8;

// Of kTaskKernelNames; end: none.
const std::string_view* FindTaskKernel(std::string_view kernel) {
  return std::ranges::find(kTaskKernelNames, kernel);
}

}  // namespace

absl::Status TaskRefusal(const simt::KernelInfo& kernel, std::string_view why) {
  return absl::InvalidArgumentError(
      fmt::format("kernel '{}' cannot be a task of an MTB: {}; use another "
                  "launch path",
                  kernel.name, why));
}

absl::Status CheckTaskKernel(const EventKernel& event, std::string_view path,
                             uint32_t most_args) {
  const simt::KernelInfo& kernel = *event.kmd().kernel;
  RETURN_IF_ERROR(CheckCompletesItself(
      kernel, fmt::format("launch path {} runs kernels as functions inside its "
                          "MTBs, and CUDA calls no kernel, and no function of "
                          "another module",
                          path)));
  if (const std::string_view why = WhyNoTask(kernel); !why.empty()) {
    return TaskRefusal(kernel, why);
  }
  if (FindTaskKernel(kernel.name) == std::end(kTaskKernelNames)) {
    return TaskRefusal(kernel, "it has no task form in this gpud");
  }
  if (kernel.args_size > most_args) {
    return TaskRefusal(
        kernel, fmt::format("its arguments are {} bytes, and an entry of {}'s "
                            "TaskTable has room for {}",
                            kernel.args_size, path, most_args));
  }
  return CheckTaskShape(event.kmd());
}

absl::Status CheckTaskShape(const KernelMetadata& kmd) {
  const simt::KernelInfo& kernel = *kmd.kernel;
  const absl::Status status =
      CheckTask({.blocks = static_cast<uint32_t>(
                     std::min<uint64_t>(kmd.blocks(), kTaskMaxBlocks + 1)),
                 .threads = kmd.threads(),
                 .shared_bytes = kmd.total_shared(),
                 .sync = kernel.uses_barriers},
                kernel.args_size, kTaskMaxExecutors);
  if (!status.ok()) return TaskRefusal(kernel, std::string(status.message()));
  if (MeetsInWholeWarps(kernel.uses_barriers, kmd.threads())) return status;
  return TaskRefusal(
      kernel, fmt::format("its threads meet at barriers, and a block of {} "
                          "threads has a part of a warp: take a multiple of "
                          "32, or at most 32",
                          kmd.threads()));
}

uint64_t TaskKernelNumber(const simt::KernelInfo& kernel) {
  return static_cast<uint64_t>(FindTaskKernel(kernel.name) -
                               std::begin(kTaskKernelNames));
}

absl::Status MasterKernel::Load(const Gpu& gpu, std::string_view path,
                                const char* name) {
  const Driver& driver = gpu.driver();
  CUmodule module = nullptr;
  RETURN_IF_ERROR(
      ToStatus(driver, driver.cuModuleLoadData(&module, PagodaModule().data()),
               "load the MasterKernel"));
  module_ = Module(&driver, module);
  RETURN_IF_ERROR(ToStatus(driver,
                           driver.cuModuleGetFunction(&function_, module, name),
                           "find the MasterKernel"));
  int registers = 0;
  int shared_bytes = 0;
  CUresult result = driver.cuFuncGetAttribute(
      &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function_);
  if (result == CUDA_SUCCESS) {
    result = driver.cuFuncGetAttribute(
        &shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_);
  }
  RETURN_IF_ERROR(ToStatus(driver, result, "ask for the MasterKernel's size"));
  // Its launch bounds hold it to these, which a GPU that runs PTX cannot say.
  const auto rounded = std::min(
      kTaskRegisters, static_cast<uint32_t>(registers + kRegisterUnit - 1) /
                          kRegisterUnit * kRegisterUnit);
  cost_ = CostOf(kMtbThreads, rounded,
                 static_cast<uint32_t>(shared_bytes) + kSharedBytesBeside);
  // What the path may give out of each SM, as `persistent` does.
  const GpuModel& model = gpu.model();
  const GpuModel half{.sms = 1,
                      .blocks_per_sm = model.blocks_per_sm / 2,
                      .threads_per_sm = model.threads_per_sm / 2,
                      .registers_per_sm = model.registers_per_sm / 2,
                      .shared_bytes_per_sm = model.shared_bytes_per_sm / 2};
  if (!SmOccupancy(half).Fits(cost_)) {
    return absl::UnimplementedError(fmt::format(
        "an MTB ({} threads of {} registers, {} bytes of shared memory) does "
        "not fit in half of an SM of this GPU, which is what launch path {} "
        "gives out",
        kMtbThreads, registers, shared_bytes, path));
  }
  // Some SMs stay whole: for `edge`'s dispatchers, and for others' blocks that
  // need more than half of one.
  const uint32_t reserved = gpu.reserved_sms();
  const uint32_t whole = reserved != 0 ? 1 : kEdgeMaxDispatchers + 1;
  most_mtbs_ = std::max(model.sms, reserved + whole + 1) - reserved - whole;
  return absl::OkStatus();
}

void MasterKernel::Abandon() {
  module_.Abandon();
  function_ = nullptr;
}

void WantedMtbs::Add(const KernelMetadata& kmd, uint32_t entries) {
  const uint64_t blocks = entries * kmd.blocks();
  const uint64_t warps_of_block = TaskWarps(kmd.threads());
  warps_ += blocks * warps_of_block;
  if (kmd.kernel->uses_barriers && warps_of_block > 1) barriers_ += blocks;
  if (const uint64_t bytes = kmd.total_shared(); bytes != 0) {
    shared_bytes_ +=
        blocks * std::max<uint64_t>(kBuddyLeafBytes, std::bit_ceil(bytes));
  }
}

uint32_t WantedMtbs::AtMost(uint32_t most) const {
  const auto mtbs = [](uint64_t all, uint64_t of_mtb) {
    return (all + of_mtb - 1) / of_mtb;
  };
  const uint64_t wanted =
      std::max({mtbs(warps_, kTaskMaxExecutors), mtbs(barriers_, kTaskBarriers),
                mtbs(shared_bytes_, kTaskSharedBytes)});
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
}

}  // namespace carillon::gpud::cuda
