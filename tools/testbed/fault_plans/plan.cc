#include "tools/testbed/fault_plans/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::fault {
namespace {

using Kind = Comparison::Kind;

const std::array<CountInfo, kCounts>& CountInfos() {
  static const auto* const infos = new std::array<CountInfo, kCounts>{{
      {"ok", "events that ended as done", {Kind::kMore, 0}},
      {"failed", "events that ended as failed or aborted, and reported so", {}},
      {"lost", "events that never ended", Exactly(0)},
      {"duplicated", "events that ended twice", Exactly(0)},
      {"unexpected", "events that ended without having been rung", Exactly(0)},
      {"out_of_order", "events that ended after a later one", Exactly(0)},
      {"contradicted", "events of which device and gpud tell different ends",
       Exactly(0)},
      {"wrong", "events whose device found wrong bytes in their output",
       Exactly(0)},
      {"indeterminate",
       "events of which the recordings do not tell; a map gives a number for "
       "each reason",
       Exactly(0)},
      {"in_flight", "events that did not end within `settle`", Exactly(0)},
      {"bad_replies", "memcached replies with a wrong byte", Exactly(0)},
      {"bad_exits", "processes that ended otherwise than well, and by no fault",
       Exactly(0)},
      {"leaks",
       "processes, files, registrations, GPU memory, descriptors of survivors "
       "that are left over",
       Exactly(0)},
  }};
  return *infos;
}

}  // namespace

const CountInfo& InfoOf(Count count) {
  return CountInfos()[static_cast<size_t>(count)];
}

Expectations::Expectations() {
  for (size_t i = 0; i < kCounts; ++i) counts[i] = CountInfos()[i].expected;
}

std::vector<faults::Fault> FaultsOf(const Plan& plan) {
  std::vector<faults::Fault> faults;
  for (const PlannedFault& planned : plan.faults) {
    faults.push_back(planned.fault);
    faults.back().seed = SeedOf(plan.seed, planned.fault.name);
  }
  return faults;
}

bool LooksLikePlan(std::string_view text) {
  std::vector<Problem> problems;
  bool plan = false;
  ReadYaml(text, "", &problems, [&](const YAML::Node& root) {
    if (!root.IsMap()) return;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) continue;
      const std::string& key = entry.first.Scalar();
      plan |= key == "plan" || (key == "faults" && entry.second.IsSequence());
    }
  });
  return plan;
}

namespace {

// A scalar that YAML reads as exactly this text.
std::string Scalar(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", c);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool IsPlain(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyz"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == text.npos &&
         text.front() != '-' && text.front() != '.';
}

std::string Value(std::string_view text) {
  return IsPlain(text) ? std::string(text) : Scalar(text);
}

// Shows the fields of a part that are set: "{process: nic0, nth: 3}".
std::string FieldMap(const faults::Fault& fault, FieldSection part) {
  std::string text;
  for (const Field& field : Fields()) {
    if (field.part != part) continue;
    const std::string value = field.get(fault);
    if (value.empty()) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", field.name,
                        Value(value));
  }
  return text.empty() ? "" : fmt::format("{{{}}}", text);
}

std::string FaultYaml(const PlannedFault& planned) {
  const faults::Fault& fault = planned.fault;
  std::string text = fmt::format("  - name: {}\n", Value(fault.name));
  for (const auto& [key, part] : {std::pair("target", FieldSection::kTarget),
                                  std::pair("when", FieldSection::kWhen)}) {
    const std::string map = FieldMap(fault, part);
    if (!map.empty()) text += fmt::format("    {}: {}\n", key, map);
  }
  const std::string_view action = faults::ActionName(fault.action);
  const std::string how = FieldMap(fault, FieldSection::kDo);
  text += how.empty() ? fmt::format("    do: {}\n", action)
                      : fmt::format("    do: {{{}: {}}}\n", action, how);
  if (fault.times != 1) text += fmt::format("    times: {}\n", fault.times);
  if (planned.struck != AtLeast(1)) {
    text += fmt::format("    expect: {{struck: {}}}\n",
                        Value(planned.struck.ToString()));
  }
  return text;
}

std::string NameList(const std::vector<std::string>& names) {
  return fmt::format("[{}]", fmt::join(names, ", "));
}

std::string ExpectYaml(const Expectations& expect) {
  std::string text;
  for (size_t i = 0; i < kCounts; ++i) {
    const CountInfo& info = InfoOf(Count(i));
    if (expect.counts[i] == info.expected) continue;
    text += fmt::format("  {}: {}\n", info.name,
                        Value(expect.counts[i].ToString()));
  }
  if (!expect.running.empty()) {
    text += fmt::format("  running: {}\n", NameList(expect.running));
  }
  for (const auto& [key, by_name] :
       {std::pair("indeterminate", &expect.indeterminate),
        std::pair("progress", &expect.progress),
        std::pair("restarts", &expect.restarts)}) {
    if (by_name->empty()) continue;
    text += fmt::format("  {}:\n", key);
    for (const auto& [name, comparison] : *by_name) {
      text += fmt::format("    {}: {}\n", name, Value(comparison.ToString()));
    }
  }
  return text.empty() ? "" : "expect:\n" + text;
}

std::string Indented(const std::string& lines) {
  return fmt::format("  {}\n", absl::StrReplaceAll(lines, {{"\n", "\n  "}}));
}

}  // namespace

std::string ToYaml(const Plan& plan) {
  std::string text = fmt::format("plan: {}\n", Value(plan.name));
  if (!plan.about.empty()) {
    text += fmt::format("about: {}\n", Scalar(plan.about));
  }
  if (!plan.topology_file.empty()) {
    text += fmt::format("topology: {}\n", Value(plan.topology_file));
  } else if (!plan.topology_yaml.empty()) {
    text += fmt::format("topology:\n{}", Indented(plan.topology_yaml));
  }
  if (plan.seed != 0) text += fmt::format("seed: {}\n", plan.seed);
  text += "faults:\n";
  for (const PlannedFault& fault : plan.faults) text += FaultYaml(fault);
  text +=
      fmt::format("run: {{within: {}, for: {}, settle: {}, clients: {}}}\n",
                  FormatExactDuration(plan.run.within_ns),
                  FormatExactDuration(plan.run.for_ns),
                  FormatExactDuration(plan.run.settle_ns), plan.run.clients);
  return text + ExpectYaml(plan.expect);
}

}  // namespace carillon::fault
