#include "gpu_daemon/backends/cpu/simt_cpu_barrier.h"

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
  if (chunk_ == nullptr) {
    // Taken before the first allocation: start over with the first chunk.
    chunk_ = first_;
    next_ = chunk_ == nullptr ? nullptr : chunk_->begin();
  }
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
      : context_{launch.grid, launch.block, launch.block_index, &launch,
                 kernel},
        args_(args),
        start_(start),
        arena_(internal::FrameArena::OfThisThread()),
        mark_(arena_.mark()) {}
  ~BlockRunner() { arena_.Release(mark_); }
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  void Run() {
    const uint64_t count = context_.block.count();
    if (count == 0 || count > kMaxThreadsPerBlock) {
      internal::ReportFailure(
          context_, kFailBadLaunch,
          "a block of %ux%ux%u threads; it must have 1 to %u", context_.block.x,
          context_.block.y, context_.block.z, kMaxThreadsPerBlock);
      return;
    }
    thread_count_ = static_cast<uint32_t>(count);
    warp_count_ = (thread_count_ + kWarpSize - 1) / kWarpSize;
    threads_ = static_cast<BarrierThread*>(
        arena_.Allocate(thread_count_ * sizeof(BarrierThread)));
    if (threads_ == nullptr) {
      ReportNoMemory();
      return;
    }
    if (!FirstPhase()) {
      DestroyAll();
      return;
    }
    while (AnyLive()) {
      if (!BarrierIsComplete() || !NextPhase()) {
        ReportDeadlock();
        DestroyAll();
        return;
      }
    }
  }

 private:
  uint32_t LanesOfWarp(uint32_t warp) const {
    const uint32_t lanes = thread_count_ - warp * kWarpSize;
    return lanes >= kWarpSize ? ~0u : (1u << lanes) - 1;
  }

  void ReportNoMemory() {
    internal::ReportFailure(context_, kFailBadLaunch,
                            "no memory for the state of %u threads",
                            thread_count_);
  }

  // Starts all threads and brings each warp to its first barrier.
  bool FirstPhase() {
    Dim3 index{0, 0, 0};
    for (uint32_t warp = 0; warp < warp_count_; ++warp) {
      internal::WarpState& state = warps_[warp];
      state.live = LanesOfWarp(warp);
      state.arena = &arena_;
      const uint32_t first = warp * kWarpSize;
      const uint32_t end = first + std::popcount(state.live);
      for (uint32_t i = first; i < end; ++i) {
        BarrierThread* thread =
            std::construct_at(&threads_[i], context_, index, i, &state);
        if (++index.x == context_.block.x) {
          index.x = 0;
          if (++index.y == context_.block.y) {
            index.y = 0;
            ++index.z;
          }
        }
        if (!start_(args_, *thread).started) {
          // The threads from here on do not exist.
          state.live &= (1u << (i % kWarpSize)) - 1;
          warp_count_ = warp + 1;
          ReportNoMemory();
          return false;
        }
      }
      if (!AdvanceWarp(warp)) {
        warp_count_ = warp + 1;
        ReportDeadlock();
        return false;
      }
    }
    return true;
  }

  bool NextPhase() {
    for (uint32_t warp = 0; warp < warp_count_; ++warp) {
      internal::WarpState& state = warps_[warp];
      const uint32_t lanes = state.at_barrier;
      state.at_barrier = 0;
      state.barrier_lines_differ = false;
      Resume(warp, lanes);
      if (!AdvanceWarp(warp)) return false;
    }
    return true;
  }

  void Resume(uint32_t warp, uint32_t lanes) {
    BarrierThread* threads = &threads_[warp * kWarpSize];
    for (; lanes != 0; lanes &= lanes - 1)
      threads[std::countr_zero(lanes)].handle_.resume();
  }

  // Resolves warp operations until every live lane is at the block barrier;
  // false when stuck.
  bool AdvanceWarp(uint32_t warp) {
    internal::WarpState& state = warps_[warp];
    while (state.at_warp_op != 0) {
      const uint32_t ready = ResolveWarpOps(warp);
      if (ready == 0) return false;
      state.at_warp_op &= ~ready;
      Resume(warp, ready);
    }
    return true;
  }

  // Completes every warp operation whose live participants have all arrived;
  // returns their lanes.
  uint32_t ResolveWarpOps(uint32_t warp) {
    const internal::WarpState& state = warps_[warp];
    BarrierThread* threads = &threads_[warp * kWarpSize];
    uint32_t ready = 0;
    for (uint32_t open = state.at_warp_op; open != 0;) {
      const int leader = std::countr_zero(open);
      const BarrierThread& first = threads[leader];
      const uint32_t group = first.mask_ & state.live;
      bool complete = (group & open) == group && (group & first.lane_bit_) != 0;
      for (uint32_t rest = group & open; complete && rest != 0;
           rest &= rest - 1) {
        const BarrierThread& lane = threads[std::countr_zero(rest)];
        complete = lane.op_ == first.op_ && (lane.mask_ & state.live) == group;
      }
      if (!complete) {
        open &= ~first.lane_bit_;
        continue;
      }
      ResolveGroup(threads, first.op_, group);
      ready |= group;
      open &= ~group;
    }
    return ready;
  }

  static void ResolveGroup(BarrierThread* threads, internal::WarpOp op,
                           uint32_t group) {
    using internal::WarpOp;
    switch (op) {
      case WarpOp::kSync:
        return;
      case WarpOp::kShfl:
      case WarpOp::kShflDown:
      case WarpOp::kShflUp:
      case WarpOp::kShflXor: {
        uint64_t values[kWarpSize];
        for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
          const int lane = std::countr_zero(rest);
          values[lane] = threads[lane].bits_;
        }
        for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
          BarrierThread& thread = threads[std::countr_zero(rest)];
          if (thread.source_ < kWarpSize &&
              ((group >> thread.source_) & 1) != 0) {
            thread.bits_ = values[thread.source_];
          }
        }
        return;
      }
      case WarpOp::kBallot:
      case WarpOp::kAny:
      case WarpOp::kAll: {
        uint32_t votes = 0;
        for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
          const int lane = std::countr_zero(rest);
          votes |= static_cast<uint32_t>(threads[lane].bits_ & 1) << lane;
        }
        const uint64_t result = op == WarpOp::kBallot ? votes
                                : op == WarpOp::kAny  ? (votes != 0)
                                                      : (votes == group);
        for (uint32_t rest = group; rest != 0; rest &= rest - 1) {
          threads[std::countr_zero(rest)].bits_ = result;
        }
        return;
      }
    }
  }

  bool AnyLive() const {
    uint32_t live = 0;
    for (uint32_t warp = 0; warp < warp_count_; ++warp)
      live |= warps_[warp].live;
    return live != 0;
  }

  // Every live thread stands at the barrier by now; they must also stand at the
  // same one.
  bool BarrierIsComplete() const {
    uint32_t line = 0;
    for (uint32_t warp = 0; warp < warp_count_; ++warp) {
      const internal::WarpState& state = warps_[warp];
      if (state.live == 0) continue;
      if (state.barrier_lines_differ) return false;
      if (line == 0) line = state.barrier_line;
      if (line != state.barrier_line) return false;
    }
    return true;
  }

  void ReportDeadlock() {
    // Two threads that wait for different things tell what went wrong.
    const BarrierThread* first = nullptr;
    const BarrierThread* other = nullptr;
    bool first_in_warp_op = false;
    bool other_in_warp_op = false;
    bool any_warp_op = false;
    for (uint32_t warp = 0; warp < warp_count_; ++warp) {
      const internal::WarpState& state = warps_[warp];
      for (uint32_t rest = state.at_barrier | state.at_warp_op; rest != 0;
           rest &= rest - 1) {
        const BarrierThread& thread =
            threads_[warp * kWarpSize + std::countr_zero(rest)];
        const bool in_warp_op = (state.at_warp_op & thread.lane_bit_) != 0;
        any_warp_op |= in_warp_op;
        if (first == nullptr) {
          first = &thread;
          first_in_warp_op = in_warp_op;
        } else if (other == nullptr &&
                   (thread.line_ != first->line_ ||
                    in_warp_op != first_in_warp_op ||
                    (in_warp_op && thread.mask_ != first->mask_))) {
          other = &thread;
          other_in_warp_op = in_warp_op;
        }
      }
    }
    const uint32_t status =
        any_warp_op ? kFailWarpDeadlock : kFailBarrierDeadlock;
    const auto what = [](bool in_warp_op) {
      return in_warp_op ? "a warp operation" : "the block barrier";
    };
    if (other != nullptr) {
      internal::ReportFailure(
          context_, status,
          "thread %u waits at %s in line %u, thread %u at %s in line %u; all "
          "live threads must reach the same one",
          first->linear(), what(first_in_warp_op), first->line_,
          other->linear(), what(other_in_warp_op), other->line_);
    } else {
      internal::ReportFailure(
          context_, status,
          "thread %u waits at %s in line %u with mask 0x%08x, which names "
          "lanes that do not come or leaves itself out",
          first->linear(), what(first_in_warp_op), first->line_, first->mask_);
    }
  }

  void DestroyAll() {
    for (uint32_t warp = 0; warp < warp_count_; ++warp) {
      for (uint32_t rest = warps_[warp].live; rest != 0; rest &= rest - 1) {
        threads_[warp * kWarpSize + std::countr_zero(rest)].handle_.destroy();
      }
    }
  }

  const internal::BlockContext context_;
  const void* const args_;
  const internal::StartThread start_;
  internal::FrameArena& arena_;
  const internal::FrameArena::Mark mark_;
  uint32_t thread_count_ = 0;
  uint32_t warp_count_ = 0;
  BarrierThread* threads_ = nullptr;
  internal::WarpState warps_[kMaxThreadsPerBlock / kWarpSize];
};

namespace internal {

void RunBarrierBlock(const BlockLaunch& launch, const char* kernel,
                     const void* args, StartThread start) {
  BlockRunner(launch, kernel, args, start).Run();
}

}  // namespace internal

}  // namespace carillon::simt
