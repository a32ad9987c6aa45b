// What a reader finds in a trace that shares nothing with the writer
// (perfetto_reader.py, which also checks the rules of the format).
#ifndef CARILLON_TOOLS_TESTBED_PERFETTO_TEST_TRACE_READER_H_
#define CARILLON_TOOLS_TESTBED_PERFETTO_TEST_TRACE_READER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.h"
#include "shm/recorder/flight_recorder.h"

namespace carillon::perfetto {

// Null with a failure where it is no whole trace.
inline Json ReadTrace(const std::string& path) {
  const std::string command =
      "/usr/bin/python3 tools/testbed/perfetto/perfetto_reader.py '" + path +
      "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> reader(
      popen(command.c_str(), "r"), &pclose);
  std::string text;
  char buffer[4096];
  while (const size_t got =
             std::fread(buffer, 1, sizeof(buffer), reader.get())) {
    text.append(buffer, got);
  }
  Json trace = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_TRUE(trace.is_object()) << path << " is no trace that can be read";
  return trace.is_object() ? trace : Json();
}

// The path of an element's track: "nic0/nic0 echo (a)/lane 1".
inline std::string PathOf(const Json& trace, const Json& element) {
  std::string path;
  for (const Json& name : trace["tracks"][std::to_string(
           element["track"].get<uint64_t>())]["path"]) {
    if (!path.empty()) path += "/";
    path += name.get<std::string>();
  }
  return path;
}
inline uint32_t PidOf(const Json& trace, const Json& element) {
  const Json& pid =
      trace["tracks"][std::to_string(element["track"].get<uint64_t>())]["pid"];
  return pid.is_null() ? 0 : pid.get<uint32_t>();
}
// The ring's name in PathOf().
inline std::string RingOf(const Json& trace, const Json& element) {
  const Json& path =
      trace["tracks"][std::to_string(element["track"].get<uint64_t>())]["path"];
  return path.size() > 1 ? path[1].get<std::string>() : "";
}

// Process, ring, sequence; from and until.
struct Span {
  uint32_t pid = 0;
  std::string ring;
  uint64_t sequence = 0;
  Nanoseconds from = 0;
  Nanoseconds until = 0;

  auto operator<=>(const Span&) const = default;
};

inline std::string RingText(const shm::FlightRecording& recording,
                            const shm::FlightRecord& record) {
  const shm::RingName* const name =
      recording.NameOf(record.event_id, record.generation);
  if (name == nullptr) {
    return "event " + std::to_string(record.event_id) + " (generation " +
           std::to_string(record.generation) + ")";
  }
  return name->device + " " + name->kernel + " (" +
         (name->label.empty() ? "event " + std::to_string(record.event_id)
                              : name->label) +
         ")";
}

// The events that devices have rung and taken, by their records alone. No ring
// may have been scheduled or resumed.
inline std::multiset<Span> TakenIn(
    const std::vector<shm::FlightRecording>& recordings) {
  std::multiset<Span> spans;
  for (const shm::FlightRecording& recording : recordings) {
    std::map<std::tuple<uint16_t, uint32_t, uint64_t>, Nanoseconds> rung;
    for (const shm::FlightRecord& record : recording.records) {
      const auto at = [&](uint64_t sequence) {
        return std::tuple(record.event_id, record.generation, sequence);
      };
      for (uint32_t i = 0; record.step == shm::Step::kRung && i < record.status;
           ++i) {
        rung.emplace(at(record.sequence - i), record.time_ns);
      }
      if (record.step != shm::Step::kTaken) continue;
      const auto found = rung.find(at(record.sequence));
      if (found == rung.end()) continue;
      spans.insert({recording.pid, RingText(recording, record), record.sequence,
                    found->second, record.time_ns});
    }
  }
  return spans;
}

// The events of devices in the trace that have an end.
inline std::multiset<Span> TakenIn(const Json& trace) {
  std::multiset<Span> spans;
  for (const Json& slice : trace["slices"]) {
    if (slice["depth"] != 0 || PathOf(trace, slice).starts_with("gpud/") ||
        slice["end"].is_null() || slice["args"]["end"] == "not recorded") {
      continue;
    }
    spans.insert({PidOf(trace, slice), RingOf(trace, slice),
                  slice["args"]["sequence"], slice["begin"], slice["end"]});
  }
  return spans;
}

// Checks that each flow leaves one event of a device and comes to one of gpud,
// of the same ring and sequence. Returns how many there are.
inline size_t CheckFlows(const Json& trace) {
  std::map<uint64_t, std::vector<const Json*>> from;
  std::map<uint64_t, std::vector<const Json*>> to;
  for (const char* const kind : {"slices", "instants"}) {
    for (const Json& element : trace[kind]) {
      for (const Json& flow : element["from"]) from[flow].push_back(&element);
      for (const Json& flow : element["to"]) to[flow].push_back(&element);
    }
  }
  EXPECT_EQ(from.size(), to.size());
  for (const auto& [flow, starts] : from) {
    const auto& ends = to[flow];
    if (starts.size() != 1 || ends.size() != 1) {
      ADD_FAILURE() << "flow " << flow << " leaves " << starts.size()
                    << " and comes to " << ends.size();
      continue;
    }
    const Json& start = *starts[0];
    const Json& end = *ends[0];
    EXPECT_EQ(start["args"]["sequence"], end["args"]["sequence"]);
    EXPECT_EQ(start["group"], end["group"]);
    EXPECT_EQ(RingOf(trace, start), RingOf(trace, end));
    EXPECT_FALSE(PathOf(trace, start).starts_with("gpud/"));
    EXPECT_TRUE(PathOf(trace, end).starts_with("gpud/"));
  }
  return from.size();
}

}  // namespace carillon::perfetto

#endif  // CARILLON_TOOLS_TESTBED_PERFETTO_TEST_TRACE_READER_H_
