#include "kernels/paper/memc_sets.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "kernels/memcached/memc_bytes.cuh"

namespace carillon::kernels {

bool MemcSets::Set(std::string_view key, std::string_view value, uint32_t now) {
  if (key.empty() || key.size() > kFigMemcMaxKey ||
      value.size() > kFigMemcMaxValue) {
    return false;
  }
  std::array<uint8_t, kFigMemcMaxKey + memc::kReadSlack> padded = {};
  std::ranges::copy(key, padded.begin());
  const uint32_t length = static_cast<uint32_t>(key.size());
  const uint32_t hash = memc::HashKey(padded.data(), length);
  const size_t sets = entries_.size() / kFigMemcWays;
  const std::span set(&entries_[hash % sets * kFigMemcWays], kFigMemcWays);
  const auto is_key = [&](const FigMemcEntry& entry) {
    return entry.key_length == length &&
           std::equal(key.begin(), key.end(), entry.key,
                      [](char a, uint8_t b) { return uint8_t(a) == b; });
  };
  auto entry = std::ranges::find_if(set, is_key);
  if (entry == set.end()) {
    // Free ones first.
    entry = std::ranges::min_element(set, {}, [](const FigMemcEntry& e) {
      return e.key_length == 0 ? -1 : int64_t{e.last_access};
    });
  }
  *entry = {};
  entry->hash = hash;
  entry->last_access = now;
  entry->key_length = length;
  entry->value_length = static_cast<uint32_t>(value.size());
  std::ranges::copy(key, entry->key);
  std::ranges::copy(value, entry->value);
  return true;
}

}  // namespace carillon::kernels
