// Tests of a .cu file of this folder: its PTX for each architecture, on a
// simulated GPU that counts cycles and on one that does not.
#ifndef CARILLON_SIM_EVERYDAY_CUDA_TEST_H_
#define CARILLON_SIM_EVERYDAY_CUDA_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim/everyday/ptx_test.h"
#include "sim/timing/gpu.h"

namespace carillon::sim {

struct CudaForm {
  std::string architecture;  // "75"
  bool timed = false;
};

// Instantiate it with CUDA_TEST().
class CudaTest : public testing::TestWithParam<CudaForm>, protected PtxKernels {
 protected:
  // `file` is the .cu's name without its ending.
  void Load(const std::string& file) {
    const std::string& architecture = GetParam().architecture;
    PtxKernels::Load(file +
                     (architecture == "75" ? "" : ".compute_" + architecture) +
                     ".ptx");
  }

  DeviceAddress Zeroes(size_t count) {
    return Copy(std::vector<int32_t>(count));
  }
  // What a launch does: each parameter has as many bytes as the kernel says.
  absl::Status Run(const char* kernel, uint32_t blocks, uint32_t threads,
                   const std::vector<uint64_t>& parameters,
                   bool cooperative = false) {
    Launch launch{.program = program_.get(),
                  .kernel = program_->FindEntry(kernel),
                  .grid = {blocks, 1, 1},
                  .block = {threads, 1, 1}};
    if (launch.kernel == nullptr) return absl::NotFoundError(kernel);
    const ptx::Function& source = *launch.kernel->source;
    if (source.parameters.size() != parameters.size()) {
      return absl::InvalidArgumentError("another number of parameters");
    }
    launch.parameters.resize(source.ParameterBytes());
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::memcpy(launch.parameters.data() + source.ParameterOffset(i),
                  &parameters[i], source.parameters[i].bytes);
    }
    if (cooperative) {
      launch.grid_workspace =
          *memory_.Allocate(Launch::kGridWorkspaceBytes, "workspace");
    }
    if (GetParam().timed) return RunTimed(launch);
    FunctionalGpu gpu(
        &memory_,
        {.no_progress_limit = limit_, .alone = true, .printed = &printed_});
    const auto result = gpu.Run(launch);
    if (result.ok()) executed_ = result->warp_instructions;
    return result.status();
  }

  uint64_t executed() const { return executed_; }  // warp instructions

  uint64_t limit_ = uint64_t{1} << 30;  // no_progress_limit
  PrintBuffer printed_;

 private:
  absl::Status RunTimed(const Launch& launch) {
    timing::Gpu gpu(
        *timing::LoadConfig("gtx980"), &memory_,
        {.no_progress_limit = limit_, .alone = true, .printed = &printed_});
    const auto grid = gpu.Submit(launch, {});
    if (!grid.ok()) return grid.status();
    gpu.Run();
    executed_ = gpu.result(*grid)->warp_instructions;
    return gpu.result(*grid)->status;
  }

  uint64_t executed_ = 0;
};

inline std::vector<CudaForm> CudaForms() {
  std::vector<CudaForm> forms = {{"75", false}, {"75", true}};
  if (CARILLON_HAS_NVCC != 0) {
    forms.insert(forms.end(),
                 {{"90", false}, {"90", true}, {"100", false}, {"100", true}});
  }
  return forms;
}

#define CUDA_TEST(Name)                                                     \
  INSTANTIATE_TEST_SUITE_P(                                                 \
      All, Name, testing::ValuesIn(CudaForms()), [](const auto& info) {     \
        return info.param.architecture + (info.param.timed ? "Timed" : ""); \
      })

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EVERYDAY_CUDA_TEST_H_
