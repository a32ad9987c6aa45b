#include "sim/timing/instruction_fetch.h"

#include <algorithm>

#include "sim/timing/scheduler.h"

namespace carillon::sim::timing {

InstructionFetch::InstructionFetch(const Config& config, uint32_t sm,
                                   SmWarps* warps, MemorySystem* memory,
                                   SmCounters* counters)
    : config_(config),
      events_first_(config.edge.event_priority >= EventPriority::kP1),
      sm_(sm),
      warps_(warps),
      memory_(memory),
      counters_(counters),
      cache_(config.icache, config.icache.bytes),
      misses_(config.icache.mshrs) {}

void InstructionFetch::Deliver(Cycle now) {
  while (!fetched_.empty() && fetched_.front().at <= now) {
    const Fetched fetched = fetched_.front();
    fetched_.pop();
    WarpContext& context = warps_->slots[fetched.slot];
    if (context.generation != fetched.generation) continue;
    warps_->decoding &= ~BitOf(fetched.slot);
    context.head = fetched.head;
    context.buffered = fetched.count;
    warps_->UpdateHead(fetched.slot);
  }
}

void InstructionFetch::Forget(uint32_t slot) {
  for (size_t i = 0; i < fetched_.size(); ++i) {
    if (fetched_.at(i).slot == slot) fetched_.at(i).generation = kNoGeneration;
  }
  warps_->decoding &= ~BitOf(slot);
}

Cycle InstructionFetch::next() const {
  return fetched_.empty() ? kNever : fetched_.at(0).at;
}

bool InstructionFetch::Fetch(Cycle now) {
  WarpMask wanting = warps_->running & ~warps_->buffered & ~warps_->decoding &
                     ~warps_->missing & ~(warps_->held | warps_->frozen);
  if (wanting == 0) return false;
  if (events_first_) {
    const WarpMask events =
        wanting & warps_->of_class[static_cast<size_t>(WarpClass::kEvent)];
    if (events != 0) wanting = events;
  }
  const uint32_t slot = NextInTurn(wanting, last_);
  last_ = slot;
  WarpContext& context = warps_->slots[slot];
  const LoadedProgram& program = *context.grid->program;
  const Pc pc = context.warp->pc();
  const uint64_t address =
      program.code + uint64_t{pc} * config_.fetch.operation_bytes;
  const uint64_t line = address & ~uint64_t{config_.icache.line_bytes - 1};
  if (cache_.Touch(line) != 0) {
    ++counters_->icache_hits;
    const uint64_t in_line = (line + config_.icache.line_bytes - address) /
                             config_.fetch.operation_bytes;
    const uint64_t count =
        std::min({uint64_t{config_.fetch.width}, uint64_t{config_.fetch.buffer},
                  in_line, uint64_t{program.operations.size() - pc}});
    fetched_.push({now + config_.fetch.latency, slot, context.generation, pc,
                   static_cast<uint8_t>(count)});
    warps_->decoding |= BitOf(slot);
    return true;
  }
  ++counters_->icache_misses;
  Miss* free = nullptr;
  for (Miss& miss : misses_) {
    if (!miss.used) {
      free = &miss;
    } else if (miss.line == line) {
      miss.waiting |= BitOf(slot);
      warps_->missing |= BitOf(slot);
      return true;
    }
  }
  if (free == nullptr) {
    blocked_ |= BitOf(slot);
    warps_->missing |= BitOf(slot);
    return true;
  }
  *free = {.line = line, .waiting = BitOf(slot), .used = true};
  warps_->missing |= BitOf(slot);
  const uint64_t whole = line & ~uint64_t{config_.l2.line_bytes - 1};
  const uint32_t first =
      static_cast<uint32_t>(line - whole) / config_.l2.sector_bytes;
  const uint32_t count =
      std::max(config_.icache.line_bytes / config_.l2.sector_bytes, 1u);
  memory_->Send({.line = whole,
                 .tag = static_cast<uint32_t>(free - misses_.data()),
                 .sm = static_cast<uint16_t>(sm_),
                 .sectors = static_cast<Sectors>(((1u << count) - 1) << first),
                 .kind = RequestKind::kFetch},
                now);
  return true;
}

void InstructionFetch::Fill(const MemoryRequest& reply) {
  Miss& miss = misses_[reply.tag];
  cache_.Insert(miss.line, 1, 0);
  ++counters_->icache_fills;
  // Clearing a bit is safe even if the slot has another warp by now: that warp
  // is not in `missing` for this line, or asks again.
  warps_->missing &= ~(miss.waiting | blocked_);
  blocked_ = 0;
  miss.used = false;
}

}  // namespace carillon::sim::timing
