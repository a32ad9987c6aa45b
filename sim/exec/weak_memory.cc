#include "sim/exec/weak_memory.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace carillon::sim {
namespace {

constexpr auto kWarp = static_cast<size_t>(MemoryScope::kWarp);
constexpr auto kBlock = static_cast<size_t>(MemoryScope::kBlock);
constexpr auto kGpu = static_cast<size_t>(MemoryScope::kGpu);
constexpr auto kSystem = static_cast<size_t>(MemoryScope::kSystem);
constexpr size_t kSelf = ~size_t{0};

constexpr WeakMemory::Time kNever = ~WeakMemory::Time{0};

// Bounds of what is kept. Beyond them, stores arrive sooner and loads give newer
// values.
constexpr size_t kMostStores = 1 << 9;
constexpr size_t kMostCells = 1 << 16;
constexpr size_t kMostPast = 8;
// What the memory system reads at once.
constexpr uint64_t kSectorBytes = 32;
constexpr size_t kMostSeen = 256;

bool IsRelease(MemoryOrder order) {
  return order == MemoryOrder::kRelease ||
         order == MemoryOrder::kAcquireRelease ||
         order == MemoryOrder::kSequential;
}
bool IsAcquire(MemoryOrder order) {
  return order == MemoryOrder::kAcquire ||
         order == MemoryOrder::kAcquireRelease ||
         order == MemoryOrder::kSequential;
}

// The smallest scope that has both threads.
size_t ScopeOf(const WeakMemory::Thread& a, const WeakMemory::Thread& b) {
  if (a == b) return kSelf;
  if (a.warp == b.warp) return kWarp;
  if (a.block == b.block) return kBlock;
  return a.block != 0 && b.block != 0 ? kGpu : kSystem;
}

uint32_t BytesAt(uint32_t first, uint32_t bytes) {
  return ((1u << bytes) - 1) << first;
}
bool Overlap(const WeakMemory::Store& store, uint32_t first, uint32_t bytes) {
  return (BytesAt(store.first, store.bytes) & BytesAt(first, bytes)) != 0;
}

WeakMemory::Times All(WeakMemory::Time at) { return {at, at, at, at}; }

void Raise(WeakMemory::Times& times, const WeakMemory::Times& to) {
  for (size_t s = 0; s < times.size(); ++s) {
    times[s] = std::max(times[s], to[s]);
  }
}

template <class T>
void Read(const std::byte* place, std::byte* to) {
  const T value =
      __atomic_load_n(reinterpret_cast<const T*>(place), __ATOMIC_ACQUIRE);
  std::memcpy(to, &value, sizeof(T));
}
template <class T>
void Write(std::byte* place, const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  __atomic_store_n(reinterpret_cast<T*>(place), value, __ATOMIC_RELEASE);
}

// The host's other threads and processes see each access whole. The writer there
// is the host's code or this; the host's loads that acquire see all that was
// written before, since x86 keeps the order of stores. 16 bytes at a multiple of
// 16 are one access on every x86 with AVX (Intel SDM 3A, 9.1.1).
void ReadMemory(const std::byte* place, uint32_t bytes, std::byte* to) {
  switch (bytes) {
    case 1:
      return Read<uint8_t>(place, to);
    case 2:
      return Read<uint16_t>(place, to);
    case 4:
      return Read<uint32_t>(place, to);
    case 8:
      return Read<uint64_t>(place, to);
    default:
      _mm_storeu_si128(
          reinterpret_cast<__m128i*>(to),
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(place)));
  }
}
void WriteMemory(std::byte* place, uint32_t bytes, const std::byte* from) {
  switch (bytes) {
    case 1:
      return Write<uint8_t>(place, from);
    case 2:
      return Write<uint16_t>(place, from);
    case 4:
      return Write<uint32_t>(place, from);
    case 8:
      return Write<uint64_t>(place, from);
    default:
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(place),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
}

}  // namespace

void WeakMemory::Begin(BlockState& block, uint64_t grid, uint32_t warps,
                       std::optional<Time> since) {
  block.number = ++last_number_;
  block.grid = grid;
  block.acquired = {};
  block.warps.assign(warps, {});
  for (BlockState::WarpState& warp : block.warps) {
    warp.number = ++last_number_;
    // A launch orders what came before it: what the host stored after the last
    // look at it, too, which is one later (Observe()).
    for (BlockState::Lane& lane : warp.lanes) {
      lane.acquired = All(since.value_or(now_ + 1));
    }
  }
}

WeakMemory::Time WeakMemory::ReadAhead(std::byte* place, DeviceAddress address,
                                       uint64_t bytes) {
  std::array<std::byte, 16> present{};
  const auto step = static_cast<uint32_t>(present.size());
  for (uint64_t i = 0; i < bytes; i += step) {
    ReadMemory(place + i, step, present.data());
    Observe(CellAt(place + i, address + i, false), 0, step, present.data());
  }
  return now_;
}

void WeakMemory::End(BlockState& block) {
  for (auto& [place, cell] : block.shared) DropStores(cell);
  block.shared.clear();
  block.warps.clear();
  block_ = nullptr;
  warp_ = nullptr;
}

void WeakMemory::EndGrid(uint64_t grid,
                         const std::shared_ptr<const SegmentTable>& table) {
  Use(table);
  Times limit{};
  for (const Store& store : stores_) {
    if (store.grid != grid) continue;
    for (size_t s = 0; s < kScopes; ++s) {
      limit[s] = std::max(limit[s], store.at[s]);
    }
  }
  ++now_;
  Hasten(limit, All(now_), [](const Store&) { return true; });
  Advance();
}

void WeakMemory::Use(const std::shared_ptr<const SegmentTable>& table) {
  if (table == table_) return;
  table_ = table;
  for (auto cell = global_.begin(); cell != global_.end();) {
    const DeviceAddress address = cell->second.address;
    // The heap's bytes stay where they are.
    if (address - kHeapBegin < kMaxHeapBytes) {
      ++cell;
      continue;
    }
    // A cell may reach beyond its segment.
    const size_t index = table->Find(address, 1);
    const bool mapped =
        index != SegmentTable::kNone &&
        table->segment(index).host + (address - table->segment(index).begin) ==
            cell->second.place;
    if (!mapped) DropStores(cell->second);
    cell = mapped ? std::next(cell) : global_.erase(cell);
  }
}

void WeakMemory::Enter(BlockState& block, uint32_t warp,
                       const std::shared_ptr<const SegmentTable>& table) {
  Use(table);
  block_ = &block;
  warp_ = &block.warps[warp];
}

void WeakMemory::Before(LaneMask active) {
  // The second of these two is the time of what happens after the operation.
  now_ += 2;
  staged_ = atomic_ = 0;
  if (LaneMask& passed = warp_->passed_warp_barrier; passed & active) {
    Acquire(passed & active, MemoryScope::kWarp);
    passed &= ~active;
  }
  if (LaneMask& passed = warp_->passed_barrier; passed & active) {
    Acquire(passed & active, MemoryScope::kBlock);
    passed &= ~active;
  }
  Advance();
}

void WeakMemory::After(const Op& op, const Semantics& semantics,
                       LaneMask lanes) {
  if (lanes == 0) return;
  ++now_;
  switch (semantics.operation) {
    case Operation::kLoad:
    case Operation::kAtomic:
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (atomic_ >> lane & 1) {
          FinishAtomic(lane, ptx::BytesOf(semantics.type));
        }
      }
      if (IsAcquire(op.order)) Acquire(lanes, op.scope);
      break;
    case Operation::kStore:
    case Operation::kCopyAsync:
    case Operation::kStoreMatrix:
      PutStaged(ptx::BytesOf(semantics.type), op.elements);
      break;
    case Operation::kFence: {
      // membar has no order of its own: it is fence.sc.
      const bool full = op.order == MemoryOrder::kSequential ||
                        op.order == MemoryOrder::kWeak;
      if (full) Complete(lanes, op.scope);
      if (IsRelease(op.order)) {
        const auto floors = Floors(lanes, op.scope);
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
          if (lanes >> lane & 1) warp_->lanes[lane].floor = floors[lane];
        }
      }
      if (full || IsAcquire(op.order)) Acquire(lanes, op.scope);
      break;
    }
    case Operation::kBarrier:
      Complete(lanes, MemoryScope::kBlock);
      if (static_cast<BarrierMode>(op.variant) != BarrierMode::kArrive) {
        warp_->passed_barrier |= lanes;
      }
      break;
    case Operation::kMbarrier:
    case Operation::kCopyArrive:
      // As strong as a barrier of the block: PTX allows less.
      Complete(lanes, MemoryScope::kBlock);
      Acquire(lanes, MemoryScope::kBlock);
      break;
    case Operation::kWarpBarrier:
      Complete(lanes, MemoryScope::kWarp);
      warp_->passed_warp_barrier |= lanes;
      break;
    default:
      break;
  }
}

void WeakMemory::PutStaged(uint32_t bytes, uint32_t elements) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((staged_ >> lane & 1) == 0) continue;
    const Target& target = targets_[lane];
    for (uint32_t i = 0; i < elements; ++i) {
      Put(lane, *target.cell, target.place + i * bytes, bytes,
          stage_[lane].data() + i * bytes, staged_floor_[lane]);
    }
  }
  staged_ = 0;
}

void WeakMemory::Redirect(const Op& op, Warp& warp, LaneMask mask,
                          uint32_t bytes, bool store, bool atomic) {
  Core& core = warp.core();
  const MemorySpace space = core.access.space;
  if (space == MemorySpace::kLocal || space == MemorySpace::kKernelParam) {
    return;
  }
  std::array<Times, kLanes> floors;
  if (store) {
    if (IsRelease(op.order)) {
      floors = Floors(mask, op.scope);
    } else {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        floors[lane] = warp_->lanes[lane].floor;
      }
    }
  }
  std::array<Time, kLanes> at;
  const bool together = !store && !atomic && space == MemorySpace::kGlobal &&
                        op.order == MemoryOrder::kRelaxed &&
                        op.scope == MemoryScope::kSystem;
  if (together) DrawSectors(core, mask, bytes, at);
  std::array<std::byte*, kLanes> places{};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    places[lane] = stage_[lane].data();
    if ((mask >> lane & 1) == 0) continue;
    std::byte* const place = core.At(lane);
    DeviceAddress address = core.access.address[lane];
    bool shared = space == MemorySpace::kShared;
    if (!shared && address - kSharedWindow < 3 * kWindowBytes) {
      // Lanes of a generic access are in different windows.
      shared = address - kSharedWindow < kWindowBytes;
      if (!shared) {
        places[lane] = place;
        continue;
      }
    }
    Cell& cell = CellAt(place, address, shared);
    if (atomic) {
      places[lane] = place;
      PrepareAtomic(lane, cell, place, bytes, floors[lane]);
      targets_[lane] = {&cell, place};
      atomic_ |= LaneMask{1} << lane;
    } else if (store) {
      targets_[lane] = {&cell, place};
      staged_ |= LaneMask{1} << lane;
    } else {
      const uint32_t element = bytes / op.elements;
      for (uint32_t i = 0; i < op.elements; ++i) {
        Load(lane, cell, place + i * element, element,
             together ? at[lane] : DrawTime(lane, cell),
             stage_[lane].data() + i * element);
      }
    }
  }
  if (atomic) {
    // All of them are prepared before the first is done.
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (atomic_ >> lane & 1) {
        ReadMemory(targets_[lane].place, bytes, stage_[lane].data());
      }
    }
    return;
  }
  if (store) staged_floor_ = floors;
  core.scattered = true;
  core.places = places;
}

WeakMemory::Thread WeakMemory::ThreadOf(uint32_t lane) const {
  return {block_->number, warp_->number, lane};
}

WeakMemory::Cell& WeakMemory::CellAt(std::byte* place, DeviceAddress address,
                                     bool shared) {
  std::byte* const first = place - (address & 15);
  Cells& cells = shared ? block_->shared : global_;
  if (!shared && cells.size() >= kMostCells && !cells.contains(first)) {
    std::erase_if(cells, [this](const auto& cell) {
      const auto used = [&](const Target& target) {
        return target.cell == &cell.second;
      };
      return cell.second.stores.empty() && std::ranges::none_of(targets_, used);
    });
  }
  Cell& cell = cells[first];
  cell.place = first;
  cell.address = address & ~DeviceAddress{15};
  cell.shared = shared;
  return cell;
}

WeakMemory::Time& WeakMemory::LastSeen(Cell& cell, uint32_t lane) {
  const Thread me = ThreadOf(lane);
  for (Seen& seen : cell.seen) {
    if (seen.by == me) return seen.at;
  }
  if (cell.seen.size() >= kMostSeen && cell.stores.empty()) {
    // Nobody can go back behind what there is no memory of.
    cell.seen.clear();
    cell.past.clear();
    cell.forgotten = now_;
  }
  return cell.seen.emplace_back(Seen{me, 0}).at;
}

WeakMemory::Time WeakMemory::Oldest(uint32_t lane, Cell& cell) {
  const Time seen = LastSeen(cell, lane);
  return std::max({seen, cell.forgotten, warp_->lanes[lane].acquired[kSystem]});
}

WeakMemory::Time WeakMemory::DrawTime(uint32_t lane, Cell& cell) {
  if (!random_.OneIn(2)) return now_;
  const Time oldest = Oldest(lane, cell);
  return random_.OneIn(2) ? oldest : oldest + random_.Below(now_ - oldest + 1);
}

void WeakMemory::DrawSectors(const Core& core, LaneMask mask, uint32_t bytes,
                             std::array<Time, kLanes>& at) {
  const auto sector_of = [&](uint32_t lane) {
    return core.access.address[lane] / kSectorBytes;
  };
  for (LaneMask left = mask; left != 0;) {
    const uint64_t sector =
        sector_of(static_cast<uint32_t>(std::countr_zero(left)));
    LaneMask here = 0;
    Time oldest = 0;
    Time newest = kNever;  // since when the host's last store is seen
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((left >> lane & 1) == 0 || sector_of(lane) != sector) continue;
      here |= LaneMask{1} << lane;
      std::byte* const place = core.At(lane);
      Cell& cell = CellAt(place, core.access.address[lane], false);
      const auto first = static_cast<uint32_t>(place - cell.place);
      // Nobody can go back behind the first look at any of it.
      if ((BytesAt(first, bytes) & ~cell.known) != 0) oldest = now_;
      std::array<std::byte, 16> present;
      ReadMemory(place, bytes, present.data());
      Observe(cell, first, bytes, present.data());
      oldest = std::max(oldest, Oldest(lane, cell));
      if (!cell.past.empty() && cell.past.back().by.block == 0) {
        newest = std::min(newest, cell.past.back().at[kSystem]);
      }
    }
    Time time = now_;
    if (random_.OneIn(2)) {
      time =
          random_.OneIn(2) ? oldest : oldest + random_.Below(now_ - oldest + 1);
    }
    if (time >= newest) time = now_;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if ((here >> lane & 1) != 0) at[lane] = time;
    }
    left &= ~here;
  }
}

void WeakMemory::Load(uint32_t lane, Cell& cell, std::byte* place,
                      uint32_t bytes, Time at, std::byte* to) {
  const auto first = static_cast<uint32_t>(place - cell.place);
  ReadMemory(place, bytes, to);
  Observe(cell, first, bytes, to);
  if (cell.past.empty() && cell.stores.empty()) return;
  const Times& acquired = warp_->lanes[lane].acquired;
  LastSeen(cell, lane) = at;
  const Thread me = ThreadOf(lane);
  const auto sees = [&](const Thread& by, const Times& since) {
    const size_t scope = ScopeOf(me, by);
    return scope == kSelf || since[scope] <= std::max(at, acquired[scope]);
  };
  uint32_t old = BytesAt(first, bytes);  // bytes that were written since `at`
  for (size_t i = cell.past.size(); i-- > 0 && old != 0;) {
    const Past& past = cell.past[i];
    if (sees(past.by, past.at)) {
      old &= ~past.bytes;
      continue;
    }
    for (uint32_t b = 0; b < bytes; ++b) {
      if ((old & past.bytes) >> (first + b) & 1) to[b] = past.before[first + b];
    }
  }
  std::array<uint64_t, 16> order{};
  for (const Store* store : cell.stores) {
    const bool mine = store->by == me;
    if (!Overlap(*store, first, bytes) || (store->order == 0 && !mine) ||
        !sees(store->by, store->at)) {
      continue;
    }
    // One without an order is later than all that have one.
    const uint64_t here = store->order == 0 ? kNever : store->order;
    for (uint32_t b = 0; b < bytes; ++b) {
      const uint32_t byte = first + b - store->first;
      if (byte >= store->bytes || here < order[b]) continue;
      order[b] = here;
      to[b] = store->value[byte];
    }
  }
}

void WeakMemory::Put(uint32_t lane, Cell& cell, std::byte* place,
                     uint32_t bytes, const std::byte* from,
                     const Times& floor) {
  if (stores_.size() >= kMostStores) HastenOldest();
  Store& store = stores_.emplace_back();
  store.by = ThreadOf(lane);
  store.grid = block_->grid;
  store.cell = &cell;
  store.first = static_cast<uint32_t>(place - cell.place);
  store.bytes = bytes;
  std::copy_n(from, bytes, store.value.begin());
  for (size_t s = 0; s < kScopes; ++s) {
    const Time delay = random_.OneIn(2) ? 0 : random_.Scaled(kLongestDelay);
    store.at[s] = std::max(now_ + delay, floor[s]);
    if (s != 0) store.at[s] = std::max(store.at[s], store.at[s - 1]);
  }
  // Shared memory has no more than its block.
  if (cell.shared) store.at[kGpu] = store.at[kSystem] = store.at[kBlock];
  for (const Store* other : cell.stores) {
    if (other->by != store.by || !Overlap(*other, store.first, bytes)) continue;
    for (size_t s = 0; s < kScopes; ++s) {
      store.at[s] = std::max(store.at[s], other->at[s]);
    }
  }
  cell.stores.push_back(&store);
  next_due_ = std::min(next_due_, store.at[kWarp]);
}

void WeakMemory::HastenOldest() {
  Times limit{};
  auto store = stores_.begin();
  for (size_t i = 0; i < kMostStores / 2; ++i, ++store) {
    for (size_t s = 0; s < kScopes; ++s) {
      limit[s] = std::max(limit[s], store->at[s]);
    }
  }
  Hasten(limit, All(now_), [](const Store&) { return true; });
  Advance();
}

void WeakMemory::PrepareAtomic(uint32_t lane, Cell& cell, std::byte* place,
                               uint32_t bytes, const Times& floor) {
  const LaneMask mask = LaneMask{1} << lane;
  if (std::ranges::any_of(floor, [this](Time at) { return at > now_; })) {
    Hasten(floor, All(now_),
           [=, this](const Store& store) { return Reaches(store, mask); });
  }
  const auto first = static_cast<uint32_t>(place - cell.place);
  const Thread me = ThreadOf(lane);
  Times limit{};
  for (const Store* store : cell.stores) {
    if (!Overlap(*store, first, bytes) ||
        (store->order == 0 && store->by != me)) {
      continue;
    }
    for (size_t s = 0; s < kScopes; ++s) {
      limit[s] = std::max(limit[s], store->at[s]);
    }
  }
  Hasten(limit, All(now_), [](const Store&) { return true; });
  Advance();
}

void WeakMemory::Launch(LaneMask lanes) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const LaneMask mask = LaneMask{1} << lane;
    if ((lanes & mask) == 0) continue;
    Hasten(warp_->lanes[lane].floor, All(now_),
           [=, this](const Store& store) { return Reaches(store, mask); });
  }
  Advance();
}

void WeakMemory::FinishAtomic(uint32_t lane, uint32_t bytes) {
  const auto& [cell, place] = targets_[lane];
  const auto first = static_cast<uint32_t>(place - cell->place);
  std::array<std::byte, 16> present{};
  ReadMemory(place, bytes, present.data());
  Past past{
      .by = ThreadOf(lane), .at = All(now_), .bytes = BytesAt(first, bytes)};
  std::copy_n(stage_[lane].begin(), bytes, past.before.begin() + first);
  // What other lanes' operations left in between, nobody sees.
  const bool noted = !cell->past.empty() && cell->past.back().at == past.at &&
                     cell->past.back().bytes == past.bytes;
  if (!noted && !std::equal(present.begin(), present.begin() + bytes,
                            stage_[lane].begin())) {
    if (cell->past.size() >= kMostPast) cell->past.erase(cell->past.begin());
    cell->past.push_back(past);
  }
  for (uint32_t b = 0; b < bytes; ++b) {
    cell->value[first + b] = present[b];
    cell->looked[first + b] = now_;
  }
  cell->known |= past.bytes;
  LastSeen(*cell, lane) = now_;
}

void WeakMemory::Observe(Cell& cell, uint32_t first, uint32_t bytes,
                         const std::byte* present) {
  if (cell.shared) return;
  // The host stored after the GPU last looked there, nobody knows when.
  Past past{.by = {}, .at = All(kNever)};
  for (uint32_t b = first; b < first + bytes; ++b) {
    if ((cell.known >> b & 1) != 0 && cell.value[b] != present[b - first]) {
      past.bytes |= 1u << b;
      past.before[b] = cell.value[b];
      past.at = std::min(past.at, All(cell.looked[b] + 1));
    }
    cell.value[b] = present[b - first];
    cell.looked[b] = now_;
  }
  cell.known |= BytesAt(first, bytes);
  if (past.bytes == 0) return;
  if (cell.past.size() >= kMostPast) cell.past.erase(cell.past.begin());
  cell.past.push_back(past);
}

bool WeakMemory::Reaches(const Store& store, LaneMask mask) const {
  if (store.by.warp == warp_->number) {
    return (mask >> store.by.lane & 1) != 0 || store.at[kWarp] <= now_;
  }
  return store.at[store.by.block == block_->number ? kBlock : kGpu] <= now_;
}

std::array<WeakMemory::Times, kLanes> WeakMemory::Floors(
    LaneMask mask, MemoryScope scope) const {
  std::array<Times, kLanes> floors{};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    floors[lane] = warp_->lanes[lane].floor;
  }
  const auto raise = [&](uint32_t lane, const Store& store) {
    for (size_t s = 0; s <= static_cast<size_t>(scope); ++s) {
      floors[lane][s] = std::max(floors[lane][s], store.at[s]);
    }
  };
  for (const Store& store : stores_) {
    if (Reaches(store, 0)) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (mask >> lane & 1) raise(lane, store);
      }
    } else if (Reaches(store, mask)) {
      raise(store.by.lane, store);
    }
  }
  return floors;
}

void WeakMemory::Acquire(LaneMask mask, MemoryScope scope) {
  // Whoever released to this thread passed on what it had acquired itself.
  Times passed = scope == MemoryScope::kBlock ? block_->acquired : acquired_;
  if (scope == MemoryScope::kWarp) {
    passed = {};
    for (const BlockState::Lane& lane : warp_->lanes) {
      Raise(passed, lane.acquired);
    }
  }
  for (size_t s = 0; s <= static_cast<size_t>(scope); ++s) passed[s] = now_;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) Raise(warp_->lanes[lane].acquired, passed);
  }
  Raise(block_->acquired, passed);
  Raise(acquired_, passed);
}

void WeakMemory::Complete(LaneMask mask, MemoryScope scope) {
  Times limit{};
  for (size_t s = 0; s <= static_cast<size_t>(scope); ++s) limit[s] = kNever;
  Hasten(limit, All(now_),
         [=, this](const Store& store) { return Reaches(store, mask); });
  Advance();
}

template <class F>
void WeakMemory::Hasten(Times limit, const Times& to, F among) {
  bool any = false;
  for (size_t s = 0; s < kScopes; ++s) any |= limit[s] > to[s];
  if (!any) return;
  // Which stores these are must not depend on what is hastened here.
  std::vector<Store*> found;
  for (Store& store : stores_) {
    if (among(store)) found.push_back(&store);
  }
  for (size_t s = kScopes; s-- > 0;) {
    for (Store* store : found) {
      if (store->at[s] > limit[s] || store->at[s] <= to[s]) continue;
      // It is visible at the smaller scopes by then, and so is what it may not
      // overtake there.
      if (s != 0) limit[s - 1] = std::max(limit[s - 1], store->at[s - 1]);
      store->at[s] = to[s];
      next_due_ = 0;
    }
  }
}

void WeakMemory::Advance() {
  if (now_ < next_due_) return;
  // What is published may hasten others: always the oldest is next, so that those
  // of one thread at one place keep their order.
  for (auto store = stores_.begin(); store != stores_.end();) {
    if (store->order != 0 || store->at[kWarp] > now_) {
      ++store;
      continue;
    }
    store = Publish(*store) ? stores_.begin() : std::next(store);
  }
  std::vector<Store*> due;
  next_due_ = kNever;
  for (Store& store : stores_) {
    if (store.at[kSystem] <= now_) {
      due.push_back(&store);
    } else {
      next_due_ = std::min(
          next_due_, store.order == 0 ? store.at[kWarp] : store.at[kSystem]);
    }
  }
  if (due.empty()) return;
  std::ranges::sort(due, [](const Store* a, const Store* b) {
    return a->at[kSystem] != b->at[kSystem] ? a->at[kSystem] < b->at[kSystem]
                                            : a->order < b->order;
  });
  for (Store* store : due) Apply(*store);
  std::erase_if(stores_, [](const Store& store) { return store.bytes == 0; });
}

bool WeakMemory::Publish(Store& store) {
  store.order = ++last_order_;
  // Those before it at the same place come to memory no later than it does.
  Times limit{};
  bool later = false;
  for (const Store* other : store.cell->stores) {
    if (other->order == 0 || other == &store ||
        !Overlap(*other, store.first, store.bytes)) {
      continue;
    }
    for (size_t s = 0; s < kScopes; ++s) {
      if (other->at[s] <= store.at[s]) continue;
      limit[s] = std::max(limit[s], other->at[s]);
      later = true;
    }
  }
  if (later) Hasten(limit, store.at, [](const Store&) { return true; });
  return later;
}

void WeakMemory::Apply(Store& store) {
  Cell& cell = *store.cell;
  std::byte* const place = cell.place + store.first;
  Past past{.by = store.by,
            .at = store.at,
            .bytes = BytesAt(store.first, store.bytes)};
  ReadMemory(place, store.bytes, past.before.data() + store.first);
  Observe(cell, store.first, store.bytes, past.before.data() + store.first);
  WriteMemory(place, store.bytes, store.value.data());
  std::copy_n(store.value.begin(), store.bytes,
              cell.value.begin() + store.first);
  if (cell.past.size() >= kMostPast) cell.past.erase(cell.past.begin());
  cell.past.push_back(past);
  std::erase(cell.stores, &store);
  store.bytes = 0;
}

void WeakMemory::DropStores(Cell& cell) {
  if (cell.stores.empty()) return;
  for (Store* store : cell.stores) store->bytes = 0;
  cell.stores.clear();
  std::erase_if(stores_, [](const Store& store) { return store.bytes == 0; });
}

}  // namespace carillon::sim
