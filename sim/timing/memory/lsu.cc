#include "sim/timing/memory/lsu.h"

#include <algorithm>
#include <bit>

namespace carillon::sim::timing {
namespace {

// The address of a warp slot's local memory. Only caches see it, so it just
// must not collide with others.
constexpr uint64_t LocalBase(uint32_t sm, uint32_t slot) {
  return uint64_t{1} << 60 | uint64_t{sm} << 40 | uint64_t{slot} << 32;
}

}  // namespace

Lsu::Lsu(const Config& config, uint32_t sm, MemorySystem* memory,
         EventWheel<SmEvent>* events, SmCounters* counters)
    : config_(config),
      sm_(sm),
      memory_(memory),
      events_(events),
      counters_(counters),
      l1_(config.l1, config.l1.bytes),
      mshrs_(config.l1.mshrs, config.l1.merges),
      operations_(config.lsu.operations) {
  for (uint32_t i = 0; i < operations_.size(); ++i) {
    operations_[i].next = i + 1 < operations_.size() ? i + 1 : kNone;
  }
  const uint32_t per = config.l1.sector_bytes / config.l2.sector_bytes;
  for (uint32_t sectors = 0; sectors < widened_.size(); ++sectors) {
    for (uint32_t i = 0; i < 8; ++i) {
      if ((sectors >> i & 1) == 0) continue;
      widened_[sectors] |=
          static_cast<Sectors>(((1u << per) - 1) << (i / per * per));
    }
  }
}

MemoryAccess& Lsu::Enqueue(uint32_t slot, uint32_t generation, Pc pc,
                           OpKind kind, Cycle ready) {
  const uint32_t index = free_;
  free_ = operations_[index].next;
  operations_[index] = {.generation = generation,
                        .pc = pc,
                        .slot = static_cast<uint8_t>(slot),
                        .kind = kind,
                        .used = true,
                        .parts = 1,
                        .order = next_order_++};
  Waiting& waiting = queue_.Add();
  waiting.operation = index;
  waiting.next = 0;
  waiting.ready = ready;
  waiting.done = 0;
  // Entries that were never used follow each other in the free list.
  if (index == accesses_used_) [[unlikely]] {
    ++accesses_used_;
    accesses_.emplace_back();
  }
  return accesses_[index];
}

void Lsu::Issue(uint32_t slot, uint32_t generation, Pc pc, const OpTiming& op,
                const Access& access, Cycle now) {
  MemoryAccess& asks = Enqueue(slot, generation, pc, op.kind, now + op.latency);
  asks.past_l1 = op.past_l1;
  asks.path = access.atomic  ? Path::kAtomic
              : access.store ? Path::kStore
                             : Path::kLoad;
  switch (access.space) {
    case MemorySpace::kShared:
      asks.path = Path::kFixed;
      asks.passes = SharedPasses(access, config_.lsu.banks);
      asks.latency = config_.lsu.shared_latency;
      ++counters_->shared_operations;
      counters_->shared_passes += asks.passes;
      return;
    case MemorySpace::kConst:
      asks.path = Path::kFixed;
      asks.passes = ConstantPasses(access);
      asks.latency = config_.lsu.constant_latency;
      ++counters_->constant_operations;
      counters_->constant_passes += asks.passes;
      return;
    case MemorySpace::kKernelParam:  // by a generic address
      asks.path = Path::kFixed;
      asks.passes = 1;
      asks.latency = config_.lsu.constant_latency;
      return;
    case MemorySpace::kLocal:
      if (access.store) asks.path = Path::kLocalStore;
      asks.count =
          CoalesceLocal(access, LocalBase(sm_, slot), config_.l2.line_bytes,
                        config_.l2.sector_bytes, asks.transactions);
      break;
    default: {
      const auto first = static_cast<uint32_t>(std::countr_zero(access.mask));
      if (access.mask != 0 && access.address[first] - interrupt_registers_ <
                                  interrupt_registers_bytes_) {
        asks.path = Path::kFixed;
        asks.passes = 1;
        asks.latency = config_.edge.registers_latency;
        return;
      }
      asks.past_l1 |= config_.l1_global_loads == 0;
      asks.count = Coalesce(access, config_.l2.line_bytes,
                            config_.l2.sector_bytes, asks.transactions);
      break;
    }
  }
  ++counters_->global_operations;
  counters_->transactions += asks.count;
}

std::vector<DroppedLoad> Lsu::DropLoads(uint32_t slot, uint32_t generation) {
  std::vector<MemoryOperation*> loads;
  for (MemoryOperation& operation : operations_) {
    if (operation.used && operation.slot == slot &&
        operation.generation == generation && operation.kind == OpKind::kLoad) {
      loads.push_back(&operation);
    }
  }
  std::sort(loads.begin(), loads.end(),
            [](const MemoryOperation* a, const MemoryOperation* b) {
              return static_cast<int32_t>(a->order - b->order) < 0;
            });
  std::vector<DroppedLoad> dropped;
  for (MemoryOperation* const load : loads) {
    load->generation = kNoGeneration;
    const MemoryAccess& asks =
        accesses_[static_cast<size_t>(load - operations_.data())];
    dropped.push_back({.pc = load->pc,
                       .path = asks.path,
                       .past_l1 = asks.past_l1,
                       .passes = asks.passes,
                       .latency = asks.latency});
    if (asks.path == Path::kFixed) continue;
    dropped.back().transactions.assign(asks.transactions.begin(),
                                       asks.transactions.begin() + asks.count);
  }
  return dropped;
}

void Lsu::IssueAgain(uint32_t slot, uint32_t generation,
                     const DroppedLoad& load, uint32_t latency, Cycle now) {
  MemoryAccess& asks =
      Enqueue(slot, generation, load.pc, OpKind::kLoad, now + latency);
  asks.path = load.path;
  asks.past_l1 = load.past_l1;
  asks.passes = load.passes;
  asks.latency = load.latency;
  asks.count = static_cast<uint32_t>(load.transactions.size());
  std::copy(load.transactions.begin(), load.transactions.end(),
            asks.transactions.begin());
}

void Lsu::MoveRegister(uint32_t slot, uint64_t address, bool store, Pc pc,
                       Cycle now, uint32_t generation) {
  MemoryAccess& asks =
      Enqueue(slot, generation, pc, store ? OpKind::kStore : OpKind::kLoad,
              now + config_.operands.latency);
  asks.path = store ? Path::kStore : Path::kLoad;
  asks.past_l1 = config_.l1_global_loads == 0;
  asks.count = 0;
  const uint64_t end = address + kLanes * 4;
  const uint32_t sector = config_.l2.sector_bytes;
  for (uint64_t at = address; at < end; at += sector) {
    const uint64_t line = at / config_.l2.line_bytes * config_.l2.line_bytes;
    if (asks.count == 0 || asks.transactions[asks.count - 1].line != line) {
      asks.transactions[asks.count++] = {.line = line};
    }
    asks.transactions[asks.count - 1].sectors |=
        static_cast<Sectors>(1u << (at - line) / sector);
  }
  ++counters_->global_operations;
  counters_->transactions += asks.count;
}

Lsu::Outstanding Lsu::OutstandingOf(uint32_t slot, const WarpContext& context,
                                    Cycle now) const {
  Outstanding result;
  const auto is_its = [&](const MemoryOperation& operation) {
    return operation.used && operation.slot == slot &&
           operation.generation == context.generation;
  };
  for (const MemoryOperation& operation : operations_) {
    if (!is_its(operation)) continue;
    result.loads |= operation.kind == OpKind::kLoad;
    if (operation.kind != OpKind::kAtomic) continue;
    result.atomics = true;
    result.values |= context.operations[operation.pc].writes != 0;
  }
  for (size_t i = 0; i < queue_.size(); ++i) {
    const Waiting& waiting = queue_.at(i);
    const MemoryOperation& operation = operations_[waiting.operation];
    if (!is_its(operation)) continue;
    result.queued |= operation.kind != OpKind::kLoad;
    result.on_the_way |= waiting.ready > now;
  }
  return result;
}

Cycle Lsu::Advance(Cycle now) {
  if (queue_.empty()) return kNever;
  Waiting& waiting = queue_.front();
  const Cycle from = std::max(waiting.ready, port_free_);
  if (from > now) return from;
  if (blocked_ != nullptr && !MayGoOn(now)) return kNever;
  const MemoryAccess& asks = accesses_[waiting.operation];
  Cycle done = 0;
  if (asks.path == Path::kFixed) {
    port_free_ = now + asks.passes;
    done = now + asks.latency + asks.passes - 1;
  } else {
    if (!Step(waiting, asks, now)) return kNever;
    if (blocked_ != nullptr) {
      *blocked_ += now - blocked_since_;
      blocked_ = nullptr;
    }
    port_free_ = now + 1;
    if (++waiting.next < asks.count) {
      uint64_t* const held = NextHeldBy(waiting, asks);
      if (held == nullptr) return port_free_;
      Block(held, asks.transactions[waiting.next].line, port_free_);
      return kNever;
    }
    done = std::max(waiting.done, now + 1);
  }
  events_->Schedule(
      done, {.kind = SmEvent::Kind::kMemory, .index = waiting.operation});
  queue_.pop();
  return queue_.empty() ? kNever : std::max(queue_.front().ready, port_free_);
}

// What will hold up the next line in the next cycle unless a reply or room comes
// first. nullptr also where a try may change something: it counts as a use of a
// line that is in the L1.
uint64_t* Lsu::NextHeldBy(const Waiting& waiting, const MemoryAccess& asks) {
  const Transaction& transaction = asks.transactions[waiting.next];
  if (asks.path == Path::kAtomic || asks.path == Path::kStore) {
    if (uint64_t* const held = StoreHeldBy()) return held;
  } else if (l1_.Holds(transaction.line)) {
    return nullptr;
  } else if (asks.path == Path::kLoad) {
    const uint32_t mshr = mshrs_.Find(transaction.line);
    if (uint64_t* const held = LoadHeldBy(mshr)) return held;
    if (mshr != mshrs_.kNone) return nullptr;
  }
  return memory_->CanSend(sm_, port_free_) ? nullptr
                                           : &counters_->network_full_cycles;
}

bool Lsu::Step(Waiting& waiting, const MemoryAccess& asks, Cycle now) {
  if (asks.path == Path::kLoad) return StepLoad(waiting, asks, now);
  const Transaction& transaction = asks.transactions[waiting.next];
  if (asks.path == Path::kLocalStore) {
    // A local store stays in the L1 until it is evicted, since no other thread
    // reads it.
    if (!l1_.Holds(transaction.line) && !memory_->CanSend(sm_, now)) {
      return Block(&counters_->network_full_cycles, transaction.line, now);
    }
    ++counters_->l1_stores;
    Insert(transaction.line, transaction.sectors, transaction.sectors, now);
    return true;
  }
  if (uint64_t* const held = StoreHeldBy()) {
    return Block(held, transaction.line, now);
  }
  if (!memory_->CanSend(sm_, now)) {
    return Block(&counters_->network_full_cycles, transaction.line, now);
  }
  ++stores_;
  ++operations_[waiting.operation].parts;
  // L1s are not coherent: keep no copy of a line that others may now see
  // differently.
  l1_.Invalidate(transaction.line);
  const bool atomic = asks.path == Path::kAtomic;
  ++(atomic ? counters_->l1_atomics : counters_->l1_stores);
  SendStore(atomic ? RequestKind::kAtomic : RequestKind::kStore, transaction,
            waiting.operation, now);
  return true;
}

// Returns false if the MSHRs or the network's queue are full. The LSU's queue is
// in order, so everything behind this load then waits, as in hardware.
bool Lsu::StepLoad(Waiting& waiting, const MemoryAccess& asks, Cycle now) {
  const Transaction& transaction = asks.transactions[waiting.next];
  const Sectors sectors = Widen(transaction.sectors);
  const Sectors here = asks.past_l1 ? Sectors{0} : l1_.Touch(transaction.line);
  if ((sectors & ~here) == 0) {
    ++counters_->l1_load_hits;
    waiting.done = std::max(waiting.done, now + config_.l1.latency);
    return true;
  }
  uint32_t index = mshrs_.Find(transaction.line);
  if (uint64_t* const held = LoadHeldBy(index)) {
    return Block(held, transaction.line, now);
  }
  const bool merges = index != mshrs_.kNone;
  const Sectors ask = merges ? sectors & ~mshrs_.entry(index).asked : sectors;
  if (ask != 0 && !memory_->CanSend(sm_, now)) {
    Block(&counters_->network_full_cycles, transaction.line, now);
    // Each try is a use of a line that is there in part.
    any_fill_ = here != 0;
    return false;
  }
  if (!merges) {
    index = mshrs_.Allocate(transaction.line);
    mshrs_.entry(index).bypass = asks.past_l1;
  }
  if (asks.past_l1) {
    ++counters_->l1_loads_past;
  } else {
    ++counters_->l1_load_misses;
    counters_->l1_load_merges += merges;
  }
  ++operations_[waiting.operation].parts;
  mshrs_.Wait(index, {waiting.operation, sectors});
  if (ask == 0) return true;
  mshrs_.entry(index).asked |= ask;
  memory_->Send({.line = transaction.line,
                 .tag = index,
                 .sm = static_cast<uint16_t>(sm_),
                 .sectors = ask,
                 .kind = RequestKind::kLoad},
                now);
  return true;
}

void Lsu::SendStore(RequestKind kind, const Transaction& transaction,
                    uint32_t tag, Cycle now) {
  memory_->Send({.line = transaction.line,
                 .tag = tag,
                 .sm = static_cast<uint16_t>(sm_),
                 .sectors = transaction.sectors,
                 .lanes = transaction.lanes,
                 .kind = kind},
                now);
}

void Lsu::Insert(uint64_t line, Sectors valid, Sectors dirty, Cycle now) {
  const Cache::Victim victim = l1_.Insert(line, valid, dirty);
  if (victim.dirty == 0) return;
  ++counters_->l1_write_backs;
  SendStore(RequestKind::kStore, {victim.line, victim.dirty, 0}, kWriteBack,
            now);
}

}  // namespace carillon::sim::timing
