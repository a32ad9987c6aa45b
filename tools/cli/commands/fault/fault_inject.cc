#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/fault/board_option.h"
#include "tools/cli/commands/fault/commands.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/fault_plans/fields.h"
#include "tools/testbed/fault_plans/plan.h"

namespace carillon::cli {
namespace {

using fault::Field;
using fault::FieldSection;
using faults::Fault;

struct Options {
  std::vector<std::string> words;
  std::string name;
  uint32_t seed = 0;
  // By field, in the order of fault::Fields().
  std::map<std::string_view, std::string> fields;
};

// The fault point comes to mind first, so it is --at.
std::string FlagOf(const Field& field) {
  if (field.name == "point") return "--at";
  return "--" + absl::StrReplaceAll(std::string(field.name), {{"_", "-"}});
}

absl::Status WithFlag(const absl::Status& status, const Field& field) {
  return absl::Status(status.code(),
                      fmt::format("{}: {}", FlagOf(field), status.message()));
}

// Makes up a fault's name if the user gives none: "kill-1".
std::string FreeName(const Fault& fault, const testbed::BoardView& view) {
  const auto& there = view.faults;
  for (int i = 1;; ++i) {
    const std::string name =
        fmt::format("{}-{}", faults::ActionName(fault.action), i);
    if (std::none_of(there.begin(), there.end(), [&](const auto& injected) {
          return injected.fault.name == name;
        })) {
      return name;
    }
  }
}

// Reads a fault from the command line, except for what the board decides.
absl::StatusOr<Fault> ReadFault(const Options& options) {
  Fault fault;
  fault.process = options.words[0];
  ASSIGN_OR_RETURN(const auto action, fault::ReadAction(options.words[1]));
  fault.action = action;
  for (const Field& field : fault::Fields()) {
    const auto given = options.fields.find(field.name);
    if (given == options.fields.end() || given->second.empty()) continue;
    if (field.part == FieldSection::kDo &&
        !fault::TakesField(action, field.name)) {
      return absl::InvalidArgumentError(fmt::format(
          "{} does not take {}", faults::ActionName(action), FlagOf(field)));
    }
    if (absl::Status status = field.set(given->second, fault); !status.ok()) {
      return WithFlag(status, field);
    }
  }
  fault.name = options.name.empty() ? "unnamed" : options.name;
  fault.seed = fault::SeedOf(options.seed, fault.name);
  if (absl::Status status = faults::Check(fault); !status.ok()) {
    return WithHint(status, "carillon fault points");
  }
  return fault;
}

// A single word is the file of a plan.
absl::StatusOr<std::vector<Fault>> ReadPlan(const Options& options) {
  for (const Field& field : fault::Fields()) {
    const auto given = options.fields.find(field.name);
    if (given == options.fields.end() || given->second.empty()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{} is of one fault: write it into the plan instead", FlagOf(field)));
  }
  auto plan = fault::LoadPlan(options.words[0]);
  if (!plan.ok()) {
    if (!absl::IsNotFound(plan.status())) return plan.status();
    return WithHint(
        plan.status(),
        fmt::format("a plan's file, or a process and what happens to it: "
                    "carillon fault inject {} kill",
                    options.words[0]));
  }
  if (options.seed != 0) plan->seed = options.seed;
  return fault::FaultsOf(*plan);
}

absl::StatusOr<std::vector<Fault>> ReadFaults(const Options& options) {
  if (options.words.size() == 1) return ReadPlan(options);
  if (options.words.size() != 2) {
    return absl::InvalidArgumentError(fmt::format(
        "{} words; there are two, a process and an action, or one, a plan",
        options.words.size()));
  }
  ASSIGN_OR_RETURN(const auto fault, ReadFault(options));
  return std::vector<Fault>{fault};
}

absl::Status Inject(const Options& options, std::vector<Fault> faults,
                    const OpenBoard& open, Console& console) {
  auto view = open.board->Look();
  if (absl::IsPermissionDenied(view.status())) {
    // A user who may inject need not be allowed to look.
    view = testbed::BoardView{};
  } else if (!view.ok()) {
    return view.status();
  } else {
    for (const Fault& fault : faults) {
      RETURN_IF_ERROR(
          testbed::CheckProcess(fault.process, open.testbed, *view));
    }
  }
  if (options.words.size() == 2 && options.name.empty()) {
    faults[0].name = FreeName(faults[0], *view);
    faults[0].seed = fault::SeedOf(options.seed, faults[0].name);
  }
  ASSIGN_OR_RETURN(const auto injection, open.board->Inject(faults));
  const auto& [ids, late] = injection;
  if (console.json()) {
    Json list = Json::array();
    for (size_t i = 0; i < faults.size(); ++i) {
      list.push_back({{"id", ids[i]},
                      {"name", faults[i].name},
                      {"does", faults::Describe(faults[i])}});
    }
    console.PrintDocument({{"testbed", open.testbed.name},
                           {"injected", std::move(list)},
                           {"not_noticed_by", late}});
  } else {
    for (const Fault& fault : faults) {
      console.Say(fmt::format("{}: {}", fault.name, faults::Describe(fault)));
    }
  }
  if (!late.empty()) {
    console.Say(fmt::format("not noticed yet by {}, which may be stopped",
                            JoinWords(late)));
  }
  return absl::OkStatus();
}

}  // namespace

Run MakeFaultInject(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments
      .Texts("word TARGET ACTION | PLAN", options->words,
             "A process (gpud, a device, nic*) and an action; or a plan's file")
      .Required();
  for (const Field& field : fault::Fields()) {
    if (field.name == "process") continue;
    std::string& value = options->fields[field.name];
    arguments.Text(fmt::format("{} {}", FlagOf(field), field.value), value,
                   std::string(field.help));
    // Also as a plan spells it: --after_fault.
    if (field.name.find('_') != field.name.npos) {
      arguments.Text(fmt::format("--{}", field.name), value, "").Hidden();
    }
  }
  arguments.Text("--as NAME", options->name,
                 "The fault's name; ACTION-N without it");
  arguments.Number("--seed", options->seed, 0, UINT32_MAX,
                   "Of what is random; with a plan, instead of the plan's");
  auto option = std::make_shared<BoardOption>(arguments);
  return [options, option, &console]() -> absl::Status {
    // Report a wrong command line before a missing testbed.
    ASSIGN_OR_RETURN(auto faults, ReadFaults(*options));
    ASSIGN_OR_RETURN(const auto open, option->Open());
    return Inject(*options, std::move(faults), open, console);
  };
}

}  // namespace carillon::cli
