#include "tools/cli/sim/load_program.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <ranges>
#include <string>
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

// The parameters of a function are the last parentheses, and the type of a
// template's result is what comes before the last space outside of brackets.
std::string PlainName(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::string(symbol);
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr,
                          nullptr),
      &std::free);
  if (demangled == nullptr) return std::string(symbol);
  std::string_view name = demangled.get();
  const auto deeper = [](char c) { return c == '(' || c == '<'; };
  const auto higher = [](char c) { return c == ')' || c == '>'; };
  int depth = 0;
  bool is_function = name.ends_with(')');
  for (size_t at = name.size(); at-- > 0;) {
    depth += higher(name[at]) ? 1 : deeper(name[at]) ? -1 : 0;
    if (depth != 0) continue;
    if (is_function && name[at] == '(') {
      name = name.substr(0, at);
      is_function = false;
    } else if (name[at] == ' ') {
      return std::string(name.substr(at + 1));
    }
  }
  return std::string(name);
}

absl::StatusOr<const sim::ptx::Function*> ChooseKernel(
    const sim::ptx::Module& module, std::string_view name) {
  std::vector<std::string> names;
  std::vector<const sim::ptx::Function*> called_so;
  const sim::ptx::Function* only = nullptr;
  for (const sim::ptx::Function& function : module.functions) {
    if (!function.is_entry || !function.defined) continue;
    if (function.name == name) return &function;
    names.push_back(PlainName(function.name));
    only = &function;
    if (names.back() == name) called_so.push_back(&function);
  }
  if (called_so.size() == 1) return called_so.front();
  if (called_so.size() > 1) {
    return absl::InvalidArgumentError(fmt::format(
        "{} has {} kernels '{}', name one by its symbol: {}", module.file,
        called_so.size(), name,
        fmt::join(called_so | std::views::transform([](const auto* function) {
                    return function->name;
                  }),
                  ", ")));
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
