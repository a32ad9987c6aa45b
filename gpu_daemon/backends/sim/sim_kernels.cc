#include "gpu_daemon/backends/sim/sim_kernels.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/own_kernels_ptx.h"
#include "kernels/registry.h"
#include "sim/lower/lower.h"
#include "spdlog/spdlog.h"

namespace carillon::gpud {
namespace {

using ModulePtr = std::shared_ptr<const sim::ptx::Module>;

absl::StatusOr<ModulePtr> Parse(std::span<const std::byte> image,
                                std::string file) {
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  // A string, for the driver, ends with a zero.
  while (!text.empty() && text.back() == '\0') text.pop_back();
  ASSIGN_OR_RETURN(auto module,
                   sim::ptx::ParseModule(std::move(text), std::move(file)));
  return std::make_shared<const sim::ptx::Module>(std::move(module));
}

// gpud's own: one for all back-ends of this process.
const absl::StatusOr<ModulePtr>& OwnModule() {
  static const auto* const module = new absl::StatusOr<ModulePtr>(
      Parse(kernels::OwnKernelsPtx(), "kernels.ptx"));
  return *module;
}

// `kernel`: the only one that is needed; empty: all are.
absl::StatusOr<std::shared_ptr<const sim::Program>> Lower(
    ModulePtr module, std::string_view kernel, sim::Memory* memory,
    sim::Turns* turns) {
  ASSIGN_OR_RETURN(auto program,
                   sim::Lower(std::move(module), memory,
                              {.max_variable_bytes = sim::kMaxVariableBytes,
                               .kernel = kernel}));
  // Whoever refuses it afterwards leaves none of its variables behind.
  const sim::Program* const lowered = program.get();
  return std::shared_ptr<const sim::Program>(
      lowered,
      [memory, turns, program = std::move(program)](const sim::Program*) {
        turns->Between([&] {
          for (const sim::ProgramVariable& variable : program->variables) {
            memory->Free(variable.address).IgnoreError();
          }
        });
      });
}

// Of an object file (ELF: cubin) or a fatbin.
bool IsBinary(std::span<const std::byte> image) {
  constexpr uint32_t kElf = 0x464c457f;
  constexpr uint32_t kFatbin = 0xba55ed50;
  uint32_t magic = 0;
  if (image.size() < sizeof(magic)) return false;
  std::memcpy(&magic, image.data(), sizeof(magic));
  return magic == kElf || magic == kFatbin;
}

KernelLayout LayoutOf(const sim::ProgramFunction& entry) {
  KernelLayout layout;
  const sim::ptx::Function& source = *entry.source;
  for (size_t i = 0; i < source.parameters.size(); ++i) {
    layout.parameters.push_back(
        {static_cast<uint32_t>(source.ParameterOffset(i)),
         static_cast<uint32_t>(source.parameters[i].bytes)});
  }
  layout.registers_per_thread = entry.registers;
  layout.static_shared_bytes = entry.static_shared_bytes;
  const auto& most =
      source.required_block[0] != 0 ? source.required_block : source.max_block;
  if (most[0] != 0) layout.most_threads = most[0] * most[1] * most[2];
  return layout;
}

}  // namespace

absl::Status SimKernels::LoadOwn() {
  const absl::StatusOr<ModulePtr>& module = OwnModule();
  if (!module.ok()) {
    return absl::InternalError(
        fmt::format("gpud's own kernels: {}", module.status().message()));
  }
  own_ = *module;
  return absl::OkStatus();
}

SimKernels::Code SimKernels::LowerOwn(const simt::KernelInfo& kernel) const {
  if (own_ == nullptr || kernel.is_users()) return {};
  const std::string name = fmt::format("carillon_{}", kernel.name);
  auto program = Lower(own_, name, memory_, turns_);
  if (!program.ok()) {
    // A test's kernel is none of gpud's own.
    if (!absl::IsNotFound(program.status())) {
      spdlog::error("{}", program.status().message());
    }
    return {};
  }
  const sim::ProgramFunction* const entry = (*program)->FindEntry(name);
  return {*std::move(program), entry};
}

void SimKernels::LowerAllOwn() const {
  for (const simt::KernelInfo* kernel : simt::AllKernels()) Find(kernel);
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> SimKernels::Load(
    const ModuleSource& source) {
  if (IsBinary(source.image)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is machine code for a GPU, and without a GPU gpud runs PTX: "
        "compile it with nvcc -ptx -arch=compute_75",
        source.file));
  }
  ASSIGN_OR_RETURN(auto module, Parse(source.image, source.file));
  ASSIGN_OR_RETURN(const auto program,
                   Lower(std::move(module), "", memory_, turns_));
  std::vector<std::unique_ptr<UserKernel>> kernels;
  std::vector<const simt::KernelInfo*> infos;
  std::vector<const sim::ProgramFunction*> entries;
  for (const KernelDeclaration& declaration : source.kernels) {
    const auto* entry = program->FindEntry(declaration.symbol);
    if (entry == nullptr) {
      return absl::NotFoundError(fmt::format(
          "{} has no kernel '{}': is it a __global__, extern \"C\", and not "
          "static?",
          source.file, declaration.symbol));
    }
    if (!entry->refused.empty()) {
      return absl::UnimplementedError(entry->refused);
    }
    ASSIGN_OR_RETURN(auto kernel, UserKernel::Make(declaration, source.file,
                                                   LayoutOf(*entry)));
    infos.push_back(&kernel->info());
    entries.push_back(entry);
    kernels.push_back(std::move(kernel));
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    Add(infos[i], {program, entries[i]});
  }
  MutexLock lock(users_mutex_);
  for (auto& kernel : kernels) users_.push_back(std::move(kernel));
  return infos;
}

SimKernels::Code SimKernels::Add(const simt::KernelInfo* kernel,
                                 Code code) const {
  std::lock_guard lock(code_mutex_);
  return code_.try_emplace(kernel, std::move(code)).first->second;
}

SimKernels::Code SimKernels::Find(const simt::KernelInfo* kernel) const {
  {
    std::shared_lock lock(code_mutex_);
    const auto found = code_.find(kernel);
    if (found != code_.end()) return found->second;
  }
  return Add(kernel, LowerOwn(*kernel));
}

absl::Status SimKernels::Check(const simt::KernelInfo& kernel) const {
  if (Find(&kernel).entry != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "kernel '{}': this gpud has no PTX of it, and its sim back-end runs "
      "nothing else; 'bazel test //kernels:kernels_ptx_test' says how "
      "kernels.ptx is made again, and the cpu back-end runs the kernel as it "
      "is",
      kernel.name));
}

void SimKernels::FillIn(const Code& code, const KernelMetadata& kmd,
                        const void* args, sim::DeviceAddress status,
                        sim::Launch& launch) {
  const simt::KernelInfo& kernel = *kmd.kernel;
  const sim::ptx::Function& source = *code.entry->source;
  launch.program = code.program.get();
  launch.kernel = code.entry;
  launch.grid = {kmd.grid.x, kmd.grid.y, kmd.grid.z};
  launch.block = {kmd.block.x, kmd.block.y, kmd.block.z};
  // gpud's own kernels take all of their shared memory from the launch.
  launch.dynamic_shared_bytes =
      kernel.is_users() ? kmd.shared_bytes : kmd.total_shared();
  launch.parameters.assign(source.ParameterBytes(), std::byte{0});
  if (kernel.args_size != 0) {
    std::memcpy(launch.parameters.data(), args, kernel.args_size);
  }
  if (!kernel.is_users()) {
    std::memcpy(launch.parameters.data() + source.ParameterOffset(1), &status,
                sizeof(status));
  }
}

// A user's may run for as long as it likes, too, but not spin for ever.
uint64_t SimKernels::NoProgressLimit(const simt::KernelInfo& kernel) {
  return kernel.unbounded && !kernel.is_users() ? 0 : uint64_t{1} << 28;
}

uint32_t SimKernels::FailStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return simt::kFailBadLaunch;
    case absl::StatusCode::kAborted:
      return simt::kFailBarrierDeadlock;
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return simt::kFailNoProgress;
    default:
      return simt::kFailFault;
  }
}

}  // namespace carillon::gpud
