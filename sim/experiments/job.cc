#include "sim/experiments/job.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <unordered_map>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/busy.cuh"
#include "kernels/null_event.cuh"
#include "sim/experiments/gnom_job.h"
#include "sim/experiments/load_ptx.h"
#include "sim/experiments/persistent_job.h"
#include "sim/experiments/preemption_job.h"
#include "sim/experiments/workloads/event_kernel.h"
#include "sim/experiments/workloads/isolated.h"
#include "sim/timing/edge/interrupts.h"
#include "sim/timing/gpu.h"

namespace carillon::sim::figures {
namespace {

using timing::Cycle;
using timing::GridId;
using timing::GridResult;
using timing::InterruptId;
using timing::InterruptResult;
using timing::Interrupts;
using timing::kNever;

// A job checks after so many cycles whether it must end.
constexpr Cycle kTurn = 1 << 16;

// An event that consists of an interrupt's routine only.
constexpr std::string_view kRoutine = "routine";
bool TakesInterrupts(const Job& job) {
  return job.interrupts || job.event == kRoutine;
}

// Provides the launches of a job's events.
class EventSource {
 public:
  static absl::StatusOr<std::unique_ptr<EventSource>> Make(const Job& job,
                                                           Kernels* kernels) {
    std::unique_ptr<EventSource> source(new EventSource());
    const Dim3 one{1, 1, 1};
    const Dim3 warp{simt::kWarpSize, 1, 1};
    const auto failure = kernels->Allocate<uint32_t>(1, "status of an event");
    if (!kernels->status().ok()) return kernels->status();
    source->registers_ = job.registers;
    if (job.event == kRoutine) return source;
    if (job.event == "busy") {
      source->launch_ =
          kernels->Make(kernels::busy_info, one, warp,
                        kernels::BusyArgs{job.busy_steps}, failure);
      return source;
    }
    if (job.event == "null" || job.skip_body) {
      source->launch_ = kernels->Make(kernels::null_event_info, one, warp,
                                      kernels::NullArgs{}, failure);
      if (job.event == "null" || job.registers != 0) return source;
      ASSIGN_OR_RETURN(const auto registers,
                       RegistersOfEventKernel(job.event, *kernels));
      source->registers_ = registers;
      return source;
    }
    ASSIGN_OR_RETURN(
        auto kernel,
        MakeEventKernel(job.event, job.size, job.arrivals.concurrent, kernels));
    source->kernel_ = std::move(kernel);
    source->kernel_->Start(job.seed);
    source->launch_ = source->kernel_->launch(0);
    return source;
  }

  // What RegisterEvent() is given.
  timing::EventKernel registration() const {
    return {.launch = launch_, .registers = registers_, .priority = 1};
  }
  // Prepares new requests. Returns the launch's parameters if they differ from
  // the registered ones.
  std::vector<std::byte> Prepare(uint32_t slot) {
    if (kernel_ == nullptr) return {};
    kernel_->Prepare(slot);
    return kernel_->launch(slot).parameters;
  }
  absl::Status Check(uint32_t slot) const {
    if (kernel_ == nullptr) return absl::OkStatus();
    return kernel_->Check(slot);
  }

 private:
  EventSource() = default;

  std::unique_ptr<EventKernel> kernel_;
  Launch launch_;
  uint32_t registers_ = 0;
};

// The measured times of events.
struct EventLog {
  uint64_t rung = 0;
  std::unordered_map<std::string, uint64_t> places;
  uint64_t reselections = 0;
  uint64_t saved = 0;
  std::vector<Cycle> scheduling, preemption, turnaround, routine;

  void Add(const GridResult& result) {
    ++places[NameOf(result.place)];
    reselections += result.reselections;
    saved += result.saved_registers;
    scheduling.push_back(result.dispatched - result.arrived);
    turnaround.push_back(result.completed - result.arrived);
    if (result.place == timing::EventPlace::kPreempted) {
      preemption.push_back(result.flushed - result.selected);
    }
  }
  void AddRoutine(const GridResult& result) {
    routine.push_back(result.completed - result.dispatched);
  }
  Json ToJson() const {
    Json by_place = Json::object();
    for (const timing::EventPlace place :
         {timing::EventPlace::kTbScheduler, timing::EventPlace::kFree,
          timing::EventPlace::kReserved, timing::EventPlace::kPreempted}) {
      const auto found = places.find(NameOf(place));
      by_place[NameOf(place)] = found == places.end() ? 0 : found->second;
    }
    Json json{{"rung", rung},
              {"completed", turnaround.size()},
              {"places", by_place},
              {"reselections", reselections},
              {"saved", saved},
              {"scheduling", scheduling},
              {"preemption", preemption},
              {"turnaround", turnaround}};
    if (!routine.empty()) json["routine"] = routine;
    return json;
  }
};

Json TotalsOf(const timing::Statistics& statistics,
              const timing::Config& config) {
  Json totals = Json::parse(timing::ToJson(statistics))["total"];
  totals["sm_cycles"] = statistics.cycles * statistics.sms.size();
  totals["sm_registers"] = config.sm.registers;
  return totals;
}

class JobRun {
 public:
  JobRun(const Job& job, const timing::Config& config,
         const JobControl& control, Memory* memory, Background* background,
         EventSource* events)
      : job_(job),
        control_(control),
        memory_(memory),
        background_(background),
        events_(events),
        random_(job.seed),
        gpu_(config, memory,
             {.ended = [this](const GridResult& result) { Ended(result); },
              .observer = control.timeline == nullptr
                              ? timing::Observer()
                              : control.timeline->observer()}) {
    for (uint32_t slot = 0; slot < job.arrivals.concurrent; ++slot) {
      free_slots_.push_back(job.arrivals.concurrent - 1 - slot);
    }
  }

  absl::StatusOr<Json> Run() {
    if (events_ != nullptr) {
      RETURN_IF_ERROR(Prepare());
      TickAfter(job_.arrivals.any_start ? Between(1, job_.arrivals.most)
                                        : Gap());
    }
    const Cycle limit =
        job_.most_cycles != 0 ? job_.most_cycles : control_.limit;
    StartBackground();
    while (status_.ok() && !done_) {
      gpu_.Run(std::min(gpu_.cycle() + kTurn, limit));
      gpu_.ForgetResults();
      if (gpu_.cycle() >= limit && !done_) {
        if (job_.most_cycles == 0) {
          return absl::DeadlineExceededError(fmt::format(
              "{} has not ended after {} cycles", job_.background, limit));
        }
        GiveUp();
      }
      if (control_.cancelled != nullptr && *control_.cancelled) {
        return absl::CancelledError();
      }
    }
    if (!status_.ok()) return status_;
    // Lets the events that have arrived finish.
    gpu_.Run();
    if (!status_.ok()) return status_;
    Json result{{"cycles", given_up_ ? Json() : Json(ended_)},
                {"launches", launches_},
                {"warp_instructions", warp_instructions_}};
    if (events_ != nullptr) result["events"] = log_.ToJson();
    result["statistics"] = TotalsOf(statistics_, gpu_.config());
    return result;
  }

 private:
  absl::Status Prepare() {
    if (job_.event != kRoutine) {
      ASSIGN_OR_RETURN(const auto event,
                       gpu_.RegisterEvent(events_->registration()));
      event_ = event;
    }
    if (!TakesInterrupts(job_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto program, LoadRoutine(memory_));
    routine_ = std::move(program);
    ASSIGN_OR_RETURN(auto interrupts,
                     Interrupts::Create(&gpu_, memory_, routine_.get()));
    interrupts_ = std::move(interrupts);
    return absl::OkStatus();
  }

  Cycle Between(Cycle least, Cycle most) {
    return std::uniform_int_distribution<Cycle>(least, most)(random_);
  }
  Cycle Gap() { return Between(job_.arrivals.least, job_.arrivals.most); }

  void StartBackground() {
    background_->Start(job_.seed + run_);
    Launch();
  }

  void Launch() {
    auto launch = background_->Next();
    if (!launch.has_value()) {
      status_.Update(background_->Check());
      ++run_;
      if (run_ < job_.runs && status_.ok()) {
        StartBackground();
      } else {
        done_ = true;
        // Take the statistics now: the end of the next turn is after the
        // background's end.
        statistics_ = gpu_.statistics();
      }
      return;
    }
    const auto grid = gpu_.Submit(
        *std::move(launch), {.registers = job_.background_registers != 0
                                              ? job_.background_registers
                                              : background_->registers()});
    status_.Update(grid.status());
    if (!grid.ok()) return;
    background_grid_ = *grid;
    if (control_.timeline != nullptr) {
      control_.timeline->Name(*grid, job_.background);
    }
    ++launches_;
  }

  void GiveUp() {
    given_up_ = true;
    done_ = true;
    statistics_ = gpu_.statistics();
    status_.Update(gpu_.Cancel(background_grid_));
  }

  // Uses the GPU's own clock, because Run() does not return for each tick.
  void TickAfter(Cycle cycles) {
    gpu_.CallAt(gpu_.cycle() + cycles, [this] { Tick(); });
  }

  void Tick() {
    if (done_ || !status_.ok()) return;
    if (free_slots_.empty()) {
      waiting_ = true;
      return;
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    ++log_.rung;
    if (interrupts_ != nullptr) {
      Raise(slot);
    } else {
      RingDoorbell(slot);
    }
    TickAfter(Gap());
  }

  void RingDoorbell(uint32_t slot) {
    const auto grid =
        gpu_.RingDoorbell(event_, gpu_.cycle(), events_->Prepare(slot));
    status_.Update(grid.status());
    if (!grid.ok()) return;
    slots_[*grid] = slot;
    if (control_.timeline != nullptr) {
      control_.timeline->Name(*grid, job_.event);
    }
  }

  void Raise(uint32_t slot) {
    timing::Interrupt interrupt;
    if (job_.event == kRoutine) {
      interrupt.delay = static_cast<uint32_t>(job_.busy_steps);
    } else {
      interrupt.vector = isr::Vector::kLaunchEvent;
      interrupt.event = event_;
      interrupt.parameters = events_->Prepare(slot);
    }
    const auto id = interrupts_->Raise(interrupt, gpu_.cycle());
    status_.Update(id.status());
    if (id.ok()) raised_[*id] = slot;
  }

  void Ended(const GridResult& result) {
    if (given_up_ && result.id == background_grid_) return;
    status_.Update(result.status);
    if (!result.status.ok()) return;
    if (interrupts_ != nullptr && result.id != background_grid_) {
      interrupts_->Ended(result);
      InterruptsEnded();
      return;
    }
    if (result.id == background_grid_) {
      ended_ = result.completed;
      warp_instructions_ += result.warp_instructions;
      Launch();
      return;
    }
    const auto slot = slots_.find(result.id);
    EventEnded(result, slot->second);
    slots_.erase(slot);
  }

  void InterruptsEnded() {
    for (auto raised = raised_.begin(); raised != raised_.end();) {
      const InterruptResult* const result = interrupts_->result(raised->first);
      if (result == nullptr) {
        ++raised;
        continue;
      }
      const uint32_t slot = raised->second;
      raised = raised_.erase(raised);
      status_.Update(result->status);
      if (!result->status.ok()) continue;
      const GridResult& routine = result->routines.front();
      log_.AddRoutine(routine);
      EventEnded(result->event.value_or(routine), slot);
    }
    interrupts_->ForgetResults();
  }

  void EventEnded(const GridResult& result, uint32_t slot) {
    status_.Update(events_->Check(slot));
    free_slots_.push_back(slot);
    log_.Add(result);
    if (waiting_ && !done_) {
      waiting_ = false;
      Tick();
    }
  }

  const Job& job_;
  const JobControl& control_;
  Memory* const memory_;
  Background* const background_;
  EventSource* const events_;
  std::mt19937 random_;
  std::shared_ptr<const Program> routine_;
  timing::Gpu gpu_;
  absl::Status status_;

  GridId background_grid_ = 0;
  uint32_t run_ = 0;
  bool done_ = false;
  bool given_up_ = false;
  timing::Statistics statistics_;  // when it was done
  Cycle ended_ = 0;
  uint64_t launches_ = 0;
  uint64_t warp_instructions_ = 0;

  timing::EventId event_ = 0;
  bool waiting_ = false;  // a tick, for a free slot
  std::vector<uint32_t> free_slots_;
  std::unordered_map<GridId, uint32_t> slots_;  // of events under way
  EventLog log_;

  // Used only by a job that takes interrupts.
  std::unique_ptr<Interrupts> interrupts_;
  std::map<InterruptId, uint32_t> raised_;  // slots, until the event's end
};

// Runs routines on an idle GPU, one after the other.
absl::StatusOr<Json> RunRoutinesAlone(const Job& job,
                                      const timing::Config& config,
                                      Memory* memory) {
  ASSIGN_OR_RETURN(const auto program, LoadRoutine(memory));
  std::unique_ptr<Interrupts> interrupts;
  EventLog log;
  timing::Gpu gpu(config, memory, {.ended = [&](const GridResult& result) {
                    log.Add(result);
                    log.AddRoutine(result);
                    interrupts->Ended(result);
                  }});
  ASSIGN_OR_RETURN(auto made, Interrupts::Create(&gpu, memory, program.get()));
  interrupts = std::move(made);
  for (uint32_t i = 0; i < job.events; ++i) {
    ASSIGN_OR_RETURN(
        const auto id,
        interrupts->Raise({.delay = static_cast<uint32_t>(job.busy_steps)},
                          gpu.cycle()));
    ++log.rung;
    gpu.Run();
    RETURN_IF_ERROR(interrupts->result(id)->status);
    interrupts->ForgetResults();
  }
  return Json{{"cycles", gpu.cycle()}, {"events", log.ToJson()}};
}

absl::StatusOr<Json> RunEventsAlone(const Job& job,
                                    const timing::Config& config,
                                    const Memory& memory, Kernels* kernels) {
  ASSIGN_OR_RETURN(const auto event,
                   MakeEventKernel(job.event, job.size, job.events, kernels));
  ASSIGN_OR_RETURN(const auto run,
                   RunIsolated(config, *event, memory, job.seed, job.events));
  return Json{{"cycles", run.cycles},
              {"launches", run.launches},
              {"warp_instructions", run.warp_instructions}};
}

Json ToJson(const Overrides& overrides) {
  Json object = Json::object();
  for (const auto& [key, value] : overrides) object[key] = value;
  return object;
}

}  // namespace

Json ToJson(const Job& job) {
  Json techniques = Json::object();
  for (const auto& [name, overrides] : job.techniques) {
    techniques[name] = ToJson(overrides);
  }
  return {{"name", job.name},
          {"overrides", ToJson(job.overrides)},
          {"background", job.background},
          {"background_registers", job.background_registers},
          {"runs", job.runs},
          {"most_cycles", job.most_cycles},
          {"event", job.event},
          {"busy_steps", job.busy_steps},
          {"interrupts", job.interrupts},
          {"skip_body", job.skip_body},
          {"registers", job.registers},
          {"period", {job.arrivals.least, job.arrivals.most}},
          {"concurrent", job.arrivals.concurrent},
          {"any_start", job.arrivals.any_start},
          {"events", job.events},
          {"persistent", job.persistent},
          {"coalesce", job.coalesce},
          {"gnom_batch", job.gnom_batch},
          {"gnom_batches", job.gnom_batches},
          {"gnom_keys", job.gnom_keys},
          {"gnom_hits", job.gnom_hits},
          {"gnom_pings", job.gnom_pings},
          {"preempted", job.preempted},
          {"techniques", techniques},
          {"launch_ns", job.launch_ns},
          {"progress", job.progress},
          {"gpu", job.gpu},
          {"size", job.size == Size::kFull ? "full" : "small"},
          {"seed", job.seed}};
}

absl::StatusOr<timing::Config> Override(const timing::Config& config,
                                        const Overrides& overrides) {
  auto values = timing::Values(config);
  for (const auto& [key, value] : overrides) {
    const auto found = std::ranges::find(
        values, key, &std::pair<std::string, std::string>::first);
    if (found == values.end()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: no configuration has such a key", key));
    }
    found->second = value;
  }
  // JSON is valid YAML.
  Json nested = Json::object();
  for (const auto& [key, value] : values) {
    std::string path = "/" + key;
    std::ranges::replace(path, '.', '/');
    nested[Json::json_pointer(path)] = value;
  }
  auto changed = timing::ParseConfig(nested.dump(), config.name);
  if (changed.ok()) changed->name = config.name;
  return changed;
}

absl::StatusOr<Json> RunJob(const Job& job, const timing::Config& given,
                            const JobControl& control) {
  auto base = absl::StatusOr<timing::Config>(given);
  if (!job.gpu.empty()) base = timing::LoadConfig(job.gpu);
  RETURN_IF_ERROR(base.status());
  ASSIGN_OR_RETURN(const auto config, Override(*base, job.overrides));
  if (!job.preempted.empty()) return RunPreempted(job, config, control);
  if (!job.persistent.empty()) return RunPersistent(job, config, control);
  if (job.gnom_batch != 0) return RunGnom(job, config, control);
  Memory memory;
  if (job.background.empty() && job.event == kRoutine) {
    return RunRoutinesAlone(job, config, &memory);
  }
  ASSIGN_OR_RETURN(const auto kernels, Kernels::Load(&memory));
  if (job.background.empty()) {
    return RunEventsAlone(job, config, memory, kernels.get());
  }
  ASSIGN_OR_RETURN(const auto background,
                   MakeBackground(job.background, job.size, kernels.get()));
  std::unique_ptr<EventSource> events;
  if (!job.event.empty()) {
    ASSIGN_OR_RETURN(auto made, EventSource::Make(job, kernels.get()));
    events = std::move(made);
  }
  return JobRun(job, config, control, &memory, background.get(), events.get())
      .Run();
}

}  // namespace carillon::sim::figures
