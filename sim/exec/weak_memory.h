// GPU memory as weak as code must expect it to be, for InterleavedGpu: stores
// arrive late and out of order, loads give old values, unless the code orders
// them. A seed chooses.
//
// The model works on times, which are numbers of executed warp instructions.
//
// - A store has one time for each scope: from then on the threads within that
//   scope of its thread see it (warp, block, GPU), and at the last one the host,
//   when the bytes are written to memory. Half of the times are at once; the
//   others are drawn, up to kLongestDelay later. Each element of a vector is a
//   store of its own.
// - A release at a scope (fence.release, fence.acq_rel, st.release,
//   atom.release) makes what follows it (after a fence: every later store) no
//   earlier, at this scope and the smaller ones, than all stores that its thread
//   made or can see: the release is cumulative. It makes nothing visible by
//   itself.
// - A load may be done early: it gives what its thread could have seen at a time
//   that is drawn from those since the thread's last acquire at a scope
//   (fence.acquire, fence.acq_rel, ld.acquire, atom.acquire) that reaches the
//   writer. It never goes back behind what the same thread read or wrote at that
//   place before. What the host wrote is late in the same way, if the GPU saw
//   the old value since. An acquire is cumulative, too: it covers what any thread
//   within its scope has acquired from farther away.
// - Lanes of one ld.relaxed.sys that read the same 32 bytes read them at one
//   time: none sees the host's last stores there unless all do. PTX does not say
//   so; it is how GPUs read (a sector), and what
//   docs/decisions/016-an-entry-with-its-doorbell.md relies on.
// - fence.sc and membar are both, and make all stores that the thread made or
//   can see visible at the scope.
// - bar.sync, bar.red and bar.arrive are a full release, and the first two an
//   acquire, at block scope; bar.warp.sync is both among the lanes that it
//   names. Otherwise lanes of a warp are threads like any others.
// - Atomic operations, at any scope, happen in memory at once. Their reads are
//   never old, and what they touch has arrived by then.
// - A launch by a kernel is a relaxed store that the new grid has read: what a
//   fence at GPU scope put before it is visible there, and nothing else. Each
//   block begins with an acquire, unless its grid is behind a wait of a stream:
//   CUDA does not say that a wait for a word orders other words. Its blocks begin
//   with what was ordered when the wait began, and what the GPU read ahead there
//   may be what their loads give.
// - mbarrier instructions are both at block scope, whatever they ask for, and
//   happen at once. cp.async is a load and a store; each row of ldmatrix and
//   stmatrix, and each element of wmma.load and wmma.store, is one.
// - The end of a grid makes all of its stores visible to everybody; that of a
//   block does not.
//
// All stores to one place have one order, which is that of their times at warp
// scope, so places are coherent even for weak operations.
//
// Every behaviour here is one that the PTX memory model (PTX ISA, "Memory
// Consistency Model") allows. It allows more: a load may not give what is stored
// after it in program order (load buffering); all threads see two stores of
// others in the same order, once they use acquire loads (IRIW without fence.sc);
// a release or acquire at a scope that does not reach the other thread may still
// help by luck; data races of weak accesses give one of the written values; an
// atomic operation of a small scope is visible to everybody at once; an atomic
// operation hastens the stores that a fence put before it.
#ifndef CARILLON_SIM_EXEC_WEAK_MEMORY_H_
#define CARILLON_SIM_EXEC_WEAK_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/exec/memory.h"
#include "sim/exec/program.h"
#include "sim/exec/seeded_random.h"
#include "sim/exec/warp.h"

namespace carillon::sim {

// Not thread safe.
class WeakMemory {
 public:
  static constexpr uint64_t kLongestDelay = 1 << 12;

  using Time = uint64_t;
  static constexpr size_t kScopes = 4;
  // One for each MemoryScope.
  using Times = std::array<Time, kScopes>;

  struct Thread {
    uint64_t block = 0;  // 0: the host
    uint64_t warp = 0;
    uint32_t lane = 0;
    bool operator==(const Thread&) const = default;
  };
  struct Store;
  // What lay in memory before something was written there.
  struct Past {
    Thread by;
    Times at{};          // since when each scope sees what was written
    uint32_t bytes = 0;  // bit i: byte i of the cell
    std::array<std::byte, 16> before{};
  };
  struct Seen {
    Thread by;
    Time at = 0;
  };
  // 16 bytes: no access reaches beyond.
  struct Cell {
    std::byte* place = nullptr;
    DeviceAddress address = 0;
    bool shared = false;
    std::vector<Store*> stores;  // not yet in memory, by age
    std::vector<Past> past;      // the last few, by age
    Time forgotten = 0;          // what was before
    // The times that threads have read at. Matters only while there are stores
    // or a past.
    std::vector<Seen> seen;
    // What the GPU last saw in memory, and when; of the bytes that it saw.
    uint32_t known = 0;
    std::array<std::byte, 16> value{};
    std::array<Time, 16> looked{};
  };
  struct Store {
    Thread by;
    uint64_t grid = 0;
    Cell* cell = nullptr;
    uint32_t first = 0;  // byte of the cell
    uint32_t bytes = 0;
    Times at{};
    // Its place among all stores of the GPU; 0 until at[warp].
    uint64_t order = 0;
    std::array<std::byte, 16> value{};
  };
  using Cells = std::unordered_map<std::byte*, Cell>;
  // A resident block's part. Begin() before its first warp runs.
  struct BlockState {
    struct Lane {
      Times floor{};     // no later store is visible before
      Times acquired{};  // no later load gives what is older
    };
    struct WarpState {
      uint64_t number = 0;
      std::array<Lane, kLanes> lanes;
      // Lanes that passed a barrier and have not run since.
      LaneMask passed_warp_barrier = 0;
      LaneMask passed_barrier = 0;
    };
    uint64_t number = 0;
    uint64_t grid = 0;
    Times acquired{};  // the latest of any of its threads
    std::vector<WarpState> warps;
    Cells shared;
  };

  explicit WeakMemory(uint64_t seed) : random_(seed) {}

  // `since`: of ReadAhead(); unset: now.
  void Begin(BlockState& block, uint64_t grid, uint32_t warps,
             std::optional<Time> since);
  // Sees what is in memory now, at a multiple of 16 bytes; returns the time.
  Time ReadAhead(std::byte* place, DeviceAddress address, uint64_t bytes);
  // Forgets what is not yet in the block's shared memory.
  void End(BlockState& block);
  // Makes all of the grid's stores visible, but for those to freed segments.
  void EndGrid(uint64_t grid, const std::shared_ptr<const SegmentTable>& table);

  // The warp whose operations follow, and the present segments.
  void Enter(BlockState& block, uint32_t warp,
             const std::shared_ptr<const SegmentTable>& table);
  // Around each operation: the lanes that may execute it, and those that did.
  void Before(LaneMask active);
  void After(const Op& op, const Semantics& semantics, LaneMask lanes);

  // The lanes launch a grid: it sees what their fences put before that.
  void Launch(LaneMask lanes);

  // Called by Resolve() with the lanes' places in memory: puts what a load gives
  // to places of its own, and takes a store's values from there (After()).
  void Redirect(const Op& op, Warp& warp, LaneMask mask, uint32_t bytes,
                bool store, bool atomic);
  // The stores that Redirect() staged last are made: so many elements of so many
  // bytes a lane. After() does so at the end; an operation that stores several
  // times calls it after each.
  void PutStaged(uint32_t bytes, uint32_t elements);

 private:
  struct Target {
    Cell* cell = nullptr;  // null: not redirected
    std::byte* place = nullptr;
  };

  Thread ThreadOf(uint32_t lane) const;
  // Whether a lane of the mask made the store or can see it by now.
  bool Reaches(const Store& store, LaneMask mask) const;

  Cell& CellAt(std::byte* place, DeviceAddress address, bool shared);
  // The oldest time that a lane's load may give.
  Time Oldest(uint32_t lane, Cell& cell);
  Time DrawTime(uint32_t lane, Cell& cell);
  // The same for the lanes of a load that read a sector together.
  void DrawSectors(const Core& core, LaneMask mask, uint32_t bytes,
                   std::array<Time, kLanes>& at);
  void Load(uint32_t lane, Cell& cell, std::byte* place, uint32_t bytes,
            Time at, std::byte* to);
  void Put(uint32_t lane, Cell& cell, std::byte* place, uint32_t bytes,
           const std::byte* from, const Times& floor);
  void PrepareAtomic(uint32_t lane, Cell& cell, std::byte* place,
                     uint32_t bytes, const Times& floor);
  void FinishAtomic(uint32_t lane, uint32_t bytes);
  // Compares memory with what the GPU last saw there: the host may have stored.
  void Observe(Cell& cell, uint32_t first, uint32_t bytes,
               const std::byte* present);
  Time& LastSeen(Cell& cell, uint32_t lane);

  // For each lane of the mask, no earlier than what must a store be visible
  // that releases at the scope?
  std::array<Times, kLanes> Floors(LaneMask mask, MemoryScope scope) const;
  void Acquire(LaneMask mask, MemoryScope scope);
  // Makes what these lanes made or can see visible at the scope.
  void Complete(LaneMask mask, MemoryScope scope);
  // The stores for which `among` holds and whose times are up to `limit` are
  // visible at `to`, if that is earlier, and so are those that they may not
  // overtake.
  template <class F>
  void Hasten(Times limit, const Times& to, F among);
  // Makes room for more stores.
  void HastenOldest();
  // Does what is due.
  void Advance();
  // Whether it has hastened others.
  bool Publish(Store& store);
  void Apply(Store& store);
  void DropStores(Cell& cell);
  void Use(const std::shared_ptr<const SegmentTable>& table);

  SeededRandom random_;
  Time now_ = 0;
  Time next_due_ = 0;  // nothing is due before
  uint64_t last_number_ = 0;
  uint64_t last_order_ = 0;
  Times acquired_{};  // the latest of any thread
  Cells global_;
  std::list<Store> stores_;  // not yet in memory, by age
  std::shared_ptr<const SegmentTable> table_;

  BlockState* block_ = nullptr;
  BlockState::WarpState* warp_ = nullptr;
  LaneMask staged_ = 0;  // lanes whose store's values come to stage_
  LaneMask atomic_ = 0;  // lanes whose atomic operation runs
  std::array<Times, kLanes> staged_floor_{};
  std::array<Target, kLanes> targets_{};
  alignas(16) std::array<std::array<std::byte, 16>, kLanes> stage_{};
};

}  // namespace carillon::sim

#endif  // CARILLON_SIM_EXEC_WEAK_MEMORY_H_
