#include "sim/timing/timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace carillon::sim::timing {
namespace {

using What = Observation::What;

constexpr uint32_t kEvents = 0;  // the process of events

uint32_t ProcessOf(uint32_t sm) { return sm + 1; }
uint32_t TrackOf(uint32_t slot) { return slot + 1; }

// Writes the elements of one array, a line each.
class TraceWriter {
 public:
  TraceWriter(std::ostream& to, uint32_t core_mhz)
      : to_(to), core_mhz_(core_mhz) {
    to_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  }
  void Finish() { to_ << "\n]}\n"; }

  void NameProcess(uint32_t process, const std::string& name) {
    Put({{"ph", "M"},
         {"name", "process_name"},
         {"pid", process},
         {"args", {{"name", name}}}});
    Put({{"ph", "M"},
         {"name", "process_sort_index"},
         {"pid", process},
         {"args", {{"sort_index", process}}}});
  }
  void NameTrack(uint32_t process, uint32_t track, const std::string& name) {
    Put({{"ph", "M"},
         {"name", "thread_name"},
         {"pid", process},
         {"tid", track},
         {"args", {{"name", name}}}});
  }
  void Slice(const TimelineSlice& slice) {
    if (slice.sm == Observation::kNowhere) return EventSlice(slice);
    const Cycle cycles = slice.to - slice.from;
    Put({{"ph", "X"},
         {"name", slice.name},
         {"pid", ProcessOf(slice.sm)},
         {"tid", TrackOf(slice.slot)},
         {"ts", Microseconds(slice.from)},
         {"dur", Microseconds(cycles)},
         {"args",
          {{"grid", slice.grid}, {"cycle", slice.from}, {"cycles", cycles}}}});
  }

 private:
  // Those of events may overlap.
  void EventSlice(const TimelineSlice& slice) {
    const auto half = [&](std::string_view phase, Cycle at) {
      Put({{"ph", phase},
           {"cat", "event"},
           {"name", slice.name},
           {"id", slice.grid},
           {"pid", kEvents},
           {"tid", 0},
           {"ts", Microseconds(at)},
           {"args", {{"cycle", at}}}});
    };
    half("b", slice.from);
    half("e", slice.to);
  }
  void Put(const Json& event) {
    to_ << std::exchange(separator_, ",\n") << event.dump();
  }
  double Microseconds(Cycle cycle) const {
    return static_cast<double>(cycle) / core_mhz_;
  }

  std::ostream& to_;
  const uint32_t core_mhz_;
  const char* separator_ = "\n";
};

struct Open {
  uint64_t grid = 0;
  Cycle since = 0;
};

// The life of an event; kNever: not, or not yet.
struct EventLife {
  Cycle arrived = kNever;
  Cycle selected = kNever;
  Cycle flushed = kNever;
  Cycle launched = kNever;
  std::vector<std::pair<uint32_t, uint32_t>> victims;  // SM and slot
};

}  // namespace

std::string Timeline::NameOfGrid(uint64_t grid) const {
  const auto found = names_.find(grid);
  return found == names_.end() ? fmt::format("grid {}", grid) : found->second;
}

void Timeline::Write(std::ostream& to) const {
  TraceWriter writer(to, core_mhz_);
  writer.NameProcess(kEvents, "Events");
  std::set<std::pair<uint32_t, uint32_t>> tracks;
  for (const Observation& seen : seen_) {
    if (seen.what == What::kWarpStart) tracks.emplace(seen.sm, seen.slot);
  }
  std::optional<uint32_t> last;
  for (const auto& [sm, slot] : tracks) {
    if (last != sm) writer.NameProcess(ProcessOf(sm), fmt::format("SM {}", sm));
    last = sm;
    writer.NameTrack(ProcessOf(sm), TrackOf(slot),
                     fmt::format("warp {}", slot));
  }

  for (const TimelineSlice& slice : Slices()) writer.Slice(slice);
  writer.Finish();
}

std::vector<TimelineSlice> Timeline::Slices() const {
  std::vector<TimelineSlice> slices;
  const auto add_warp = [&](const std::string& name,
                            std::pair<uint32_t, uint32_t> at, Cycle from,
                            Cycle to, uint64_t grid) {
    slices.push_back({.name = name,
                      .grid = grid,
                      .from = from,
                      .to = to,
                      .sm = at.first,
                      .slot = at.second});
  };
  const Cycle end = seen_.empty() ? 0 : seen_.back().cycle;
  // An event's warp lies on top of its victim's.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Open>> warps;
  std::map<uint64_t, EventLife> events;
  const auto end_event = [&](uint64_t grid, const EventLife& life, Cycle at) {
    const Cycle launched = std::min(life.launched, at);
    const auto add = [&](const std::string& name, Cycle from, Cycle to) {
      slices.push_back({.name = name, .grid = grid, .from = from, .to = to});
    };
    const auto add_part = [&](const std::string& name, Cycle from, Cycle to) {
      add(name, from, to);
      slices.back().part = true;
    };
    add(NameOfGrid(grid), life.arrived, at);
    add_part("wait", life.arrived, std::min(life.selected, launched));
    if (life.selected != kNever) {
      add_part("flush", life.selected, std::min(life.flushed, launched));
    }
    if (life.launched != kNever) add_part("run", launched, at);
  };
  for (const Observation& seen : seen_) {
    const std::pair at(seen.sm, seen.slot);
    switch (seen.what) {
      case What::kBlockStart:
      case What::kBlockEnd:
        break;
      case What::kWarpStart:
        warps[at].push_back({seen.grid, seen.cycle});
        break;
      case What::kWarpEnd: {
        std::vector<Open>& open = warps[at];
        const auto found = std::find_if(
            open.rbegin(), open.rend(),
            [&](const Open& warp) { return warp.grid == seen.grid; });
        if (found == open.rend()) break;
        add_warp(NameOfGrid(seen.grid), at, found->since, seen.cycle,
                 seen.grid);
        open.erase(std::next(found).base());
        break;
      }
      case What::kEventArrive:
        events[seen.grid].arrived = seen.cycle;
        break;
      case What::kEventSelect:
        events[seen.grid].selected = seen.cycle;
        events[seen.grid].victims.push_back(at);
        break;
      case What::kEventFlush:
        events[seen.grid].flushed = seen.cycle;
        for (const auto& victim : events[seen.grid].victims) {
          add_warp("flush", victim, events[seen.grid].selected, seen.cycle,
                   seen.grid);
        }
        events[seen.grid].victims.clear();
        break;
      case What::kEventLaunch:
        events[seen.grid].launched = seen.cycle;
        break;
      case What::kEventRestore:
        break;
      case What::kEventComplete: {
        const auto found = events.find(seen.grid);
        if (found == events.end()) break;
        end_event(seen.grid, found->second, seen.cycle);
        events.erase(found);
        break;
      }
    }
  }
  for (const auto& [at, open] : warps) {
    for (const Open& warp : open) {
      add_warp(NameOfGrid(warp.grid), at, warp.since, end, warp.grid);
    }
  }
  for (const auto& [grid, life] : events) {
    if (life.arrived != kNever) end_event(grid, life, end);
  }
  return slices;
}

}  // namespace carillon::sim::timing
