#include "tools/testbed/ledger/timeline_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/log/log_line.h"
#include "shm/faults/board.h"

namespace carillon::testbed {
namespace {

using ledger::RecordRef;
using shm::FlightRecord;
using shm::FlightRecording;

// How many records around the first violation are shown.
constexpr size_t kBefore = 12;
constexpr size_t kAfter = 4;
// Steps are less than a microsecond apart.
constexpr int kFractionDigits = 9;

const FlightRecord& RecordAt(const Timeline& timeline, RecordRef place) {
  return timeline.recordings[place.recording].records[place.record];
}

Json StepJson(const Timeline& timeline, RecordRef place) {
  const FlightRecording& recording = timeline.recordings[place.recording];
  const FlightRecord& record = RecordAt(timeline, place);
  return {{"time_ns", record.time_ns},
          {"wall_time_ns", record.time_ns + timeline.realtime_offset_ns},
          {"process", recording.name},
          {"pid", recording.pid},
          {"step", shm::StepName(record.step)},
          {"event_id", record.event_id},
          {"generation", record.generation},
          {"ring", RingJson(recording, record.event_id, record.generation)},
          {"sequence", record.sequence},
          {"state", static_cast<uint32_t>(record.state)},
          {"status", record.status},
          {"words", ledger::Describe(recording, record)}};
}

Json StepJson(const Timeline& timeline, const StruckStep& struck) {
  return {{"time_ns", struck.time_ns},
          {"wall_time_ns", struck.time_ns + timeline.realtime_offset_ns},
          {"process", struck.process},
          {"pid", struck.pid},
          {"step", "struck"},
          {"fault", struck.fault},
          {"words", struck.words}};
}

// One for all processes, whose clocks are the same: with offsets of their own,
// steps a microsecond apart could change places.
uint64_t RealtimeOffset(const std::vector<FlightRecording>& recordings) {
  const FlightRecording* best = nullptr;
  const auto rank = [](const FlightRecording& recording) {
    return std::pair(recording.name == "gpud", recording.made_ns);
  };
  for (const FlightRecording& recording : recordings) {
    if (best == nullptr || rank(*best) < rank(recording)) best = &recording;
  }
  return best != nullptr ? best->realtime_offset_ns : RealtimeNs() - NowNs();
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
  std::ranges::stable_sort(steps, {}, &StruckStep::time_ns);
  return steps;
}

// Calls one of the two for each step, ordered by time. Strikes before the first
// of `places` and after the last are included only at the timeline's begin and
// end.
template <class OnPlace, class OnStrike>
void Tell(const Timeline& timeline, const std::vector<RecordRef>& places,
          OnPlace on_place, OnStrike on_strike) {
  if (places.empty() && !timeline.merged.empty()) return;
  auto strike = timeline.strikes.begin();
  if (!places.empty() && !(places.front() == timeline.merged.front())) {
    const auto from = RecordAt(timeline, places.front()).time_ns;
    while (strike != timeline.strikes.end() && strike->time_ns < from) ++strike;
  }
  for (const RecordRef& place : places) {
    const auto time = RecordAt(timeline, place).time_ns;
    for (; strike != timeline.strikes.end() && strike->time_ns <= time;
         ++strike) {
      on_strike(*strike);
    }
    on_place(place);
  }
  if (!places.empty() && !(places.back() == timeline.merged.back())) return;
  for (; strike != timeline.strikes.end(); ++strike) on_strike(*strike);
}

void Judge(Timeline& timeline) {
  timeline.merged = ledger::MergeByTime(timeline.recordings);
  timeline.report = ledger::Check(timeline.recordings);
}

}  // namespace

std::string StruckStep::DescribeProcess() const {
  return process.empty() ? fmt::format("pid {}", pid)
                         : fmt::format("{} (pid {})", process, pid);
}

Timeline TimelineOf(const std::string& testbed,
                    std::vector<FlightRecording> recordings) {
  Timeline timeline{.testbed = testbed, .recordings = std::move(recordings)};
  timeline.realtime_offset_ns = RealtimeOffset(timeline.recordings);
  Judge(timeline);
  return timeline;
}

Timeline ReadSteps(const std::string& testbed, const TestbedPaths& paths) {
  Timeline timeline{.testbed = testbed};
  timeline.recordings = shm::ReadFlightRecordings(paths.recorder_directory(),
                                                  &timeline.unreadable);
  timeline.realtime_offset_ns = RealtimeOffset(timeline.recordings);
  timeline.strikes = ReadStrikes(paths, timeline.recordings);
  return timeline;
}

Timeline ReadTimeline(const std::string& testbed, const TestbedPaths& paths) {
  Timeline timeline = ReadSteps(testbed, paths);
  Judge(timeline);
  return timeline;
}

Json RingJson(const FlightRecording& recording, uint16_t event_id,
              uint32_t generation) {
  const shm::RingName* const name = recording.NameOf(event_id, generation);
  if (name == nullptr) return nullptr;
  return {{"device", name->device},
          {"kernel", name->kernel},
          {"label", name->label}};
}

std::vector<RecordRef> LastSteps(const Timeline& timeline, size_t last) {
  const std::vector<RecordRef>& all = timeline.merged;
  return {all.end() - static_cast<ptrdiff_t>(std::min(last, all.size())),
          all.end()};
}

std::vector<RecordRef> AroundFirstViolation(const Timeline& timeline) {
  if (timeline.report.violations.empty()) return {};
  return ledger::RecordsAround(
      timeline.merged, timeline.report.violations.front().at, kBefore, kAfter);
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
  json["untaken"] = counts.untaken;
  json["unconfirmed"] = counts.unconfirmed;
  return json;
}

Json ViolationsJson(const Timeline& timeline) {
  Json violations = Json::array();
  for (const ledger::Violation& violation : timeline.report.violations) {
    violations.push_back({{"fault", ledger::FaultName(violation.fault)},
                          {"events", violation.events},
                          {"sentence", violation.sentence},
                          {"at", StepJson(timeline, violation.at)}});
  }
  return violations;
}

Json StepsJson(const Timeline& timeline, const std::vector<RecordRef>& places) {
  Json steps = Json::array();
  Tell(
      timeline, places,
      [&](RecordRef place) { steps.push_back(StepJson(timeline, place)); },
      [&](const StruckStep& struck) {
        steps.push_back(StepJson(timeline, struck));
      });
  return steps;
}

std::string StepsText(const Timeline& timeline,
                      const std::vector<RecordRef>& places) {
  size_t width = 0;
  for (const FlightRecording& recording : timeline.recordings) {
    width = std::max(width, ledger::DescribeProcess(recording).size());
  }
  std::string text;
  const auto line = [&](Nanoseconds time, const std::string& process,
                        const std::string& words) {
    text += fmt::format(
        "{}  {:<{}}  {}\n",
        FormatLogTime(time + timeline.realtime_offset_ns, kFractionDigits),
        process, width, words);
  };
  Tell(
      timeline, places,
      [&](RecordRef place) {
        const FlightRecord& record = RecordAt(timeline, place);
        const FlightRecording& recording = timeline.recordings[place.recording];
        line(record.time_ns, ledger::DescribeProcess(recording),
             ledger::Describe(recording, record));
      },
      [&](const StruckStep& struck) {
        line(struck.time_ns, struck.DescribeProcess(), struck.words);
      });
  return text;
}

std::string EventsText(const Timeline& timeline) {
  const ledger::Report& report = timeline.report;
  const ledger::Counts& total = report.total;
  std::string text = fmt::format(
      "events: {} ok, {} failed and reported, {} lost, {} duplicated, {} "
      "unexpected, {} out of order, {} contradicted, {} wrong, {} "
      "indeterminate\n",
      total.ok, total.failed, total.of(ledger::Fault::kLost),
      total.of(ledger::Fault::kDuplicated),
      total.of(ledger::Fault::kUnexpected),
      total.of(ledger::Fault::kOutOfOrder),
      total.of(ledger::Fault::kContradicted), total.of(ledger::Fault::kWrong),
      total.indeterminate());
  for (size_t i = 0; i < ledger::kUnknowns; ++i) {
    if (total.unknown[i] == 0) continue;
    text += fmt::format("  {} indeterminate: {}\n", total.unknown[i],
                        ledger::UnknownSentence(ledger::Unknown(i)));
  }
  for (const auto& [number, what] :
       {std::pair(total.untaken,
                  "found by their devices at the end, and never taken"),
        std::pair(total.unconfirmed, "ended by their device's word alone"),
        std::pair(report.overwritten,
                  "older records of devices are overwritten")}) {
    if (number != 0) text += fmt::format("  {} {}\n", number, what);
  }
  return text;
}

std::string FirstViolationText(const Timeline& timeline) {
  const ledger::Report& report = timeline.report;
  if (report.violations.empty()) return "";
  std::string text = fmt::format("first violation, {}: {}\n",
                                 ledger::FaultName(report.violations[0].fault),
                                 report.violations[0].sentence);
  text += StepsText(timeline, AroundFirstViolation(timeline));
  if (report.violations.size() > 1) {
    text += fmt::format("and {} more: -o json lists them\n",
                        report.violations.size() - 1);
  }
  return text;
}

}  // namespace carillon::testbed
