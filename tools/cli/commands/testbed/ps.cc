#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/repeat.h"
#include "tools/cli/commands/testbed/commands.h"
#include "tools/cli/up_options.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/hosts/host_registration.h"
#include "tools/testbed/hosts/host_views.h"
#include "tools/testbed/supervisor/process_identity.h"
#include "tools/testbed/supervisor/state.h"
#include "tools/testbed/supervisor/testbeds.h"

namespace carillon::cli {
namespace {

constexpr std::chrono::milliseconds kAnswer{1000};

struct Process {
  // The supervisor's; of a device that was started by hand: its name, kind,
  // note and pid.
  testbed::ProcessRecord record;
  std::string state;                           // for people and -o json
  std::optional<testbed::ProcessFacts> facts;  // while it runs
};

struct Listing {
  std::string name;
  std::optional<testbed::Phase> phase;  // nothing: it is dead
  std::string directory;
  std::string host;     // empty: there are no hosts
  std::string trouble;  // in the place of the phase: "gone", "damaged"
  std::string remark;   // below the table: what to do about it
  pid_t supervisor = 0;
  bool supervisor_stopped = false;
  std::vector<Process> processes;
};

Process FromRecord(const testbed::ProcessRecord& record, bool supervised) {
  Process process{.record = record, .state = testbed::ToText(record.state)};
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

std::vector<testbed::ProcessRecord> RecordsOf(
    const testbed::TestbedState& state) {
  std::vector<testbed::ProcessRecord> records = state.processes;
  if (state.etcd) records.push_back(*state.etcd);
  return records;
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
            [&](const Process& p) { return p.record.name == device.name(); })) {
      continue;
    }
    Process& process = processes->emplace_back();
    process.record.name = device.name();
    process.record.kind = device.kind();
    process.record.note = device.note();
    process.record.identity.pid = static_cast<pid_t>(device.pid());
    process.state = device.state();
    process.facts = testbed::LookAtProcess(process.record.identity.pid);
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
  if (auto stopped = testbed::StoppedSupervisor(testbed); !stopped.empty()) {
    listing.supervisor_stopped = true;
    listing.remark = std::move(stopped);
  }
  if (testbed.supervisor && absl::IsFailedPrecondition(state.status())) {
    listing.trouble = "damaged";
    listing.remark =
        fmt::format("{}: {}", state.status().message(), HintOf(state.status()));
  }
  if (state.ok()) {
    listing.host = state->host;
    for (const testbed::ProcessRecord& record : RecordsOf(*state)) {
      listing.processes.push_back(
          FromRecord(record, testbed.supervisor.has_value()));
    }
  }
  if (testbed.supervisor) AddOthers(testbed, &listing.processes);
  return listing;
}

// As etcd has it: of processes on another machine there are no facts.
Listing List(const testbed::HostView& host, const std::string& testbed) {
  Listing listing{.name = testbed, .host = host.name};
  if (!host.record) {
    listing.trouble = host.State();
    return listing;
  }
  const testbed::TestbedState& state = host.record->state;
  listing.phase = state.phase;
  listing.supervisor = state.supervisor.pid;
  for (const testbed::ProcessRecord& record : RecordsOf(state)) {
    listing.processes.push_back(
        {.record = record, .state = testbed::ToText(record.state)});
  }
  return listing;
}

std::string PhaseText(const Listing& listing) {
  if (!listing.trouble.empty()) return listing.trouble;
  return listing.phase ? testbed::ToText(*listing.phase) : "dead";
}

Json ToJson(const std::optional<ExitReport>& exit) {
  if (!exit) return nullptr;
  return {{"code", exit->code}, {"signal", exit->signal}};
}

Json ToJson(const Listing& listing) {
  Json processes = Json::array();
  for (const auto& [record, state, facts_now] : listing.processes) {
    const testbed::ProcessFacts facts =
        facts_now.value_or(testbed::ProcessFacts());
    processes.push_back({{"name", record.name},
                         {"kind", record.kind},
                         {"state", state},
                         {"pid", record.identity.pid},
                         {"exit", ToJson(record.exit)},
                         {"restarts", record.restarts},
                         {"last_exit", ToJson(record.last_exit)},
                         {"restart", testbed::ToText(record.restart)},
                         {"given_up", record.given_up},
                         {"age_ns", facts.age_ns},
                         {"cpu_ns", facts.cpu_ns},
                         {"resident_bytes", facts.resident_bytes},
                         {"note", record.note}});
  }
  return {{"name", listing.name},
          {"phase", PhaseText(listing)},
          {"host", listing.host.empty() ? Json() : Json(listing.host)},
          {"directory", listing.directory},
          {"supervisor_pid", listing.supervisor},
          {"supervisor_stopped", listing.supervisor_stopped},
          {"processes", std::move(processes)}};
}

// `hosts`: there is a column for them.
void AddRows(const Listing& listing, bool hosts, Table* table) {
  std::string testbed =
      listing.supervisor_stopped
          ? fmt::format("{} (supervisor stopped)", listing.name)
      : listing.phase == testbed::Phase::kUp && listing.trouble.empty()
          ? listing.name
          : fmt::format("{} ({})", listing.name, PhaseText(listing));
  const auto begin = [&] {
    std::vector<std::string> row = {testbed};
    if (hosts) row.push_back(listing.host.empty() ? "-" : listing.host);
    return row;
  };
  if (listing.processes.empty()) table->AddRow(begin());
  for (const auto& [record, state, facts] : listing.processes) {
    const std::string text =
        record.exit ? fmt::format("ended ({}){}", record.exit->ToString(),
                                  record.given_up ? ", given up" : "")
                    : state;
    std::vector<std::string> row = begin();
    row.insert(row.end(), {record.name, record.kind, text,
                           fmt::format("{}", record.identity.pid)});
    if (facts) {
      row.push_back(FormatAge(facts->age_ns));
      row.push_back(FormatNanoseconds(facts->cpu_ns));
      row.push_back(FormatBytes(facts->resident_bytes));
    } else {
      row.insert(row.end(), 3, "-");
    }
    row.push_back(record.last_exit
                      ? fmt::format("{} (last: {})", record.restarts,
                                    record.last_exit->ToString())
                      : "0");
    row.push_back(record.note);
    table->AddRow(std::move(row));
  }
}

// For $CARILLON_TESTBED_DIR, by which a program joins a testbed.
absl::Status ShowDirectory(const std::string& name, Console& console) {
  ASSIGN_OR_RETURN(const auto testbed, testbed::ChooseTestbed(name));
  const std::string& directory = testbed.paths.directory();
  if (console.json()) {
    console.PrintDocument({{"directory", directory}});
  } else {
    console.Print(directory + "\n");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Listing>> ListHosts(const std::string& file) {
  ASSIGN_OR_RETURN(const auto topology, LoadMesh(file));
  ASSIGN_OR_RETURN(const auto etcd, testbed::OpenEtcd(topology));
  ASSIGN_OR_RETURN(const auto view, testbed::LookAtHosts(*etcd, topology));
  std::vector<Listing> listings;
  for (const testbed::HostView& host : view.hosts) {
    listings.push_back(List(host, topology.name));
  }
  return listings;
}

absl::Status ListAll(const std::string& name, const std::string& file,
                     Console& console) {
  std::vector<testbed::Testbed> testbeds;
  std::vector<Listing> listings;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(listings, ListHosts(file));
  } else if (name.empty()) {
    ASSIGN_OR_RETURN(testbeds, testbed::ListTestbeds());
  } else {
    ASSIGN_OR_RETURN(auto one, testbed::ChooseTestbed(name));
    testbeds = {std::move(one)};
  }
  Json document = Json::array();
  bool dead = false;
  for (const testbed::Testbed& testbed : testbeds) {
    listings.push_back(List(testbed));
    dead |= !testbed.supervisor;
  }
  for (const Listing& listing : listings) document.push_back(ToJson(listing));
  const bool hosts = std::ranges::any_of(
      listings, [](const Listing& one) { return !one.host.empty(); });
  std::vector<Column> columns = {"TESTBED",  "PROCESS", "KIND", "STATE",
                                 ">PID",     ">AGE",    ">CPU", ">MEMORY",
                                 "RESTARTS", "NOTE"};
  if (hosts) columns.insert(columns.begin() + 1, "HOST");
  Table table(columns);
  for (const Listing& listing : listings) AddRows(listing, hosts, &table);
  if (console.json()) {
    console.PrintDocument({{"testbeds", std::move(document)}});
    return absl::OkStatus();
  }
  if (table.empty()) {
    console.Say("no testbed is up; start one with: carillon up");
    return absl::OkStatus();
  }
  console.Print(table);
  for (const Listing& listing : listings) {
    if (!listing.remark.empty()) console.Say(listing.remark);
  }
  if (dead)
    console.Say("what dead testbeds have left goes with: carillon cleanup");
  return absl::OkStatus();
}

}  // namespace

Run MakePs(Arguments& arguments, Console& console) {
  struct Options {
    explicit Options(Arguments& arguments) : repeat(arguments) {}
    std::string name;
    std::string file;
    bool directory = false;
    Repeat repeat;
  };
  auto options = std::make_shared<Options>(arguments);
  arguments.Text("--name TESTBED", options->name, "Only this testbed");
  AddMeshOption(arguments, options->file);
  arguments
      .Flag("--directory", options->directory,
            "Only where it is: CARILLON_TESTBED_DIR of its devices")
      .Excludes("--watch")
      .Excludes("--file");
  return [options, &console] {
    if (options->directory) return ShowDirectory(options->name, console);
    return options->repeat.Run(
        "ps", console,
        [&] { return ListAll(options->name, options->file, console); },
        [] { return true; });
  };
}

}  // namespace carillon::cli
