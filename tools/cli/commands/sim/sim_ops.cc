#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "sim/lower/lower.h"
#include "tools/cli/commands/sim/commands.h"
#include "tools/cli/sim/load_program.h"

namespace carillon::cli {
namespace {

// Lists everything that can be executed, by PTX's names without suffixes.
void ListKnown(Console& console) {
  const auto known = sim::KnownOpcodes();
  if (console.json()) {
    console.PrintDocument({{"opcodes", known}});
    return;
  }
  std::string line;
  for (const std::string_view opcode : known) {
    if (line.size() + opcode.size() > 76) {
      console.Print(line + "\n");
      line.clear();
    }
    line += fmt::format("{}{}", line.empty() ? "" : " ", opcode);
  }
  console.Print(line + "\n");
}

absl::Status ListFile(const std::string& file, Console& console) {
  ASSIGN_OR_RETURN(const auto module, LoadModule(file));
  std::map<std::string, uint64_t> counts;
  uint64_t all = 0;
  for (const sim::ptx::Function& function : module->functions) {
    for (const sim::ptx::Instruction& instruction : function.body) {
      ++counts[std::string(instruction.name)];
      ++all;
    }
  }
  sim::Memory memory;
  const auto program = sim::Lower(module, &memory);
  std::string why_not(program.status().message());
  std::map<std::string, std::string> refused;  // kernels, and why
  if (program.ok()) {
    for (const sim::ProgramFunction& function : (*program)->functions) {
      if (!function.is_entry || function.refused.empty()) continue;
      refused.emplace(function.name, function.refused);
      if (why_not.empty()) why_not = function.refused;
    }
  }
  if (console.json()) {
    console.PrintDocument({{"instructions", all},
                           {"forms", counts},
                           {"runs", why_not.empty()},
                           {"why_not", why_not},
                           {"refused", refused}});
    return absl::OkStatus();
  }
  Table table({"INSTRUCTION", ">IN THE TEXT"});
  for (const auto& [name, count] : counts) {
    table.AddRow(name, count);
  }
  console.Print(table);
  if (!program.ok()) {
    console.Print(
        fmt::format("{} instructions; it does not run: {}\n", all, why_not));
  } else if (refused.empty()) {
    console.Print(fmt::format("{} instructions; all of it runs\n", all));
  } else {
    console.Print(
        fmt::format("{} instructions; these kernels do not run:\n", all));
    for (const auto& [kernel, why] : refused) {
      console.Print(fmt::format("  {}: {}\n", kernel, why));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeSimOps(Arguments& arguments, Console& console) {
  auto file = std::make_shared<std::string>();
  arguments.Text(
      "file FILE", *file,
      "PTX text: its instructions, and whether they run. Without: the "
      "opcodes that are known");
  return [file, &console]() -> absl::Status {
    if (!file->empty()) return ListFile(*file, console);
    ListKnown(console);
    return absl::OkStatus();
  };
}

}  // namespace carillon::cli
