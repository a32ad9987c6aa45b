// One run of an experiment: a background kernel on a GPU, events that arrive
// meanwhile, and measurements of both. Jobs are independent of each other, and
// the same job always gives the same result.
#ifndef CARILLON_SIM_EXPERIMENTS_JOB_H_
#define CARILLON_SIM_EXPERIMENTS_JOB_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "nlohmann/json.hpp"
#include "sim/experiments/workloads/background.h"
#include "sim/timing/config.h"
#include "sim/timing/timeline.h"

namespace carillon::sim::figures {

// Keys of a configuration with new values: {"edge.path", "warp"}.
using Overrides = std::vector<std::pair<std::string, std::string>>;

// Ticks follow each other after U(least, most) cycles. A tick rings an event,
// unless `concurrent` events are under way: then it waits until one has ended,
// and the next tick counts from there.
struct Arrivals {
  timing::Cycle least = 0;
  timing::Cycle most = 0;
  uint32_t concurrent = 1;
  // The first tick comes after U(1, most) cycles instead.
  bool any_start = false;
};

struct Job {
  std::string name;  // "fig12/CONV1/IPv4/preemption/2"
  Overrides overrides;
  std::string background;  // if empty, events run alone, one after the other
  // Per thread of the background; 0: what it asks for.
  uint32_t background_registers = 0;
  uint32_t runs = 1;  // runs of the background, one after the other
  // A background that events keep from ending is given up after so many cycles;
  // 0: that is a failure (JobControl::limit).
  timing::Cycle most_cycles = 0;
  // One of EventKernelNames(), or "null" (ends at once), "busy" (takes
  // `busy_steps` in each thread), "routine" (an interrupt's; takes as many
  // turns of its loop and launches nothing), or empty for none.
  std::string event;
  uint64_t busy_steps = 0;
  // Each tick raises an interrupt, whose routine then rings the event.
  bool interrupts = false;
  // The events take their place and registers, but end at once.
  bool skip_body = false;
  uint32_t registers = 0;  // per thread of an event; 0: what its kernel needs
  Arrivals arrivals;
  uint32_t events = 16;  // without a background
  // Persistent blocks instead of a background and events: "poll", "wait" or
  // "targeted", with `events` tasks, arrivals.least cycles apart, and an
  // interrupt for each `coalesce` of them (persistent_job.h).
  std::string persistent;
  uint32_t coalesce = 1;
  // Batches of so many frames for GNoM's kernel, beside `runs` launches of
  // GNoM's background, or none (gnom_job.h).
  uint32_t gnom_batch = 0;
  uint32_t gnom_batches = 8;  // that end after the background
  // Lengths of the keys, with how many in a hundred have each.
  std::vector<std::pair<uint32_t, uint32_t>> gnom_keys = {{16, 100}};
  uint32_t gnom_hits = 100;  // % of the GETs
  bool gnom_pings = false;   // the frames are echoed instead
  // One of PepKernels(): its blocks make room for another grid, once for each
  // of `techniques`, `launch_ns` and `progress` (preemption_job.h).
  std::string preempted;
  // Names, and keys of "preemption." with their values.
  std::vector<std::pair<std::string, Overrides>> techniques;
  std::vector<uint32_t> launch_ns;  // from the announcement to the arrival
  std::vector<uint32_t> progress;   // %, of the blocks when it is announced
  std::string gpu;  // a preset in place of the others' configuration
  Size size = Size::kFull;
  uint32_t seed = 1;
};

// Everything that the result depends on, except the program itself.
Json ToJson(const Job& job);

// Applies overrides to a configuration. Errors: InvalidArgument (an unknown
// key, or a value that it cannot have).
absl::StatusOr<timing::Config> Override(const timing::Config& config,
                                        const Overrides& overrides);

struct JobControl {
  // Another thread sets it to end the job with Cancelled.
  const std::atomic<bool>* cancelled = nullptr;
  // Receives the observations of a background with events.
  timing::Timeline* timeline = nullptr;
  // A background that takes so many cycles is taken to run for ever; the
  // longest of a figure takes a tenth.
  timing::Cycle limit = 16'000'000;
  // Receives the processor's time of the job's child processes.
  double* child_seconds = nullptr;
};

// {"cycles" (null: most_cycles passed), "launches", "warp_instructions" (of the
//  background),
//  "events": {"rung", "completed", "places": {"free": 3, ...}, "reselections",
//             "saved", and lists of cycles, one an event:
//             "scheduling": from its arrival to its first warp's start,
//             "preemption": from its victim's selection to the empty pipeline,
//                           of those that took a victim's place,
//             "turnaround": from its arrival to its end;
//             with interrupts also "routine": from the first warp of the
//             interrupt's routine to its end},
//  "statistics": totals of all SMs}
// What a job of a preempted kernel gives is in preemption_job.h.
// Errors: those of what executes, DataLoss (a wrong output), DeadlineExceeded
// (JobControl::limit).
absl::StatusOr<Json> RunJob(const Job& job, const timing::Config& config,
                            const JobControl& control = {});

}  // namespace carillon::sim::figures

#endif  // CARILLON_SIM_EXPERIMENTS_JOB_H_
