// Loads PTX into the simulated GPU: a user's, and gpud's own out of its fatbin.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/status.h"
#include "fmt/format.h"
#include "gpu_daemon/backends/cuda/fake/fake_image.h"
#include "gpu_daemon/backends/cuda/sim_driver/sim_gpu.h"
#include "sim/lower/lower.h"
#include "sim/ptx/module.h"

namespace carillon::gpud::cuda {
namespace {

// The simulated GPU of this process. It stays until the end: threads of the
// driver may be in it then.
SimGpu& Gpu() {
  static SimGpu* const gpu = [] {
    const char* const seed = std::getenv("CARILLON_SIM_CUDA_SEED");
    return new SimGpu(
        {.seed = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 0});
  }();
  return *gpu;
}

// With its variables in the GPU's memory.
struct Code {
  explicit Code(std::shared_ptr<const sim::Program> lowered)
      : program(std::move(lowered)) {}
  ~Code() {
    for (const sim::ProgramVariable& variable : program->variables) {
      (void)Gpu().memory().Free(variable.address);
    }
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  const std::shared_ptr<const sim::Program> program;
};

bool IsFatbin(const char* image) {
  return std::strncmp(image, "\x50\xed\x55\xba", 4) == 0;
}

absl::StatusOr<std::shared_ptr<const Code>> Lower(std::string text) {
  ASSIGN_OR_RETURN(auto module,
                   sim::ptx::ParseModule(std::move(text), "gpu.ptx"));
  ASSIGN_OR_RETURN(
      auto program,
      sim::Lower(std::make_shared<const sim::ptx::Module>(std::move(module)),
                 &Gpu().memory(),
                 {.device_graphs = true,
                  .max_variable_bytes = sim::kMaxVariableBytes}));
  auto code = std::make_shared<const Code>(std::move(program));
  for (const sim::ProgramFunction& function : code->program->functions) {
    if (!function.refused.empty()) {
      return absl::UnimplementedError(function.refused);
    }
  }
  return code;
}

// gpud's own code, large files that every context loads: what one has let go of is
// the next one's.
class OwnCode {
 public:
  absl::StatusOr<std::shared_ptr<const Code>> Load(const char* fatbin) {
    auto code = Take(fatbin);
    if (code == nullptr) {
      ASSIGN_OR_RETURN(std::string text, PtxOfFatbin(fatbin));
      ASSIGN_OR_RETURN(code, Lower(std::move(text)));
    } else {
      RETURN_IF_ERROR(sim::StoreFirstValues(*code->program, &Gpu().memory()));
    }
    const Code* const lent = code.get();
    return std::shared_ptr<const Code>(
        lent, [this, fatbin, code = std::move(code)](const Code*) mutable {
          MutexLock lock(mutex_);
          unused_[fatbin] = std::move(code);
        });
  }

 private:
  std::shared_ptr<const Code> Take(const char* fatbin) {
    MutexLock lock(mutex_);
    return std::exchange(unused_[fatbin], nullptr);
  }

  Mutex mutex_;
  std::map<const char*, std::shared_ptr<const Code>> unused_
      ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::shared_ptr<const Code>> LowerImage(const char* image) {
  static OwnCode* const own = new OwnCode;
  constexpr char kElf[] =
      "\x7f"
      "ELF";
  if (std::strncmp(image, kElf, 4) == 0) {
    return absl::UnimplementedError(
        "the simulated GPU runs PTX, not a cubin: compile with -ptx");
  }
  return IsFatbin(image) ? own->Load(image) : Lower(image);
}

CUresult ErrorOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return CUDA_ERROR_NOT_SUPPORTED;
    case absl::StatusCode::kResourceExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      return CUDA_ERROR_INVALID_PTX;
  }
}

CUresult Load(const void* image, FakeImage& loaded, std::string& log) {
  const auto* const bytes = static_cast<const char*>(image);
  auto lowered = LowerImage(bytes);
  if (!lowered.ok()) {
    log = std::string(lowered.status().message());
    std::fprintf(stderr, "simulated GPU: %s\n", log.c_str());
    return ErrorOf(lowered.status());
  }
  const std::shared_ptr<const Code> code = *std::move(lowered);
  loaded.is_fatbin = IsFatbin(bytes);
  for (const sim::ProgramFunction& function : code->program->functions) {
    if (!function.is_entry) continue;
    FakeEntry entry{.name = std::string(function.name),
                    .local_bytes = function.local_bytes,
                    .static_shared_bytes = function.static_shared_bytes,
                    .registers = function.registers};
    const sim::ptx::Function& source = *function.source;
    for (size_t i = 0; i < source.parameters.size(); ++i) {
      entry.params.push_back(
          {static_cast<uint32_t>(source.ParameterOffset(i)),
           static_cast<uint32_t>(source.parameters[i].bytes)});
    }
    entry.run = [code, &function](KernelCall& call) {
      return Gpu().Run(call, *code->program, function);
    };
    loaded.entries.push_back(std::move(entry));
  }
  for (const sim::ProgramVariable& variable : code->program->variables) {
    loaded.globals.push_back({.name = std::string(variable.name),
                              .size = variable.bytes,
                              .address = variable.address});
  }
  loaded.code = code;
  return CUDA_SUCCESS;
}

const ExecutingGpu kSimulatedGpu("Simulated GPU", Load);

}  // namespace
}  // namespace carillon::gpud::cuda
