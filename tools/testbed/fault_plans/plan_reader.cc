#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/option_table.h"
#include "base/status.h"
#include "base/text.h"
#include "shm/faults/board.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/fault_plans/plan.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/topology/reader.h"

namespace carillon::fault {
namespace {

constexpr char kGpud[] = "gpud";
constexpr Nanoseconds kMaxRun = 3600ull * 1'000'000'000;

absl::StatusOr<uint64_t> ReadRunTime(const std::string& text) {
  auto time = ParseDuration(text);
  if (time.ok() && *time > kMaxRun) {
    return absl::InvalidArgumentError(
        fmt::format("{} is out of range; allowed: 0 to 60min", Quote(text)));
  }
  return time;
}

// For ReadInto(): a whole number from `min` to `max`.
auto IntegerFrom(uint64_t min, uint64_t max) {
  return [=](const std::string& text) { return ReadInteger(text, min, max); };
}

class PlanReader : StrictReader {
 public:
  PlanReader(const std::string& path, PlanReading* reading)
      : StrictReader(&reading->problems), path_(path), reading_(*reading) {}

  void Read(const YAML::Node& root) {
    if (!root.IsMap()) {
      Complain(root, fmt::format("the file holds {}; a plan is a map, like "
                                 "`plan: kill-nic`",
                                 TypeWord(root)));
      return;
    }
    const EntryList entries = Entries(root, "the plan");
    for (const auto& [key, value] : entries) {
      if (key == "plan") {
        ReadName(value, key, &plan().name);
      } else if (key == "about") {
        ReadInto(value, key, ReadAbout, &plan().about);
      } else if (key == "topology") {
        ReadTopology(value);
      } else if (key == "seed") {
        ReadInto(value, key, IntegerFrom(0, UINT64_MAX), &plan().seed);
      } else if (key == "faults") {
        ReadFaults(value);
      } else if (key == "run") {
        ReadRun(value);
      } else if (key == "expect") {
        ReadExpect(value);
      } else {
        ComplainUnknown(
            value.mark, key, "of a plan",
            {"plan", "about", "topology", "seed", "faults", "run", "expect"});
      }
    }
    if (FindEntry(entries, "plan") == nullptr) {
      Complain(root, "the plan has no name: `plan: NAME`");
    }
    if (FindEntry(entries, "faults") == nullptr) {
      Complain(root, "the plan has no faults");
    }
    CheckAfterFaults();
    CheckProcesses();
  }

 private:
  // A process that the plan names, to be checked against the topology.
  struct Named {
    YAML::Mark mark;
    std::string key;
    std::string name;
    bool glob = false;
    bool device = false;  // gpud is none
  };

  Plan& plan() { return reading_.plan; }

  static absl::StatusOr<std::string> ReadAbout(const std::string& text) {
    if (text.size() <= kMaxAbout) return text;
    return absl::InvalidArgumentError(
        fmt::format("has {} characters; allowed: {}", text.size(), kMaxAbout));
  }

  bool ReadName(const Entry& entry, const std::string& key, std::string* name) {
    std::string text;
    if (!ReadScalar(entry, key, &text)) return false;
    if (const std::string wrong = testbed::CheckName(text); !wrong.empty()) {
      Complain(entry.node, fmt::format("{}: {}", key, wrong));
      return false;
    }
    *name = text;
    return true;
  }

  void ReadTopology(const Entry& entry) {
    if (entry.node.IsMap()) {
      testbed::TopologyReading topology;
      testbed::ReadTopologyNode(entry.node, "plan", &topology);
      for (const Problem& problem : topology.problems) {
        reading_.problems.push_back(problem);
      }
      if (!topology.problems.empty()) return;
      testbed::AnchorPaths(path_, topology.topology);
      std::ostringstream text;
      text << entry.node;
      plan().topology_yaml = text.str();
      plan().topology = std::move(topology.topology);
      return;
    }
    std::string file;
    if (!ReadScalar(entry, "topology", &file)) return;
    plan().topology_file = file;
    std::error_code error;
    const std::string where =
        (std::filesystem::absolute(path_, error).parent_path() / file)
            .lexically_normal()
            .string();
    const auto topology = testbed::ReadTopologyFile(where, "plan");
    if (!topology.ok()) {
      Complain(entry.node,
               fmt::format("topology: {}", topology.status().message()));
      return;
    }
    for (const Problem& problem : topology->problems) {
      Complain(entry.node,
               fmt::format("topology: {}", problem.ToString(where)));
    }
    if (topology->problems.empty()) plan().topology = topology->topology;
  }

  void ReadFaults(const Entry& entry) {
    if (!IsList(entry, "faults")) return;
    for (const YAML::Node& fault : entry.node) {
      if (!fault.IsMap()) {
        Complain(fault, fmt::format("a fault is a map with at least name and "
                                    "do; this is {}",
                                    TypeWord(fault)));
        continue;
      }
      ReadFault(fault);
    }
    if (entry.node.size() == 0) Complain(entry.mark, "faults is empty");
    if (entry.node.size() > faults::kMaxFaults) {
      Complain(entry.mark, fmt::format("{} faults; allowed: {}",
                                       entry.node.size(), faults::kMaxFaults));
    }
  }

  void ReadFault(const YAML::Node& node) {
    const EntryList entries = Entries(node, "a fault");
    PlannedFault planned;
    faults::Fault& fault = planned.fault;
    // Remember where each field stands, for errors of Check().
    marks_.clear();
    bool right = true;
    for (const auto& [key, value] : entries) {
      marks_.emplace(key, value.mark);
      if (key == "name") {
        right &= ReadScalar(value, key, &fault.name);
      } else if (key == "target") {
        right &= ReadSection(value, key, FieldSection::kTarget, &fault);
      } else if (key == "when") {
        right &= ReadSection(value, key, FieldSection::kWhen, &fault);
      } else if (key == "do") {
        right &= ReadDo(value, &fault);
      } else if (key == "times") {
        right &= SetField(
            value, *std::ranges::find(Fields(), key, &Field::name), &fault);
      } else if (key == "expect") {
        ReadFaultExpect(value, &planned);
      } else {
        ComplainUnknown(value.mark, key, "of a fault",
                        {"name", "target", "when", "do", "times", "expect"});
      }
    }
    for (const char* key : {"name", "do"}) {
      if (FindEntry(entries, key) != nullptr) continue;
      Complain(node, fmt::format("the fault has no {}", key));
      right = false;
    }
    // Kept apart from errors of Check(), whose first word is the field.
    if (right) right = CheckFault(node, fault);
    if (!right) return;
    const auto [first, is_new] =
        fault_lines_.emplace(fault.name, node.Mark().line + 1);
    if (!is_new) {
      Complain(node, fmt::format("name: two faults are called {} (the first in "
                                 "line {})",
                                 Quote(fault.name), first->second));
      return;
    }
    if (!fault.after_fault.empty()) {
      after_faults_.push_back(
          {marks_.at("after_fault"), "after_fault", fault.after_fault});
    }
    if (fault.after_state != faults::State::kNone) {
      named_.push_back({marks_.at("after_state"), "after_state",
                        fault.after_process, /*glob=*/true});
    }
    if (fault.process != "*") {
      named_.push_back({marks_.at("process"), "process", fault.process,
                        /*glob=*/true});
    }
    if (fault.device != "*") {
      named_.push_back({marks_.at("device"), "device", fault.device,
                        /*glob=*/true, /*device=*/true});
    }
    plan().faults.push_back(std::move(planned));
  }

  bool CheckFault(const YAML::Node& node, const faults::Fault& fault) {
    const absl::Status status = faults::Check(fault);
    if (status.ok()) return true;
    const std::string text(status.message());
    const auto mark = marks_.find(text.substr(0, text.find(':')));
    Complain(mark == marks_.end() ? node.Mark() : mark->second, text);
    return false;
  }

  bool SetField(const Entry& entry, const Field& field, faults::Fault* fault) {
    std::string text;
    if (!ReadScalar(entry, field.name, &text)) return false;
    const absl::Status status = field.set(text, *fault);
    if (status.ok()) return true;
    Complain(entry.node, fmt::format("{}: {}", field.name, status.message()));
    return false;
  }

  // A map of the fields that `takes` picks.
  template <class Takes>
  bool ReadFields(const Entry& entry, const std::string& what, Takes takes,
                  faults::Fault* fault) {
    if (!IsMap(entry, what)) return false;
    bool right = true;
    for (const auto& [key, value] : Entries(entry.node, what)) {
      marks_.emplace(key, value.mark);
      const Field* found = nullptr;
      std::vector<std::string_view> known;
      for (const Field& field : Fields()) {
        if (!takes(field)) continue;
        known.push_back(field.name);
        if (field.name == key) found = &field;
      }
      if (found == nullptr) {
        ComplainUnknown(value.mark, key, fmt::format("of {}", what), known);
      }
      right &= found != nullptr && SetField(value, *found, fault);
    }
    return right;
  }
  bool ReadSection(const Entry& entry, const std::string& what,
                   FieldSection section, faults::Fault* fault) {
    return ReadFields(
        entry, what, [&](const Field& field) { return field.part == section; },
        fault);
  }

  // Reads `do: kill`, or `do: {stop: {for: 500ms}}`.
  bool ReadDo(const Entry& entry, faults::Fault* fault) {
    if (!entry.node.IsMap()) {
      return ReadInto(entry, "do", ReadAction, &fault->action);
    }
    const EntryList entries = Entries(entry.node, "do");
    if (entries.size() != 1) {
      Complain(entry.mark, fmt::format("do has {} actions; a fault has one",
                                       entries.size()));
      return false;
    }
    const auto& [name, how] = entries[0];
    const auto action = ReadAction(name);
    if (!action.ok()) {
      Complain(how.mark, fmt::format("do: {}", action.status().message()));
      return false;
    }
    fault->action = *action;
    if (how.node.IsNull()) return true;
    return ReadFields(
        how, name,
        [&](const Field& field) {
          return field.part == FieldSection::kDo &&
                 TakesField(*action, field.name);
        },
        fault);
  }

  void ReadFaultExpect(const Entry& entry, PlannedFault* planned) {
    if (!IsMap(entry, "expect")) return;
    for (const auto& [key, value] : Entries(entry.node, "expect")) {
      if (key == "struck") {
        ReadInto(value, key, Comparison::Parse, &planned->struck);
      } else {
        ComplainUnknown(value.mark, key, "of a fault's expect", {"struck"});
      }
    }
  }

  void ReadRun(const Entry& entry) {
    if (!IsMap(entry, "run")) return;
    for (const auto& [key, value] : Entries(entry.node, "run")) {
      if (key == "within") {
        ReadInto(value, key, ReadRunTime, &plan().run.within_ns);
      } else if (key == "for") {
        ReadInto(value, key, ReadRunTime, &plan().run.for_ns);
      } else if (key == "settle") {
        ReadInto(value, key, ReadRunTime, &plan().run.settle_ns);
      } else if (key == "clients") {
        uint64_t clients = 0;
        if (ReadInto(value, key, IntegerFrom(0, kMaxClients), &clients)) {
          plan().run.clients = static_cast<uint32_t>(clients);
        }
      } else {
        ComplainUnknown(value.mark, key, "of run",
                        {"within", "for", "settle", "clients"});
      }
    }
  }

  void ReadExpect(const Entry& entry) {
    if (!IsMap(entry, "expect")) return;
    Expectations& expect = plan().expect;
    for (const auto& [key, value] : Entries(entry.node, "expect")) {
      if (key == "progress") {
        ReadProgress(value, &expect.progress);
      } else if (key == "running") {
        ReadNames(value, key, &expect.running);
      } else if (key == "restarts") {
        ReadByProcess(value, key, &expect.restarts);
      } else {
        ReadCount(key, value, &expect);
      }
    }
  }

  void ReadCount(const std::string& key, const Entry& entry,
                 Expectations* expect) {
    std::vector<std::string_view> known;
    for (size_t i = 0; i < kCounts; ++i) {
      known.push_back(InfoOf(Count(i)).name);
      if (known.back() == key) {
        if (Count(i) == Count::kIndeterminate && entry.node.IsMap()) {
          ReadReasons(entry, key, &expect->indeterminate);
          return;
        }
        ReadInto(entry, key, Comparison::Parse, &expect->counts[i]);
        return;
      }
    }
    known.insert(known.end(), {"progress", "running", "restarts"});
    ComplainUnknown(entry.mark, key, "of expect", known);
  }

  void ReadReasons(const Entry& entry, const std::string& key,
                   ByName* by_reason) {
    std::vector<std::string_view> known;
    for (size_t i = 0; i < ledger::kUnknowns; ++i) {
      known.push_back(ledger::UnknownName(ledger::Unknown(i)));
    }
    for (const auto& [reason, value] : Entries(entry.node, key)) {
      Comparison comparison;
      if (std::ranges::find(known, reason) == known.end()) {
        ComplainUnknown(value.mark, reason, "of indeterminate", known);
      } else if (ReadInto(value, reason, Comparison::Parse, &comparison)) {
        by_reason->emplace_back(reason, comparison);
      }
    }
  }

  static bool IsProcessName(const std::string& name) {
    return name == kGpud || testbed::CheckName(name).empty();
  }
  void ComplainName(const YAML::Mark& mark, const std::string& key,
                    const std::string& name) {
    Complain(mark, fmt::format("{}: {}", key, testbed::CheckName(name)));
  }

  void ReadNames(const Entry& entry, const std::string& key,
                 std::vector<std::string>* names) {
    if (!IsList(entry, key)) return;
    for (const YAML::Node& name : entry.node) {
      if (!name.IsScalar()) {
        Complain(name, fmt::format("a name of {} is {}", key, TypeWord(name)));
        continue;
      }
      if (!IsProcessName(name.Scalar())) {
        ComplainName(name.Mark(), key, name.Scalar());
        continue;
      }
      names->push_back(name.Scalar());
      named_.push_back({name.Mark(), key, name.Scalar()});
    }
  }

  // Reads a list of processes, or a map with the number for each.
  void ReadProgress(const Entry& entry, ByName* progress) {
    if (entry.node.IsMap()) {
      ReadByProcess(entry, "progress", progress);
      return;
    }
    std::vector<std::string> names;
    ReadNames(entry, "progress", &names);
    for (const std::string& name : names) {
      progress->emplace_back(name, Comparison(Comparison::Kind::kMore, 0));
    }
  }

  void ReadByProcess(const Entry& entry, const std::string& key,
                     ByName* by_process) {
    if (!IsMap(entry, key)) return;
    for (const auto& [name, value] : Entries(entry.node, key)) {
      Comparison comparison;
      if (!IsProcessName(name)) {
        ComplainName(value.mark, key, name);
        continue;
      }
      if (!ReadInto(value, name, Comparison::Parse, &comparison)) continue;
      by_process->emplace_back(name, comparison);
      named_.push_back({value.mark, key, name});
    }
  }

  void CheckAfterFaults() {
    std::vector<std::string_view> names;
    for (const auto& [name, line] : fault_lines_) names.push_back(name);
    for (const Named& named : after_faults_) {
      if (fault_lines_.contains(named.name)) continue;
      Complain(named.mark,
               fmt::format("after_fault: no fault is called {}{}",
                           Quote(named.name), DidYouMean(named.name, names)));
    }
    for (const Named& named : after_faults_) CheckForCycle(named);
  }

  // Faults that wait for one another never strike.
  void CheckForCycle(const Named& last) {
    std::map<std::string_view, std::string_view> waits_for;
    for (const PlannedFault& planned : plan().faults) {
      waits_for[planned.fault.name] = planned.fault.after_fault;
    }
    std::vector<std::string_view> chain = {last.name};
    while (!waits_for[chain.back()].empty() &&
           chain.size() <= waits_for.size()) {
      chain.push_back(waits_for[chain.back()]);
      if (chain.back() != last.name) continue;
      Complain(last.mark,
               fmt::format("after_fault: these wait for one another and never "
                           "strike: {}",
                           fmt::join(chain, " after ")));
      return;
    }
  }

  // Reports names that the topology does not have.
  void CheckProcesses() {
    if (!plan().topology) return;
    for (const Named& named : named_) {
      std::vector<std::string_view> known;
      if (!named.device) known.push_back(kGpud);
      for (const auto& device : plan().topology->devices) {
        known.push_back(device.name);
      }
      const bool found =
          std::any_of(known.begin(), known.end(), [&](std::string_view name) {
            return named.glob ? fnmatch(named.name.c_str(),
                                        std::string(name).c_str(), 0) == 0
                              : named.name == name;
          });
      if (found) continue;
      Complain(named.mark,
               fmt::format(
                   "{}: the topology has no {}{}", named.key, Quote(named.name),
                   DidYouMean(
                       named.name, known,
                       fmt::format("; there are {}", fmt::join(known, ", ")))));
    }
  }

  const std::string path_;
  PlanReading& reading_;
  std::map<std::string, YAML::Mark> marks_;  // of the fault that is read
  std::map<std::string, int> fault_lines_;
  std::vector<Named> after_faults_;
  std::vector<Named> named_;
};

}  // namespace

PlanReading ReadPlan(std::string_view text, const std::string& path) {
  PlanReading reading;
  reading.plan.file = path;
  ReadYaml(text, "the smallest plan has `plan: NAME` and `faults:`",
           &reading.problems, [&](const YAML::Node& root) {
             PlanReader(path, &reading).Read(root);
           });
  return reading;
}

absl::StatusOr<PlanReading> ReadPlanFile(const std::string& path) {
  ASSIGN_OR_RETURN(const auto text, ReadYamlFile(path, "a plan"));
  return ReadPlan(text, path);
}

absl::StatusOr<Plan> LoadPlan(const std::string& path) {
  ASSIGN_OR_RETURN(auto reading, ReadPlanFile(path));
  if (reading.problems.empty()) return std::move(reading.plan);
  return absl::InvalidArgumentError(ToString(reading.problems, path));
}

}  // namespace carillon::fault
