#include "sim/timing/gpu.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/exec/functional.h"

namespace carillon::sim::timing {
namespace {

// Where instructions lie, apart from all data: one program behind the other.
constexpr uint64_t kCode = uint64_t{1} << 59;
constexpr uint64_t kCodeAlignment = 256;  // bytes, of a program

absl::Status NoPreemption() {
  return absl::FailedPreconditionError(
      "preemption.technique: none: a launch cannot be announced; set another");
}

}  // namespace

Gpu::Gpu(Config config, const Memory* memory, Options options)
    : config_(std::move(config)),
      options_(std::move(options)),
      memory_system_(config_),
      signals_{.wakes = SmWakes(config_.sm.count)},
      kmu_(config_),
      event_table_(config_),
      event_dispatcher_(config_),
      configured_reservation_(config_.edge.reservation),
      configured_reserve_sms_(config_.edge.reserve_sms),
      reservation_(config_) {
  for (uint32_t i = 0; i < config_.sm.count; ++i) {
    Core& core =
        sms_.emplace_back(
                config_, i, memory, &memory_system_,
                Sm::Limits{
                    .idle = options_.no_progress_limit,
                    .looks = options_.alone
                                 ? options_.no_progress_limit / Options::kLook
                                 : 0,
                },
                &signals_)
            .core();
    core.printed = options_.printed;
    core.nanoseconds = [this] { return nanoseconds(); };
    sms_.back().Reserve(Reserved());
    if (options_.observer) sms_.back().set_observer(&options_.observer);
  }
  if (config_.preemption.technique != PreemptionTechnique::kNone) {
    preemption_ = std::make_unique<Preemption>(config_, &sms_);
  }
  ReserveSms();
}

Contexts Gpu::Reserved() const {
  uint32_t count = config_.edge.reserve_blocks;
  if (config_.edge.victim == VictimPolicy::kReserved) {
    count = std::max(count, 1u);
  }
  if (count == 0) return {};
  const uint32_t registers = config_.edge.reserve_registers != 0
                                 ? config_.edge.reserve_registers
                                 : event_table_.most_registers();
  return {.blocks = count,
          .warps = count,
          .registers = count * RegistersOfWarp(registers, config_)};
}

// Reserves the last SMs for events. Events go to other SMs as well only where
// the number of reserved ones may be too small.
void Gpu::ReserveSms() {
  const size_t others = sms_.size() - reservation_->sms();
  const bool all_take_events =
      reservation_->sms() == 0 ||
      config_.edge.reservation == Reservation::kDynamic;
  for (size_t i = 0; i < sms_.size(); ++i) {
    sms_[i].set_takes(i >= others || all_take_events, i < others);
  }
  kmu_.Unblock();
  event_dispatcher_.Unblock();
}

absl::StatusOr<const LoadedProgram*> Gpu::Load(const Program* program) {
  for (const auto& loaded : programs_) {
    if (loaded->program == program) return loaded.get();
  }
  ASSIGN_OR_RETURN(auto operations, BuildOpTable(*program, config_));
  uint64_t code = kCode;
  if (!programs_.empty()) {
    const LoadedProgram& last = *programs_.back();
    code = last.code + last.operations.size() * config_.fetch.operation_bytes;
    code = (code + kCodeAlignment - 1) / kCodeAlignment * kCodeAlignment;
  }
  programs_.push_back(std::make_unique<LoadedProgram>(
      LoadedProgram{program, code, std::move(operations)}));
  return programs_.back().get();
}

absl::StatusOr<Contexts> Gpu::ContextsFor(const Launch& launch,
                                          uint32_t registers,
                                          bool event) const {
  RETURN_IF_ERROR(CheckLaunch(launch));
  const Contexts block = ContextsOfBlock(launch, registers, config_);
  Contexts needs = block;
  if (!event) needs.Return(Reserved());
  if (!ContextsOfSm(config_).Holds(needs)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a block has {} warps, {} registers and {} bytes of shared memory: "
        "an SM has {}, {} and {} (it lacks {}){}",
        launch.kernel->name, block.warps, block.registers, block.shared_bytes,
        config_.sm.warps, config_.sm.registers, config_.sm.shared_bytes,
        NameOf(OccupancyOf(needs, config_).limit),
        needs == block ? "" : ", where some are kept for events"));
  }
  return block;
}

absl::Status Gpu::CheckCoResident(const Launch& launch, const Contexts& block,
                                  const SubmitOptions& options) const {
  Contexts left = ContextsOfSm(config_);
  if (!options.event) left.Take(Reserved());
  uint64_t sms = 0;
  for (const Sm& sm : sms_) {
    sms += options.event ? sm.takes_events() : sm.takes_others();
  }
  uint64_t of_an_sm = 0;
  for (; left.Holds(block); left.Take(block)) ++of_an_sm;
  if (launch.grid.count() <= sms * of_an_sm) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: a cooperative launch of {} blocks: {} SMs have room for {} each, {} "
      "at once (limited by {})",
      launch.kernel->name, launch.grid.count(), sms, of_an_sm, sms * of_an_sm,
      NameOf(OccupancyOf(block, config_).limit)));
}

absl::StatusOr<GridId> Gpu::Submit(Launch launch,
                                   const SubmitOptions& options) {
  ASSIGN_OR_RETURN(const auto block,
                   ContextsFor(launch, options.registers, options.event));
  ASSIGN_OR_RETURN(auto program, Load(launch.program));
  if (options.announcement != 0 && preemption_ == nullptr) {
    return NoPreemption();
  }
  if (launch.grid_workspace != 0) {
    RETURN_IF_ERROR(CheckCoResident(launch, block, options));
  }
  auto grid = std::make_unique<GridRun>();
  if (options.announcement != 0) {
    RETURN_IF_ERROR(preemption_->Launch(options.announcement, grid.get()));
  }
  grid->launch = std::move(launch);
  grid->options = options;
  grid->program = program;
  grid->contexts = block;
  grid->result.id = next_id_++;
  grid->result.event = options.event;
  if (options.event) ++events_;
  grid->result.submitted = std::max(options.not_before, cycle_);
  if (kmu_.sharing() > Sharing::kPriority && !options.privileged) {
    grid->options.by_tb_scheduler = true;
  }
  const bool past_tb_scheduler = event_dispatcher_.Takes(*grid);
  if (options.event) {
    // An event that preempts runs first (EDGE IV-D). Others do so where events
    // have priority.
    const bool first =
        past_tb_scheduler || config_.edge.event_priority >= EventPriority::kP1;
    grid->options.warp_class = first ? WarpClass::kEvent : WarpClass::kNormal;
  }
  if (past_tb_scheduler) {
    event_dispatcher_.Submit(grid.get());
  } else {
    kmu_.Submit(grid.get());
  }
  grids_.push_back(std::move(grid));
  return grids_.back()->result.id;
}

absl::StatusOr<AnnouncementId> Gpu::Announce(const Launch& launch,
                                             const SubmitOptions& options,
                                             Cycle at) {
  if (preemption_ == nullptr) return NoPreemption();
  ASSIGN_OR_RETURN(const auto block,
                   ContextsFor(launch, options.registers, false));
  return preemption_->Announce(block, launch.grid.count(), options.priority,
                               std::max(at, cycle_));
}

absl::Status Gpu::SetBlockProfile(const ProgramFunction* kernel,
                                  const BlockProfile& profile) {
  if (preemption_ == nullptr) return NoPreemption();
  preemption_->SetProfile(kernel, profile);
  return absl::OkStatus();
}

absl::Status Gpu::SetPreemption(const Config& config) {
  if (preemption_ == nullptr ||
      config.preemption.technique == PreemptionTechnique::kNone) {
    return absl::FailedPreconditionError(
        "preemption.technique: none: what has begun with or without one cannot "
        "change that");
  }
  config_.preemption = config.preemption;
  return absl::OkStatus();
}

absl::Status Gpu::SetSharing(Sharing sharing, uint32_t reserve_sms) {
  using enum Sharing;
  if (preemption_ != nullptr && sharing != kConfigured) {
    return absl::FailedPreconditionError(
        "preemption.technique: with one, the configuration says how grids "
        "share the GPU; leave it none");
  }
  auto& edge = config_.edge;
  if (sharing == kReservation || sharing == kDynamicReservation) {
    const uint32_t sms = reserve_sms != 0 ? reserve_sms : config_.sm.count / 2;
    if (sms == 0 || sms >= config_.sm.count) {
      return absl::InvalidArgumentError(
          fmt::format("{} of {} SMs for events: each side needs one", sms,
                      config_.sm.count));
    }
    edge.reserve_sms = sms;
    edge.reservation =
        sharing == kReservation ? Reservation::kStatic : Reservation::kDynamic;
  } else if (sharing == kConfigured) {
    edge.reserve_sms = configured_reserve_sms_;
    edge.reservation = configured_reservation_;
  } else {
    edge.reserve_sms = 0;
    edge.reservation = Reservation::kStatic;
  }
  reservation_.emplace(config_);
  ReserveSms();
  kmu_.Share(sharing);
  return absl::OkStatus();
}

std::optional<Gpu::Progress> Gpu::progress(GridId id) const {
  for (const auto& grid : grids_) {
    if (grid->result.id != id) continue;
    return Progress{
        .started = grid->started,
        .ended = grid->result.blocks,
        .slices = kmu_.slices_ended(*grid),
        .waits_since = std::max(grid->result.submitted, grid->last_started)};
  }
  return std::nullopt;
}

absl::StatusOr<EventId> Gpu::RegisterEvent(EventKernel kernel) {
  RETURN_IF_ERROR(ContextsFor(kernel.launch, kernel.registers, true).status());
  const auto event = event_table_.Add(std::move(kernel));
  for (Sm& sm : sms_) sm.Reserve(Reserved());
  return event;
}

absl::Status Gpu::UnregisterEvent(EventId event) {
  const absl::Status status = event_table_.Remove(event);
  for (Sm& sm : sms_) sm.Reserve(Reserved());
  kmu_.Unblock();
  return status;
}

absl::StatusOr<GridId> Gpu::RingDoorbell(EventId event, Cycle at,
                                         std::vector<std::byte> parameters) {
  return RingDoorbell(event, {.not_before = at, .event = true},
                      std::move(parameters));
}

absl::StatusOr<GridId> Gpu::RingFromGpu(EventId event,
                                        std::vector<std::byte> parameters) {
  return RingDoorbell(event, {.event = true, .by_tb_scheduler = true},
                      std::move(parameters));
}

absl::StatusOr<GridId> Gpu::RingDoorbell(EventId event, SubmitOptions options,
                                         std::vector<std::byte> parameters) {
  const EventKernel* const kernel = event_table_.Find(event);
  if (kernel == nullptr) {
    return absl::NotFoundError(fmt::format("event {}: there is none", event));
  }
  Launch launch = kernel->launch;
  if (!parameters.empty()) launch.parameters = std::move(parameters);
  options.priority = kernel->priority;
  options.registers = kernel->registers;
  return Submit(std::move(launch), options);
}

void Gpu::SetInterruptRegisters(DeviceAddress begin, uint64_t bytes) {
  for (Sm& sm : sms_) sm.SetInterruptRegisters(begin, bytes);
}

absl::Status Gpu::ReserveInstructions(const Program* program,
                                      const ProgramFunction& function) {
  ASSIGN_OR_RETURN(const auto loaded, Load(program));
  const uint64_t begin =
      loaded->code + uint64_t{function.entry} * config_.fetch.operation_bytes;
  const uint64_t end =
      loaded->code + uint64_t{function.end} * config_.fetch.operation_bytes;
  uint32_t left = config_.edge.reserve_icache_lines;
  for (uint64_t line = begin / config_.icache.line_bytes; left != 0; --left) {
    const uint64_t address = line++ * config_.icache.line_bytes;
    if (address >= end) break;
    for (Sm& sm : sms_) {
      if (sm.ReserveInstructions(address)) continue;
      return absl::InvalidArgumentError(fmt::format(
          "edge.reserve_icache_lines: {}: the i-cache has no room for them, as "
          "others keep a way of each set",
          config_.edge.reserve_icache_lines));
    }
  }
  return absl::OkStatus();
}

absl::Status Gpu::Cancel(GridId id) {
  for (const auto& grid : grids_) {
    if (grid->result.id != id || grid->failed()) continue;
    grid->result.status = absl::CancelledError(
        fmt::format("{} was cancelled", grid->launch.kernel->name));
    EndGrids();
    return absl::OkStatus();
  }
  return absl::NotFoundError(fmt::format("grid {}: there is none", id));
}

const GridResult* Gpu::result(GridId grid) const {
  const auto found = results_.find(grid);
  return found == results_.end() ? nullptr : &found->second;
}

bool Gpu::Run(Cycle until) {
  while (cycle_ < until) {
    if (grids_.empty() && until == kNever) break;
    Step();
    if (std::exchange(stop_, false)) {
      ++cycle_;
      break;
    }
    if (grids_.empty() && until == kNever) {
      ++cycle_;
      break;
    }
    const Cycle next = Next();
    // With an end to run to, the caller may still submit or release something.
    if (next == kNever && until == kNever && !grids_.empty()) {
      FailAll();
      continue;
    }
    cycle_ = std::min(next, until);
  }
  return grids_.empty();
}

void Gpu::ReleaseThreads(Cycle at) {
  at = std::max(at, cycle_ + 1);
  // In one cycle, one release lets waiting warps go and a second one the next to
  // wait: a third would change nothing, and devices may ask without end.
  uint32_t& releases = releases_[at];
  if (releases == 2) return;
  ++releases;
  CallAt(at, [this] {
    releases_.erase(cycle_);
    for (Sm& sm : sms_) sm.ReleaseThreads(cycle_);
  });
}

// The next cycle after cycle_ in which anything happens.
Cycle Gpu::Next() const {
  Cycle next = signals_.wakes.next(cycle_);
  if (next == cycle_ + 1) return next;  // what usually is so
  next = std::min({next, kmu_.next(cycle_), event_dispatcher_.next(cycle_),
                   reservation_->next(), memory_system_.next(cycle_)});
  if (!calls_.empty()) next = std::min(next, calls_.begin()->first);
  if (preemption_ != nullptr) {
    next = std::min(next, preemption_->next(cycle_));
  }
  return std::max(next, cycle_ + 1);
}

void Gpu::Step() {
  while (!calls_.empty() && calls_.begin()->first <= cycle_) {
    calls_.extract(calls_.begin()).mapped()();
  }
  memory_system_.Advance(cycle_, [this](const MemoryRequest& reply) {
    sms_[reply.sm].Reply(reply, cycle_);
  });
  if (events_ != 0 || reservation_->next() <= cycle_) AdvanceEvents();
  if (preemption_ != nullptr) preemption_->Advance(cycle_, grids_);
  kmu_.Advance(cycle_, sms_);
  signals_.wakes.Advance(cycle_,
                         [this](uint32_t sm) { sms_[sm].Tick(cycle_); });
  if (std::exchange(signals_.ended, false)) EndGrids();
}

void Gpu::AdvanceEvents() {
  uint32_t under_way = 0;
  for (const auto& grid : grids_) {
    under_way += grid->options.event && grid->result.arrived <= cycle_;
  }
  const Sharing sharing = kmu_.sharing();
  if (sharing == Sharing::kP2 ||
      (sharing == Sharing::kConfigured &&
       config_.edge.event_priority >= EventPriority::kP2)) {
    kmu_.HoldOthers(under_way != 0);
  }
  if (reservation_->Advance(cycle_, under_way)) ReserveSms();
  event_dispatcher_.Advance(cycle_, sms_);
}

void Gpu::EndGrids() {
  kmu_.Unblock();
  event_dispatcher_.Unblock();
  for (size_t i = 0; i < grids_.size();) {
    GridRun& grid = *grids_[i];
    if (grid.failed()) {
      for (Sm& sm : sms_) sm.Drop(&grid, cycle_);
      signals_.ended = false;
    }
    if (!grid.done()) {
      ++i;
      continue;
    }
    grid.result.completed = cycle_;
    kmu_.Remove(&grid);
    if (preemption_ != nullptr) preemption_->Remove(&grid, cycle_);
    event_dispatcher_.Remove(&grid);
    if (grid.options.event) EndEvent(grid);
    ++ended_grids_;
    const auto [at, inserted] =
        results_.emplace(grid.result.id, std::move(grid.result));
    grids_.erase(grids_.begin() + static_cast<ptrdiff_t>(i));
    if (options_.ended) options_.ended(GridResult(at->second));
    i = 0;  // it may have submitted or cancelled some
  }
}

void Gpu::EndEvent(const GridRun& grid) {
  --events_;
  if (events_ == 0) kmu_.HoldOthers(false);
  if (!options_.observer) return;
  options_.observer({.cycle = cycle_,
                     .grid = grid.result.id,
                     .what = Observation::What::kEventComplete,
                     .sm = grid.result.sm});
}

// Nothing can happen any more. Either warps wait for a release that never
// comes, or the model has a mistake, which must not look like a program that
// takes long.
void Gpu::FailAll() {
  for (const auto& grid : grids_) {
    for (const Sm& sm : sms_) {
      const Block* const block = sm.FindWaiting(grid.get());
      if (block == nullptr || grid->failed()) continue;
      grid->result.status = WaitsForEver(FirstThatWaits(*block));
    }
    if (grid->failed()) continue;
    grid->result.status = absl::InternalError(fmt::format(
        "{}: the simulation stands still at cycle {}, with {} blocks running",
        grid->launch.kernel->name, cycle_, grid->running));
  }
  EndGrids();
}

Statistics Gpu::statistics() {
  Statistics statistics;
  statistics.cycles = cycle_;
  statistics.grids = ended_grids_;
  statistics.memory = memory_system_.counters();
  for (Sm& sm : sms_) {
    statistics.sms.push_back(sm.CountersUntil(cycle_));
  }
  return statistics;
}

}  // namespace carillon::sim::timing
