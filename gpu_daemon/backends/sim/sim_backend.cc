#include "gpu_daemon/backends/sim/sim_backend.h"

#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "gpu_daemon/backends/sim/kernels_ptx.h"
#include "gpu_daemon/backends/sim/lower/lower.h"
#include "gpu_daemon/backends/sim/sim_memory.h"
#include "gpu_daemon/kernels/registry.h"

namespace carillon::gpud {
namespace {

absl::StatusOr<std::shared_ptr<const sim::Program>> Load(
    std::span<const std::byte> image, std::string file, sim::Memory* memory) {
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  // A string, for the driver, ends with a zero.
  while (!text.empty() && text.back() == '\0') text.pop_back();
  auto module = sim::ptx::ParseModule(std::move(text), std::move(file));
  if (!module.ok()) return module.status();
  return sim::Lower(
      std::make_shared<const sim::ptx::Module>(*std::move(module)), memory);
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

absl::StatusOr<std::unique_ptr<Backend>> SimBackend::Create(
    const BackendOptions& options) {
  if (options.reserved_sms != 0) {
    return absl::UnimplementedError(
        "the sim back-end reserves no SMs for functional runs: leave out "
        "--reserve-sms (reserve_sms)");
  }
  auto policy = MakePolicy(options.policy);
  if (!policy.ok()) return policy.status();
  auto memory = std::make_shared<sim::Memory>();
  auto runner = std::make_unique<SimBlockRunner>(memory.get());
  std::unique_ptr<SimBackend> backend(new SimBackend(
      options, *std::move(policy), std::move(memory), std::move(runner)));
  if (auto status = backend->LoadOwnKernels(); !status.ok()) return status;
  return backend;
}

SimBackend::SimBackend(const BackendOptions& options,
                       std::unique_ptr<SharingPolicy> policy,
                       std::shared_ptr<sim::Memory> simulated,
                       std::unique_ptr<SimBlockRunner> runner)
    : CpuBackend(options, std::move(policy), std::move(runner),
                 std::make_unique<SimMemory>(simulated.get())),
      simulated_(std::move(simulated)),
      runner_(static_cast<SimBlockRunner*>(&block_runner())) {}

// No block may run when the kernels and the memory go.
SimBackend::~SimBackend() {
  Stop();
  Join();
}

std::string SimBackend::description() const {
  return fmt::format("PTX, functionally, on {}", CpuBackend::description());
}

absl::Status SimBackend::LoadOwnKernels() {
  const auto program = Load(OwnKernelsPtx(), "kernels.ptx", simulated_.get());
  if (!program.ok()) {
    return absl::InternalError(fmt::format(
        "gpud's own kernels: {}", std::string(program.status().message())));
  }
  for (const simt::KernelInfo* kernel : simt::AllKernels()) {
    // A test's kernel is none of gpud's own.
    if (const auto* entry =
            (*program)->FindEntry(fmt::format("carillon_{}", kernel->name))) {
      runner_->Add(kernel, *program, entry);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<const simt::KernelInfo*>> SimBackend::LoadKernels(
    const ModuleSource& source) {
  if (IsBinary(source.image)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is machine code for a GPU, and the sim back-end runs PTX: compile "
        "it with nvcc -ptx -arch=compute_75",
        source.file));
  }
  const auto program = Load(source.image, source.file, simulated_.get());
  if (!program.ok()) return program.status();
  std::vector<std::unique_ptr<UserKernel>> kernels;
  std::vector<const simt::KernelInfo*> infos;
  std::vector<const sim::ProgramFunction*> entries;
  for (const KernelDeclaration& declaration : source.kernels) {
    const auto* entry = (*program)->FindEntry(declaration.symbol);
    if (entry == nullptr) {
      return absl::NotFoundError(fmt::format(
          "{} has no kernel '{}': is it a __global__, extern \"C\", and not "
          "static?",
          source.file, declaration.symbol));
    }
    auto kernel = UserKernel::Make(declaration, source.file, LayoutOf(*entry));
    if (!kernel.ok()) return kernel.status();
    infos.push_back(&(*kernel)->info());
    entries.push_back(entry);
    kernels.push_back(*std::move(kernel));
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    runner_->Add(infos[i], *program, entries[i]);
  }
  std::lock_guard lock(users_mutex_);
  for (auto& kernel : kernels) users_.push_back(std::move(kernel));
  return infos;
}

}  // namespace carillon::gpud
