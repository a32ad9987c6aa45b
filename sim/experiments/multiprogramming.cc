#include "sim/experiments/multiprogramming.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "fmt/format.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

std::string SeedPart(uint32_t more_seed) {
  return more_seed == 0 ? "" : fmt::format("/{}", more_seed);
}

std::string NameOf(const Mix& mix) {
  return JobName("mix/{}/{}/{}/{}/{}{}", mix.rate.name, mix.beside.background,
                 mix.beside.registers, mix.event, mix.way.name,
                 SeedPart(mix.more_seed));
}
std::string BackgroundAlone(const Mix& mix) {
  return fmt::format("alone/{}/{}{}", mix.beside.background,
                     mix.beside.registers, SeedPart(mix.more_seed));
}
std::string EventAlone(const Mix& mix) {
  return fmt::format("alone/{}{}", mix.event, SeedPart(mix.more_seed));
}

void AddOnce(Job job, std::vector<Job>* jobs) {
  if (std::ranges::find(*jobs, job.name, &Job::name) == jobs->end()) {
    jobs->push_back(std::move(job));
  }
}

}  // namespace

Mix MixAt(const Rate& rate, std::string_view background, std::string_view event,
          const Way& way, uint32_t layer_registers, uint32_t more_seed) {
  return {rate,
          BesideAt(background,
                   way.shares_sms() ? layer_registers : kLayerRegisters[0]),
          event, way, more_seed};
}

void AddJobs(const Mix& mix, const ExperimentOptions& options,
             std::vector<Job>* jobs) {
  const auto make = [&](std::string name) {
    Job job = MakeJob(std::move(name), options);
    job.seed = options.seed + mix.more_seed;
    return job;
  };
  Job background = make(BackgroundAlone(mix));
  background.background = mix.beside.background;
  background.background_registers = mix.beside.registers;
  AddOnce(std::move(background), jobs);

  Job event = make(EventAlone(mix));
  event.event = mix.event;
  AddOnce(std::move(event), jobs);

  Job job = make(NameOf(mix));
  job.background = mix.beside.background;
  job.background_registers = mix.beside.registers;
  job.event = mix.event;
  job.registers = EventRegisters(mix.event);
  job.arrivals = mix.event == "IPv4" || mix.event == "IPv6"
                     ? mix.rate.short_events
                     : mix.rate.long_events;
  job.arrivals.any_start = mix.more_seed != 0;
  job.overrides.emplace_back("edge.path", mix.way.path);
  if (mix.way.reserve_sms != 0) {
    job.overrides.emplace_back(
        "edge.reserve_sms",
        options.quick ? "1" : std::to_string(mix.way.reserve_sms));
  }
  if (mix.way.spread) job.overrides.emplace_back("dispatch.event_turn", "own");
  if (mix.way.dynamic_load != 0) {
    job.overrides.emplace_back("edge.reservation", "dynamic");
    job.overrides.emplace_back("edge.reserve_load",
                               std::to_string(mix.way.dynamic_load));
  }
  AddOnce(std::move(job), jobs);
}

MixOutcome OutcomeOf(const Results& results, const Mix& mix) {
  const std::string name = NameOf(mix);
  const std::vector<double> turnarounds =
      SamplesOf(results, name, "/events/turnaround");
  MixOutcome outcome;
  outcome.events = static_cast<double>(turnarounds.size());
  outcome.event_cycles = Mean(turnarounds);
  outcome.event_slowdown =
      Ratio(outcome.event_cycles, CyclesOf(results, EventAlone(mix)));
  outcome.background_cycles = CyclesOf(results, name);
  outcome.background_slowdown =
      outcome.background_cycles / CyclesOf(results, BackgroundAlone(mix));
  if (outcome.event_slowdown.has_value()) {
    outcome.antt = Antt(outcome.events, *outcome.event_slowdown,
                        outcome.background_slowdown);
  }
  return outcome;
}

}  // namespace carillon::sim::figures
