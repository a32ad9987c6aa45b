#include "tools/cli/sim/load_program.h"

#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sim/lower/lower.h"

namespace carillon::cli {

absl::StatusOr<std::shared_ptr<const sim::ptx::Module>> LoadModule(
    const std::string& file) {
  ASSIGN_OR_RETURN(auto module, sim::ptx::ParseModuleFile(file));
  return std::make_shared<const sim::ptx::Module>(std::move(module));
}

absl::StatusOr<std::shared_ptr<const sim::Program>> LoadProgram(
    const std::string& file, sim::Memory* memory) {
  ASSIGN_OR_RETURN(auto module, LoadModule(file));
  return sim::Lower(std::move(module), memory);
}

absl::StatusOr<const sim::ptx::Function*> ChooseKernel(
    const sim::ptx::Module& module, std::string_view name) {
  std::vector<std::string_view> names;
  const sim::ptx::Function* only = nullptr;
  for (const sim::ptx::Function& function : module.functions) {
    if (!function.is_entry || !function.defined) continue;
    if (function.name == name) return &function;
    names.push_back(function.name);
    only = &function;
  }
  if (name.empty() && names.size() == 1) return only;
  return absl::NotFoundError(
      names.empty() ? fmt::format("{} has no kernel", module.file)
      : name.empty()
          ? fmt::format("{} has {} kernels, name one: {}", module.file,
                        names.size(), fmt::join(names, ", "))
          : fmt::format("{} has no kernel '{}'; there {}: {}", module.file,
                        name, names.size() == 1 ? "is" : "are",
                        fmt::join(names, ", ")));
}

}  // namespace carillon::cli
