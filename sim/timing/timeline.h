// A run of the timed GPU as slices of time: of warps in their slots, and of
// events, from their arrival to their end. Write() makes Chrome's trace events of
// them, which Perfetto and chrome://tracing show: a process for each SM with a
// track for each warp slot, and one for the events.
//
//   Timeline timeline(config);
//   Gpu gpu(config, &memory, {.observer = timeline.observer()});
//   ... timeline.Name(*gpu.Submit(launch, {}), "conv1"); gpu.Run();
//   timeline.Write(stream);
#ifndef CARILLON_SIM_TIMING_TIMELINE_H_
#define CARILLON_SIM_TIMING_TIMELINE_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "sim/timing/config.h"
#include "sim/timing/observer.h"

namespace carillon::sim::timing {

struct TimelineSlice {
  std::string name;
  uint64_t grid = 0;
  Cycle from = 0;
  Cycle to = 0;
  uint32_t sm = Observation::kNowhere;  // nowhere: of an event
  uint32_t slot = 0;
  // "wait", "flush" or "run", of the last event before that is whole.
  bool part = false;
};

// Not thread safe.
class Timeline {
 public:
  explicit Timeline(const Config& config) : core_mhz_(config.clock.core_mhz) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // For Gpu::Options; the timeline must outlive the GPU.
  Observer observer() {
    return [this](const Observation& what) { seen_.push_back(what); };
  }
  // Names a grid's warps and events; without a name it is "grid 7".
  void Name(uint64_t grid, std::string name) { names_[grid] = std::move(name); }
  size_t size() const { return seen_.size(); }

  uint32_t core_mhz() const { return core_mhz_; }
  // What has not ended ends with the last observation.
  std::vector<TimelineSlice> Slices() const;
  // Times are microseconds of the GPU; `args` has the cycles.
  void Write(std::ostream& to) const;

 private:
  std::string NameOfGrid(uint64_t grid) const;

  const uint32_t core_mhz_;
  std::vector<Observation> seen_;
  std::map<uint64_t, std::string> names_;
};

}  // namespace carillon::sim::timing

#endif  // CARILLON_SIM_TIMING_TIMELINE_H_
