#include "gpu_daemon/backends/sim/timing/lsu.h"

#include <algorithm>

namespace carillon::sim::timing {
namespace {

// Local memory of a warp slot, apart from all else: for caches only.
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

void Lsu::Issue(uint32_t slot, uint32_t generation, Pc pc, const OpTiming& op,
                const Access& access, Cycle now) {
  const uint32_t index = free_;
  free_ = operations_[index].next;
  operations_[index] = {.generation = generation,
                        .pc = pc,
                        .slot = static_cast<uint8_t>(slot),
                        .used = true,
                        .parts = 1};
  Queued& queued = queue_.Add();
  queued.operation = index;
  queued.past_l1 = op.past_l1;
  queued.ready = now + op.latency;
  queued.done = 0;
  queued.next = 0;
  queued.path = access.atomic  ? Path::kAtomic
                : access.store ? Path::kStore
                               : Path::kLoad;
  switch (access.space) {
    case MemorySpace::kShared:
      queued.path = Path::kFixed;
      queued.passes = SharedPasses(access, config_.lsu.banks);
      queued.latency = config_.lsu.shared_latency;
      ++counters_->shared_operations;
      counters_->shared_passes += queued.passes;
      return;
    case MemorySpace::kConst:
      queued.path = Path::kFixed;
      queued.passes = ConstantPasses(access);
      queued.latency = config_.lsu.constant_latency;
      ++counters_->constant_operations;
      counters_->constant_passes += queued.passes;
      return;
    case MemorySpace::kKernelParam:  // by a generic address
      queued.path = Path::kFixed;
      queued.passes = 1;
      queued.latency = config_.lsu.constant_latency;
      return;
    case MemorySpace::kLocal:
      if (access.store) queued.path = Path::kLocalStore;
      queued.count =
          CoalesceLocal(access, LocalBase(sm_, slot), config_.l2.line_bytes,
                        config_.l2.sector_bytes, queued.transactions);
      break;
    default:
      queued.past_l1 |= config_.l1_global_loads == 0;
      queued.count = Coalesce(access, config_.l2.line_bytes,
                              config_.l2.sector_bytes, queued.transactions);
      break;
  }
  ++counters_->global_operations;
  counters_->transactions += queued.count;
}

Cycle Lsu::Advance(Cycle now) {
  if (queue_.empty()) return kNever;
  Queued& queued = queue_.front();
  const Cycle from = std::max(queued.ready, port_free_);
  if (from > now) return from;
  Cycle done = 0;
  if (queued.path == Path::kFixed) {
    port_free_ = now + queued.passes;
    done = now + queued.latency + queued.passes - 1;
  } else {
    if (!Step(queued, queued.transactions[queued.next], now)) return kNever;
    if (blocked_ != nullptr) {
      *blocked_ += now - blocked_since_;
      blocked_ = nullptr;
    }
    port_free_ = now + 1;
    if (++queued.next < queued.count) return port_free_;
    done = std::max(queued.done, now + 1);
  }
  events_->Schedule(
      done, {.kind = SmEvent::Kind::kMemory, .index = queued.operation});
  queue_.pop();
  return queue_.empty() ? kNever : std::max(queue_.front().ready, port_free_);
}

bool Lsu::Step(Queued& queued, const Transaction& transaction, Cycle now) {
  if (queued.path == Path::kLoad) return StepLoad(queued, transaction, now);
  if (queued.path == Path::kLocalStore) {
    // Stays in the L1 until it must go: nobody else reads it.
    ++counters_->l1_stores;
    Insert(transaction.line, transaction.sectors, transaction.sectors, now);
    return true;
  }
  if (stores_ == config_.lsu.stores) {
    if (blocked_ == nullptr) {
      blocked_ = &counters_->stores_full_cycles;
      blocked_since_ = now;
    }
    return false;
  }
  ++stores_;
  ++operations_[queued.operation].parts;
  // The L1 keeps no line that others may then see otherwise.
  l1_.Invalidate(transaction.line);
  const bool atomic = queued.path == Path::kAtomic;
  ++(atomic ? counters_->l1_atomics : counters_->l1_stores);
  SendStore(atomic ? RequestKind::kAtomic : RequestKind::kStore, transaction,
            queued.operation, now);
  return true;
}

bool Lsu::StepLoad(Queued& queued, const Transaction& transaction, Cycle now) {
  const Sectors sectors = Widen(transaction.sectors);
  if (!queued.past_l1 && (sectors & ~l1_.Touch(transaction.line)) == 0) {
    ++counters_->l1_load_hits;
    queued.done = std::max(queued.done, now + config_.l1.latency);
    return true;
  }
  uint32_t index = mshrs_.Find(transaction.line);
  const bool merges = index != mshrs_.kNone;
  if (merges ? !mshrs_.CanWait(index) : mshrs_.full()) {
    if (blocked_ == nullptr) {
      blocked_ =
          merges ? &counters_->merge_full_cycles : &counters_->mshr_full_cycles;
      blocked_since_ = now;
    }
    return false;
  }
  if (!merges) {
    index = mshrs_.Allocate(transaction.line);
    mshrs_.entry(index).bypass = queued.past_l1;
  }
  if (queued.past_l1) {
    ++counters_->l1_loads_past;
  } else {
    ++counters_->l1_load_misses;
    counters_->l1_load_merges += merges;
  }
  ++operations_[queued.operation].parts;
  mshrs_.Wait(index, {queued.operation, sectors});
  auto& entry = mshrs_.entry(index);
  const Sectors ask = sectors & ~entry.asked;
  if (ask == 0) return true;
  entry.asked |= ask;
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
