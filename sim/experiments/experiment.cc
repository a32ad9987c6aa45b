#include "sim/experiments/experiment.h"

#include <utility>

#include "fmt/format.h"
#include "sim/experiments/figures.h"
#include "sim/experiments/metrics.h"

namespace carillon::sim::figures {
namespace {

constexpr Experiment kExperiments[] = {
    {"fig1", "Launch and scheduling latency together", &Fig12Jobs, &Fig1},
    {"fig11", "Preemption latency of an event's warp", &Fig11Jobs, &Fig11},
    {"fig12", "Scheduling latency of events: draining and preemption",
     &Fig12Jobs, &Fig12},
    {"fig13",
     "Slowdowns of events and backgrounds: draining, reservation, preemption",
     &Fig13Jobs, &Fig13},
    {"beyond_rule",
     "The rule of dynamic reservation, fixed on half of the pairs",
     &BeyondRuleJobs, &BeyondRule},
    {"beyond",
     "Dynamic reservation with preemption beside static ways, on other pairs",
     &BeyondJobs, &Beyond},
    {"th4.10", "RTT of GNoM's GETs by rate and size of a batch", &Th4_10Jobs,
     &Th4_10},
    {"th4.12", "RTT and throughput of GNoM's GETs by key length", &Th4_12Jobs,
     &Th4_12},
    {"th4.13", "GNoM's GETs beside a background in one launch or in several",
     &Th4_13Jobs, &Th4_13},
    {"th4.15", "GNoM's GETs and the network's part alone, flat out",
     &Th4_15Jobs, &Th4_15},
    {"th5.9", "Cycles in which a warp's context is free", &Th5_9Jobs, &Th5_9},
    {"th5.10", "Use of the register file", &Th5_9Jobs, &Th5_10},
    {"th5.13", "IPC of backgrounds beside interrupts", &Th5_13Jobs, &Th5_13},
    {"th5.14", "CONV1's IPC beside reserved SMs and blocks", &Th5_14Jobs,
     &Th5_14},
    {"th5.15", "Run time of the interrupt routine, its code kept or not",
     &Th5_15Jobs, &Th5_15},
    {"th5.16", "CONV1 and memcached: priorities and reservations", &Th5_16Jobs,
     &Th5_16},
    {"th5.17",
     "Global loads of persistent blocks: wait-release barrier, polling",
     &Th5_17Jobs, &Th5_17},
    {"th5.18",
     "Warp instructions of persistent blocks: wait-release barrier, polling",
     &Th5_17Jobs, &Th5_18},
    {"pep1", "Times of a block and of its switch (PEP's Table 1)",
     &PepTableJobs, &PepTable},
    {"pep2", "Switch time of a block while others drain", &Pep2Jobs, &Pep2},
    {"pep5", "How blocks make room with PEP", &PepJobs, &Pep5},
    {"pep6", "Preemption latency: Chimera and PEP", &PepJobs, &Pep6},
    {"pep7", "Size of the saved context: Chimera and PEP", &PepJobs, &Pep7},
    {"pep8", "Base and incremental checkpoints", &PepJobs, &Pep8},
    {"pep9", "Time for which a block stands still to be saved", &PepJobs,
     &Pep9},
};

}  // namespace

std::span<const Experiment> Experiments() { return kExperiments; }

Job MakeJob(std::string name, const ExperimentOptions& options) {
  Job job;
  job.name = std::move(name);
  job.seed = options.seed;
  if (options.quick) {
    job.size = Size::kSmall;
    // A small workload would not fill more SMs.
    job.overrides.emplace_back("sm.count", "2");
  }
  return job;
}

Job IsolatedJob(std::string_view background, const ExperimentOptions& options) {
  Job job = MakeJob(fmt::format("isolated/{}", background), options);
  job.background = background;
  return job;
}

Beside BesideAt(std::string_view background, uint32_t layer_registers) {
  const bool layer = background == "CONV1" || background == "MM";
  return {background, layer ? layer_registers : 0};
}

std::vector<Beside> BesidesOf(std::string_view background) {
  std::vector<Beside> besides;
  for (const uint32_t registers : kLayerRegisters) {
    const Beside beside = BesideAt(background, registers);
    if (std::ranges::find(besides, beside) == besides.end()) {
      besides.push_back(beside);
    }
  }
  return besides;
}

std::span<const std::string_view> FigureBackgrounds(
    const ExperimentOptions& options) {
  static constexpr std::string_view kAll[] = {"CONV1", "MM", "BP", "BFS"};
  return options.quick ? std::span(kAll).subspan(1, 2) : std::span(kAll);
}

std::span<const std::string_view> FigureEvents(
    const ExperimentOptions& options) {
  static constexpr std::string_view kAll[] = {"IPv4", "IPv6", "MemC", "IPSec"};
  return options.quick ? std::span(kAll).subspan(1, 2) : std::span(kAll);
}

double CyclesOf(const Results& results, std::string_view job) {
  return results.at(std::string(job))["cycles"].get<double>();
}

double CyclesAlone(const Results& results, std::string_view background) {
  return CyclesOf(results, fmt::format("isolated/{}", background));
}

std::vector<double> SamplesOf(const Results& results, std::string_view job,
                              const char* pointer) {
  const Json* const result = &results.at(std::string(job));
  return Samples({&result, 1}, pointer);
}

uint32_t EventRegisters(std::string_view event) {
  return event == "IPv4" || event == "IPv6" ? 16 : 0;
}

}  // namespace carillon::sim::figures
