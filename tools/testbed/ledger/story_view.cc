#include "tools/testbed/ledger/story_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "shm/faults/board.h"

namespace carillon::testbed {
namespace {

using ledger::Place;
using shm::FlightRecord;
using shm::FlightRecording;

// How many records around the first violation are shown.
constexpr size_t kBefore = 12;
constexpr size_t kAfter = 4;

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

Json StepJson(const StruckStep& struck) {
  return {{"time_ns", struck.time_ns}, {"process", struck.process},
          {"pid", struck.pid},         {"step", "struck"},
          {"fault", struck.fault},     {"words", struck.words}};
}

std::vector<StruckStep> ReadStrikes(
    const TestbedPaths& paths, const std::vector<FlightRecording>& recordings) {
  const auto board = faults::Board::Open(paths.fault_board());
  if (!board.ok()) return {};
  std::map<uint32_t, faults::Fault> faults;
  for (const faults::Injected& injected : (*board)->List()) {
    faults[injected.id] = injected.fault;
  }
  std::vector<StruckStep> steps;
  for (const faults::Strike& strike : (*board)->Strikes()) {
    StruckStep step{.time_ns = strike.time_ns, .pid = strike.pid};
    for (const FlightRecording& recording : recordings) {
      if (recording.pid == strike.pid) step.process = recording.name;
    }
    const auto fault = faults.find(strike.fault_id);
    step.fault = fault == faults.end()
                     ? fmt::format("fault {}", strike.fault_id)
                     : fault->second.name;
    step.words = fmt::format("IS STRUCK by {}", step.fault);
    if (fault != faults.end()) {
      step.words +=
          fmt::format(": {}", faults::ActionName(fault->second.action));
      if (fault->second.point != faults::Point::kNone) {
        step.words +=
            fmt::format(" at {}", faults::InfoOf(fault->second.point).name);
      }
    }
    if (strike.passage != 0) {
      step.words += fmt::format(", passage {}", strike.passage);
    }
    steps.push_back(std::move(step));
  }
  std::stable_sort(
      steps.begin(), steps.end(),
      [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return steps;
}

// Calls one of the two for each step, ordered by time. Strikes before the first
// of `places` and after the last are included only at the timeline's begin and
// end.
template <class OnPlace, class OnStrike>
void Tell(const Story& story, const std::vector<Place>& places,
          OnPlace on_place, OnStrike on_strike) {
  if (places.empty() && !story.merged.empty()) return;
  auto strike = story.strikes.begin();
  if (!places.empty() && !(places.front() == story.merged.front())) {
    const auto from = RecordAt(story, places.front()).time_ns;
    while (strike != story.strikes.end() && strike->time_ns < from) ++strike;
  }
  for (const Place& place : places) {
    const auto time = RecordAt(story, place).time_ns;
    for (; strike != story.strikes.end() && strike->time_ns <= time; ++strike) {
      on_strike(*strike);
    }
    on_place(place);
  }
  if (!places.empty() && !(places.back() == story.merged.back())) return;
  for (; strike != story.strikes.end(); ++strike) on_strike(*strike);
}

}  // namespace

std::string StruckStep::ProcessWords() const {
  return process.empty() ? fmt::format("pid {}", pid)
                         : fmt::format("{} (pid {})", process, pid);
}

Story StoryOf(const std::string& testbed,
              std::vector<FlightRecording> recordings) {
  Story story{.testbed = testbed, .recordings = std::move(recordings)};
  story.merged = ledger::MergeByTime(story.recordings);
  story.report = ledger::Check(story.recordings);
  return story;
}

Story ReadStory(const std::string& testbed, const TestbedPaths& paths) {
  std::vector<std::string> unreadable;
  Story story = StoryOf(testbed, shm::ReadFlightRecordings(
                                     paths.recorder_directory(), &unreadable));
  story.unreadable = std::move(unreadable);
  story.strikes = ReadStrikes(paths, story.recordings);
  return story;
}

std::vector<Place> LastSteps(const Story& story, size_t last) {
  const std::vector<Place>& all = story.merged;
  return {all.end() - static_cast<ptrdiff_t>(std::min(last, all.size())),
          all.end()};
}

std::vector<Place> AroundFirstViolation(const Story& story) {
  if (story.report.violations.empty()) return {};
  return ledger::Around(story.merged, story.report.violations.front().at,
                        kBefore, kAfter);
}

Json EventsJson(const ledger::Counts& counts) {
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

Json ViolationsJson(const Story& story) {
  Json violations = Json::array();
  for (const ledger::Violation& violation : story.report.violations) {
    violations.push_back({{"fault", ledger::FaultName(violation.fault)},
                          {"events", violation.events},
                          {"sentence", violation.sentence},
                          {"at", StepJson(story, violation.at)}});
  }
  return violations;
}

Json StepsJson(const Story& story, const std::vector<Place>& places) {
  Json steps = Json::array();
  Tell(
      story, places,
      [&](Place place) { steps.push_back(StepJson(story, place)); },
      [&](const StruckStep& struck) { steps.push_back(StepJson(struck)); });
  return steps;
}

std::string StepsText(const Story& story, const std::vector<Place>& places) {
  size_t width = 0;
  for (const FlightRecording& recording : story.recordings) {
    width = std::max(width, ledger::ProcessWords(recording).size());
  }
  const Nanoseconds start =
      !story.merged.empty()   ? RecordAt(story, story.merged.front()).time_ns
      : story.strikes.empty() ? 0
                              : story.strikes.front().time_ns;
  std::string text;
  const auto line = [&](Nanoseconds time, const std::string& process,
                        const std::string& words) {
    const int64_t since = static_cast<int64_t>(time - start);
    text +=
        fmt::format("{:>14.6f} ms  {:<{}}  {}\n",
                    static_cast<double>(since) / 1e6, process, width, words);
  };
  Tell(
      story, places,
      [&](Place place) {
        const FlightRecord& record = RecordAt(story, place);
        line(record.time_ns,
             ledger::ProcessWords(story.recordings[place.recording]),
             ledger::Words(record));
      },
      [&](const StruckStep& struck) {
        line(struck.time_ns, struck.ProcessWords(), struck.words);
      });
  return text;
}

std::string EventsText(const Story& story) {
  const ledger::Report& report = story.report;
  const ledger::Counts& total = report.total;
  std::string text = fmt::format(
      "events: {} ok, {} failed and reported, {} lost, {} duplicated, {} "
      "unexpected, {} out of order, {} contradicted, {} indeterminate\n",
      total.ok, total.failed, total.of(ledger::Fault::kLost),
      total.of(ledger::Fault::kDuplicated),
      total.of(ledger::Fault::kUnexpected),
      total.of(ledger::Fault::kOutOfOrder),
      total.of(ledger::Fault::kContradicted), total.indeterminate());
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    if (total.unknown[i] == 0) continue;
    text += fmt::format("  {} indeterminate: {}\n", total.unknown[i],
                        ledger::UnknownSentence(ledger::Unknown(i)));
  }
  if (total.unseen != 0) {
    text += fmt::format("  {} ended by gpud's word alone\n", total.unseen);
  }
  if (total.unconfirmed != 0) {
    text += fmt::format("  {} ended by their device's word alone\n",
                        total.unconfirmed);
  }
  if (report.overwritten != 0) {
    text += fmt::format("  {} older records of devices are overwritten\n",
                        report.overwritten);
  }
  return text;
}

std::string FirstViolationText(const Story& story) {
  const ledger::Report& report = story.report;
  if (report.violations.empty()) return "";
  std::string text = fmt::format("first violation, {}: {}\n",
                                 ledger::FaultName(report.violations[0].fault),
                                 report.violations[0].sentence);
  text += StepsText(story, AroundFirstViolation(story));
  if (report.violations.size() > 1) {
    text += fmt::format("and {} more: -o json lists them\n",
                        report.violations.size() - 1);
  }
  return text;
}

}  // namespace carillon::testbed
