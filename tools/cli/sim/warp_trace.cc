#include "tools/cli/sim/warp_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"

namespace carillon::cli {
namespace {

using perfetto::Detail;
using perfetto::Name;
using perfetto::TraceWriter;
using perfetto::Track;
using sim::timing::Cycle;
using sim::timing::Observation;
using sim::timing::TimelineSlice;

struct Put {
  Cycle at = 0;
  Track track = Track::kNone;
  const TimelineSlice* begins = nullptr;  // null: what began last ends
};

// Puts slices that come by their beginning on one track, inside of each other.
class Lane {
 public:
  Lane(Track track, std::vector<Put>& puts) : track_(track), puts_(puts) {}

  // Whether it lies within all that are open when it begins.
  bool Nests(const TimelineSlice& slice) {
    CloseUpTo(slice.from);
    return open_.empty() || slice.to <= open_.back();
  }
  bool IsFree(Cycle at) {
    CloseUpTo(at);
    return open_.empty();
  }
  void Add(const TimelineSlice& slice) {
    CloseUpTo(slice.from);
    puts_.push_back({slice.from, track_, &slice});
    open_.push_back(slice.to);
  }
  void Close() { CloseUpTo(~Cycle{0}); }

 private:
  void CloseUpTo(Cycle at) {
    while (!open_.empty() && open_.back() <= at) {
      puts_.push_back({open_.back(), track_, nullptr});
      open_.pop_back();
    }
  }

  Track track_;
  std::vector<Put>& puts_;
  std::vector<Cycle> open_;  // their ends
};

// An event, and what it did.
struct Event {
  const TimelineSlice* whole = nullptr;
  std::vector<const TimelineSlice*> parts;
};

class WarpTrace {
 public:
  WarpTrace(uint32_t core_mhz, TraceWriter& writer)
      : core_mhz_(core_mhz), writer_(writer) {}

  void Write(const std::vector<TimelineSlice>& slices) {
    std::vector<Event> events;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<const TimelineSlice*>>
        warps;
    for (const TimelineSlice& slice : slices) {
      if (slice.sm != Observation::kNowhere) {
        warps[{slice.sm, slice.slot}].push_back(&slice);
      } else if (!slice.part) {
        events.push_back({.whole = &slice});
      } else if (slice.from != slice.to) {
        events.back().parts.push_back(&slice);
      }
    }
    AddEvents(events);
    const Track gpu = writer_.AddTrack(Track::kNone, "GPU");
    std::map<uint32_t, Track> sms;
    for (auto& [at, own] : warps) {
      const auto [sm, is_new] = sms.emplace(at.first, Track::kNone);
      if (is_new)
        sm->second = writer_.AddTrack(gpu, fmt::format("SM {}", at.first));
      AddWarps(sm->second, fmt::format("warp {}", at.second), own);
    }
    std::ranges::stable_sort(puts_, {}, &Put::at);
    for (const Put& put : puts_) WritePut(put);
  }

 private:
  void AddEvents(std::vector<Event>& events) {
    const Track parent = writer_.AddTrack(Track::kNone, "Events");
    std::ranges::stable_sort(
        events, {}, [](const Event& event) { return event.whole->from; });
    std::vector<Lane> lanes;
    for (const Event& event : events) {
      auto lane = std::ranges::find_if(
          lanes, [&](Lane& other) { return other.IsFree(event.whole->from); });
      if (lane == lanes.end()) {
        lanes.emplace_back(
            writer_.AddTrack(parent, fmt::format("lane {}", lanes.size() + 1)),
            puts_);
        lane = std::prev(lanes.end());
      }
      lane->Add(*event.whole);
      for (const TimelineSlice* part : event.parts) lane->Add(*part);
    }
    for (Lane& lane : lanes) lane.Close();
  }
  void AddWarps(Track sm, const std::string& name,
                std::vector<const TimelineSlice*>& slices) {
    std::ranges::stable_sort(
        slices, [](const TimelineSlice* a, const TimelineSlice* b) {
          return std::pair(a->from, b->to) < std::pair(b->from, a->to);
        });
    std::vector<Lane> lanes;
    for (const TimelineSlice* slice : slices) {
      auto lane = std::ranges::find_if(
          lanes, [&](Lane& other) { return other.Nests(*slice); });
      if (lane == lanes.end()) {
        const std::string further =
            fmt::format("{} ({})", name, lanes.size() + 1);
        lanes.emplace_back(writer_.AddTrack(sm, lanes.empty() ? name : further),
                           puts_);
        lane = std::prev(lanes.end());
      }
      lane->Add(*slice);
    }
    for (Lane& lane : lanes) lane.Close();
  }
  void WritePut(const Put& put) {
    // Rounding down keeps what nests nested.
    const Nanoseconds at = put.at * 1000 / core_mhz_;
    if (put.begins == nullptr) return writer_.End(put.track, at);
    const TimelineSlice& slice = *put.begins;
    const Detail details[] = {
        {.name = grid_, .number = slice.grid},
        {.name = cycle_, .number = slice.from},
        {.name = cycles_, .number = slice.to - slice.from}};
    writer_.Begin(put.track, at,
                  {.name = writer_.Intern(slice.name), .details = details});
  }

  const uint32_t core_mhz_;
  TraceWriter& writer_;
  const Name grid_ = writer_.Intern("grid");
  const Name cycle_ = writer_.Intern("cycle");
  const Name cycles_ = writer_.Intern("cycles");
  std::vector<Put> puts_;
};

}  // namespace

void WriteWarpTrace(const std::vector<TimelineSlice>& slices, uint32_t core_mhz,
                    TraceWriter& writer) {
  WarpTrace(core_mhz, writer).Write(slices);
}

}  // namespace carillon::cli
