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
#include <vector>

#include "sim/exec/aligned_bytes.h"
#include "sim/exec/memory.h"
#include "sim/exec/print_buffer.h"
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

struct Launch {
  const Program* program = nullptr;
  const ProgramFunction* kernel = nullptr;
  Dim3 grid;
  Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> parameters;  // laid out as cuLaunchKernel's buffer
  uint64_t id = 0;
  uint64_t graph_exec = 0;  // %current_graph_exec; 0: it is in no graph
  // A cooperative launch, whose blocks are resident all at once and may wait for
  // each other (cudaLaunchCooperativeKernel): the address of kGridWorkspaceBytes
  // of zeroes, which the kernel gets in %envreg1 and 2 and grid.sync() counts
  // in. No other launch that runs may have the same.
  uint64_t grid_workspace = 0;
  static constexpr uint64_t kGridWorkspaceBytes = 16;

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
// Describes the fault: "matmul: gpu.ptx:57: ld.global.f32: ..., lane 3, warp 0
// of block (1, 0, 0)".
std::string Describe(const Program& program, const Fault& fault);

// What the last memory operation touched, as input for a timing model.
struct Access {
  MemorySpace space = MemorySpace::kGeneric;  // never generic afterwards
  bool store = false;
  bool atomic = false;
  uint32_t bytes = 0;  // per lane
  LaneMask mask = 0;
  // The addresses within the space. A lane outside the mask has another lane's.
  alignas(kLaneAlignment) std::array<uint64_t, kLanes> address{};
};

class Warp;

class WeakMemory;

// The lanes with this value.
inline LaneMask LanesWith(const uint32_t* values, uint32_t value) {
  LaneMask lanes = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    lanes |= LaneMask{values[lane] == value} << lane;
  }
  return lanes;
}

// What executes warps, one at a time: an SM, or a host thread. Not thread safe.
struct Core {
  explicit Core(const Memory* memory) : memory(memory) {}

  // Takes a snapshot of the segments for a program. Call it before blocks
  // start.
  void Prepare(const Program& program);

  const Memory* const memory;
  std::shared_ptr<const SegmentTable> segments;
  uint32_t sm = 0;
  uint32_t sms = 1;
  // The cycles that have passed. A functional run counts warp instructions
  // instead.
  uint64_t clock = 0;
  std::function<uint64_t()> nanoseconds;  // %globaltimer; clock if empty
  PrintBuffer* printed = nullptr;         // what printf writes; may be null
  // cudaGraphLaunch() of an exec into a stream; returns a cudaError_t. Empty:
  // this GPU launches no graphs itself.
  std::function<uint32_t(const Warp&, uint64_t exec, uint64_t stream)>
      launch_graph;
  std::optional<Fault> fault;  // the first
  // There is a fault, or a warp looked again at what it waits for
  // (Warp::Looks()). Whoever executes clears it.
  bool attention = false;
  Access access;
  // Stores and atomics that were done, as a sign that a kernel makes progress.
  uint64_t writes = 0;
  uint64_t time_reads = 0;  // how often a clock was read
  Releases releases;
  WeakMemory* weak = nullptr;  // if set, loads and stores go through it

  // The segment that each operation touched last.
  std::vector<size_t> hints;
  // Where the lanes' addresses lie in the host's memory: at `base` +
  // access.address or, if `scattered`, each at its own place.
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

  // Lane 0 becomes thread `index` * 32 of the block.
  void Start(const Launch& launch, Block* block, uint32_t index, Core* core);

  // Executes until the warp waits, exits, faults (Core::fault), has executed
  // `budget` operations, or all of its lanes only look again for what others do
  // (Looks()). `budget` becomes what is left of it.
  void Run(uint64_t& budget);
  // Executes one operation of a ready warp. Returns the lanes that executed it,
  // none if its guard is false for all. Faults as Run() does. Where Run() would
  // let other lanes go on, it only sets Core::attention.
  LaneMask Step();

  State state() const { return state_; }
  bool waits() const {
    return state_ == State::kAtBarrier || state_ == State::kWaits;
  }
  Pc pc() const { return top_.pc; }
  LaneMask active() const { return top_.mask; }
  LaneMask live() const { return live_; }  // lanes that have not exited
  uint64_t executed() const { return executed_; }
  // How many operations it has executed since Looks() was last true, if only
  // Step() executes it.
  uint64_t since_look() const { return executed_ - looked_at_; }
  uint32_t index() const { return index_; }
  Block& block() const { return *block_; }
  Core& core() const { return *core_; }
  const Launch& launch() const { return *launch_; }

  // Whether the last Run() or Step() ended because the warp waits for a phase.
  bool gives_way() const { return gives_way_; }
  // What it waited for at last, if that has not come: "FILE:LINE: mbarrier...:
  // the mbarrier at ...". Else empty.
  std::string DescribePhaseWait() const;

  // Lets lanes on other paths run before the present ones, because a thread may
  // wait for another thread of its own warp. GPUs whose threads advance
  // independently do the same. From here on the two groups execute apart,
  // except for operations that lanes do together. Does nothing if all lanes are
  // on one path.
  void Yield();

  // --- For the operations' code.

  // Counts a store, or what is like one, for Core::writes.
  [[gnu::always_inline]] void Wrote() {
    ++core_->writes;
    ++writes_;
  }
  // The lanes look for what others do and change nothing: by a load that is not
  // weak, an atomic that stores what was there, a fence or a pause. `seen`
  // stands for what they saw, and where. If the same lanes saw the same there
  // before and the warp has written nothing since, they wait: returns true and
  // sets Core::attention.
  bool Looks(const Op& op, LaneMask mask, uint64_t seen);

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
  // How many operations of this Run() came before the present one; valid in
  // operations whose flow is kNextUnlessFault.
  uint64_t steps() const { return steps_; }

  const std::array<std::array<uint32_t, kLanes>, 3>& thread_index() const {
    return tid_;
  }
  // Returns the host address of a thread's local memory, given its address in
  // the thread's window. The access has at most 16 bytes and does not cross a
  // multiple of 16.
  std::byte* Local(uint64_t address, uint32_t lane) {
    return local_.data() + ((address >> 4) * kLanes + lane) * 16 +
           (address & 15);
  }
  uint64_t local_bytes() const { return local_.size() / kLanes; }
  // The offset that is added to the addresses of the running function's local
  // variables.
  uint64_t local_base() const { return frame_.local_base; }

  void Fail(const Op& op, LaneMask lanes, std::string what);

  // The operation found that the phase of the mbarrier at this shared address
  // has not completed. The warp then lets others go on: Run() ends.
  void WaitForPhase(const Op& op, uint64_t mbarrier) {
    phase_wait_ = {&op, mbarrier};
    gives_way_ = true;
  }
  void PhaseCompleted() { phase_wait_ = {}; }

  // Ends the wait at a barrier: these lanes get its result and go on.
  void Release(uint32_t result);
  void Release() { state_ = State::kReady; }

 private:
  // Lanes that execute together, and where they wait for those on other paths.
  struct Entry {
    Pc pc = 0;
    Pc reconverge = kNoPc;
    LaneMask mask = 0;
  };
  struct Frame {
    const ProgramFunction* function = nullptr;
    const Call* call = nullptr;
    size_t depth = 0;  // entries of stack_ that are its callers'
    uint32_t registers = 0;
    uint64_t local_base = 0;
    LaneMask mask = 0;
  };

  // Lanes that execute apart from the others, with their own paths and calls.
  struct Context {
    Entry top;
    std::vector<Entry> stack;
    Frame frame;
    std::vector<Frame> frames;
    const Op* waits_at = nullptr;  // for others, at `top`
    uint64_t waits_for = 0;  // the members, or the barrier: Meet()'s `what`
  };

  // What a loop looked at last; it may look at a few places in turn.
  struct Look {
    const Op* op = nullptr;
    LaneMask mask = 0;
    uint64_t seen = 0;
    uint64_t writes = 0;  // the warp's own, before
  };

  // Lets other lanes go on because the present ones wait. Returns false if all
  // have done so since the warp last wrote anything.
  bool GiveWay();
  // Lanes at an operation that they do together with others, and where the
  // registers of their function begin.
  struct Place {
    const Op* op = nullptr;
    uint32_t registers = 0;
    LaneMask lanes = 0;
  };

  void Reconverge();
  LaneMask ContextLanes() const;
  void Restrict(LaneMask lanes);
  Context Save();
  // Lanes of this context become one of their own, which is returned.
  Context Detach(LaneMask lanes);
  void Resume(Context context);
  // Switches to the next context that does not wait. Returns false if there is
  // none.
  bool Rotate();
  // Takes over the lanes of a context that does the same from here on; leaves
  // none in it then.
  void Merge(Context& other);
  uint32_t EndOfFrames() const;
  uint32_t PlaceOfFrame(const Call& call, const ProgramFunction& callee) const;
  void WarpSync(const Op& op, LaneMask mask);
  void WholeWarp(const Op& op, LaneMask mask);
  // `lanes` come to an operation that all of `needed` do together. If these are
  // there, `lanes` receives all who are. Else returns false, and `lanes` wait
  // while the others of the context go on. `what` tells those apart who do
  // different things there.
  bool Meet(const Op& op, uint64_t what, LaneMask needed, LaneMask& lanes);
  // Whether lanes may do these together (PTX ISA: with the same qualifiers).
  bool AreCopies(const Op& a, const Op& b) const;
  // Lanes do it together that came to copies of it: places_.
  void DoFromPlaces(const Op& op, LaneMask lanes);
  void FailIfAllWait(const Op& op, LaneMask lanes, LaneMask needed);
  void Pop() {
    top_ = stack_.back();
    stack_.pop_back();
  }
  LaneMask Execute(const Op& op);
  void Divert(const Op& op, LaneMask mask);
  void Branch(LaneMask taken, const Op& op);
  void CopyLocal(LaneMask mask, uint64_t to, uint64_t from, uint32_t bytes);
  void DoCall(const Op& op, LaneMask mask);
  // The function that the first lanes call; the others call theirs afterwards.
  // nullptr: what is at their address cannot be called so.
  const ProgramFunction* CalledByAddress(const Op& op, const Call& call,
                                         LaneMask& mask);
  void DoReturn(LaneMask mask);
  void DoExit(LaneMask mask);
  void DropEmpty();
  void EnterFrame();
  void CallBuiltin(const Op& op, const Call& call, LaneMask mask);
  uint64_t Argument(const Call& call, size_t which, uint32_t lane);
  void Malloc(const Op& op, const Call& call, LaneMask mask);
  void Free(const Op& op, const Call& call, LaneMask mask);
  void Stack(const Op& op, LaneMask mask);
  template <class T>
  void ChangeStack(const Op& op, LaneMask mask);
  // The first byte of local memory behind the running function's frame and what
  // the lane has allocated.
  uint64_t StackEnd(uint32_t lane) const;
  // The same for some lanes, where the frame ends at `frame`.
  uint64_t StackEnd(LaneMask lanes, uint64_t frame) const;
  // Takes back what the lanes have allocated behind `end`.
  void CutStack(LaneMask lanes, uint64_t end);
  // Waits for all live lanes. Returns false when the operation failed or the
  // lanes must wait.
  bool AllAreHere(const Op& op, uint64_t what, LaneMask& mask);
  void WaitThreads(const Op& op, const Call& call, LaneMask mask);
  void ReleaseThreads(const Op& op, const Call& call, LaneMask mask);
  void LaunchGraph(const Op& op, const Call& call, LaneMask mask);
  void Barrier(const Op& op, LaneMask mask);

  std::array<std::byte*, 2> base_{};  // the registers, and the constants
  Entry top_;
  LaneMask live_ = 0;
  State state_ = State::kReady;
  uint64_t executed_ = 0;
  uint64_t steps_ = 0;
  std::vector<Entry> stack_;  // below top_
  Frame frame_;
  std::vector<Frame> frames_;  // below frame_
  std::vector<Context> others_;
  uint64_t writes_ = 0;  // this warp's part of Core::writes
  std::array<Look, 4> looks_;
  uint32_t next_look_ = 0;
  uint64_t looked_at_ = 0;    // executed_ when Looks() was last true
  size_t gave_way_ = 0;       // so often in a row,
  uint64_t gave_way_at_ = 0;  // after so many own writes
  AlignedBytes registers_;
  AlignedBytes local_;
  struct PhaseWait {
    const Op* op = nullptr;
    uint64_t mbarrier = 0;  // shared address
  };
  PhaseWait phase_wait_;
  bool gives_way_ = false;
  // Where each lane's part of local_ ends, for lanes that have allocated any of
  // it themselves; empty until one does.
  std::vector<uint64_t> stack_ends_;
  std::vector<Place> places_;   // where the lanes met last (Meet())
  std::vector<Place> waiting_;  // at a barrier
  std::array<std::array<uint32_t, kLanes>, 3> tid_{};
  Block* block_ = nullptr;
  Core* core_ = nullptr;
  const Launch* launch_ = nullptr;
  uint32_t index_ = 0;
};

// A thread block: its shared memory, barriers and warps. The object is reused
// for one block after another.
class Block {
 public:
  static constexpr uint32_t kBarriers = 16;

  // `index` is the block's index in the grid.
  void Start(const Launch& launch, const Dim3& index, Core* core);

  const Dim3& index() const { return index_; }
  uint32_t warps() const { return warps_used_; }
  Warp& warp(uint32_t index) { return warps_[index]; }
  const Warp& warp(uint32_t index) const { return warps_[index]; }
  uint32_t live_warps() const { return live_warps_; }
  std::byte* shared() { return shared_.data(); }
  uint64_t shared_bytes() const { return shared_bytes_; }

  struct Arrival {
    uint32_t barrier = 0;
    uint32_t threads = 0;  // how many the barrier is for; 0: all of the block
    bool waits = true;
    uint32_t value = 0;  // how many of the warp's predicates are true
    uint32_t lanes = 0;  // live lanes of the warp
    BarrierMode mode = BarrierMode::kSync;
  };
  // Returns false if it is wrong for the warp to be there; `what` says why.
  bool Arrive(Warp& warp, const Arrival& arrival, std::string& what);
  // A warp arrives at a wait-release barrier. Returns false if it waits there.
  bool Wait(const Warp& warp, uint32_t barrier);
  // Wakes the warps that were released. Whoever executes calls it after a warp
  // of the core released any.
  void WakeReleased();
  bool waits() const { return wait_release_.waiting() != 0; }
  void Exited(Warp& warp);

 private:
  struct BarrierState {
    uint64_t warps = 0;    // bit i: warp i has arrived
    uint64_t waiting = 0;  // bit i: warp i waits
    uint32_t threads = 0;  // how many it is for; 0: all
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
