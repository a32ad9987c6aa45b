#include "kernels/simt/cpu/simt_cpu_barrier.h"

#include <bit>
#include <cstdlib>
#include <memory>

namespace carillon::simt {

namespace internal {

// The header of a piece of the arena; its bytes follow it.
struct Chunk {
  Chunk* next;
  size_t size;
  std::byte* begin() { return reinterpret_cast<std::byte*>(this + 1); }
  std::byte* end() { return begin() + size; }
};
static_assert(sizeof(Chunk) == 16);

namespace {
constexpr size_t kMinChunkBytes = size_t{64} * 1024;
}  // namespace

FrameArena& FrameArena::OfThisThread() {
  static thread_local FrameArena arena;
  return arena;
}

FrameArena::~FrameArena() {
  while (first_ != nullptr) {
    Chunk* next = first_->next;
    std::free(first_);
    first_ = next;
  }
}

void FrameArena::Release(const Mark& mark) {
  chunk_ = mark.chunk;
  next_ = mark.next;
  end_ = chunk_ == nullptr ? nullptr : chunk_->end();
}

void* FrameArena::AllocateSlow(size_t bytes) {
  Chunk* candidate = chunk_ == nullptr ? first_ : chunk_->next;
  while (candidate != nullptr && candidate->size < bytes)
    candidate = candidate->next;
  if (candidate == nullptr) {
    const size_t size = bytes > kMinChunkBytes ? bytes : kMinChunkBytes;
    void* memory = std::malloc(sizeof(Chunk) + size);
    if (memory == nullptr) return nullptr;
    candidate = new (memory) Chunk{nullptr, size};
    Chunk** tail = &first_;
    while (*tail != nullptr) tail = &(*tail)->next;
    *tail = candidate;
  }
  chunk_ = candidate;
  next_ = candidate->begin() + bytes;
  end_ = candidate->end();
  return candidate->begin();
}

}  // namespace internal

// Runs one block of a barrier kernel; see the header for the order.
class BlockRunner {
 public:
  BlockRunner(const BlockLaunch& launch, const char* kernel, const void* args,
              internal::StartThread start)
      : context_{{launch.grid, launch.block, launch.block_index, &launch,
                  kernel},
                 &internal::FrameArena::OfThisThread()},
        args_(args),
        start_(start),
        mark_(context_.arena->mark()) {}
  ~BlockRunner() { context_.arena->Release(mark_); }
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  void Run() {
    if (!IsValidBlock(context_.block)) {
      internal::ReportFailure(
          context_, kFailBadLaunch,
          "a block of %ux%ux%u threads; it must have 1 to %u", context_.block.x,
          context_.block.y, context_.block.z, kMaxThreadsPerBlock);
      return;
    }
    thread_count_ = static_cast<uint32_t>(context_.block.count());
    threads_ = static_cast<BarrierThread*>(
        context_.arena->Allocate(thread_count_ * sizeof(BarrierThread)));
    if (threads_ == nullptr) {
      ReportNoMemory();
      return;
    }
    bool go_on = FirstPhase();
    while (go_on && barrier_ != WaitPoint()) go_on = NextPhase();
    if (!go_on) DestroyAll();
  }

 private:
  using WaitPoint = internal::WaitPoint;
  using WarpOp = internal::WarpOp;

  // The lanes of one warp, one bit each. A lane is in `live` until it exits,
  // and also in one of the other two while it waits.
  struct Warp {
    uint32_t live;
    uint32_t at_barrier;
    uint32_t at_warp_op;
  };

  uint32_t LanesOfWarp(uint32_t warp) const {
    const uint32_t lanes = thread_count_ - warp * kWarpSize;
    return lanes >= kWarpSize ? ~0u : (1u << lanes) - 1;
  }

  [[gnu::cold]] void ReportNoMemory() {
    internal::ReportFailure(context_, kFailNoMemory, "no memory for %u threads",
                            thread_count_);
  }

  // Starts all threads and brings each warp to its first barrier.
  bool FirstPhase() {
    Dim3 index{0, 0, 0};
    for (uint32_t first = 0; first < thread_count_; first += kWarpSize) {
      Warp& warp = warps_[warp_count_];
      const uint32_t lanes = LanesOfWarp(warp_count_++);
      warp = {lanes, 0, 0};
      WaitPoint some;
      uint32_t differ = 0;
      for (uint32_t i = first; i < thread_count_ && i < first + kWarpSize;
           ++i) {
        BarrierThread* thread =
            std::construct_at(&threads_[i], context_, index, i);
        if (++index.x == context_.block.x) {
          index.x = 0;
          if (++index.y == context_.block.y) {
            index.y = 0;
            ++index.z;
          }
        }
        if (!start_(args_, *thread).started) [[unlikely]] {
          // This thread could not start, so neither it nor those after it
          // exist.
          Sort(warp, LanesBelow(i - first), some, true);
          warp.live = warp.at_barrier | warp.at_warp_op;
          ReportNoMemory();
          return false;
        }
        some = thread->wait_;
        differ |= some ^ threads_[first].wait_;
      }
      Sort(warp, lanes, some, differ != 0);
      if (!AdvanceWarp(warp)) return false;
    }
    return true;
  }

  // Lets all live threads pass the barrier at which they stand.
  bool NextPhase() {
    barrier_ = WaitPoint();
    for (uint32_t i = 0; i < warp_count_; ++i) {
      Warp& warp = warps_[i];
      const uint32_t lanes = warp.at_barrier;
      if (lanes == 0) continue;
      warp.at_barrier = 0;
      Resume(warp, lanes);
      if (!AdvanceWarp(warp)) return false;
    }
    return true;
  }

  // Resolves warp operations until every live lane is at the block barrier.
  // Reports and returns false if that is impossible, or if the barrier is
  // another one than that of the previous warps.
  bool AdvanceWarp(Warp& warp) {
    while (warp.at_warp_op != 0) {
      const uint32_t ready = ResolveWarpOps(warp);
      if (ready == 0) {
        ReportDeadlock();
        return false;
      }
      warp.at_warp_op &= ~ready;
      Resume(warp, ready);
    }
    if (barriers_differ_) [[unlikely]] {
      ReportDeadlock();
      return false;
    }
    return true;
  }

  BarrierThread* ThreadsOf(const Warp& warp) {
    return &threads_[(&warp - warps_) * kWarpSize];
  }
  static uint32_t LanesBelow(uint32_t lane) { return (1u << lane) - 1; }

  void Resume(Warp& warp, uint32_t lanes) {
    BarrierThread* threads = ThreadsOf(warp);
    BarrierThread& first = threads[std::countr_zero(lanes)];
    first.handle_.resume();
    const WaitPoint some = first.wait_;
    uint32_t differ = 0;
    for (uint32_t rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1) {
      BarrierThread& thread = threads[std::countr_zero(rest)];
      thread.handle_.resume();
      differ |= thread.wait_ ^ some;
    }
    Sort(warp, lanes, some, differ != 0);
  }

  // Sorts lanes that have just run by what they wait for; all wait at `some`
  // unless they differ.
  void Sort(Warp& warp, uint32_t lanes, WaitPoint some, bool differ) {
    if (!differ) [[likely]] {
      SortAlike(warp, lanes, some);
      return;
    }
    BarrierThread* threads = ThreadsOf(warp);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      SortAlike(warp, rest & -rest, threads[std::countr_zero(rest)].wait_);
    }
  }

  void SortAlike(Warp& warp, uint32_t lanes, WaitPoint wait) {
    if (wait.exited()) {
      warp.live &= ~lanes;
    } else if (wait.is_warp_op()) {
      warp.at_warp_op |= lanes;
    } else {
      warp.at_barrier |= lanes;
      if (barrier_ == WaitPoint()) barrier_ = wait;
      barriers_differ_ |= wait != barrier_;
    }
  }

  // Completes every warp operation at which all live participants have arrived;
  // returns their lanes.
  uint32_t ResolveWarpOps(const Warp& warp) {
    BarrierThread* threads = ThreadsOf(warp);
    uint32_t ready = 0;
    for (uint32_t open = warp.at_warp_op; open != 0;) {
      const uint32_t leader_bit = open & -open;
      const BarrierThread& leader = threads[std::countr_zero(open)];
      const uint32_t group = leader.mask_ & warp.live;
      bool complete = (group & open) == group && (group & leader_bit) != 0;
      for (uint32_t rest = group; complete && rest != 0; rest &= rest - 1) {
        const BarrierThread& lane = threads[std::countr_zero(rest)];
        complete = lane.op_ == leader.op_ && (lane.mask_ & warp.live) == group;
      }
      if (!complete) {
        open &= ~leader_bit;
        continue;
      }
      ResolveGroup(threads, leader.op_, group);
      ready |= group;
      open &= ~group;
    }
    return ready;
  }

  static void ResolveGroup(BarrierThread* threads, WarpOp op, uint32_t group) {
    switch (op) {
      case WarpOp::kSync:
        return;
      case WarpOp::kShfl:
      case WarpOp::kShflDown:
      case WarpOp::kShflUp:
      case WarpOp::kShflXor:
        Shuffle(threads, group);
        return;
      case WarpOp::kBallot:
        Publish(threads, group, Votes(threads, group));
        return;
      case WarpOp::kAny:
        Publish(threads, group, Votes(threads, group) != 0);
        return;
      case WarpOp::kAll:
        Publish(threads, group, Votes(threads, group) == group);
        return;
    }
  }

  static void Shuffle(BarrierThread* threads, uint32_t group) {
    uint64_t values[kWarpSize];
    for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      values[lane] = threads[lane].bits_;
    }
    for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
      BarrierThread& thread = threads[std::countr_zero(rest)];
      if (thread.source_ < kWarpSize && ((group >> thread.source_) & 1) != 0) {
        thread.bits_ = values[thread.source_];
      }
    }
  }

  static uint32_t Votes(const BarrierThread* threads, uint32_t group) {
    uint32_t votes = 0;
    for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      votes |= static_cast<uint32_t>(threads[lane].bits_) << lane;
    }
    return votes;
  }

  static void Publish(BarrierThread* threads, uint32_t group, uint64_t result) {
    for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
      threads[std::countr_zero(rest)].bits_ = result;
    }
  }

  // Name two threads that wait for different things: that shows best what is
  // wrong.
  [[gnu::cold]] void ReportDeadlock() {
    const BarrierThread* first = nullptr;
    const BarrierThread* other = nullptr;
    bool any_warp_op = false;
    for (uint32_t i = 0; i < warp_count_; ++i) {
      const uint32_t waiting = warps_[i].at_barrier | warps_[i].at_warp_op;
      for (uint32_t rest = waiting; rest != 0; rest &= rest - 1) {
        const BarrierThread& thread =
            ThreadsOf(warps_[i])[std::countr_zero(rest)];
        any_warp_op |= thread.wait_.is_warp_op();
        if (first == nullptr) {
          first = &thread;
        } else if (other == nullptr && (thread.wait_ != first->wait_ ||
                                        (thread.wait_.is_warp_op() &&
                                         thread.mask_ != first->mask_))) {
          other = &thread;
        }
      }
    }
    const uint32_t status =
        any_warp_op ? kFailWarpDeadlock : kFailBarrierDeadlock;
    const auto what = [](const BarrierThread& thread) {
      return thread.wait_.is_warp_op() ? "a warp operation"
                                       : "the block barrier";
    };
    if (other != nullptr) {
      internal::ReportFailure(context_, status,
                              "thread %u waits at %s in line %u, thread %u at "
                              "%s in line %u; all live threads must "
                              "reach the same one",
                              first->linear(), what(*first),
                              first->wait_.line(), other->linear(),
                              what(*other), other->wait_.line());
    } else {
      internal::ReportFailure(context_, status,
                              "thread %u waits at a warp operation in line %u "
                              "with mask 0x%08x, which names lanes that "
                              "never come, or not the thread itself",
                              first->linear(), first->wait_.line(),
                              first->mask_);
    }
  }

  void DestroyAll() {
    for (uint32_t i = 0; i < warp_count_; ++i) {
      for (uint32_t rest = warps_[i].live; rest != 0; rest &= rest - 1) {
        ThreadsOf(warps_[i])[std::countr_zero(rest)].handle_.destroy();
      }
    }
  }

  const internal::BarrierBlockContext context_;
  const void* const args_;
  const internal::StartThread start_;
  const internal::FrameArena::Mark mark_;
  uint32_t thread_count_ = 0;
  uint32_t warp_count_ = 0;  // of warps that have started
  BarrierThread* threads_ = nullptr;
  WaitPoint barrier_;  // of this phase, so far; exited: nobody waits
  bool barriers_differ_ = false;
  Warp warps_[kMaxThreadsPerBlock / kWarpSize];
};

namespace internal {

void RunBarrierBlock(const BlockLaunch& launch, const char* kernel,
                     const void* args, StartThread start) {
  BlockRunner(launch, kernel, args, start).Run();
}

}  // namespace internal

}  // namespace carillon::simt
