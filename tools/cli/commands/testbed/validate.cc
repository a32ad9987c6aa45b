#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/topology/reader.h"
#include "tools/testbed/topology/schema.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string file;
  bool schema = false;
  bool keys = false;
};

std::string Devices(const testbed::Topology& topology) {
  return fmt::format("testbed '{}' with {} device{}", topology.name,
                     topology.devices.size(),
                     topology.devices.size() == 1 ? "" : "s");
}

// `document` is what to show of the file besides its problems.
absl::Status Tell(const std::string& file, const std::vector<Problem>& problems,
                  const std::string& what, Json document, Console& console) {
  if (console.json()) {
    Json list = Json::array();
    for (const Problem& problem : problems) {
      list.push_back({{"line", problem.line},
                      {"column", problem.column},
                      {"text", problem.text}});
    }
    Json whole = {{"file", file}, {"ok", problems.empty()}};
    whole.update(document);
    whole["problems"] = std::move(list);
    console.PrintDocument(whole);
  } else {
    for (const Problem& problem : problems) {
      console.Print(problem.ToString(file) + "\n");
    }
    if (problems.empty()) {
      console.Print(fmt::format("{}: ok, {}\n", file, what));
    }
  }
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has {} problem{}", file, problems.size(),
                  problems.size() == 1 ? "" : "s"));
}

absl::Status CheckPlan(const std::string& file, const std::string& text,
                       Console& console) {
  const fault::PlanReading reading = fault::ReadPlan(text, file);
  const fault::Plan& plan = reading.plan;
  Json document = {{"plan", plan.name}, {"faults", plan.faults.size()}};
  std::string what =
      fmt::format("plan '{}' with {} fault{}", plan.name, plan.faults.size(),
                  plan.faults.size() == 1 ? "" : "s");
  if (plan.topology) {
    document["testbed"] = plan.topology->name;
    document["devices"] = plan.topology->devices.size();
    what += " for " + Devices(*plan.topology);
  }
  return Tell(file, reading.problems, what, std::move(document), console);
}

absl::Status Check(const std::string& file, Console& console) {
  ASSIGN_OR_RETURN(const auto text, ReadYamlFile(file, "a topology or a plan"));
  if (fault::LooksLikePlan(text)) return CheckPlan(file, text, console);
  const testbed::TopologyReading reading =
      testbed::ReadTopology(text, "default");
  return Tell(file, reading.problems, Devices(reading.topology),
              {{"testbed", reading.topology.name},
               {"devices", reading.topology.devices.size()}},
              console);
}

absl::Status Validate(const Options& options, Console& console) {
  if (options.schema) {
    console.PrintDocument(testbed::TopologySchema());
    return absl::OkStatus();
  }
  if (options.keys) {
    console.Print(testbed::TopologyKeysAsMarkdown());
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
  arguments.Text("file", options->file, "A topology, or a fault plan")
      .Placeholder("FILE");
  arguments.Flag("--schema", options->schema,
                 "Print the JSON schema of topologies instead");
  arguments.Flag("--keys", options->keys,
                 "Print the keys of topologies as Markdown instead");
  AddOutputOption(arguments, console);
  return [options, &console] { return Validate(*options, console); };
}

}  // namespace carillon::cli
