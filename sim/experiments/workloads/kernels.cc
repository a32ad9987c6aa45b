#include "sim/experiments/workloads/kernels.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/own_kernels_ptx.h"
#include "sim/experiments/figure_kernels_ptx.h"
#include "sim/lower/lower.h"

namespace carillon::sim::figures {

absl::StatusOr<Kernels::Modules> Kernels::ParseModules() {
  const std::pair<std::span<const std::byte>, const char*> files[] = {
      {FigureKernelsPtx(), "figure_kernels.ptx"},
      {kernels::OwnKernelsPtx(), "kernels.ptx"}};
  Modules modules;
  for (const auto& [bytes, name] : files) {
    ASSIGN_OR_RETURN(
        auto module,
        ptx::ParseModule(
            std::string(reinterpret_cast<const char*>(bytes.data()),
                        bytes.size()),
            name));
    modules.push_back(std::make_shared<const ptx::Module>(std::move(module)));
  }
  return modules;
}

absl::StatusOr<std::unique_ptr<Kernels>> Kernels::Load(Memory* memory) {
  // Many runs need the modules, so they are parsed only once.
  static const absl::StatusOr<Modules> modules = ParseModules();
  if (!modules.ok()) return modules.status();
  return std::unique_ptr<Kernels>(new Kernels(*modules, memory));
}

absl::StatusOr<Kernels::Code> Kernels::Find(const simt::KernelInfo& kernel) {
  const std::string name = fmt::format("carillon_{}", kernel.name);
  auto found = programs_.find(name);
  if (found == programs_.end()) {
    const auto module = std::ranges::find_if(
        modules_, [&](const auto& m) { return m->FindEntry(name) != nullptr; });
    assert(module != modules_.end());
    ASSIGN_OR_RETURN(auto program, Lower(*module, memory_, {.kernel = name}));
    found = programs_.emplace(name, std::move(program)).first;
  }
  const Program* const program = found->second.get();
  return Code{program, program->FindEntry(name)};
}

Launch Kernels::Make(const simt::KernelInfo& kernel, const Dim3& grid,
                     const Dim3& block, std::span<const std::byte> args,
                     const Array<uint32_t>& status) {
  assert(kernel.args_size == args.size());
  const auto code = Find(kernel);
  if (!code.ok()) {
    status_.Update(code.status());
    return {};
  }
  // The PTX has shared memory as `extern __shared__`.
  Launch launch{.program = code->program,
                .kernel = code->function,
                .grid = grid,
                .block = block,
                .dynamic_shared_bytes = kernel.static_shared_bytes};
  const size_t at = (args.size() + 7) / 8 * 8;
  launch.parameters.resize(at + sizeof(DeviceAddress));
  std::memcpy(launch.parameters.data(), args.data(), args.size());
  std::memcpy(launch.parameters.data() + at, &status.address,
              sizeof(DeviceAddress));
  return launch;
}

Kernels::Allocation Kernels::AllocateBytes(size_t bytes,
                                           const std::string& name) {
  if (!status_.ok()) return {};
  const auto address = memory_->Allocate(bytes, name);
  if (!address.ok()) {
    status_ = address.status();
    return {};
  }
  return {*address, *memory_->At(*address, bytes)};
}

}  // namespace carillon::sim::figures
