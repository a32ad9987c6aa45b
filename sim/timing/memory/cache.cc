#include "sim/timing/memory/cache.h"

#include <bit>

namespace carillon::sim::timing {

Cache::Cache(const CacheConfig& config, uint32_t bytes)
    : line_shift_(static_cast<uint32_t>(std::countr_zero(config.line_bytes))),
      associativity_(config.ways) {
  const uint32_t sets = bytes / config.line_bytes / config.ways;
  set_bits_ = static_cast<uint32_t>(std::countr_zero(sets));
  set_mask_ = sets - 1;
  lines_.resize(size_t{sets} * config.ways, kNoLine);
  ways_.resize(lines_.size());
}

Sectors Cache::Touch(uint64_t line) {
  const size_t at = Find(line);
  if (at == kNowhere) return 0;
  Use(ways_[at]);
  return ways_[at].valid;
}

Cache::Victim Cache::Insert(uint64_t line, Sectors valid, Sectors dirty) {
  Victim victim;
  size_t at = Find(line);
  if (at == kNowhere) {
    const size_t set = SetOf(line);
    at = set;
    for (size_t way = set + 1; way < set + associativity_; ++way) {
      if (ways_[way].used < ways_[at].used) at = way;
    }
    if (ways_[at].dirty != 0) victim = {lines_[at], ways_[at].dirty};
    lines_[at] = line;
    ways_[at] = {};
  }
  Way& way = ways_[at];
  Use(way);
  way.valid |= valid;
  way.dirty |= dirty;
  return victim;
}

void Cache::Invalidate(uint64_t line) {
  const size_t at = Find(line);
  if (at == kNowhere) return;
  lines_[at] = kNoLine;
  ways_[at] = {};
}

void Cache::Clear() {
  for (size_t at = 0; at < ways_.size(); ++at) {
    if (ways_[at].used == kReserved) continue;
    lines_[at] = kNoLine;
    ways_[at] = {};
  }
}

bool Cache::Reserve(uint64_t line) {
  const size_t set = SetOf(line);
  uint32_t taken = 0;
  for (size_t at = set; at < set + associativity_; ++at) {
    if (ways_[at].used == kReserved && lines_[at] != line) ++taken;
  }
  if (taken + 1 >= associativity_) return false;
  Insert(line, static_cast<Sectors>(~0), 0);
  ways_[Find(line)].used = kReserved;
  return true;
}

}  // namespace carillon::sim::timing
