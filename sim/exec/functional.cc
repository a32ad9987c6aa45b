#include "sim/exec/functional.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace carillon::sim {
namespace {

// How many warp instructions a warp executes before the next one of its block
// has its turn.
constexpr uint64_t kSlice = 1 << 14;
// After so many warp instructions without a store, a warp's lanes may wait for
// others of the same warp, so they are made to diverge. A long computation
// diverges as well, which changes nothing but the number of instructions.
constexpr uint64_t kPatience = 1 << 18;
// How many turns all warps of a block have before other blocks have theirs.
constexpr int kRounds = 16;
// Such a slice where others wait for the turn's end (Turns).
constexpr uint64_t kShortSlice = 1 << 12;
// How many blocks take turns at once. More of them wait until one of these
// ends.
constexpr size_t kMaxBlocks = 256;
// How many blocks and threads of a cooperative launch are resident here, as on a
// GPU of 132 SMs.
constexpr uint64_t kCooperativeBlocks = uint64_t{132} * 32;
constexpr uint64_t kCooperativeThreads = uint64_t{132} * 2048;

std::string Text(const Dim3& dim) {
  return fmt::format("{}x{}x{}", dim.x, dim.y, dim.z);
}

}  // namespace

absl::Status CheckLaunch(const Launch& launch) {
  const auto wrong = [&](std::string what) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}", launch.kernel->name, what));
  };
  const auto outside = [](const Dim3& dim, uint32_t x, uint32_t y, uint32_t z) {
    return dim.x == 0 || dim.y == 0 || dim.z == 0 || dim.x > x || dim.y > y ||
           dim.z > z;
  };
  if (launch.kernel == nullptr) {
    return absl::InvalidArgumentError("a launch without a kernel");
  }
  if (!launch.kernel->refused.empty()) {
    return absl::UnimplementedError(launch.kernel->refused);
  }
  if (outside(launch.grid, 0x7fffffff, 65535, 65535)) {
    return wrong(fmt::format(
        "grid {}: dimensions are from 1 to 2147483647, 65535 and 65535",
        Text(launch.grid)));
  }
  if (outside(launch.block, 1024, 1024, 64) || launch.block.count() > 1024) {
    return wrong(fmt::format(
        "block {}: dimensions are from 1 to 1024, 1024 and 64, with at most "
        "1024 threads",
        Text(launch.block)));
  }
  const ptx::Function& source = *launch.kernel->source;
  const auto& required = source.required_block;
  if (required[0] != 0 &&
      (launch.block.x != required[0] || launch.block.y != required[1] ||
       launch.block.z != required[2])) {
    return wrong(fmt::format("block {}: the kernel is for blocks of {}x{}x{}",
                             Text(launch.block), required[0], required[1],
                             required[2]));
  }
  const auto& most = source.max_block;
  if (most[0] != 0 &&
      launch.block.count() > uint64_t{most[0]} * most[1] * most[2]) {
    return wrong(fmt::format("block {}: the kernel is for at most {} threads",
                             Text(launch.block),
                             uint64_t{most[0]} * most[1] * most[2]));
  }
  constexpr uint64_t kMaxShared = 227 << 10;
  if (uint64_t{launch.kernel->static_shared_bytes} +
          launch.dynamic_shared_bytes >
      kMaxShared) {
    return wrong(fmt::format("{} bytes of shared memory: a block has {}",
                             uint64_t{launch.kernel->static_shared_bytes} +
                                 launch.dynamic_shared_bytes,
                             kMaxShared));
  }
  const uint64_t parameters = source.ParameterBytes();
  if (launch.parameters.size() != parameters) {
    return wrong(fmt::format("{} bytes of parameters: it has {}",
                             launch.parameters.size(), parameters));
  }
  return absl::OkStatus();
}

const Warp& FirstThatWaits(const Block& block) {
  uint32_t first = 0;
  for (uint32_t w = block.warps(); w-- > 0;) {
    if (block.warp(w).waits()) first = w;
  }
  return block.warp(first);
}

absl::Status NoProgress(const Warp& warp, uint64_t instructions) {
  const Program& program = *warp.launch().program;
  const OpInfo& info = program.info[warp.pc()];
  const Dim3& block = warp.block().index();
  std::string where = warp.DescribePhaseWait();
  if (where.empty()) {
    where =
        fmt::format("{}:{}: {}", program.module->file, info.at.line, info.name);
  }
  return absl::DeadlineExceededError(
      fmt::format("{}: no progress for {} warp instructions; warp {} of block "
                  "({}, {}, {}) is at {}",
                  warp.launch().kernel->name, instructions, warp.index(),
                  block.x, block.y, block.z, where));
}

absl::Status WaitsForEver(const Warp& warp) {
  const Program& program = *warp.launch().program;
  // The warp has stopped behind its barrier.
  const OpInfo& info = program.info[warp.pc() - 1];
  const Dim3& block = warp.block().index();
  return absl::AbortedError(fmt::format(
      "{}: {}:{}: {}: warp {} of block ({}, {}, {}) waits for {}",
      warp.launch().kernel->name, program.module->file, info.at.line, info.name,
      warp.index(), block.x, block.y, block.z,
      warp.state() == Warp::State::kWaits
          ? "a __release_threads() that never comes"
          : "warps that never come: they wait at other barriers"));
}

FunctionalGpu::FunctionalGpu(const Memory* memory, Options options)
    : options_(std::move(options)), core_(memory) {
  core_.printed = options_.printed;
  core_.nanoseconds = options_.nanoseconds;
}

absl::Status FunctionalGpu::Failure(const Launch& launch,
                                    absl::Status status) const {
  return core_.fault
             ? absl::InternalError(Describe(*launch.program, *core_.fault))
             : std::move(status);
}

void FunctionalGpu::Reset() {
  core_.fault.reset();
  core_.attention = false;
  core_.releases = {};
  error_ = absl::OkStatus();
  idle_ = 0;
  waiting_turns_ = 0;
}

absl::StatusOr<FunctionalGpu::Result> FunctionalGpu::RunOneBlock(
    const Launch& launch, const Dim3& index, Turns* turns) {
  Reset();
  if (turns == nullptr) core_.Prepare(*launch.program);
  const auto outside = [this](At at) {
    return options_.outside && options_.outside(at, core_.releases);
  };
  outside(At::kBegin);
  if (blocks_.empty()) blocks_.emplace_back();
  Block& block = blocks_.front();
  block.Start(launch, index, &core_);
  Result result{.blocks = 1};
  const auto run = [&] {
    if (turns == nullptr) {
      return RunBlock(block, kRounds, kSlice, &result.warp_instructions);
    }
    const Turns::Turn turn(turns);
    core_.Prepare(*launch.program);
    return RunBlock(block, /*rounds=*/1, kShortSlice,
                    &result.warp_instructions);
  };
  for (;;) {
    switch (run()) {
      case Turn::kDone:
        outside(At::kEnd);
        return result;
      case Turn::kWaits:
        if (outside(At::kWait)) break;
        error_ = WaitsForEver(FirstThatWaits(block));
        [[fallthrough]];
      case Turn::kFailed:
        return Failure(launch, error_);
      case Turn::kSpins:
        break;
    }
    if (options_.cancelled && options_.cancelled()) {
      return absl::CancelledError(
          fmt::format("{} was cancelled", launch.kernel->name));
    }
  }
}

absl::StatusOr<FunctionalGpu::Result> FunctionalGpu::Run(const Launch& launch) {
  RETURN_IF_ERROR(CheckLaunch(launch));
  Reset();
  core_.Prepare(*launch.program);
  Result result;
  std::vector<Block*> resident;
  std::vector<Block*> free;
  for (Block& block : blocks_) free.push_back(&block);
  Dim3 next{0, 0, 0};
  bool more = true;
  const auto open = [&] {
    if (free.empty()) free.push_back(&blocks_.emplace_back());
    free.back()->Start(launch, next, &core_);
    resident.push_back(free.back());
    free.pop_back();
    if (++next.x < launch.grid.x) return;
    next.x = 0;
    if (++next.y < launch.grid.y) return;
    next.y = 0;
    more = ++next.z < launch.grid.z;
  };
  const uint64_t blocks = launch.grid.count();
  const uint64_t threads = blocks * launch.block_warps() * kLanes;
  if (launch.grid_workspace != 0 &&
      (blocks > kCooperativeBlocks || threads > kCooperativeThreads)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a cooperative launch of {} blocks with {} threads, in "
                    "whole warps: "
                    "{} and {} can be resident at once",
                    launch.kernel->name, blocks, threads, kCooperativeBlocks,
                    kCooperativeThreads));
  }
  do {
    open();
  } while (launch.grid_workspace != 0 && more);
  while (!resident.empty()) {
    bool ran = false;  // any that does not wait for a release
    const uint64_t releases = core_.releases.total;
    for (size_t i = 0; i < resident.size();) {
      switch (
          RunBlock(*resident[i], kRounds, kSlice, &result.warp_instructions)) {
        case Turn::kDone:
          ++result.blocks;
          free.push_back(resident[i]);
          resident.erase(resident.begin() + static_cast<ptrdiff_t>(i));
          ran = true;
          break;
        case Turn::kSpins:
          ran = true;
          ++i;
          break;
        case Turn::kWaits:
          ++i;
          break;
        case Turn::kFailed:
          return Failure(launch, error_);
      }
    }
    // The resident blocks may wait for what a block that has not begun will do.
    if (more && resident.size() < kMaxBlocks) {
      open();
    } else if (!ran && core_.releases.total == releases && !resident.empty()) {
      error_ = WaitsForEver(FirstThatWaits(*resident.front()));
      return Failure(launch, error_);
    }
    if (options_.progress) options_.progress(result.blocks);
    if (options_.cancelled && options_.cancelled()) {
      return absl::CancelledError(
          fmt::format("{} was cancelled", launch.kernel->name));
    }
  }
  return result;
}

void FunctionalGpu::RunWarp(Warp& warp, uint64_t& budget) {
  if (!options_.observer) {
    const uint64_t before = budget;
    warp.Run(budget);
    core_.clock += before - budget;
    return;
  }
  while (budget != 0 && warp.state() == Warp::State::kReady && !core_.fault) {
    options_.observer(warp);
    uint64_t one = 1;
    warp.Run(one);
    ++core_.clock;
    --budget;
    if (warp.gives_way()) return;
  }
}

FunctionalGpu::Turn FunctionalGpu::RunBlock(Block& block, int rounds,
                                            uint64_t slice,
                                            uint64_t* executed) {
  block.WakeReleased();
  for (int round = 0; round < rounds; ++round) {
    bool ran = false;
    bool got_on = false;
    for (uint32_t w = 0; w < block.warps(); ++w) {
      Warp& warp = block.warp(w);
      if (warp.state() != Warp::State::kReady) continue;
      ran = true;
      const uint64_t writes = core_.writes;
      const uint64_t releases = core_.releases.total;
      uint64_t budget = slice;
      RunWarp(warp, budget);
      const uint64_t done = slice - budget;
      *executed += done;
      if (core_.fault) return Turn::kFailed;
      const bool on =
          core_.writes != writes || warp.state() != Warp::State::kReady;
      const bool waits = !on && budget != 0;
      got_on |= !waits;
      // A warp that waits for a phase has given the rest of its slice away.
      idle_ = on ? 0 : idle_ + (warp.gives_way() ? slice : done);
      const bool timed = core_.time_reads != time_reads_;
      time_reads_ = core_.time_reads;
      waiting_turns_ = waits && !timed ? waiting_turns_ + 1 : 0;
      // The warp may spin for what other lanes of its own would do.
      if (idle_ >= kPatience) warp.Yield();
      const uint64_t waited =
          options_.alone ? waiting_turns_ * Options::kWaitingTurn : 0;
      if (options_.no_progress_limit != 0 &&
          std::max(idle_, waited) > options_.no_progress_limit) {
        error_ = NoProgress(warp, idle_);
        return Turn::kFailed;
      }
      if (block.live_warps() == 0) return Turn::kDone;
      if (core_.releases.total != releases) block.WakeReleased();
    }
    if (!ran) {
      for (uint32_t w = 0; w < block.warps(); ++w) {
        if (block.warp(w).state() == Warp::State::kWaits) return Turn::kWaits;
      }
      error_ = WaitsForEver(FirstThatWaits(block));
      return Turn::kFailed;
    }
    // Others can run before these look again.
    if (!got_on) break;
  }
  return Turn::kSpins;
}

}  // namespace carillon::sim
