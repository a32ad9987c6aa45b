#include "tools/dashboard/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shm/faults/fault.h"
#include "tools/cli/ui/proto_json.h"

namespace carillon::dashboard {
namespace {

constexpr size_t kShownStrikes = 50;

Json ToJson(const std::optional<ExitReport>& exit) {
  if (!exit) return nullptr;
  return exit->ToString();
}

Json Processes(const Sight& sight) {
  Json processes = Json::array();
  if (!sight.state) return processes;
  for (const testbed::ProcessRecord& record : sight.state->processes) {
    std::string state = testbed::ToText(record.state);
    const auto found = sight.facts.find(record.name);
    const testbed::ProcessFacts* const facts =
        found == sight.facts.end() ? nullptr : &found->second;
    if (record.exit) {
      state = record.given_up ? "given up" : "ended";
    } else if (facts == nullptr) {
      state = sight.supervised ? "ending" : "dead";
    } else if (facts->state == 'T' || facts->state == 't') {
      state = "stopped";
    }
    processes.push_back({{"name", record.name},
                         {"kind", record.kind},
                         {"state", state},
                         {"pid", record.identity.pid},
                         {"exit", ToJson(record.exit)},
                         {"restarts", record.restarts},
                         {"last_exit", ToJson(record.last_exit)},
                         {"cpu_ns", facts ? facts->cpu_ns : 0},
                         {"resident_bytes", facts ? facts->resident_bytes : 0},
                         {"note", record.note}});
  }
  return processes;
}

Json Devices(const Sight& sight) {
  Json devices = Json::array();
  for (const auto& [id, device] : sight.snapshot.devices()) {
    Json counters = Json::array();
    for (const v1::Counter& counter : device.counters()) {
      counters.push_back(
          {{"name", counter.name()}, {"value", counter.value()}});
    }
    devices.push_back({{"device_id", id},
                       {"name", device.name()},
                       {"kind", device.kind()},
                       {"pid", device.pid()},
                       {"state", device.state()},
                       {"note", device.note()},
                       {"silent_ns", device.silent_ns()},
                       {"counters", std::move(counters)}});
  }
  return devices;
}

// Of the event that ended last; null: it was not traced.
Json ToJson(const v1::EventLife& life) {
  if (life.sequence() == 0 || life.rung_ns() == 0) return nullptr;
  return {{"sequence", life.sequence()},
          {"rung_ns", life.rung_ns()},
          {"seen_ns", life.seen_ns()},
          {"queued_ns", life.queued_ns()},
          {"dispatched_ns", life.dispatched_ns()},
          {"finished_ns", life.finished_ns()}};
}

Json Rings(const Sight& sight) {
  Json rings = Json::array();
  for (const auto& [index, event] : sight.snapshot.event_kernels()) {
    const v1::EventCounts& counts = event.entry.counts();
    Json ring = {{"ekt_index", index},
                 {"device", event.ring.device()},
                 {"event_id", event.ring.event_id()},
                 {"generation", event.ring.generation()},
                 {"kernel", event.ring.kernel()},
                 {"label", event.ring.label()},
                 {"launch_path", event.entry.launch_path()},
                 {"priority", event.entry.priority()},
                 {"entries", event.ring.entries()},
                 {"doorbell", event.ring.doorbell()},
                 {"launched", event.ring.launched()},
                 {"completed", event.ring.completed()},
                 {"consumed", event.ring.consumed()},
                 {"peak", event.peak},
                 {"counts",
                  {{"rung", counts.rung()},
                   {"done", counts.done()},
                   {"failed", counts.failed()},
                   {"aborted", counts.aborted()},
                   {"refused", counts.refused()}}}};
    const auto rate = sight.rates.find(index);
    ring["rate"] =
        rate == sight.rates.end() ? Json(nullptr) : Json(rate->second);
    const auto latency = sight.latencies.find(index);
    const bool traced = latency != sight.latencies.end();
    ring["p50_ns"] = traced ? Json(latency->second.p50_ns) : Json(nullptr);
    ring["p99_ns"] = traced ? Json(latency->second.p99_ns) : Json(nullptr);
    ring["life"] = ToJson(event.life);
    rings.push_back(std::move(ring));
  }
  return rings;
}

void AddBoard(const Sight& sight, Json* json) {
  Json& document = *json;
  document["board"] = sight.board.has_value();
  document["struck"] = sight.board ? sight.board->struck : 0;
  document["faults"] = Json::array();
  document["strikes"] = Json::array();
  if (!sight.board) return;
  std::map<uint32_t, std::string> names;
  for (const faults::Injected& injected : sight.board->faults) {
    names[injected.id] = injected.fault.name;
    document["faults"].push_back(testbed::ToJson(injected));
  }
  const auto& strikes = sight.board->strikes;
  for (size_t i = strikes.size() - std::min(strikes.size(), kShownStrikes);
       i < strikes.size(); ++i) {
    document["strikes"].push_back({{"time_ns", strikes[i].time_ns},
                                   {"fault", names[strikes[i].fault_id]},
                                   {"pid", strikes[i].pid},
                                   {"passage", strikes[i].passage}});
  }
}

}  // namespace

const char* ToText(GpudState state) {
  static constexpr const char* kTexts[] = {"live", "silent", "gone"};
  return kTexts[static_cast<size_t>(state)];
}

Json PictureToJson(const Sight& sight) {
  Json json = {
      {"testbed", sight.testbed},
      {"time_ns", sight.time_ns},
      {"monotonic_ns", sight.snapshot.monotonic_ns()},
      {"gpud", {{"state", ToText(sight.gpud)}, {"note", sight.gpud_note}}},
      {"supervisor",
       {{"up", sight.supervised},
        {"phase",
         sight.state ? Json(testbed::ToText(sight.state->phase)) : nullptr}}},
      {"totals", cli::ToJson(sight.snapshot.totals())},
      {"queues", Json::array()},
      {"processes", Processes(sight)},
      {"devices", Devices(sight)},
      {"rings", Rings(sight)},
      {"recorded", sight.recorded}};
  for (const v1::Queue& queue : sight.snapshot.queues()) {
    json["queues"].push_back(cli::ToJson(queue));
  }
  AddBoard(sight, &json);
  return json;
}

Json PictureForHistory(const Sight& sight, const Peaks& peaks) {
  const v1::EventCounts& events = sight.snapshot.totals().events();
  Json json = {
      {"time_ns", sight.time_ns},
      {"gpud", ToText(sight.gpud)},
      {"events",
       {events.rung(), events.done(), events.failed(), events.aborted()}},
      {"rings", Json::array()},
      {"struck", sight.board ? sight.board->struck : 0}};
  for (const auto& [index, event] : sight.snapshot.event_kernels()) {
    const v1::Ring& ring = event.ring;
    const auto peak = peaks.find({ring.device(), ring.event_id()});
    json["rings"].push_back({ring.device(), ring.event_id(), ring.doorbell(),
                             ring.launched(), ring.completed(), ring.consumed(),
                             peak == peaks.end() ? 0 : peak->second,
                             ring.generation()});
  }
  return json;
}

}  // namespace carillon::dashboard
