// Warps and thread blocks while they execute.
#ifndef CARILLON_SIM_EXEC_WARP_H_
#define CARILLON_SIM_EXEC_WARP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/exec/aligned_bytes.h"
#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/exec/wait_release.h"

namespace carillon::sim {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

// A grid of a kernel.
struct Launch {
  const Program* program = nullptr;
  const ProgramFunction* kernel = nullptr;
  Dim3 grid;
  Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  // as cuLaunchKernel's buffer
  uint64_t id = 0;

  uint32_t shared_bytes() const {
    return kernel->static_shared_bytes + dynamic_shared_bytes;
  }
  uint32_t block_threads() const {
    return static_cast<uint32_t>(block.count());
  }
  uint32_t block_warps() const {
    return (block_threads() + kLanes - 1) / kLanes;
  }
};

// What a kernel did that it must not.
struct Fault {
  std::string what;
  Pc pc = 0;
  uint32_t lane = 0;  // the first that did
  Dim3 block;         // index
  uint32_t warp = 0;
};
// "matmul: gpu.ptx:57: ld.global.f32: ..., lane 3, warp 0 of block (1, 0, 0)".
std::string Describe(const Program& program, const Fault& fault);

// What the last memory operation touched; a timing model's input.
struct Access {
  MemorySpace space = MemorySpace::kGeneric;  // never generic afterwards
  bool store = false;
  bool atomic = false;
  uint32_t bytes = 0;  // of each lane
  LaneMask mask = 0;
  // Of the space. Lanes that are not in the mask have another's.
  alignas(kLaneAlignment) std::array<uint64_t, kLanes> address{};
};

// What executes warps, one at a time: an SM, or a host thread. Not thread safe.
struct Core {
  explicit Core(const Memory* memory) : memory(memory) {}

  // Looks at what segments there are, for a program. Before blocks start.
  void Prepare(const Program& program);

  const Memory* const memory;
  std::shared_ptr<const SegmentTable> segments;
  uint32_t sm = 0;
  uint32_t sms = 1;
  // Cycles that have passed; a functional run counts warp instructions.
  uint64_t clock = 0;
  std::function<uint64_t()> nanoseconds;  // %globaltimer; clock if empty
  std::string* printed = nullptr;         // what printf writes; may be null
  std::optional<Fault> fault;             // the first
  Access access;
  // Stores and atomics that were done: the sign that a kernel gets on.
  uint64_t writes = 0;
  Releases releases;

  // Of each operation: the segment that it touched last.
  std::vector<size_t> hints;
  // Where the lanes' addresses lie in the host's memory: access.address beyond
  // this, or scattered, each at its own place.
  std::byte* base = nullptr;
  bool scattered = false;
  alignas(kLaneAlignment) std::array<std::byte*, kLanes> places{};
  std::byte* At(uint32_t lane) const {
    return scattered ? places[lane] : base + access.address[lane];
  }
};

class Block;

class Warp {
 public:
  enum class State : uint8_t {
    kReady,
    kAtBarrier,
    kWaits,  // at a wait-release barrier
    kExited,
  };

  // Lane 0 is thread `index` * 32 of the block.
  void Start(const Launch& launch, Block* block, uint32_t index, Core* core);

  // Goes on until the warp waits, has exited, faulted (Core::fault) or has
  // executed `budget` operations; the budget is what is left of it. `at`, if
  // given, receives the last operation's Pc.
  void Run(uint64_t& budget);
  // One operation of a warp that is ready. The lanes that executed it, none if
  // its guard is false for all. A fault: as Run().
  LaneMask Step();

  State state() const { return state_; }
  bool waits() const {
    return state_ == State::kAtBarrier || state_ == State::kWaits;
  }
  Pc pc() const { return top_.pc; }
  LaneMask active() const { return top_.mask; }
  LaneMask live() const { return live_; }  // lanes that have not exited
  uint64_t executed() const { return executed_; }
  uint32_t index() const { return index_; }
  size_t stack_depth() const { return stack_.size() + 1; }
  Block& block() const { return *block_; }
  Core& core() const { return *core_; }
  const Launch& launch() const { return *launch_; }

  // Lets lanes on other paths go on before those that run now: what a thread
  // waits for may be done by another of its own warp, as on GPUs whose threads
  // advance independently. From here on the two are executed apart, but for
  // what lanes do together. Nothing, where all lanes are on one path.
  void Yield();

  // --- For operations' code.

  template <class T>
  T* To(Slot slot) {
    return reinterpret_cast<T*>(base_[0] + slot.byte());
  }
  template <class T>
  const T* From(Slot slot) const {
    return reinterpret_cast<const T*>(base_[slot.is_constant()] + slot.byte());
  }
  LaneMask Predicate(Slot slot) const { return *From<LaneMask>(slot); }
  void SetPredicate(Slot slot, LaneMask mask, LaneMask value) {
    LaneMask* const to = To<LaneMask>(slot);
    *to = (*to & ~mask) | (value & mask);
  }

  LaneMask carry = 0;  // CC.CF of each lane
  // Operations of this Run() before the one that executes; of those whose flow
  // is kNextUnlessFault.
  uint64_t steps() const { return steps_; }

  const std::array<std::array<uint32_t, kLanes>, 3>& thread_index() const {
    return tid_;
  }
  // Where a thread's local memory is, by its address in the thread's window; 16
  // bytes at most, which do not cross a multiple of 16.
  std::byte* Local(uint64_t address, uint32_t lane) {
    return local_.data() + ((address >> 4) * kLanes + lane) * 16 +
           (address & 15);
  }
  uint64_t local_bytes() const { return local_.size() / kLanes; }
  // Added to the addresses of the running function's local variables.
  uint64_t local_base() const { return frame_.local_base; }

  void Fail(const Op& op, LaneMask lanes, std::string what);

  // A barrier's end: its result for these lanes, and on.
  void Release(uint32_t result);
  // A wait-release barrier's.
  void Release() { state_ = State::kReady; }

 private:
  // Lanes that execute together, and where they wait for those on other paths.
  struct Entry {
    Pc pc = 0;
    Pc reconverge = kNoPc;
    LaneMask mask = 0;
  };
  // A function that runs.
  struct Frame {
    const ProgramFunction* function = nullptr;
    const Call* call = nullptr;
    size_t depth = 0;  // entries of stack_ that are its callers'
    uint32_t registers = 0;
    uint64_t local_base = 0;
    LaneMask mask = 0;
  };

  // Lanes that are executed apart from the others: their paths and calls.
  struct Context {
    Entry top;
    std::vector<Entry> stack;
    Frame frame;
    std::vector<Frame> frames;
    bool waits = false;  // for others, at `top`
  };

  void Reconverge();
  LaneMask ContextLanes() const;
  void Restrict(LaneMask lanes);
  Context Save();
  void Resume(Context context);
  // The next context that does not wait. False: there is none.
  bool Rotate();
  uint32_t EndOfFrames() const;
  void WarpSync(const Op& op, LaneMask mask);
  // Waits until all of `needed` are at this operation. Then true, with all that
  // are there in `mask`.
  bool Gather(const Op& op, LaneMask needed, LaneMask& mask);
  void Pop() {
    top_ = stack_.back();
    stack_.pop_back();
  }
  LaneMask Execute(const Op& op);
  void Divert(const Op& op, LaneMask mask);
  void Branch(LaneMask taken, const Op& op);
  bool DoCall(const Op& op, LaneMask mask);
  void DoReturn(LaneMask mask);
  void DoExit(LaneMask mask);
  void DropEmpty();
  void EnterFrame();
  bool CallBuiltin(const Op& op, const Call& call, LaneMask mask);
  uint64_t Argument(const Call& call, size_t which, uint32_t lane);
  bool AllAreHere(const Op& op, LaneMask& mask);
  bool WaitThreads(const Op& op, const Call& call, LaneMask mask);
  bool ReleaseThreads(const Op& op, const Call& call, LaneMask mask);
  void Barrier(const Op& op, LaneMask mask);

  std::array<std::byte*, 2> base_{};  // of registers and of constants
  Entry top_;
  LaneMask live_ = 0;
  State state_ = State::kReady;
  uint64_t executed_ = 0;
  uint64_t steps_ = 0;
  std::vector<Entry> stack_;  // below top_
  Frame frame_;
  std::vector<Frame> frames_;  // below frame_
  std::vector<Context> others_;
  AlignedBytes registers_;
  AlignedBytes local_;
  const Op* waiting_ = nullptr;  // the barrier operation
  LaneMask waiting_mask_ = 0;
  std::array<std::array<uint32_t, kLanes>, 3> tid_{};
  Block* block_ = nullptr;
  Core* core_ = nullptr;
  const Launch* launch_ = nullptr;
  uint32_t index_ = 0;
};

// A thread block: its shared memory, barriers and warps. Used again and again.
class Block {
 public:
  static constexpr uint32_t kBarriers = 16;

  // `index`: of the grid.
  void Start(const Launch& launch, const Dim3& index, Core* core);

  const Dim3& index() const { return index_; }
  uint32_t warps() const { return warps_used_; }
  Warp& warp(uint32_t index) { return warps_[index]; }
  const Warp& warp(uint32_t index) const { return warps_[index]; }
  uint32_t live_warps() const { return live_warps_; }
  std::byte* shared() { return shared_.data(); }
  uint64_t shared_bytes() const { return shared_bytes_; }

  // False: it is wrong to be there; what: why.
  struct Arrival {
    uint32_t barrier = 0;
    uint32_t threads = 0;  // that it is for; 0: all of the block
    bool waits = true;
    uint32_t value = 0;  // how many of the warp's predicates are true
    uint32_t lanes = 0;  // of the warp
    BarrierMode mode = BarrierMode::kSync;
  };
  bool Arrive(Warp& warp, const Arrival& arrival, std::string& what);
  // At a wait-release barrier. False: the warp waits there.
  bool Wait(const Warp& warp, uint32_t barrier);
  // Lets warps go on that were released since. For whoever executes, after a
  // warp of the core released any.
  void WakeReleased();
  // Whether any does.
  bool waits() const { return wait_release_.waiting() != 0; }
  void Exited(Warp& warp);

 private:
  struct BarrierState {
    uint64_t warps = 0;    // that have arrived, a bit each
    uint64_t waiting = 0;  // of these, that wait
    uint32_t threads = 0;  // that it is for; 0: all
    uint32_t arrived = 0;  // threads, by whole warps
    uint32_t lanes = 0;    // threads that gave a value
    uint32_t trues = 0;
    BarrierMode mode = BarrierMode::kSync;
  };
  void ReleaseIfComplete(BarrierState& barrier);

  Dim3 index_;
  std::deque<Warp> warps_;
  uint32_t warps_used_ = 0;
  uint32_t live_warps_ = 0;
  uint64_t live_ = 0;
  AlignedBytes shared_;
  uint64_t shared_bytes_ = 0;
  std::array<BarrierState, kBarriers> barriers_;
  WaitRelease wait_release_;
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_WARP_H_
