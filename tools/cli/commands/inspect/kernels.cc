#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/cli/ui/terminal_text.h"

namespace carillon::cli {
namespace {

std::string LowerCase(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c == '_' ? ' ' : std::tolower(c); });
  return name;
}

std::string KindName(v1::ParameterKind kind) {
  return LowerCase(v1::ParameterKind_Name(kind));
}

std::string FormName(v1::ParameterForm form) {
  return LowerCase(v1::ParameterForm_Name(form));
}

void Explain(const v1::Kernel& kernel, Console& console) {
  console.Print(fmt::format(
      "{}{}{}\n{} registers a thread, {} static shared memory{}\n",
      console.Bold(ForTerminal(kernel.name())),
      kernel.summary().empty() ? "" : ": ", ForTerminal(kernel.summary()),
      kernel.registers_per_thread(), FormatBytes(kernel.static_shared_bytes()),
      kernel.uses_barriers() ? ", barriers" : ""));
  if (!kernel.file().empty()) {
    console.Print(fmt::format("loaded from {}, {}\n",
                              ForTerminal(kernel.file()),
                              ForTerminal(kernel.symbol())));
  } else {
    console.Print(fmt::format(
        "launches: {}\nwritten after: {}\nresults compared with: {}\n",
        kernel.shape().empty() ? "of any shape" : kernel.shape(), kernel.from(),
        kernel.oracle()));
  }
  if (kernel.parameters().empty()) return;
  Table table({"PARAMETER", "KIND", ">ELEMENT", "PASSED AS"});
  for (const v1::KernelParameter& parameter : kernel.parameters()) {
    table.AddRow(parameter.name(), KindName(parameter.kind()),
                 parameter.element_bytes() == 0  // a value
                     ? ""
                     : FormatBytes(parameter.element_bytes()),
                 FormName(parameter.form()));
  }
  console.Print(table);
}

absl::Status Show(OpenTestbed& open, const std::string& name,
                  Console& console) {
  ASSIGN_OR_RETURN(const auto kernels, open.client->ListKernels());
  if (!name.empty()) {
    return ShowOne(kernels.kernels(), name, "there is no kernel {}{}", Explain,
                   console);
  }
  Table table(
      {"KERNEL", ">PARAMETERS", ">REGISTERS", ">SHARED", "FROM", "SUMMARY"});
  for (const v1::Kernel& kernel : kernels.kernels()) {
    table.AddRow(kernel.name(), kernel.parameters_size(),
                 kernel.registers_per_thread(),
                 FormatBytes(kernel.static_shared_bytes()),
                 kernel.file().empty() ? kernel.from() : kernel.file(),
                 kernel.summary());
  }
  console.Print(ToJson(kernels), table);
  return absl::OkStatus();
}

}  // namespace

Run MakeKernels(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("kernel KERNEL", *name,
                 "Explain this one, with its parameters");
  return MakeInspection(arguments, console,
                        [name](OpenTestbed& open, Console& console) {
                          return Show(open, *name, console);
                        });
}

}  // namespace carillon::cli
