// Barrier kernels on a CPU core: each thread is a stackless coroutine, run warp
// by warp. Include kernels/simt/simt.h, not this file.
//
// A lane runs until it exits or awaits. The warp then resolves its warp
// operations and resumes the lanes, until every lane has exited or stands at
// the block barrier. When all warps are there, the next phase starts. If no
// lane can go on, the block has deadlocked: every coroutine is destroyed and
// the event fails. Warps do not interleave between barriers, so a lock that a
// warp takes and releases between two barriers is never contended inside its
// own block.
#ifndef CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_BARRIER_H_
#define CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_BARRIER_H_

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <type_traits>

#include "kernels/simt/cpu/simt_cpu.h"

namespace carillon::simt {

namespace internal {

// Memory for the coroutine frames of the block that this OS thread runs. It
// grows when a kernel needs more than any before it, is reused by the next
// block, and is not returned before the OS thread ends. Blocks nest (mark and
// release); single frames are never freed.
class FrameArena {
 public:
  FrameArena() = default;
  ~FrameArena();
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;

  static FrameArena& OfThisThread();

  // The memory is 16-byte aligned; nullptr if the system has none left.
  void* Allocate(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (bytes > static_cast<size_t>(end_ - next_)) return AllocateSlow(bytes);
    std::byte* result = next_;
    next_ += bytes;
    return result;
  }

  struct Mark {
    struct Chunk* chunk;
    std::byte* next;
  };
  Mark mark() const { return {chunk_, next_}; }
  void Release(const Mark& mark);

 private:
  void* AllocateSlow(size_t bytes);

  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  struct Chunk* chunk_ = nullptr;  // in use now
  struct Chunk* first_ = nullptr;
};

enum class WarpOp : uint8_t {
  kSync,
  kShfl,
  kShflDown,
  kShflUp,
  kShflXor,
  kBallot,
  kAny,
  kAll
};

// What the threads of a barrier block share.
struct BarrierBlockContext : BlockContext {
  FrameArena* arena;
};

// What a thread waits for, in one word, so that one comparison shows whether a
// warp's lanes agree: 0 when it has exited, otherwise the source line of the
// wait and whether it is a warp operation.
class WaitPoint {
 public:
  constexpr WaitPoint() = default;
  static constexpr WaitPoint Barrier(uint32_t line) {
    return WaitPoint(line << 1);
  }
  static constexpr WaitPoint Warp(uint32_t line) {
    return WaitPoint(line << 1 | 1);
  }
  constexpr bool exited() const { return word_ == 0; }
  constexpr bool is_warp_op() const { return (word_ & 1) != 0; }
  constexpr uint32_t line() const { return word_ >> 1; }
  // 0 exactly when both are the same.
  constexpr uint32_t operator^(WaitPoint other) const {
    return word_ ^ other.word_;
  }
  constexpr bool operator==(const WaitPoint&) const = default;

 private:
  constexpr explicit WaitPoint(uint32_t word) : word_(word) {}
  uint32_t word_ = 0;
};

}  // namespace internal

// A thread of a barrier kernel: a Thread, and what it waits for.
class BarrierThread : public Thread {
 public:
  BarrierThread(const internal::BarrierBlockContext& context, Dim3 index,
                uint32_t linear)
      : Thread(context, index, linear) {}

  // The scheduler knows the coroutine from its start, so an await only notes
  // where it waits.
  struct [[nodiscard]] BarrierAwaiter {
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
  };

  template <class Result>
  struct [[nodiscard]] WarpAwaiter {
    BarrierThread* thread;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    Result await_resume() const noexcept {
      if constexpr (!std::is_void_v<Result>) {
        Result result;
        std::memcpy(&result, &thread->bits_, sizeof(result));
        return result;
      }
    }
  };

  BarrierAwaiter SyncThreads(uint32_t line) {
    wait_ = internal::WaitPoint::Barrier(line);
    return {};
  }
  WarpAwaiter<void> SyncWarp(uint32_t line, uint32_t mask) {
    Post(internal::WarpOp::kSync, line, mask, 0);
    return {this};
  }
  template <class T>
  WarpAwaiter<T> Shfl(uint32_t line, uint32_t mask, T value, uint32_t source) {
    return PostShuffle(internal::WarpOp::kShfl, line, mask, value,
                       source % kWarpSize);
  }
  template <class T>
  WarpAwaiter<T> ShflDown(uint32_t line, uint32_t mask, T value,
                          uint32_t delta) {
    return PostShuffle(internal::WarpOp::kShflDown, line, mask, value,
                       delta < kWarpSize ? lane() + delta : kWarpSize);
  }
  template <class T>
  WarpAwaiter<T> ShflUp(uint32_t line, uint32_t mask, T value, uint32_t delta) {
    return PostShuffle(internal::WarpOp::kShflUp, line, mask, value,
                       delta <= lane() ? lane() - delta : kWarpSize);
  }
  template <class T>
  WarpAwaiter<T> ShflXor(uint32_t line, uint32_t mask, T value,
                         uint32_t lane_mask) {
    return PostShuffle(internal::WarpOp::kShflXor, line, mask, value,
                       lane() ^ lane_mask);
  }
  WarpAwaiter<uint32_t> Ballot(uint32_t line, uint32_t mask, bool predicate) {
    Post(internal::WarpOp::kBallot, line, mask, predicate);
    return {this};
  }
  WarpAwaiter<bool> Any(uint32_t line, uint32_t mask, bool predicate) {
    Post(internal::WarpOp::kAny, line, mask, predicate);
    return {this};
  }
  WarpAwaiter<bool> All(uint32_t line, uint32_t mask, bool predicate) {
    Post(internal::WarpOp::kAll, line, mask, predicate);
    return {this};
  }

 private:
  friend class BlockRunner;
  friend struct BarrierTask;

  internal::FrameArena& arena() const {
    return *static_cast<const internal::BarrierBlockContext&>(context()).arena;
  }
  void Post(internal::WarpOp op, uint32_t line, uint32_t mask, uint64_t bits) {
    op_ = op;
    wait_ = internal::WaitPoint::Warp(line);
    mask_ = mask;
    bits_ = bits;
  }
  template <class T>
  WarpAwaiter<T> PostShuffle(internal::WarpOp op, uint32_t line, uint32_t mask,
                             T value, uint32_t source) {
    static_assert(
        std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
        "a shuffle moves values of 4 or 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(value));
    Post(op, line, mask, bits);
    source_ = source;
    return {this};
  }

  std::coroutine_handle<> handle_;
  internal::WaitPoint wait_;
  internal::WarpOp op_;
  uint32_t mask_;    // the warp operation's participants
  uint32_t source_;  // lane to read from; >= kWarpSize: none
  uint64_t bits_;    // posted value or predicate; then the operation's result
};

// What a barrier kernel returns. The coroutine starts at once and destroys
// itself at its end; until then its handle is in its BarrierThread.
struct BarrierTask {
  struct promise_type {
    template <class Args>
    promise_type(const Args&, BarrierThread& self) : self(&self) {}

    // Not a template, because gcc 12 finds no matching operator delete for a
    // template.
    struct AnyArgs {
      template <class Args>
      AnyArgs(const Args&) {}  // NOLINT: stands for every kernel's arguments
    };
    static void* operator new(size_t bytes, AnyArgs,
                              BarrierThread& self) noexcept {
      return self.arena().Allocate(bytes);
    }
    // The arena releases all frames of a block together.
    static void operator delete(void*) noexcept {}
    static BarrierTask get_return_object_on_allocation_failure() noexcept {
      return {false};
    }

    BarrierTask get_return_object() noexcept {
      self->handle_ = std::coroutine_handle<promise_type>::from_promise(*this);
      return {true};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept { self->wait_ = internal::WaitPoint(); }
    // Kernels do not throw; an exception would have no handler.
    void unhandled_exception() noexcept { std::terminate(); }

    BarrierThread* self;
  };

  bool started;
};

namespace internal {

using StartThread = BarrierTask (*)(const void* args, BarrierThread& thread);

void RunBarrierBlock(const BlockLaunch& launch, const char* kernel,
                     const void* args, StartThread start);

}  // namespace internal

}  // namespace carillon::simt

#define CARILLON_BARRIER_KERNEL(name, Args, args, self)                      \
  inline ::carillon::simt::BarrierTask name##_body(                          \
      const Args& args, ::carillon::simt::BarrierThread& self);              \
  struct name##_kernel {                                                     \
    static constexpr bool kUsesBarriers = true;                              \
    static ::carillon::simt::BarrierTask Start(                              \
        const void* block_args, ::carillon::simt::BarrierThread& thread) {   \
      return name##_body(*static_cast<const Args*>(block_args), thread);     \
    }                                                                        \
    static void RunBlock(const ::carillon::simt::BlockLaunch& launch,        \
                         const void* block_args) {                           \
      ::carillon::simt::internal::RunBarrierBlock(launch, #name, block_args, \
                                                  &Start);                   \
    }                                                                        \
  };                                                                         \
  inline ::carillon::simt::BarrierTask name##_body(                          \
      [[maybe_unused]] const Args& args,                                     \
      [[maybe_unused]] ::carillon::simt::BarrierThread& self)

#define CARILLON_EXIT co_return

#define CARILLON_SYNC_THREADS(self) co_await (self).SyncThreads(__LINE__)

#define CARILLON_SYNC_WARP_MASK(self, mask) \
  co_await (self).SyncWarp(__LINE__, mask)
#define CARILLON_SHFL_MASK(self, mask, value, source) \
  co_await (self).Shfl(__LINE__, mask, value, source)
#define CARILLON_SHFL_DOWN_MASK(self, mask, value, delta) \
  co_await (self).ShflDown(__LINE__, mask, value, delta)
#define CARILLON_SHFL_UP_MASK(self, mask, value, delta) \
  co_await (self).ShflUp(__LINE__, mask, value, delta)
#define CARILLON_SHFL_XOR_MASK(self, mask, value, lane_mask) \
  co_await (self).ShflXor(__LINE__, mask, value, lane_mask)
#define CARILLON_BALLOT_MASK(self, mask, predicate) \
  co_await (self).Ballot(__LINE__, mask, predicate)
#define CARILLON_ANY_MASK(self, mask, predicate) \
  co_await (self).Any(__LINE__, mask, predicate)
#define CARILLON_ALL_MASK(self, mask, predicate) \
  co_await (self).All(__LINE__, mask, predicate)

#endif  // CARILLON_KERNELS_SIMT_CPU_SIMT_CPU_BARRIER_H_
