#include "sim/exec/interleaved.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "sim/exec/functional.h"

namespace carillon::sim {
namespace {

// CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability": what the system takes of an SM's shared memory for each block.
constexpr uint32_t kSystemSharedBytes = 1 << 10;
// After so many instructions without a store or a barrier, a warp is taken to
// wait for something.
constexpr uint64_t kPatience = 256;
// After so many, for other lanes of its own.
constexpr uint64_t kLanePatience = 1 << 12;

}  // namespace

struct InterleavedGpu::Grid {
  Grid(const Memory* memory, const Launch& launch)
      : launch(launch), core(memory) {}

  const Launch launch;
  Core core;
  uint64_t number = 0;
  int priority = 0;
  SmRange sms;
  Ended ended;
  std::optional<WeakMemory::Time> since;
  Need need;            // of one block
  Dim3 next{0, 0, 0};   // the block to begin
  bool more = true;     // there is one
  uint64_t blocks = 0;  // resident ones
};

InterleavedGpu::InterleavedGpu(const Memory* memory, Options options)
    : memory_(memory),
      options_(std::move(options)),
      random_(options_.seed),
      weak_(options_.weak_memory ? std::make_unique<WeakMemory>(random_.Next())
                                 : nullptr),
      sms_(options_.sms, WholeSm()) {}

InterleavedGpu::~InterleavedGpu() = default;

InterleavedGpu::Sm InterleavedGpu::WholeSm() const {
  return {.threads = options_.threads_per_sm,
          .blocks = options_.blocks_per_sm,
          .shared_bytes = options_.shared_bytes_per_sm};
}

bool InterleavedGpu::Fits(const Need& need, const Sm& sm) {
  return need.threads <= sm.threads && sm.blocks != 0 &&
         need.shared_bytes <= sm.shared_bytes;
}

absl::StatusOr<uint64_t> InterleavedGpu::Begin(
    const Launch& launch, int priority, Ended ended, SmRange sms,
    std::optional<WeakMemory::Time> since) {
  RETURN_IF_ERROR(CheckLaunch(launch));
  if (sms.first > sms_.size() || sms.count > sms_.size() - sms.first) {
    return absl::OutOfRangeError(
        fmt::format("{}: SMs {} to {} of {}", launch.kernel->name, sms.first,
                    uint64_t{sms.first} + sms.count, sms_.size()));
  }
  auto grid = std::make_unique<Grid>(memory_, launch);
  grid->need = {.threads = launch.block_warps() * kLanes,
                .shared_bytes = launch.shared_bytes() + kSystemSharedBytes};
  if (sms.count == 0 || !Fits(grid->need, WholeSm())) {
    return absl::ResourceExhaustedError(fmt::format(
        "{}: a block of {} threads with {} bytes of shared memory: each of {} "
        "SMs has {} threads, {} blocks and {} bytes",
        launch.kernel->name, grid->need.threads, grid->need.shared_bytes,
        sms.count, options_.threads_per_sm, options_.blocks_per_sm,
        options_.shared_bytes_per_sm));
  }
  if (launch.grid_workspace != 0) {
    const Sm whole = WholeSm();
    const uint64_t most =
        uint64_t{sms.count} *
        std::min({whole.blocks, whole.threads / grid->need.threads,
                  whole.shared_bytes / grid->need.shared_bytes});
    if (launch.grid.count() > most) {
      return absl::ResourceExhaustedError(fmt::format(
          "{}: a cooperative launch of {} blocks: {} SMs have room for {}",
          launch.kernel->name, launch.grid.count(), sms.count, most));
    }
  }
  grid->number = ++last_grid_;
  grid->priority = priority;
  grid->sms = sms;
  grid->ended = std::move(ended);
  grid->since = since;
  grid->core.sms = options_.sms;
  grid->core.weak = weak_.get();
  grid->core.printed = options_.printed;
  grid->core.nanoseconds = options_.nanoseconds;
  if (weak_ && options_.launch_graph) {
    grid->core.launch_graph = [this](const Warp& warp, uint64_t exec,
                                     uint64_t stream) {
      weak_->Launch(warp.active());
      return options_.launch_graph(warp, exec, stream);
    };
  } else {
    grid->core.launch_graph = options_.launch_graph;
  }
  const auto behind =
      std::ranges::find_if(grids_, [&](const std::unique_ptr<Grid>& other) {
        return other->priority < priority;
      });
  grids_.insert(behind, std::move(grid));
  return last_grid_;
}

absl::StatusOr<WeakMemory::Time> InterleavedGpu::ReadAhead(
    DeviceAddress address, uint64_t bytes) {
  ASSIGN_OR_RETURN(const std::span<std::byte> place,
                   memory_->At(address, bytes));
  return weak_->ReadAhead(place.data(), address, bytes);
}

absl::Status InterleavedGpu::Stop(uint64_t grid) {
  for (const auto& one : grids_) {
    if (one->number != grid) continue;
    End(*one, absl::CancelledError(
                  fmt::format("{} was stopped", one->launch.kernel->name)));
    return absl::OkStatus();
  }
  return absl::NotFoundError(fmt::format("grid {} does not run", grid));
}

InterleavedGpu::Turn InterleavedGpu::Step() {
  StartBlocks();
  if (grids_.empty()) return Turn::kIdle;
  const size_t chosen = ChooseWarp();
  if (chosen == runners_.size()) return Turn::kWaits;
  Runner& runner = runners_[chosen];
  Resident& resident = *runner.resident;
  const uint32_t warp = runner.warp;
  if (RunTurn(runner)) ++period_;
  if (resident.grid->core.fault ||
      resident.block.warp(warp).state() != Warp::State::kReady) {
    Settle(resident);
  }
  if (runners_.empty() || !AllWait()) return Turn::kRan;
  ++period_;
  return Turn::kWaits;
}

bool InterleavedGpu::AllWait() const {
  return std::ranges::all_of(runners_, [this](const Runner& runner) {
    return (runner.period == period_ && runner.waited >= kPatience) ||
           runner.resident->block.warp(runner.warp).state() !=
               Warp::State::kReady;
  });
}

void InterleavedGpu::StartBlocks() {
  std::vector<SmRange> full;
  for (const auto& grid : grids_) {
    const SmRange& sms = grid->sms;
    if (std::ranges::any_of(full, [&](const SmRange& other) {
          return sms.first < other.first + other.count &&
                 other.first < sms.first + sms.count;
        })) {
      continue;
    }
    while (grid->more) {
      if (StartBlock(*grid)) continue;
      full.push_back(sms);
      break;
    }
  }
}

bool InterleavedGpu::StartBlock(Grid& grid) {
  const std::span<Sm> sms =
      std::span(sms_).subspan(grid.sms.first, grid.sms.count);
  const auto most = std::ranges::max_element(sms, {}, [&](const Sm& sm) {
    return Fits(grid.need, sm) ? int64_t{sm.threads} : -1;
  });
  if (!Fits(grid.need, *most)) return false;
  most->threads -= grid.need.threads;
  most->blocks -= 1;
  most->shared_bytes -= grid.need.shared_bytes;
  if (unused_.empty()) unused_.push_back(std::make_unique<Resident>());
  Resident& resident = *residents_.emplace_back(std::move(unused_.back()));
  unused_.pop_back();
  resident.grid = &grid;
  resident.sm = grid.sms.first + static_cast<uint32_t>(most - sms.begin());
  resident.block.Start(grid.launch, grid.next, &grid.core);
  if (weak_) {
    weak_->Begin(resident.weak, grid.number, resident.block.warps(),
                 grid.since);
  }
  for (uint32_t w = 0; w < resident.block.warps(); ++w) {
    runners_.push_back({.resident = &resident, .warp = w});
  }
  ++grid.blocks;
  const Dim3& dim = grid.launch.grid;
  if (++grid.next.x < dim.x) return true;
  grid.next.x = 0;
  if (++grid.next.y < dim.y) return true;
  grid.next.y = 0;
  grid.more = ++grid.next.z < dim.z;
  return true;
}

size_t InterleavedGpu::ChooseWarp() {
  if (runners_.empty()) return 0;
  if (options_.due) return NextDue();
  const size_t first = random_.Below(runners_.size());
  for (size_t i = 0; i < runners_.size(); ++i) {
    const size_t at = (first + i) % runners_.size();
    const Runner& runner = runners_[at];
    if (runner.resident->block.warp(runner.warp).state() ==
        Warp::State::kReady) {
      return at;
    }
  }
  return runners_.size();
}

size_t InterleavedGpu::NextDue() {
  size_t next = runners_.size();
  double least = 0;
  for (size_t i = 0; i < runners_.size(); ++i) {
    const Warp& warp = runners_[i].resident->block.warp(runners_[i].warp);
    if (warp.state() != Warp::State::kReady) continue;
    const double due = options_.due(warp);
    if (next != runners_.size() && due >= least) continue;
    next = i;
    least = due;
  }
  return next;
}

bool InterleavedGpu::RunTurn(Runner& runner) {
  Resident& resident = *runner.resident;
  Warp& warp = resident.block.warp(runner.warp);
  Core& core = resident.grid->core;
  core.Prepare(*resident.grid->launch.program);
  core.sm = resident.sm;
  const Program& program = *resident.grid->launch.program;
  if (weak_) {
    weak_->Enter(resident.weak, runner.warp, core.segments);
    if (random_.OneIn(8)) warp.Yield();
  }
  const uint64_t writes = core.writes;
  const uint64_t releases = core.releases.total;
  const uint64_t before = clock_;
  uint64_t left = options_.shortest_turn;
  if (!random_.OneIn(2)) {
    left = std::max(left, random_.Scaled(options_.longest_turn));
  }
  while (left-- != 0 && warp.state() == Warp::State::kReady && !core.fault) {
    const Op& op = program.ops[warp.pc()];
    core.clock = ++clock_;
    if (weak_) weak_->Before(warp.active());
    core.attention = false;
    const LaneMask lanes = warp.Step();
    if (weak_ && !core.fault) {
      weak_->After(op, program.info[op.pc].semantics, lanes);
    }
    if (options_.executed) options_.executed(warp, op, lanes);
    if (op.flow == Flow::kYield) {
      // A second pause in a row leaves it to us.
      if (core.attention && !core.fault) warp.Yield();
      break;
    }
    if (warp.gives_way()) break;
  }
  if (core.releases.total != releases) {
    for (const auto& other : residents_) {
      if (other->grid == resident.grid) other->block.WakeReleased();
    }
  }
  const bool on = core.writes != writes || warp.state() != Warp::State::kReady;
  const uint64_t ran = clock_ - before;
  runner.idle = on ? 0 : runner.idle + ran;
  runner.waited = runner.period == period_ ? runner.waited + ran : ran;
  runner.period = period_;
  // The warp may wait for what other lanes of its own would do.
  if (runner.idle >= kLanePatience && !core.fault) {
    warp.Yield();
    runner.idle = 0;
  }
  return on;
}

void InterleavedGpu::Settle(Resident& resident) {
  Grid& grid = *resident.grid;
  if (grid.core.fault) {
    return End(grid, absl::InternalError(
                         Describe(*grid.launch.program, *grid.core.fault)));
  }
  const auto has = [](const Block& block, Warp::State state) {
    for (uint32_t w = 0; w < block.warps(); ++w) {
      if (block.warp(w).state() == state) return true;
    }
    return false;
  };
  if (resident.block.live_warps() == 0) {
    Remove(resident);
    if (grid.more) return;
    if (grid.blocks == 0) return End(grid, absl::OkStatus());
  } else {
    if (has(resident.block, Warp::State::kReady)) return;
    if (!has(resident.block, Warp::State::kWaits)) {
      return End(grid, WaitsForEver(FirstThatWaits(resident.block)));
    }
    if (grid.more) return;
  }
  // What is left waits to be released, by a warp of the same grid.
  const Block* waits = nullptr;
  for (const auto& other : residents_) {
    if (other->grid != &grid) continue;
    if (has(other->block, Warp::State::kReady)) return;
    waits = &other->block;
  }
  End(grid, WaitsForEver(FirstThatWaits(*waits)));
}

void InterleavedGpu::Remove(Resident& resident) {
  std::erase_if(runners_, [&](const Runner& runner) {
    return runner.resident == &resident;
  });
  Sm& sm = sms_[resident.sm];
  const Need& need = resident.grid->need;
  sm.threads += need.threads;
  sm.blocks += 1;
  sm.shared_bytes += need.shared_bytes;
  --resident.grid->blocks;
  if (weak_) weak_->End(resident.weak);
  const auto at =
      std::ranges::find(residents_, &resident, &std::unique_ptr<Resident>::get);
  unused_.push_back(std::move(*at));
  residents_.erase(at);
}

void InterleavedGpu::End(Grid& grid, absl::Status status) {
  while (grid.blocks != 0) {
    Remove(**std::ranges::find(residents_, &grid, [](const auto& resident) {
      return resident->grid;
    }));
  }
  const auto at = std::ranges::find(grids_, &grid, &std::unique_ptr<Grid>::get);
  const std::unique_ptr<Grid> ended = std::move(*at);
  grids_.erase(at);
  if (weak_) weak_->EndGrid(ended->number, memory_->table());
  if (ended->ended) ended->ended(std::move(status));
}

}  // namespace carillon::sim
