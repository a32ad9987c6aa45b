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
  if (console.json()) {
    console.PrintDocument({{"instructions", all},
                           {"forms", counts},
                           {"runs", program.ok()},
                           {"why_not", program.status().message()}});
    return absl::OkStatus();
  }
  Table table({"INSTRUCTION", ">IN THE TEXT"});
  for (const auto& [name, count] : counts) {
    table.AddRow(name, count);
  }
  console.Print(table);
  console.Print(program.ok()
                    ? fmt::format("{} instructions; all of it runs\n", all)
                    : fmt::format("{} instructions; it does not run: {}\n", all,
                                  program.status().message()));
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
