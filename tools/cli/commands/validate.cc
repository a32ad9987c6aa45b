#include <fmt/format.h>

#include <memory>

#include "tools/cli/commands.h"
#include "tools/cli/topology/reader.h"
#include "tools/cli/topology/schema.h"
#include "tools/cli/ui/text.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string file;
  bool schema = false;
  bool keys = false;
};

absl::Status Check(const std::string& file, Console& console) {
  const auto reading = ReadTopologyFile(file, "default");
  if (!reading.ok()) return reading.status();
  const auto& [topology, problems] = *reading;
  if (console.json()) {
    Json list = Json::array();
    for (const Problem& problem : problems) {
      list.push_back({{"line", problem.line},
                      {"column", problem.column},
                      {"text", problem.text}});
    }
    console.PrintDocument({{"file", file},
                           {"ok", problems.empty()},
                           {"testbed", topology.name},
                           {"devices", topology.devices.size()},
                           {"problems", std::move(list)}});
  } else {
    for (const Problem& problem : problems) {
      console.Print(problem.ToString(file) + "\n");
    }
    if (problems.empty()) {
      console.Print(fmt::format("{}: ok, testbed '{}' with {} device{}\n", file,
                                topology.name, topology.devices.size(),
                                topology.devices.size() == 1 ? "" : "s"));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has {} problem{}", file, problems.size(),
                  problems.size() == 1 ? "" : "s"));
}

absl::Status Validate(const Options& options, Console& console) {
  if (options.schema) {
    console.PrintDocument(TopologySchema());
    return absl::OkStatus();
  }
  if (options.keys) {
    console.Print(TopologyKeysAsMarkdown());
    return absl::OkStatus();
  }
  if (options.file.empty()) {
    return absl::InvalidArgumentError("which file? carillon validate FILE");
  }
  return Check(options.file, console);
}

}  // namespace

Run MakeValidate(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Text("file", options->file, "The topology").Placeholder("FILE");
  arguments.Flag("--schema", options->schema,
                 "Print the JSON schema of topologies instead");
  arguments.Flag("--keys", options->keys,
                 "Print the keys of topologies as Markdown instead");
  AddOutputOption(arguments, console);
  return [options, &console] { return Validate(*options, console); };
}

}  // namespace carillon::cli
