#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "base/tls_files.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/fault_plans/schema.h"
#include "tools/testbed/topology/reader.h"
#include "tools/testbed/topology/schema.h"

namespace carillon::cli {
namespace {

struct Options {
  std::string file;
  bool schema = false;
  bool plan_schema = false;
  bool keys = false;
};

std::string Devices(const testbed::Topology& topology) {
  return fmt::format("testbed '{}' with {}", topology.name,
                     FormatPlural(topology.devices.size(), "device"));
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
      fmt::format("{} has {}", file, FormatPlural(problems.size(), "problem")));
}

absl::Status CheckPlan(const std::string& file, const std::string& text,
                       Console& console) {
  const fault::PlanReading reading = fault::ReadPlan(text, file);
  const fault::Plan& plan = reading.plan;
  Json document = {{"plan", plan.name}, {"faults", plan.faults.size()}};
  std::string what = fmt::format("plan '{}' with {}", plan.name,
                                 FormatPlural(plan.faults.size(), "fault"));
  if (plan.topology) {
    document["testbed"] = plan.topology->name;
    document["devices"] = plan.topology->devices.size();
    what += " for " + Devices(*plan.topology);
  }
  return Tell(file, reading.problems, what, std::move(document), console);
}

// What gpud would refuse when it starts: files that are missing, expired, or do
// not belong together.
void CheckTlsFiles(testbed::TopologyReading& reading) {
  TlsFiles files;
  for (const Setting& setting : reading.topology.gpu) {
    if (setting.option->section != testbed::kTlsSection) continue;
    if (setting.option->key == "certificate") files.certificate = setting.text;
    if (setting.option->key == "key") files.key = setting.text;
    if (setting.option->key == "client_ca") files.ca = setting.text;
  }
  if (!files.any() || !reading.problems.empty()) return;
  const auto pems = ReadTlsFiles(files, "--tls-client-ca");
  if (pems.ok()) return;
  reading.problems.push_back(
      {.text = fmt::format("tls: {}", pems.status().message())});
}

absl::Status Check(const std::string& file, Console& console) {
  ASSIGN_OR_RETURN(const auto text, ReadYamlFile(file, "a topology or a plan"));
  if (fault::LooksLikePlan(text)) return CheckPlan(file, text, console);
  testbed::TopologyReading reading = testbed::ReadTopology(text, "default");
  testbed::AnchorPaths(file, reading.topology);
  CheckTlsFiles(reading);
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
  if (options.plan_schema) {
    console.PrintDocument(fault::PlanSchema());
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
  arguments.Text("file FILE", options->file,
                 "A topology, or a fault plan; - for stdin");
  arguments.Flag("--schema", options->schema,
                 "Print the JSON schema of topologies instead");
  arguments.Flag("--plan-schema", options->plan_schema,
                 "Print the JSON schema of fault plans instead");
  arguments.Flag("--keys", options->keys,
                 "Print the keys of topologies as Markdown instead");
  return [options, &console] { return Validate(*options, console); };
}

}  // namespace carillon::cli
