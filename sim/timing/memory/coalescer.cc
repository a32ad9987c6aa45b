#include "sim/timing/memory/coalescer.h"

#include <algorithm>
#include <bit>

#include "sim/timing/divisor.h"

namespace carillon::sim::timing {
namespace {

class Builder {
 public:
  Builder(uint32_t line_bytes, uint32_t sector_bytes, Transactions& to)
      : line_mask_(~uint64_t{line_bytes - 1}),
        sector_shift_(static_cast<uint32_t>(std::countr_zero(sector_bytes))),
        to_(to) {}

  // Adds bytes that lie within one line.
  void Add(uint64_t address, uint32_t bytes) {
    const uint64_t line = address & line_mask_;
    const uint64_t first = (address - line) >> sector_shift_;
    const uint64_t last = (address - line + bytes - 1) >> sector_shift_;
    const auto sectors =
        static_cast<Sectors>((uint32_t{2} << last) - (uint32_t{1} << first));
    // Neighbouring lanes usually share a line, so look at the last one first.
    if (to_[last_].line != line || count_ == 0) last_ = Find(line);
    to_[last_].sectors |= sectors;
    ++to_[last_].lanes;
  }
  uint32_t count() const { return count_; }

 private:
  // The line's transaction, which may be new.
  uint32_t Find(uint64_t line) {
    if (count_ == 0) places_.fill(kNone);
    // The first bits of the product depend on all bits of the line.
    size_t at = line * 0x9e3779b97f4a7c15u >> 56;
    while (places_[at] != kNone && to_[places_[at]].line != line) {
      at = (at + 1) % places_.size();
    }
    if (places_[at] == kNone) {
      places_[at] = static_cast<uint8_t>(count_);
      to_[count_++] = {.line = line};
    }
    return places_[at];
  }

  static constexpr uint8_t kNone = 0xff;
  const uint64_t line_mask_;
  const uint32_t sector_shift_;
  Transactions& to_;
  uint32_t count_ = 0;
  uint32_t last_ = 0;
  // A hash table of transactions, twice as large as it must be.
  std::array<uint8_t, 2 * kMaxTransactions> places_;
};

// Whether each bank is asked for at most one word; `banks` is a power of two.
// That is the usual case, and SharedPasses() is far slower.
bool WithoutConflict(const Access& access, uint64_t banks) {
  uint64_t asked = 0;
  std::array<uint64_t, 64> word_of;
  for (LaneMask left = access.mask; left != 0; left &= left - 1) {
    const uint64_t word =
        access.address[static_cast<size_t>(std::countr_zero(left))] / 4;
    const uint64_t bank = word & (banks - 1);
    if ((asked >> bank & 1) != 0 && word_of[bank] != word) return false;
    asked |= uint64_t{1} << bank;
    word_of[bank] = word;
  }
  return true;
}

}  // namespace

uint32_t Coalesce(const Access& access, uint32_t line_bytes,
                  uint32_t sector_bytes, Transactions& transactions) {
  Builder builder(line_bytes, sector_bytes, transactions);
  for (LaneMask left = access.mask; left != 0; left &= left - 1) {
    builder.Add(access.address[static_cast<size_t>(std::countr_zero(left))],
                access.bytes);
  }
  return builder.count();
}

uint32_t CoalesceLocal(const Access& access, uint64_t base, uint32_t line_bytes,
                       uint32_t sector_bytes, Transactions& transactions) {
  Builder builder(line_bytes, sector_bytes, transactions);
  const uint32_t words = std::max(access.bytes / 4, 1u);
  for (uint32_t word = 0; word < words; ++word) {
    for (LaneMask left = access.mask; left != 0; left &= left - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(left));
      const uint64_t at = access.address[lane] / 4 + word;
      builder.Add(base + (at * kLanes + lane) * 4, 4);
    }
  }
  return builder.count();
}

// Lanes that want the same word share it, so only different words count; for
// atomics each lane counts. The bank with the most words decides.
uint32_t SharedPasses(const Access& access, uint32_t bank_count) {
  const Divisor banks(bank_count);
  if (access.bytes <= 4 && !access.atomic && banks.is_power() &&
      WithoutConflict(access, bank_count)) {
    return 1;
  }
  const uint32_t words = std::max(access.bytes / 4, 1u);
  const uint32_t lanes = kLanes / words;
  uint32_t passes = 0;
  for (uint32_t group = 0; group < words; ++group) {
    std::array<uint64_t, kLanes * 4> seen;
    std::array<uint8_t, 64> used{};
    uint32_t count = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < lanes; ++i) {
      const uint32_t lane = group * lanes + i;
      if ((access.mask >> lane & 1) == 0) continue;
      for (uint32_t w = 0; w < words; ++w) {
        const uint64_t word = access.address[lane] / 4 + w;
        uint32_t other = access.atomic ? count : 0;
        while (other < count && seen[other] != word) ++other;
        if (other < count) continue;
        seen[count++] = word;
        most = std::max<uint32_t>(most, ++used[banks.Remainder(word)]);
      }
    }
    passes += most;
  }
  return std::max(passes, 1u);
}

uint32_t ConstantPasses(const Access& access) {
  std::array<uint64_t, kLanes> seen;
  uint32_t count = 0;
  for (LaneMask left = access.mask; left != 0; left &= left - 1) {
    const uint64_t word =
        access.address[static_cast<size_t>(std::countr_zero(left))] / 4;
    uint32_t other = 0;
    while (other < count && seen[other] != word) ++other;
    if (other == count) seen[count++] = word;
  }
  return std::max(count, 1u);
}

}  // namespace carillon::sim::timing
