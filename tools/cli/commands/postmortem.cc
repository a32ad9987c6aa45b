#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tools/cli/commands.h"
#include "tools/cli/testbed/directory.h"
#include "tools/cli/testbed/testbeds.h"
#include "tools/cli/ui/exit_code.h"
#include "tools/cli/ui/text.h"
#include "tools/ledger/checker.h"

namespace carillon::cli {
namespace {

using ledger::Place;
using shm::FlightRecord;
using shm::FlightRecording;

// Of the story around the first violation.
constexpr size_t kBefore = 12;
constexpr size_t kAfter = 4;

struct Options {
  std::string testbed;
  std::string directory;
  uint32_t last = 40;
};

struct Story {
  std::string testbed;
  std::vector<FlightRecording> recordings;
  std::vector<std::string> unreadable;
  std::vector<Place> merged;
  ledger::Report report;
};

absl::StatusOr<Story> ReadStory(const Options& options) {
  Story story;
  std::optional<TestbedPaths> paths;
  if (!options.directory.empty()) {
    paths.emplace(options.directory);
    story.testbed = options.directory;
  } else {
    const auto testbed = FindTestbed(options.testbed);
    if (!testbed.ok()) return testbed.status();
    paths.emplace(testbed->paths);
    story.testbed = testbed->name;
  }
  story.recordings =
      shm::ReadFlightRecordings(paths->recorder_directory(), &story.unreadable);
  if (story.recordings.empty()) {
    return WithHint(
        absl::NotFoundError(fmt::format(
            "nothing was recorded in {}{}", paths->recorder_directory(),
            story.unreadable.empty()
                ? ""
                : "; unreadable: " + JoinWords(story.unreadable))),
        "record with `record: 4096` in the topology, or with CARILLON_RECORD "
        "in the environment of `carillon up`; `down` removes recordings");
  }
  story.merged = ledger::MergeByTime(story.recordings);
  story.report = ledger::Check(story.recordings);
  return story;
}

const FlightRecord& RecordAt(const Story& story, Place place) {
  return story.recordings[place.recording].records[place.record];
}

Json StepJson(const Story& story, Place place) {
  const FlightRecording& recording = story.recordings[place.recording];
  const FlightRecord& record = RecordAt(story, place);
  return {{"time_ns", record.time_ns},
          {"process", recording.name},
          {"pid", recording.pid},
          {"step", shm::StepName(record.step)},
          {"event_id", record.event_id},
          {"generation", record.generation},
          {"sequence", record.sequence},
          {"state", static_cast<uint32_t>(record.state)},
          {"status", record.status},
          {"words", ledger::Words(record)}};
}

Json StepsJson(const Story& story, const std::vector<Place>& places) {
  Json steps = Json::array();
  for (const Place& place : places) steps.push_back(StepJson(story, place));
  return steps;
}

Json CountsJson(const ledger::Counts& counts) {
  Json json = {{"ok", counts.ok}, {"failed", counts.failed}};
  for (size_t i = 0; i < ledger::kFaults; ++i) {
    json[ledger::FaultName(ledger::Fault(i))] = counts.faults[i];
  }
  Json unknown = Json::object();
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    unknown[ledger::UnknownName(ledger::Unknown(i))] = counts.unknown[i];
  }
  json["indeterminate"] = std::move(unknown);
  json["unseen"] = counts.unseen;
  json["unconfirmed"] = counts.unconfirmed;
  return json;
}

std::vector<Place> Last(const Story& story, size_t last) {
  const std::vector<Place>& all = story.merged;
  return {all.end() - std::min(last, all.size()), all.end()};
}

std::vector<Place> AroundFirstViolation(const Story& story) {
  if (story.report.violations.empty()) return {};
  return ledger::Around(story.merged, story.report.violations.front().at,
                        kBefore, kAfter);
}

Json ToJson(const Story& story, uint32_t last) {
  Json processes = Json::array();
  for (const FlightRecording& recording : story.recordings) {
    processes.push_back({{"process", recording.name},
                         {"pid", recording.pid},
                         {"running", recording.running},
                         {"written", recording.written},
                         {"overwritten", recording.overwritten},
                         {"torn", recording.torn}});
  }
  Json rings = Json::array();
  for (const ledger::RingReport& ring : story.report.rings) {
    rings.push_back({{"device", ring.device},
                     {"pid", ring.pid},
                     {"event_id", ring.event_id},
                     {"generation", ring.generation},
                     {"events", CountsJson(ring.counts)}});
  }
  Json violations = Json::array();
  for (const ledger::Violation& violation : story.report.violations) {
    violations.push_back({{"fault", ledger::FaultName(violation.fault)},
                          {"events", violation.events},
                          {"sentence", violation.sentence},
                          {"at", StepJson(story, violation.at)}});
  }
  return {{"testbed", story.testbed},
          {"verdict", ledger::VerdictName(story.report.verdict())},
          {"events", CountsJson(story.report.total)},
          {"processes", std::move(processes)},
          {"unreadable", story.unreadable},
          {"rings", std::move(rings)},
          {"violations", std::move(violations)},
          {"around_first", StepsJson(story, AroundFirstViolation(story))},
          {"story", StepsJson(story, Last(story, last))}};
}

void PrintSteps(const Story& story, const std::vector<Place>& places,
                Console& console) {
  if (places.empty()) return;
  size_t width = 0;
  for (const FlightRecording& recording : story.recordings) {
    width = std::max(width, ledger::ProcessWords(recording).size());
  }
  const shm::Nanoseconds start = RecordAt(story, story.merged.front()).time_ns;
  for (const Place& place : places) {
    const FlightRecord& record = RecordAt(story, place);
    const int64_t since = static_cast<int64_t>(record.time_ns - start);
    console.Print(fmt::format(
        "{:>14.6f} ms  {:<{}}  {}\n", static_cast<double>(since) / 1e6,
        ledger::ProcessWords(story.recordings[place.recording]), width,
        ledger::Words(record)));
  }
}

void PrintVerdict(const Story& story, Console& console) {
  const ledger::Report& report = story.report;
  const ledger::Counts& total = report.total;
  console.Print(fmt::format(
      "events: {} ok, {} failed and reported, {} lost, {} duplicated, {} "
      "unexpected, {} out of order, {} contradicted, {} indeterminate\n",
      total.ok, total.failed, total.of(ledger::Fault::kLost),
      total.of(ledger::Fault::kDuplicated),
      total.of(ledger::Fault::kUnexpected),
      total.of(ledger::Fault::kOutOfOrder),
      total.of(ledger::Fault::kContradicted), total.indeterminate()));
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    if (total.unknown[i] == 0) continue;
    console.Print(fmt::format("  {} indeterminate: {}\n", total.unknown[i],
                              ledger::UnknownSentence(ledger::Unknown(i))));
  }
  if (total.unseen != 0) {
    console.Print(
        fmt::format("  {} ended by gpud's word alone\n", total.unseen));
  }
  if (total.unconfirmed != 0) {
    console.Print(fmt::format("  {} ended by their device's word alone\n",
                              total.unconfirmed));
  }
  if (report.overwritten != 0) {
    console.Print(fmt::format("  {} older records of devices are overwritten\n",
                              report.overwritten));
  }
  if (!report.violations.empty()) {
    console.Print(fmt::format("first violation, {}: {}\n",
                              ledger::FaultName(report.violations[0].fault),
                              report.violations[0].sentence));
    PrintSteps(story, AroundFirstViolation(story), console);
    if (report.violations.size() > 1) {
      console.Print(fmt::format("and {} more: -o json lists them\n",
                                report.violations.size() - 1));
    }
  }
  const std::string verdict(ledger::VerdictName(report.verdict()));
  console.Print(fmt::format(
      "verdict: {}\n",
      report.verdict() == ledger::Verdict::kViolated ? console.Bad(verdict)
      : report.verdict() == ledger::Verdict::kOk     ? console.Good(verdict)
                                                     : console.Bold(verdict)));
}

void Print(const Story& story, uint32_t last, Console& console) {
  for (const FlightRecording& recording : story.recordings) {
    console.Print(fmt::format(
        "{}: {} steps{}{}{}\n", ledger::ProcessWords(recording),
        recording.written,
        recording.overwritten == 0
            ? ""
            : fmt::format(", {} of them overwritten", recording.overwritten),
        recording.torn == 0 ? "" : fmt::format(", {} torn", recording.torn),
        recording.running ? ", still running" : ""));
  }
  for (const std::string& sentence : story.unreadable) console.Say(sentence);
  PrintSteps(story, Last(story, last), console);
  PrintVerdict(story, console);
}

absl::Status Show(const Options& options, Console& console) {
  const auto story = ReadStory(options);
  if (!story.ok()) return story.status();
  if (console.json()) {
    console.PrintDocument(ToJson(*story, options.last));
  } else {
    Print(*story, options.last, console);
  }
  switch (story->report.verdict()) {
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
  AddNameOption(arguments, options->testbed);
  arguments
      .Text("--dir", options->directory,
            "The directory of a testbed, or a copy of it")
      .Placeholder("DIR")
      .Excludes("--name");
  AddOutputOption(arguments, console);
  return [options, &console] { return Show(*options, console); };
}

}  // namespace carillon::cli
