// Lanes of a warp that execute apart, and how they come together again.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "sim/exec/warp.h"

namespace carillon::sim {
namespace {

// Where an operation that lanes do together has its operands, in bytes of a
// lane; 0: a predicate.
struct OperandsOf {
  uint32_t results = 0;  // that come first
  std::vector<uint32_t> bytes;
};
OperandsOf OperandsOfSync(const Semantics& s, const Op& op) {
  switch (s.operation) {
    case Operation::kShuffle:
      return {2, {4, 0, 4, 4, 4, 4}};
    case Operation::kVote:
      return {1,
              {static_cast<VoteMode>(op.variant) == VoteMode::kBallot ? 4u : 0u,
               0, 4}};
    case Operation::kMatchAny:
    case Operation::kMatchAll:
      return {2, {4, 0, ptx::BytesOf(s.type), 4}};
    default:
      return {1, {4, 4, 4}};  // kReduce
  }
}

}  // namespace

LaneMask Warp::ContextLanes() const {
  LaneMask lanes = top_.mask;
  for (const Entry& entry : stack_) lanes |= entry.mask;
  return lanes;
}

void Warp::Restrict(LaneMask lanes) {
  top_.mask &= lanes;
  for (Entry& entry : stack_) entry.mask &= lanes;
  // A path that has none of them must not stay: Merge() would not find this
  // context at the same place as the others any more.
  stack_.erase(
      std::remove_if(stack_.begin() + static_cast<ptrdiff_t>(frame_.depth),
                     stack_.end(),
                     [](const Entry& entry) { return entry.mask == 0; }),
      stack_.end());
  frame_.mask &= lanes;
  for (Frame& frame : frames_) frame.mask &= lanes;
}

Warp::Context Warp::Save() {
  return {top_, std::move(stack_), frame_, std::move(frames_)};
}

Warp::Context Warp::Detach(LaneMask lanes) {
  const LaneMask rest = ContextLanes() & ~lanes;
  Context whole{top_, stack_, frame_, frames_};
  Restrict(lanes);
  Context detached = Save();
  Resume(std::move(whole));
  Restrict(rest);
  return detached;
}

void Warp::Resume(Context context) {
  top_ = context.top;
  stack_ = std::move(context.stack);
  frame_ = context.frame;
  frames_ = std::move(context.frames);
  base_[0] = registers_.data() + frame_.registers;
}

bool Warp::Rotate() {
  for (size_t i = 0; i < others_.size(); ++i) {
    if (others_[i].waits_at != nullptr) continue;
    Context next = std::move(others_[i]);
    others_.erase(others_.begin() + static_cast<ptrdiff_t>(i));
    Resume(std::move(next));
    if (top_.pc == top_.reconverge) Reconverge();
    return true;
  }
  return false;
}

// The paths of one context wait for each other where they meet. A path that
// spins for another one must therefore become a context of its own.
void Warp::Yield() {
  const LaneMask mine = top_.mask;
  const LaneMask rest = ContextLanes() & ~mine;
  if (rest == 0 && others_.empty()) return;
  if (rest != 0) {
    others_.push_back(Detach(mine));
    // Continues where lanes are left: on another path, or back in a caller.
    DropEmpty();
    Reconverge();
    return;
  }
  Context waiting = Save();
  if (Rotate()) {
    others_.push_back(std::move(waiting));
  } else {
    Resume(std::move(waiting));
  }
}

bool Warp::Looks(const Op& op, LaneMask mask, uint64_t seen) {
  for (Look& look : looks_) {
    if (look.op != &op || look.mask != mask) continue;
    const bool same = look.seen == seen && look.writes == writes_;
    look.seen = seen;
    look.writes = writes_;
    if (same) {
      core_->attention = true;
      looked_at_ = executed_;
    }
    return same;
  }
  looks_[next_look_++ % looks_.size()] = {&op, mask, seen, writes_};
  return false;
}

bool Warp::GiveWay() {
  if (std::exchange(gave_way_at_, writes_) != writes_) gave_way_ = 0;
  ++gave_way_;
  Yield();
  return gave_way_ <= others_.size();
}

void Warp::Merge(Context& other) {
  const auto same_frame = [](const Frame& a, const Frame& b) {
    return a.function == b.function && a.call == b.call && a.depth == b.depth &&
           a.registers == b.registers && a.local_base == b.local_base;
  };
  const auto same_entry = [](const Entry& a, const Entry& b) {
    return a.pc == b.pc && a.reconverge == b.reconverge;
  };
  if (!same_entry(top_, other.top) || !same_frame(frame_, other.frame) ||
      !std::ranges::equal(stack_, other.stack, same_entry) ||
      !std::ranges::equal(frames_, other.frames, same_frame)) {
    return;
  }
  top_.mask |= std::exchange(other.top.mask, 0);
  frame_.mask |= other.frame.mask;
  for (size_t i = 0; i < stack_.size(); ++i) {
    stack_[i].mask |= other.stack[i].mask;
  }
  for (size_t i = 0; i < frames_.size(); ++i) {
    frames_[i].mask |= other.frames[i].mask;
  }
}

bool Warp::AreCopies(const Op& a, const Op& b) const {
  if (&a == &b) return true;
  if (a.flow != b.flow || a.variant != b.variant) return false;
  if (a.flow == Flow::kBarrier) return true;
  if (a.flow != Flow::kWarpSync) return false;
  const Semantics& of_a = launch_->program->info[a.pc].semantics;
  const Semantics& of_b = launch_->program->info[b.pc].semantics;
  return of_a.operation == of_b.operation && of_a.type == of_b.type;
}

bool Warp::Meet(const Op& op, uint64_t what, LaneMask needed, LaneMask& lanes) {
  const LaneMask here = lanes;
  std::vector<Context*> there;
  places_.assign(1, {&op, frame_.registers, here});
  for (Context& other : others_) {
    if (other.waits_at == nullptr || other.waits_for != what ||
        !AreCopies(op, *other.waits_at)) {
      continue;
    }
    if (other.waits_at == &op && other.frame.registers == frame_.registers) {
      places_[0].lanes |= other.top.mask;
    } else {
      places_.push_back(
          {other.waits_at, other.frame.registers, other.top.mask});
    }
    there.push_back(&other);
    lanes |= other.top.mask;
  }
  if ((needed & ~lanes) != 0) {
    Context waiting = Detach(here);
    waiting.top.pc = op.pc;
    waiting.waits_at = &op;
    waiting.waits_for = what;
    others_.push_back(std::move(waiting));
    return false;
  }
  for (Context* const other : there) {
    other->waits_at = nullptr;
    ++other->top.pc;
    Merge(*other);
  }
  if (!there.empty()) {
    std::erase_if(others_,
                  [](const Context& other) { return other.top.mask == 0; });
  }
  return true;
}

// Each place names registers of its own. So the operation works on a copy of
// them behind all frames.
void Warp::DoFromPlaces(const Op& op, LaneMask lanes) {
  const OperandsOf operands =
      OperandsOfSync(launch_->program->info[op.pc].semantics, op);
  const std::vector<uint32_t>& bytes = operands.bytes;
  constexpr uint32_t kSlotBytes = kLanes * 8;
  const uint32_t begin = (EndOfFrames() + 63) / 64 * 64;
  registers_.Grow(begin + op.operands.size() * kSlotBytes);
  base_[0] = registers_.data() + frame_.registers;
  Op copy = op;
  copy.offset = 0;
  for (uint32_t n = 0; n < bytes.size(); ++n) {
    copy.operands[n] =
        Slot::Register(begin - frame_.registers + n * kSlotBytes);
  }
  const auto move = [&](const Place& place, uint32_t n, bool to_copy) {
    const Slot slot = place.op->operands[n];
    if (slot.is_constant() && !to_copy) return;  // "_"
    std::byte* const theirs =
        slot.is_constant() ? base_[1] + slot.byte()
                           : registers_.data() + place.registers + slot.byte();
    std::byte* const ours = To<std::byte>(copy.operands[n]);
    if (bytes[n] != 0) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if ((place.lanes >> lane & 1) == 0) continue;
        std::byte* const a = ours + size_t{lane} * bytes[n];
        std::byte* const b = theirs + size_t{lane} * bytes[n];
        std::copy_n(to_copy ? b : a, bytes[n], to_copy ? a : b);
      }
      return;
    }
    LaneMask value = 0;
    LaneMask kept = 0;
    std::memcpy(&value, to_copy ? theirs : ours, sizeof(value));
    std::memcpy(&kept, to_copy ? ours : theirs, sizeof(kept));
    // A vote may be for the opposite.
    if (to_copy && place.op->offset != 0) value = ~value;
    kept = (kept & ~place.lanes) | (value & place.lanes);
    std::memcpy(to_copy ? ours : theirs, &kept, sizeof(kept));
  };
  for (const Place& place : places_) {
    for (uint32_t n = operands.results; n < bytes.size(); ++n)
      move(place, n, true);
  }
  op.handler(copy, *this, lanes);
  for (const Place& place : places_) {
    for (uint32_t n = 0; n < operands.results; ++n) move(place, n, false);
  }
}

void Warp::FailIfAllWait(const Op& op, LaneMask lanes, LaneMask needed) {
  if (ContextLanes() != 0 ||
      std::ranges::any_of(others_, [](const Context& other) {
        return other.waits_at == nullptr;
      })) {
    return;
  }
  Fail(op, needed & ~lanes,
       fmt::format("lanes {:#010x} wait for lanes {:#010x} of the warp, which "
                   "never come",
                   lanes, needed & ~lanes));
  // Somebody must be there, whatever is done with the warp now.
  others_.back().waits_at = nullptr;
  Rotate();
}

// Each group of lanes that name each other does it for itself.
void Warp::WarpSync(const Op& op, LaneMask mask) {
  const uint32_t* const named = From<uint32_t>(op.operands[op.members]);
  LaneMask waiting = 0;
  LaneMask needed = 0;
  for (LaneMask left = mask; left != 0;) {
    const auto first = static_cast<uint32_t>(std::countr_zero(left));
    const LaneMask members = named[first];
    LaneMask group = left & LanesWith(named, members);
    left &= ~group;
    if (const LaneMask wrong = group & ~members; wrong != 0) {
      return Fail(
          op, wrong,
          fmt::format("member mask {:#010x} does not name the lane itself",
                      members));
    }
    if (const LaneMask wrong = members & mask & ~group; wrong != 0) {
      return Fail(op, wrong,
                  fmt::format("member mask {:#010x}, where lane {} names "
                              "{:#010x}",
                              named[std::countr_zero(wrong)], first, members));
    }
    if (Meet(op, members, members & live_, group)) {
      if (places_.size() == 1 || op.members == 0) {
        op.handler(op, *this, group);
      } else {
        DoFromPlaces(op, group);
      }
    } else {
      waiting = group;
      needed = members & live_;
    }
  }
  if (waiting != 0) FailIfAllWait(op, waiting, needed);
}

// PTX ISA, .aligned: the behaviour is undefined if a thread of the warp has
// exited, or if they do not all execute the same instruction.
void Warp::WholeWarp(const Op& op, LaneMask mask) {
  if (live_ != kAllLanes) {
    return Fail(op, ~live_,
                fmt::format("all 32 lanes of the warp do this together; lanes "
                            "{:#010x} have exited or never were there",
                            ~live_));
  }
  if (!AllAreHere(op, 0, mask)) {
    // A model of time sees that nothing was touched.
    core_->access.space = MemorySpace::kShared;
    core_->access.mask = 0;
    return;
  }
  if (places_.size() > 1) {
    return Fail(op, places_[1].lanes,
                fmt::format("lanes {:#010x} came here by another call than "
                            "lanes {:#010x}",
                            places_[1].lanes, places_[0].lanes));
  }
  op.handler(op, *this, mask);
}

bool Warp::AllAreHere(const Op& op, uint64_t what, LaneMask& mask) {
  if (mask == live_) {
    places_.resize(1);
    places_[0] = {&op, frame_.registers, mask};
    return true;
  }
  if (Meet(op, what, live_, mask)) return true;
  FailIfAllWait(op, mask, live_);
  return false;
}

}  // namespace carillon::sim
