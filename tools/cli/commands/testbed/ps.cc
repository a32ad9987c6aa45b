#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

constexpr std::chrono::milliseconds kAnswer{1000};

struct Process {
  std::string name;
  std::string kind;
  std::string state;  // for people and -o json
  std::string note;
  pid_t pid = 0;
  std::optional<testbed::ProcessFacts> facts;  // while it runs
  std::optional<ExitReport> exit;
  uint32_t restarts = 0;
  std::optional<ExitReport> last_exit;
  testbed::RestartPolicy restart = testbed::RestartPolicy::kNever;
  bool given_up = false;
};

struct Listing {
  std::string name;
  std::optional<testbed::Phase> phase;  // nothing: it is dead
  std::string directory;
  pid_t supervisor = 0;
  std::vector<Process> processes;
};

Process FromRecord(const testbed::ProcessRecord& record, bool supervised) {
  Process process{.name = record.name,
                  .kind = record.kind,
                  .state = testbed::ToText(record.state),
                  .note = record.note,
                  .pid = record.identity.pid,
                  .exit = record.exit,
                  .restarts = record.restarts,
                  .last_exit = record.last_exit,
                  .restart = record.restart,
                  .given_up = record.given_up};
  if (record.exit) return process;
  process.facts = testbed::LookAtLiving(record.identity);
  if (process.facts) {
    if (process.facts->state == 'T') process.state = "stopped";
  } else {
    // No supervisor saw how it ended.
    process.state = supervised ? "ending" : "dead";
  }
  return process;
}

// Adds devices that were started by hand, which no supervisor knows.
void AddOthers(const testbed::Testbed& testbed,
               std::vector<Process>* processes) {
  const auto devices =
      testbed::AdminClient(testbed.paths, kAnswer).ListDevices();
  if (!devices.ok()) return;
  for (const v1::Device& device : devices->devices()) {
    if (std::any_of(
            processes->begin(), processes->end(),
            [&](const Process& p) { return p.name == device.name(); })) {
      continue;
    }
    const auto pid = static_cast<pid_t>(device.pid());
    processes->push_back({.name = device.name(),
                          .kind = device.kind(),
                          .state = device.state(),
                          .note = device.note(),
                          .pid = pid,
                          .facts = testbed::LookAtProcess(pid)});
  }
}

Listing List(const testbed::Testbed& testbed) {
  Listing listing{.name = testbed.name,
                  .phase = std::nullopt,
                  .directory = testbed.paths.directory()};
  const auto state = testbed::ReadState(testbed.paths.state_file());
  if (testbed.supervisor) {
    listing.supervisor = testbed.supervisor->pid;
    listing.phase = state.ok() ? state->phase : testbed::Phase::kStarting;
  } else if (state.ok() && state->phase == testbed::Phase::kFailed) {
    listing.phase = testbed::Phase::kFailed;
  }
  if (state.ok()) {
    for (const testbed::ProcessRecord& record : state->processes) {
      listing.processes.push_back(
          FromRecord(record, testbed.supervisor.has_value()));
    }
  }
  if (testbed.supervisor) AddOthers(testbed, &listing.processes);
  return listing;
}

const char* PhaseText(const Listing& listing) {
  return listing.phase ? testbed::ToText(*listing.phase) : "dead";
}

Json ToJson(const std::optional<ExitReport>& exit) {
  if (!exit) return nullptr;
  return {{"code", exit->code}, {"signal", exit->signal}};
}

Json ToJson(const Listing& listing) {
  Json processes = Json::array();
  for (const Process& process : listing.processes) {
    const testbed::ProcessFacts facts =
        process.facts.value_or(testbed::ProcessFacts());
    processes.push_back({{"name", process.name},
                         {"kind", process.kind},
                         {"state", process.state},
                         {"pid", process.pid},
                         {"exit", ToJson(process.exit)},
                         {"restarts", process.restarts},
                         {"last_exit", ToJson(process.last_exit)},
                         {"restart", testbed::ToText(process.restart)},
                         {"given_up", process.given_up},
                         {"age_ns", facts.age_ns},
                         {"cpu_ns", facts.cpu_ns},
                         {"resident_bytes", facts.resident_bytes},
                         {"note", process.note}});
  }
  return {{"name", listing.name},
          {"phase", PhaseText(listing)},
          {"directory", listing.directory},
          {"supervisor_pid", listing.supervisor},
          {"processes", std::move(processes)}};
}

void AddRows(const Listing& listing, Table* table) {
  std::string testbed =
      listing.phase == testbed::Phase::kUp
          ? listing.name
          : fmt::format("{} ({})", listing.name, PhaseText(listing));
  if (listing.processes.empty()) table->AddRow({testbed});
  for (const Process& process : listing.processes) {
    const std::string state =
        process.exit ? fmt::format("ended ({}){}", process.exit->ToString(),
                                   process.given_up ? ", given up" : "")
                     : process.state;
    std::vector<std::string> row = {testbed, process.name, process.kind, state,
                                    fmt::format("{}", process.pid)};
    if (process.facts) {
      row.push_back(FormatAge(process.facts->age_ns));
      row.push_back(FormatNanoseconds(process.facts->cpu_ns));
      row.push_back(FormatBytes(process.facts->resident_bytes));
    } else {
      row.insert(row.end(), 3, "-");
    }
    row.push_back(process.last_exit
                      ? fmt::format("{} (last: {})", process.restarts,
                                    process.last_exit->ToString())
                      : "0");
    row.push_back(process.note);
    table->AddRow(std::move(row));
  }
}

absl::Status ListAll(const std::string& name, Console& console) {
  std::vector<testbed::Testbed> testbeds;
  if (name.empty()) {
    ASSIGN_OR_RETURN(auto all, testbed::ListTestbeds());
    testbeds = std::move(all);
  } else {
    ASSIGN_OR_RETURN(auto one, testbed::ChooseTestbed(name));
    testbeds = {std::move(one)};
  }
  Json document = Json::array();
  Table table({{"TESTBED"},
               {"PROCESS"},
               {"KIND"},
               {"STATE"},
               {"PID", Align::kRight},
               {"AGE", Align::kRight},
               {"CPU", Align::kRight},
               {"MEMORY", Align::kRight},
               {"RESTARTS"},
               {"NOTE"}});
  bool dead = false;
  for (const testbed::Testbed& testbed : testbeds) {
    const Listing listing = List(testbed);
    document.push_back(ToJson(listing));
    AddRows(listing, &table);
    dead |= !testbed.supervisor;
  }
  if (console.json()) {
    console.PrintDocument({{"testbeds", std::move(document)}});
    return absl::OkStatus();
  }
  if (table.empty()) {
    console.Say("no testbed is up; start one with: carillon up");
    return absl::OkStatus();
  }
  console.Print(table);
  if (dead)
    console.Say("what dead testbeds have left goes with: carillon cleanup");
  return absl::OkStatus();
}

}  // namespace

Run MakePs(Arguments& arguments, Console& console) {
  auto name = std::make_shared<std::string>();
  arguments.Text("--name", *name, "Only this testbed").Placeholder("NAME");
  AddOutputOption(arguments, console);
  return [name, &console] { return ListAll(*name, console); };
}

}  // namespace carillon::cli
