#include "sim/exec/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "sim/exec/mbarrier.h"

namespace carillon::sim {
namespace {

// CUDA's own limit of nested calls.
constexpr size_t kMaxCallDepth = 4096;

LaneMask FirstLanes(uint32_t count) {
  return count >= kLanes ? kAllLanes : (LaneMask{1} << count) - 1;
}

}  // namespace

std::string Describe(const Program& program, const Fault& fault) {
  const OpInfo& info = program.info[fault.pc];
  return fmt::format(
      "{}: {}:{}: {}: {}; lane {} of warp {}, block ({}, {}, {})",
      program.functions[info.function].name, program.module->file, info.at.line,
      info.name, fault.what, fault.lane, fault.warp, fault.block.x,
      fault.block.y, fault.block.z);
}

void Core::Prepare(const Program& program) {
  auto now = memory->table();
  if (now != segments) {
    segments = std::move(now);
    hints.clear();
  }
  if (hints.size() < program.ops.size()) {
    hints.resize(program.ops.size(), SegmentTable::kNone);
  }
}

void Warp::Start(const Launch& launch, Block* block, uint32_t index,
                 Core* core) {
  launch_ = &launch;
  block_ = block;
  index_ = index;
  core_ = core;
  const uint32_t first = index * kLanes;
  live_ = FirstLanes(launch.block_threads() - first);
  Dim3 at{first % launch.block.x, first / launch.block.x % launch.block.y,
          first / launch.block.x / launch.block.y};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    tid_[0][lane] = at.x;
    tid_[1][lane] = at.y;
    tid_[2][lane] = at.z;
    if (++at.x < launch.block.x) continue;
    at.x = 0;
    if (++at.y < launch.block.y) continue;
    at.y = 0;
    ++at.z;
  }
  top_ = {launch.kernel->entry, kNoPc, live_};
  state_ = State::kReady;
  executed_ = 0;
  writes_ = 0;
  looks_ = {};
  looked_at_ = 0;
  gave_way_ = 0;
  carry = 0;
  phase_wait_ = {};
  gives_way_ = false;
  stack_.clear();
  frames_.clear();
  others_.clear();
  frame_ = {.function = launch.kernel, .mask = live_};
  registers_.Reset(0);
  local_.Reset(0);
  stack_ends_.clear();
  base_[1] = const_cast<std::byte*>(launch.program->constants.data());
  EnterFrame();
}

void Warp::EnterFrame() {
  registers_.Grow(frame_.registers + frame_.function->frame_bytes);
  base_[0] = registers_.data() + frame_.registers;
  const uint64_t local = frame_.local_base + frame_.function->local_bytes;
  local_.Grow((local + 15) / 16 * 16 * kLanes);
}

void Warp::Fail(const Op& op, LaneMask lanes, std::string what) {
  if (core_->fault) return;
  core_->attention = true;
  core_->fault = Fault{
      .what = std::move(what),
      .pc = op.pc,
      .lane = static_cast<uint32_t>(std::countr_zero(lanes | 1u << 31)),
      .block = block_->index(),
      .warp = index_,
  };
}

std::string Warp::DescribePhaseWait() const {
  const auto& [op, address] = phase_wait_;
  if (op == nullptr) return {};
  uint64_t bits = 0;
  std::memcpy(&bits, block_->shared() + address, sizeof(bits));
  const auto barrier = Mbarrier::Of(bits);
  const OpInfo& info = launch_->program->info[op->pc];
  return fmt::format("{}:{}: {}: the mbarrier at shared address {:#x} {}",
                     launch_->program->module->file, info.at.line, info.name,
                     address, barrier ? barrier->Describe() : "is gone");
}

// Executes operations after which the warp may be elsewhere, or wait.
void Warp::Divert(const Op& op, LaneMask mask) {
  switch (op.flow) {
    case Flow::kCall:
      DoCall(op, mask);
      break;
    case Flow::kReturn:
      DoReturn(mask);
      break;
    case Flow::kExit:
      DoExit(mask);
      break;
    case Flow::kBarrier:
      Barrier(op, mask);
      break;
    case Flow::kWarpSync:
      WarpSync(op, mask);
      break;
    case Flow::kWholeWarp:
      WholeWarp(op, mask);
      break;
    case Flow::kYield:
      if (!Looks(op, mask, 0)) Yield();
      break;
    case Flow::kStack:
      Stack(op, mask);
      break;
    case Flow::kWait:
      op.handler(op, *this, mask);
      break;
    default:
      Fail(op, mask,
           launch_->grid_workspace != 0 || !launch_->kernel->asks_for_workspace
               ? "trapped"
               : "trapped; the kernel may need a cooperative launch, as "
                 "grid.sync() does, and this is none");
      break;
  }
}

[[gnu::always_inline]] inline LaneMask Warp::Execute(const Op& op) {
  LaneMask mask = top_.mask;
  if (op.guarded) {
    const LaneMask guard = Predicate(op.guard);
    mask &= op.negated ? ~guard : guard;
  }
  if (op.flow <= Flow::kNextUnlessFault) [[likely]] {
    if (mask != 0) {
      op.handler(op, *this, mask);
      if (op.flow == Flow::kNextUnlessFault && core_->fault) [[unlikely]]
        return mask;
    }
    ++top_.pc;
  } else if (op.flow == Flow::kBranch) {
    Branch(mask, op);
  } else {
    ++top_.pc;
    if (mask != 0) Divert(op, mask);
    if (core_->fault) return mask;
  }
  if (top_.pc == top_.reconverge || top_.mask == 0) Reconverge();
  return mask;
}

void Warp::Run(uint64_t& budget) {
  const Op* const ops = launch_->program->ops.data();
  uint64_t left = budget;
  gives_way_ = false;
  while (left != 0 && state_ == State::kReady) {
    --left;
    const Op& op = ops[top_.pc];
    if (op.flow == Flow::kNextUnlessFault) steps_ = budget - left - 1;
    Execute(op);
    if (op.flow == Flow::kNext) continue;
    if (core_->attention) [[unlikely]] {
      if (core_->fault) break;
      core_->attention = false;
      if (!GiveWay()) break;
    }
    if (gives_way_) [[unlikely]] break;
  }
  executed_ += budget - left;
  budget = left;
}

LaneMask Warp::Step() {
  ++executed_;
  gives_way_ = false;
  return Execute(launch_->program->ops[top_.pc]);
}

void Warp::Branch(LaneMask taken, const Op& op) {
  const LaneMask rest = top_.mask & ~taken;
  if (rest == 0) {
    top_.pc = op.target;
    return;
  }
  const Pc next = top_.pc + 1;
  if (taken == 0) {
    top_.pc = next;
    return;
  }
  const Pc meet = op.reconverge;
  // The meeting point may be the one where the entry below waits already. Then
  // the lanes join that entry, so a loop that lanes leave one by one needs no
  // more stack.
  if (meet != top_.reconverge) {
    stack_.push_back({meet, top_.reconverge, top_.mask});
  }
  const Entry there{op.target, meet, taken};
  const Entry here{next, meet, rest};
  if (next == meet) {
    top_ = there;
  } else {
    if (op.target != meet) stack_.push_back(there);
    top_ = here;
  }
}

void Warp::Reconverge() {
  for (;;) {
    while (top_.mask != 0 && top_.pc == top_.reconverge) Pop();
    // All of the entry's lanes have gone another way (Yield()).
    if (top_.mask != 0 || state_ == State::kExited) return;
    DropEmpty();
  }
}

// The first byte behind the registers of the running function and of those that
// other contexts run.
uint32_t Warp::EndOfFrames() const {
  uint32_t end = frame_.registers + frame_.function->frame_bytes;
  for (const Context& other : others_) {
    end = std::max(end,
                   other.frame.registers + other.frame.function->frame_bytes);
  }
  return end;
}

// Where the registers of a called function begin. Lanes that diverged before
// they made the same call have them at the same place, so that they can do
// something together there.
uint32_t Warp::PlaceOfFrame(const Call& call,
                            const ProgramFunction& callee) const {
  const size_t depth = frames_.size() + 1;
  for (const Context& other : others_) {
    if (other.frames.size() < depth) continue;
    const Frame& frame =
        other.frames.size() == depth ? other.frame : other.frames[depth];
    const Frame& caller = other.frames[depth - 1];
    if (frame.call == &call && frame.function == &callee &&
        caller.registers == frame_.registers &&
        caller.function == frame_.function) {
      return frame.registers;
    }
  }
  return EndOfFrames();
}

void Warp::CopyLocal(LaneMask mask, uint64_t to, uint64_t from,
                     uint32_t bytes) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    for (uint32_t byte = 0; byte < bytes; ++byte) {
      *Local(to + byte, lane) = *Local(from + byte, lane);
    }
  }
}

const ProgramFunction* Warp::CalledByAddress(const Op& op, const Call& call,
                                             LaneMask& mask) {
  const uint64_t* const addresses = From<uint64_t>(op.operands[0]);
  const uint64_t address =
      addresses[static_cast<uint32_t>(std::countr_zero(mask))];
  LaneMask others = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0 && addresses[lane] != address) {
      others |= LaneMask{1} << lane;
    }
  }
  mask &= ~others;
  const auto& functions = launch_->program->functions;
  const uint64_t index = (address - AddressOfFunction(0)) / kCodeStep;
  if (address < AddressOfFunction(0) || address % kCodeStep != 0 ||
      index >= functions.size() || !functions[index].source->defined ||
      functions[index].is_entry) {
    Fail(op, mask, fmt::format("there is no function at {:#x}", address));
    return nullptr;
  }
  const ProgramFunction& callee = functions[index];
  if (!callee.refused.empty()) {
    Fail(op, mask, callee.refused);
    return nullptr;
  }
  const auto alike = [](const std::vector<FrameVariable>& passed,
                        const std::vector<FrameVariable>& wanted) {
    return std::ranges::equal(passed, wanted, {}, &FrameVariable::bytes,
                              &FrameVariable::bytes);
  };
  if (!alike(call.arguments, callee.parameters) ||
      !alike(call.results, callee.results)) {
    Fail(op, mask,
         fmt::format("'{}' has other parameters or results than the call's "
                     "prototype",
                     callee.name));
    return nullptr;
  }
  if (others == 0) return &callee;
  // As at a branch, they meet behind the call.
  const Pc next = top_.pc;
  if (next != top_.reconverge) {
    stack_.push_back({next, top_.reconverge, top_.mask});
  }
  stack_.push_back({op.pc, next, others});
  top_ = {next, next, mask};
  return &callee;
}

void Warp::DoCall(const Op& op, LaneMask mask) {
  const Call& call = launch_->program->calls[op.target];
  if (call.builtin != Builtin::kNone) return CallBuiltin(op, call, mask);
  const ProgramFunction* const called =
      call.by_address ? CalledByAddress(op, call, mask)
                      : &launch_->program->functions[call.function];
  if (called == nullptr) return;
  const ProgramFunction& callee = *called;
  Frame frame{
      .function = &callee,
      .call = &call,
      .depth = stack_.size() + 1,
      .registers = PlaceOfFrame(call, callee),
      .local_base =
          (StackEnd(mask, frame_.local_base + frame_.function->local_bytes) +
           15) /
          16 * 16,
      .mask = mask,
  };
  if (frames_.size() >= kMaxCallDepth ||
      frame.local_base + callee.local_bytes > kMaxLocalBytes) {
    Fail(
        op, mask,
        fmt::format("the stack overflows: {} calls within each other, {} bytes "
                    "of local memory a thread",
                    frames_.size() + 1, frame.local_base + callee.local_bytes));
    return;
  }
  const uint64_t from = frame_.local_base;
  frames_.push_back(frame_);
  stack_.push_back(top_);
  frame_ = frame;
  EnterFrame();
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const FrameVariable& argument = call.arguments[i];
    const FrameVariable& parameter = callee.parameters[i];
    CopyLocal(mask, frame.local_base + parameter.offset, from + argument.offset,
              parameter.bytes);
  }
  top_ = {callee.entry, kNoPc, mask};
}

void Warp::DoReturn(LaneMask mask) {
  if (frames_.empty()) return DoExit(mask);
  top_.mask &= ~mask;
  for (size_t i = frame_.depth; i < stack_.size(); ++i) {
    stack_[i].mask &= ~mask;
  }
  DropEmpty();
}

void Warp::DoExit(LaneMask mask) {
  live_ &= ~mask;
  top_.mask &= ~mask;
  for (Entry& entry : stack_) entry.mask &= ~mask;
  // Those that wait look again, since fewer may be missing now.
  for (Context& other : others_) other.waits_at = nullptr;
  DropEmpty();
}

// Continues where lanes are left: on another path, or in a caller.
void Warp::DropEmpty() {
  while (top_.mask == 0) {
    if (!frames_.empty() && stack_.size() == frame_.depth) {
      const Frame callee = std::exchange(frame_, frames_.back());
      frames_.pop_back();
      base_[0] = registers_.data() + frame_.registers;
      const LaneMask returned = callee.mask & live_;
      CutStack(returned, callee.local_base);
      for (size_t i = 0; i < callee.call->results.size(); ++i) {
        const FrameVariable& to = callee.call->results[i];
        const FrameVariable& from = callee.function->results[i];
        CopyLocal(returned, frame_.local_base + to.offset,
                  callee.local_base + from.offset, to.bytes);
      }
    }
    if (stack_.empty()) {
      if (live_ != 0) {
        Rotate();
        continue;
      }
      state_ = State::kExited;
      top_.reconverge = kNoPc;
      block_->Exited(*this);
      return;
    }
    Pop();
  }
}

void Warp::Barrier(const Op& op, LaneMask mask) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
  const uint32_t* const barriers = From<uint32_t>(op.operands[1]);
  const uint32_t barrier = barriers[lane];
  const uint32_t threads = From<uint32_t>(op.operands[2])[lane];
  if (const LaneMask other = mask & ~LanesWith(barriers, barrier); other != 0) {
    return Fail(op, other,
                fmt::format("barrier {}, where lane {} is at barrier {}",
                            barriers[std::countr_zero(other)], lane, barrier));
  }
  if (!AllAreHere(op, uint64_t{threads} << 32 | barrier, mask)) return;
  Block::Arrival arrival{
      .barrier = barrier,
      .threads = threads,
      .mode = static_cast<BarrierMode>(op.variant),
  };
  arrival.waits = arrival.mode != BarrierMode::kArrive;
  arrival.lanes = static_cast<uint32_t>(std::popcount(mask));
  if (arrival.waits && arrival.mode != BarrierMode::kSync) {
    for (const Place& place : places_) {
      const Slot slot = place.op->operands[3];
      const std::byte* const base =
          slot.is_constant() ? base_[1] : registers_.data() + place.registers;
      LaneMask predicate = 0;
      std::memcpy(&predicate, base + slot.byte(), sizeof(predicate));
      if (place.op->offset != 0) predicate = ~predicate;
      arrival.value +=
          static_cast<uint32_t>(std::popcount(predicate & place.lanes));
    }
  }
  if (arrival.waits) {
    state_ = State::kAtBarrier;
    waiting_.swap(places_);
  }
  std::string what;
  if (!block_->Arrive(*this, arrival, what)) Fail(op, mask, std::move(what));
}

void Warp::Release(uint32_t result) {
  state_ = State::kReady;
  const auto mode = static_cast<BarrierMode>(waiting_[0].op->variant);
  if (mode == BarrierMode::kSync) return;
  for (const Place& place : waiting_) {
    std::byte* const to =
        registers_.data() + place.registers + place.op->operands[0].byte();
    if (mode == BarrierMode::kCount) {
      auto* const counts = reinterpret_cast<uint32_t*>(to);
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (place.lanes >> lane & 1) counts[lane] = result;
      }
    } else {
      auto& predicate = *reinterpret_cast<LaneMask*>(to);
      predicate = (predicate & ~place.lanes) |
                  (result != 0 ? place.lanes : LaneMask{0});
    }
  }
}

void Block::Start(const Launch& launch, const Dim3& index, Core* core) {
  index_ = index;
  barriers_ = {};
  shared_bytes_ = launch.shared_bytes();
  shared_.Reset(shared_bytes_);
  warps_used_ = launch.block_warps();
  live_warps_ = warps_used_;
  live_ = warps_used_ >= 64 ? ~uint64_t{0} : (uint64_t{1} << warps_used_) - 1;
  while (warps_.size() < warps_used_) warps_.emplace_back();
  for (uint32_t i = 0; i < warps_used_; ++i) {
    warps_[i].Start(launch, this, i, core);
  }
  wait_release_.Start(&core->releases, live_);
}

bool Block::Wait(const Warp& warp, uint32_t barrier) {
  return wait_release_.Wait(barrier, uint64_t{1} << warp.index());
}

void Block::WakeReleased() {
  for (uint64_t left = wait_release_.Wake(); left != 0; left &= left - 1) {
    warps_[static_cast<size_t>(std::countr_zero(left))].Release();
  }
}

bool Block::Arrive(Warp& warp, const Arrival& arrival, std::string& what) {
  if (arrival.barrier >= kBarriers) {
    what =
        fmt::format("barrier {}: a block has {}", arrival.barrier, kBarriers);
    return false;
  }
  if (arrival.threads % kLanes != 0) {
    what = fmt::format("a barrier for {} threads: must be a multiple of {}",
                       arrival.threads, kLanes);
    return false;
  }
  BarrierState& barrier = barriers_[arrival.barrier];
  const uint64_t bit = uint64_t{1} << warp.index();
  if (barrier.arrived == 0) {
    barrier.threads = arrival.threads;
    barrier.mode = arrival.mode;
  } else if (barrier.threads != arrival.threads) {
    what = fmt::format(
        "barrier {} for {} threads, where others wait for {} threads",
        arrival.barrier, arrival.threads, barrier.threads);
    return false;
  }
  if (arrival.mode != BarrierMode::kArrive) barrier.mode = arrival.mode;
  barrier.warps |= bit;
  if (arrival.waits) barrier.waiting |= bit;
  barrier.arrived += kLanes;
  barrier.lanes += arrival.lanes;
  barrier.trues += arrival.value;
  ReleaseIfComplete(barrier);
  return true;
}

void Block::Exited(Warp& warp) {
  --live_warps_;
  live_ &= ~(uint64_t{1} << warp.index());
  wait_release_.Exited(uint64_t{1} << warp.index());
  WakeReleased();
  for (BarrierState& barrier : barriers_) {
    if (barrier.arrived != 0) ReleaseIfComplete(barrier);
  }
}

void Block::ReleaseIfComplete(BarrierState& barrier) {
  const bool complete = barrier.threads == 0
                            ? (live_ & ~barrier.warps) == 0
                            : barrier.arrived >= barrier.threads;
  if (!complete) return;
  const BarrierState done = std::exchange(barrier, {});
  uint32_t result = done.trues;
  if (done.mode == BarrierMode::kAnd) result = done.trues == done.lanes;
  for (uint32_t i = 0; i < warps_used_; ++i) {
    if (done.waiting >> i & 1) warps_[i].Release(result);
  }
}

}  // namespace carillon::sim
