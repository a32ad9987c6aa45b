#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "tools/cli/commands/inspect/commands.h"
#include "tools/cli/commands/inspect/recordings_option.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/testbed/ledger/checker.h"
#include "tools/testbed/ledger/timeline_view.h"

namespace carillon::cli {
namespace {

using shm::FlightRecording;

struct Options {
  RecordingsOption recordings;
  uint32_t last = 40;
};

Json ToJson(const testbed::Timeline& timeline, uint32_t last) {
  Json processes = Json::array();
  for (const FlightRecording& recording : timeline.recordings) {
    processes.push_back({{"process", recording.name},
                         {"pid", recording.pid},
                         {"running", recording.running},
                         {"written", recording.written},
                         {"overwritten", recording.overwritten},
                         {"torn", recording.torn}});
  }
  Json rings = Json::array();
  for (const ledger::RingReport& ring : timeline.report.rings) {
    Json name;
    for (const FlightRecording& recording : timeline.recordings) {
      if (recording.name != ring.device || recording.pid != ring.pid) continue;
      if (name.is_null()) {
        name = testbed::RingJson(recording, ring.event_id, ring.generation);
      }
    }
    rings.push_back({{"device", ring.device},
                     {"pid", ring.pid},
                     {"event_id", ring.event_id},
                     {"generation", ring.generation},
                     {"ring", std::move(name)},
                     {"events", testbed::EventsJson(ring.counts)}});
  }
  Json clocks = Json::array();
  for (const shm::PeerClock& clock : timeline.clocks) {
    clocks.push_back({{"host", clock.host},
                      {"gpu_host", clock.peer},
                      {"offset_ns", clock.offset_ns},
                      {"error_ns", clock.error_ns}});
  }
  return {
      {"testbed", timeline.testbed},
      {"clocks", std::move(clocks)},
      {"verdict", ledger::VerdictName(timeline.report.verdict())},
      {"events", testbed::EventsJson(timeline.report.total)},
      {"processes", std::move(processes)},
      {"unreadable", timeline.unreadable},
      {"rings", std::move(rings)},
      {"violations", testbed::ViolationsJson(timeline)},
      {"around_first",
       testbed::StepsJson(timeline, testbed::AroundFirstViolation(timeline))},
      {"story",
       testbed::StepsJson(timeline, testbed::LastSteps(timeline, last))}};
}

void PrintVerdict(const testbed::Timeline& timeline, Console& console) {
  console.Print(testbed::EventsText(timeline) +
                testbed::FirstViolationText(timeline));
  const ledger::Verdict verdict = timeline.report.verdict();
  const std::string name(ledger::VerdictName(verdict));
  console.Print(fmt::format(
      "verdict: {}\n", verdict == ledger::Verdict::kViolated ? console.Bad(name)
                       : verdict == ledger::Verdict::kOk ? console.Good(name)
                                                         : console.Bold(name)));
}

void Print(const testbed::Timeline& timeline, uint32_t last, Console& console) {
  for (const FlightRecording& recording : timeline.recordings) {
    console.Print(fmt::format(
        "{}: {} steps{}{}{}\n", ledger::DescribeProcess(recording),
        recording.written,
        recording.overwritten == 0
            ? ""
            : fmt::format(", {} of them overwritten", recording.overwritten),
        recording.torn == 0 ? "" : fmt::format(", {} torn", recording.torn),
        recording.running ? ", still running" : ""));
  }
  for (const shm::PeerClock& clock : timeline.clocks) {
    console.Print(fmt::format(
        "times are host {}'s; the clock of host {} is {} {} it, give or take "
        "{}\n",
        clock.peer, clock.host, FormatNanoseconds(std::abs(clock.offset_ns)),
        clock.offset_ns > 0 ? "behind" : "ahead of",
        FormatNanoseconds(clock.error_ns)));
  }
  for (const std::string& sentence : timeline.unreadable) console.Say(sentence);
  console.Print(
      testbed::StepsText(timeline, testbed::LastSteps(timeline, last)));
  PrintVerdict(timeline, console);
}

absl::Status Show(const Options& options, Console& console) {
  ASSIGN_OR_RETURN(const auto timeline,
                   ReadRecordings(options.recordings, testbed::ReadTimeline));
  if (console.json()) {
    console.PrintDocument(ToJson(timeline, options.last));
  } else {
    Print(timeline, options.last, console);
  }
  switch (timeline.report.verdict()) {
    case ledger::Verdict::kOk:
      break;
    case ledger::Verdict::kViolated:
      return absl::DataLossError("");
    case ledger::Verdict::kIndeterminate:
      return absl::UnknownError("");
  }
  return absl::OkStatus();
}

}  // namespace

Run MakePostmortem(Arguments& arguments, Console& console) {
  auto options = std::make_shared<Options>();
  arguments.Number("--last", options->last, 0, 1'000'000,
                   "How many steps of the story are shown, from the end");
  AddRecordingsOption(arguments, options->recordings);
  return [options, &console] { return Show(*options, console); };
}

}  // namespace carillon::cli
