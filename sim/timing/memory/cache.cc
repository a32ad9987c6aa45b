#include "sim/timing/memory/cache.h"

#include <bit>

namespace carillon::sim::timing {

Cache::Cache(const CacheConfig& config, uint32_t bytes)
    : line_shift_(static_cast<uint32_t>(std::countr_zero(config.line_bytes))),
      associativity_(config.ways) {
  const uint32_t sets = bytes / config.line_bytes / config.ways;
  set_bits_ = static_cast<uint32_t>(std::countr_zero(sets));
  set_mask_ = sets - 1;
  ways_.resize(size_t{sets} * config.ways);
}

Sectors Cache::Touch(uint64_t line) {
  Way* const way = Find(line);
  if (way == nullptr) return 0;
  way->used = ++uses_;
  return way->valid;
}

Cache::Victim Cache::Insert(uint64_t line, Sectors valid, Sectors dirty) {
  Victim victim;
  Way* way = Find(line);
  if (way == nullptr) {
    Way* const set = Set(line);
    way = set;
    for (uint32_t i = 1; i < associativity_; ++i) {
      if (Before(set[i], *way)) way = &set[i];
    }
    if (way->dirty != 0) victim = {way->line, way->dirty};
    *way = {.line = line};
  }
  way->used = ++uses_;
  way->valid |= valid;
  way->dirty |= dirty;
  return victim;
}

void Cache::Invalidate(uint64_t line) {
  if (Way* const way = Find(line)) *way = {};
}

void Cache::Clear() {
  for (Way& way : ways_) {
    if (!way.reserved) way = {};
  }
}

bool Cache::Reserve(uint64_t line) {
  const Way* const set = Set(line);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < associativity_; ++i) {
    if (set[i].reserved && set[i].line != line) ++taken;
  }
  if (taken + 1 >= associativity_) return false;
  Insert(line, static_cast<Sectors>(~0), 0);
  Find(line)->reserved = true;
  return true;
}

}  // namespace carillon::sim::timing
