#include "base/status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "shm/histogram.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/inspect.h"
#include "tools/cli/ui/proto_json.h"
#include "tools/testbed/client/admin_client.h"
#include "tools/testbed/supervisor/state.h"

namespace carillon::cli {
namespace {

// Merges the stages of all event kernels, in the order in which they happen.
std::vector<NamedHistogram> MergeStages(const v1::ListEktResponse& ekt) {
  std::vector<NamedHistogram> stages;
  for (const v1::EktEntry& entry : ekt.entries()) {
    MergeHistograms(entry.stages(), &stages);
  }
  return stages;
}

// What the supervisor knows of the processes; nothing for a gpud that was
// started by hand, or that is elsewhere.
struct Fates {
  explicit Fates(const testbed::Testbed& testbed)
      : supervisor(testbed::StoppedSupervisor(testbed)) {
    if (testbed.paths.directory().empty()) return;
    const auto state = testbed::ReadState(testbed.paths.state_file());
    if (!state.ok()) return;
    for (const testbed::ProcessRecord& record : state->processes) {
      if (record.exit) {
        ended.push_back(fmt::format("{} ({}){}", record.name,
                                    record.exit->ToString(),
                                    record.given_up ? ", given up" : ""));
      }
      if (record.last_exit) {
        restarted.push_back(fmt::format("{} {} (last: {})", record.name,
                                        FormatPlural(record.restarts, "time"),
                                        record.last_exit->ToString()));
      }
    }
  }

  std::string supervisor;  // StoppedSupervisor()
  std::vector<std::string> ended;
  std::vector<std::string> restarted;  // "nic0 2 times (last: SIGKILL)"
};

Json ToDocument(const v1::GetStatusResponse& status,
                const v1::ListEktResponse& ekt, const Fates& fates) {
  Json document = ToJson(status);
  document["events"]["in_flight"] = testbed::InFlight(status.events());
  Json stages = Json::object();
  for (const auto& [name, histogram] : MergeStages(ekt)) {
    stages[name] = PercentilesToJson(histogram);
  }
  document["stages"] = std::move(stages);
  Json kernels = Json::array();
  for (const v1::EktEntry& entry : ekt.entries()) {
    kernels.push_back({{"device", entry.device()},
                       {"event_id", entry.event_id()},
                       {"kernel", entry.kernel()},
                       {"label", entry.label()},
                       {"stages", ToJson(entry)["stages"]}});
  }
  document["event_kernels"] = std::move(kernels);
  document["supervisor_stopped"] = !fates.supervisor.empty();
  document["ended_processes"] = fates.ended;
  document["restarted_processes"] = fates.restarted;
  return document;
}

// "edge (default, 3 event kernels), baseline, persistent"
std::string LaunchPaths(const v1::GetStatusResponse& status) {
  std::string text;
  bool default_shown = false;
  for (const v1::LaunchPath& path : status.launch_paths()) {
    std::vector<std::string> notes;
    if (!path.unavailable().empty()) {
      notes.push_back(fmt::format("not here: {}", path.unavailable()));
    } else if (!std::exchange(default_shown, true)) {
      notes.push_back("default");
    }
    if (!path.notice().empty()) notes.push_back(path.notice());
    if (const uint32_t count = path.event_kernels()) {
      notes.push_back(FormatPlural(count, "event kernel"));
    }
    if (!text.empty()) text += ", ";
    text += path.name();
    if (!notes.empty()) text += fmt::format(" ({})", fmt::join(notes, ", "));
  }
  return text;
}

using Counters = google::protobuf::RepeatedPtrField<v1::Counter>;

uint64_t SumOf(const Counters& counters) {
  uint64_t sum = 0;
  for (const v1::Counter& counter : counters) sum += counter.value();
  return sum;
}

// Launches that ran whole: "; whole: 2 one_slice". Empty: there was none.
std::string Whole(const Counters& reasons) {
  if (reasons.empty()) return "";
  std::vector<std::string> shown;
  for (const v1::Counter& reason : reasons) {
    shown.push_back(
        fmt::format("{} {}", FormatCount(reason.value()), reason.name()));
  }
  return fmt::format("; whole: {}", fmt::join(shown, ", "));
}

// "3 of 5 launches in 12 slices; whole: 2 one_slice". Empty: there was none.
std::string Slices(const v1::SliceCounts& counts) {
  const uint64_t whole = SumOf(counts.whole());
  if (counts.launches() + whole == 0) return "";
  std::string text = fmt::format(
      "{} of {} launches in {} slices", FormatCount(counts.launches()),
      FormatCount(counts.launches() + whole), FormatCount(counts.slices()));
  if (counts.over_bound() != 0) {
    text += fmt::format(", {} of them longer than --preempt-us",
                        FormatCount(counts.over_bound()));
  }
  return text + Whole(counts.whole());
}

// "3 of 5 launches as persistent blocks, stopped 7 times; whole: 2 all_fit".
// Empty: there was none.
std::string Ptb(const v1::PtbCounts& counts) {
  const uint64_t launches = counts.launches() + SumOf(counts.whole());
  if (launches == 0) return "";
  return fmt::format("{} of {} launches as persistent blocks, stopped {}{}",
                     FormatCount(counts.launches()), FormatCount(launches),
                     FormatPlural(counts.stops(), "time"),
                     Whole(counts.whole()));
}

std::string Overview(const v1::GetStatusResponse& status, const Fates& fates,
                     Console& console) {
  const v1::GpuModel& gpu = status.gpu();
  const v1::EventCounts& events = status.events();
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  line("testbed",
       fmt::format("{}, up for {}, gpud pid {}", console.Bold(status.testbed()),
                   FormatAge(status.uptime_ns()), status.pid()));
  line("GPU", fmt::format("{} back-end: {}; policy {}", status.backend(),
                          status.backend_description(), status.policy()));
  line("", fmt::format("{} SMs, each {} blocks, {} threads, {} registers, {} "
                       "shared; {} blocks resident",
                       gpu.sms(), gpu.blocks_per_sm(), gpu.threads_per_sm(),
                       FormatCount(gpu.registers_per_sm()),
                       FormatBytes(gpu.shared_bytes_per_sm()),
                       gpu.resident_blocks()));
  line("devices",
       fmt::format("{} attached, {} of {} EKT entries", status.devices(),
                   status.ekt_used(), status.ekt_entries()));
  line("memory", fmt::format("{} of {}", FormatBytes(status.memory_used()),
                             FormatBytes(status.memory_bytes())));
  line("events",
       fmt::format("{} rung = {} done + {} failed + {} aborted + {} in flight",
                   FormatCount(events.rung()), FormatCount(events.done()),
                   FormatCount(events.failed()), FormatCount(events.aborted()),
                   FormatCount(testbed::InFlight(events))));
  if (events.refused() > 0) {
    line("", fmt::format("{} of the failed were bad entries",
                         FormatCount(events.refused())));
  }
  line("paths", LaunchPaths(status));
  for (const v1::LaunchPath& path : status.launch_paths()) {
    if (path.counters().empty()) continue;
    std::vector<std::string> counters;
    for (const v1::Counter& counter : path.counters()) {
      counters.push_back(
          fmt::format("{} {}", FormatCount(counter.value()), counter.name()));
    }
    line("", fmt::format("{}: {}", path.name(), fmt::join(counters, ", ")));
  }
  line("background", fmt::format("{} kernels, {} blocks",
                                 FormatCount(status.background_kernels()),
                                 FormatCount(status.background_blocks())));
  if (const std::string slices = Slices(status.slices()); !slices.empty()) {
    line("slices", slices);
  }
  if (const std::string ptb = Ptb(status.ptb()); !ptb.empty()) {
    line("ptb", ptb);
  }
  if (const v1::Launch& launch = status.longest_wait();
      !launch.kernel().empty()) {
    line("waits", fmt::format("{} of {}, priority {}, longest: {}",
                              launch.kernel(), launch.device(),
                              launch.priority(), FormatWait(launch.wait_ns())));
  }
  line("telemetry", fmt::format("{} messages, {} dropped",
                                FormatCount(status.telemetry_sent()),
                                FormatCount(status.telemetry_dropped())));
  if (!status.listen().empty()) {
    line("TCP", fmt::format("{}, with TLS: {} connections; refused: {} "
                            "connections, {} calls",
                            status.listen(), status.connections(),
                            FormatCount(status.refused_connections()),
                            FormatCount(status.refused_calls())));
  }
  if (!fates.restarted.empty()) line("restarted", JoinWords(fates.restarted));
  if (!fates.ended.empty()) {
    line("ended", console.Bad(JoinWords(fates.ended)));
  }
  if (!fates.supervisor.empty()) {
    line("supervisor", console.Bad(fates.supervisor));
  }
  return text;
}

Table LatencyTable(const v1::ListEktResponse& ekt) {
  Table table({"EVENT KERNEL", "STAGE", ">COUNT", ">P50", ">P90", ">P99",
               ">P99.9", ">MAX"});
  for (const v1::EktEntry& entry : ekt.entries()) {
    std::string name = fmt::format(
        "{} {}{}", entry.device(), entry.kernel(),
        entry.label().empty() ? "" : fmt::format(" ({})", entry.label()));
    for (const v1::Histogram& stage : entry.stages()) {
      table.AddRow(PercentileRow({std::exchange(name, ""), stage.name()},
                                 ToSnapshot(stage)));
    }
  }
  return table;
}

absl::Status Show(OpenTestbed& open, Console& console) {
  ASSIGN_OR_RETURN(const auto status, open.client->GetStatus());
  ASSIGN_OR_RETURN(const auto ekt, open.client->ListEkt());
  const Fates fates(open.testbed);
  if (console.json()) {
    console.PrintDocument(ToDocument(status, ekt, fates));
    return testbed::CheckLedger(status.events());
  }
  console.Print(Overview(status, fates, console));
  if (const Table table = LatencyTable(ekt); !table.empty()) {
    console.Print("\n");
    console.Print(table);
  } else if (!status.tracing()) {
    console.Say("tracing is off; for latencies: carillon trace on");
  }
  return testbed::CheckLedger(status.events());
}

}  // namespace

Run MakeStatus(Arguments& arguments, Console& console) {
  return MakeInspection("status", arguments, console, Show);
}

}  // namespace carillon::cli
