#include "gpu_daemon/backends/cuda/sim_driver/wire_clock.h"

#include <algorithm>
#include <numeric>

namespace carillon::gpud::cuda {
namespace {

using sim::MemoryOrder;
using sim::MemoryScope;
using sim::MemorySpace;
using sim::Operation;

constexpr size_t kRegisters = sim::kPredicateRegisters + (1 << 10);
constexpr uint64_t kLineBytes = 128;

bool IsAcquire(MemoryOrder order) {
  return order == MemoryOrder::kAcquire ||
         order == MemoryOrder::kAcquireRelease ||
         order == MemoryOrder::kSequential;
}
bool IsRelease(MemoryOrder order) {
  return order == MemoryOrder::kRelease ||
         order == MemoryOrder::kAcquireRelease ||
         order == MemoryOrder::kSequential;
}

// In machine code parameters are registers or constants, and so is what
// inlined code keeps on its stack.
bool IsRegister(MemorySpace space) {
  return space == MemorySpace::kLocal || space == MemorySpace::kKernelParam ||
         space == MemorySpace::kConst;
}

}  // namespace

double WireTrip::total() const {
  return std::accumulate(ns.begin(), ns.end(), 0.0);
}

WireClock::WarpClock& WireClock::ClockOf(const sim::Warp& warp) {
  WarpClock& clock = warps_[&warp];
  const uint64_t launch = warp.launch().id;
  if (clock.launch == launch && clock.block == &warp.block()) return clock;
  // Warps are used again: this is another one now.
  clock = WarpClock();
  clock.launch = launch;
  clock.block = &warp.block();
  clock.now = now_;
  clock.ready.resize(kRegisters);
  clock.waits_for.resize(kRegisters, WireStep::kInstruction);
  if (const auto start = starts_.find(launch); start != starts_.end()) {
    clock.now = std::max(now_, start->second.at);
    clock.event = start->second.event;
    clock.trip = start->second.trip;
  }
  return clock;
}

void WireClock::Wait(WarpClock& clock, double until, WireStep step) {
  if (until <= clock.now) return;
  clock.trip.Ns(step) += until - clock.now;
  clock.now = until;
}

double WireClock::Due(const sim::Warp& warp) {
  WarpClock& clock = ClockOf(warp);
  if (clock.at_barrier) {
    clock.at_barrier = false;
    Wait(clock, now_, WireStep::kSeen);
  }
  double due = clock.now;
  const sim::OpInfo& info = program_->info[warp.pc()];
  for (const auto* registers : {&info.reads, &info.writes}) {
    for (const uint16_t reg : *registers) {
      due = std::max(due, clock.ready[reg]);
    }
  }
  return due;
}

void WireClock::Executed(const sim::Warp& warp, const sim::Op& op,
                         sim::LaneMask lanes) {
  WarpClock& clock = ClockOf(warp);
  const sim::OpInfo& info = program_->info[op.pc];
  // Waits for the earliest first, so that each is counted as what it is.
  std::array<std::pair<double, WireStep>, 16> waits;
  size_t count = 0;
  for (const auto* registers : {&info.reads, &info.writes}) {
    for (const uint16_t reg : *registers) {
      if (clock.ready[reg] <= clock.now || count == waits.size()) continue;
      waits[count++] = {clock.ready[reg], clock.waits_for[reg]};
    }
  }
  std::sort(waits.begin(), waits.begin() + static_cast<ptrdiff_t>(count));
  for (size_t i = 0; i < count; ++i) {
    Wait(clock, waits[i].first, waits[i].second);
  }
  now_ = std::max(now_, clock.now);
  Count(clock, WireStep::kInstruction);
  double ready = costs_.result;
  switch (info.semantics.operation) {
    case Operation::kLoad:
    case Operation::kStore:
    case Operation::kAtomic:
      if (lanes != 0 && !IsRegister(warp.core().access.space)) {
        return Access(clock, warp, op, info);
      }
      break;
    case Operation::kFence: {
      // membar has no order of its own: it is fence.sc.
      const bool full = op.order == MemoryOrder::kWeak;
      const bool acquires = full || IsAcquire(op.order);
      if (full || IsRelease(op.order)) Release(clock, op.scope, acquires);
      if (acquires) Acquire(clock, warp.core().sm, op.scope);
      break;
    }
    case Operation::kMove:
      // Machine code renames registers in place of it.
      for (const uint16_t reg : info.writes) {
        clock.ready[reg] = clock.now;
        clock.waits_for[reg] = WireStep::kInstruction;
      }
      return;
    case Operation::kShuffle:
    case Operation::kVote:
    case Operation::kMatchAny:
    case Operation::kMatchAll:
    case Operation::kReduce:
      ready = costs_.warp_wide;
      break;
    case Operation::kBranch:
      if (warp.pc() != op.pc + 1) {
        Add(clock, costs_.branch, WireStep::kInstruction);
      }
      break;
    case Operation::kCall:
    case Operation::kReturn:
      // Other registers have the same numbers there.
      Wait(clock, clock.loaded, clock.last_load);
      Add(clock, costs_.branch, WireStep::kInstruction);
      break;
    case Operation::kBarrier:
      clock.at_barrier = true;
      break;
    case Operation::kSleep:
      if (lanes != 0) {
        Add(clock, *warp.From<uint32_t>(op.operands[0]), WireStep::kSeen);
      }
      break;
    default:
      break;
  }
  const double issued = clock.now;
  Add(clock, costs_.issue, WireStep::kInstruction);
  for (const uint16_t reg : info.writes) {
    clock.ready[reg] = issued + ready;
    clock.waits_for[reg] = WireStep::kInstruction;
  }
}

void WireClock::Access(WarpClock& clock, const sim::Warp& warp,
                       const sim::Op& op, const sim::OpInfo& info) {
  const sim::Access& access = warp.core().access;
  const Operation operation = info.semantics.operation;
  const bool shared = access.space == MemorySpace::kShared;
  const uint32_t lane = static_cast<uint32_t>(__builtin_ctz(access.mask));
  const bool host = !shared && is_host_(access.address[lane]);
  const uint32_t bytes = access.bytes;
  if (operation != Operation::kLoad && IsRelease(op.order)) {
    Release(clock, op.scope, false);
  }
  Add(clock, costs_.issue, WireStep::kInstruction);
  if (operation == Operation::kStore) {
    if (host) {
      Count(clock, WireStep::kHostWrite);
      if (clock.event == event_ && access.address[lane] == completion_ &&
          !done_) {
        done_ = clock.trip;
        done_->Ns(WireStep::kHostWrite) += costs_.host_write;
      }
    }
    if (!shared) clock.stored = std::max(clock.stored, clock.now + costs_.l2);
    return Leave(clock, warp, bytes);
  }
  Follow(clock, warp, bytes, host);
  double at = clock.now + costs_.shared;
  WireStep step = WireStep::kShared;
  if (operation == Operation::kAtomic) {
    Leave(clock, warp, bytes);
    if (!shared) {
      clock.stored = std::max(clock.stored, clock.now + costs_.l2);
    }
    if (!IsUsed(op)) return;
    at = clock.now + (shared ? costs_.shared_atomic : costs_.l2_atomic);
    step = WireStep::kAtomic;
  } else if (!shared) {
    std::tie(at, step) = LoadGlobal(warp, op, host);
    at += clock.now;
  }
  Count(clock, step);
  for (const uint16_t reg : info.writes) {
    clock.ready[reg] = at;
    clock.waits_for[reg] = step;
  }
  if (at > clock.loaded) {
    clock.loaded = at;
    clock.last_load = step;
  }
  if (IsAcquire(op.order)) {
    Wait(clock, at, step);
    Acquire(clock, warp.core().sm, op.scope);
  }
}

bool WireClock::IsUsed(const sim::Op& op) {
  const auto [known, is_new] = used_.try_emplace(op.pc, false);
  if (!is_new) return known->second;
  const sim::OpInfo& info = program_->info[op.pc];
  const sim::Pc end = program_->functions[info.function].end;
  for (const uint16_t reg : info.writes) {
    for (sim::Pc pc = op.pc + 1; pc < end; ++pc) {
      const sim::OpInfo& later = program_->info[pc];
      if (std::ranges::count(later.reads, reg) != 0) {
        return known->second = true;
      }
      if (std::ranges::count(later.writes, reg) != 0) break;
    }
  }
  return false;
}

std::pair<double, WireStep> WireClock::LoadGlobal(const sim::Warp& warp,
                                                  const sim::Op& op,
                                                  bool host) {
  if (host) return {costs_.host_read, WireStep::kHostRead};
  const sim::Access& access = warp.core().access;
  std::set<uint64_t>& cached = l1_[warp.core().sm][warp.launch().id];
  bool all = op.order == MemoryOrder::kWeak;
  for (uint32_t lane = 0; lane < sim::kLanes; ++lane) {
    if ((access.mask >> lane & 1) == 0) continue;
    const uint64_t line = access.address[lane] / kLineBytes;
    if (cached.contains(line)) continue;
    all = false;
    if (op.order == MemoryOrder::kWeak) cached.insert(line);
  }
  if (all) return {costs_.l1, WireStep::kInstruction};
  return {costs_.l2, WireStep::kL2};
}

void WireClock::Release(WarpClock& clock, MemoryScope scope, bool acquires) {
  if (scope == MemoryScope::kBlock || scope == MemoryScope::kWarp) {
    return Add(clock, costs_.release_block, WireStep::kInstruction);
  }
  const bool system = scope == MemoryScope::kSystem;
  const WireStep step = !system    ? WireStep::kDeviceRelease
                        : acquires ? WireStep::kSystemFence
                                   : WireStep::kSystemRelease;
  Count(clock, step);
  Wait(clock, clock.loaded, clock.last_load);
  Wait(clock, clock.stored, step);
  Add(clock, system ? costs_.release_system : costs_.release_device, step);
}

void WireClock::Acquire(WarpClock& clock, uint32_t sm, MemoryScope scope) {
  if (scope == MemoryScope::kBlock || scope == MemoryScope::kWarp) return;
  Count(clock, WireStep::kAcquire);
  Wait(clock, clock.loaded, clock.last_load);
  Add(clock, costs_.acquire, WireStep::kAcquire);
  l1_[sm].clear();
}

// --- The event's way.

void WireClock::Rung(const void* doorbell, const void* completion) {
  ++event_;
  done_.reset();
  tags_.clear();
  completion_ = reinterpret_cast<uint64_t>(completion);
  // A read that is issued now finds it: the memory says so half a trip later.
  WireTrip trip;
  trip.Ns(WireStep::kHostRead) -= costs_.host_read / 2;
  tags_[{nullptr, reinterpret_cast<uint64_t>(doorbell)}] = {.at = now_,
                                                            .trip = trip};
}

void WireClock::Follow(WarpClock& clock, const sim::Warp& warp, uint32_t bytes,
                       bool host) {
  if (clock.event == event_ || tags_.empty()) return;
  const sim::Access& access = warp.core().access;
  const sim::Block* block =
      access.space == MemorySpace::kShared ? &warp.block() : nullptr;
  for (uint32_t lane = 0; lane < sim::kLanes; ++lane) {
    if ((access.mask >> lane & 1) == 0) continue;
    for (uint32_t i = 0; i < bytes; i += 4) {
      const auto tag = tags_.find({block, access.address[lane] + i});
      if (tag == tags_.end()) continue;
      clock.event = event_;
      clock.trip = tag->second.trip;
      // Until the poller's next look, it is the wire's way that is slow.
      clock.trip.Ns(host ? WireStep::kHostRead : WireStep::kSeen) +=
          clock.now - tag->second.at;
      return;
    }
  }
}

void WireClock::Leave(WarpClock& clock, const sim::Warp& warp, uint32_t bytes) {
  if (clock.event != event_ || event_ == 0) return;
  const sim::Access& access = warp.core().access;
  const sim::Block* block =
      access.space == MemorySpace::kShared ? &warp.block() : nullptr;
  for (uint32_t lane = 0; lane < sim::kLanes; ++lane) {
    if ((access.mask >> lane & 1) == 0) continue;
    for (uint32_t i = 0; i < bytes; i += 4) {
      // Who sees it first follows it.
      tags_.try_emplace({block, access.address[lane] + i},
                        Tag{.at = clock.now, .trip = clock.trip});
    }
  }
}

void WireClock::Launches(const sim::Warp& warp, uint64_t id) {
  WarpClock& clock = ClockOf(warp);
  Add(clock, costs_.launch_call, WireStep::kLaunch);
  Count(clock, WireStep::kLaunch);
  Start start{.at = clock.now + costs_.launch_start,
              .event = clock.event,
              .trip = clock.trip};
  start.trip.Ns(WireStep::kLaunch) += costs_.launch_start;
  starts_[id] = start;
}

}  // namespace carillon::gpud::cuda
