#include "kernels/forwarding/fib.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace carillon::forwarding {

Fib::Fib(Family family, uint32_t groups, uint32_t first_bits)
    : family_(family),
      groups_(std::min(groups, kMaxGroups)),
      first_bits_(first_bits),
      entries_(size_t{1} << first_bits),
      lengths_(entries_.size()),
      page_versions_((entries_.size() + kPageWords - 1) / kPageWords) {}

uint32_t Fib::LevelOf(uint32_t length) const {
  return length <= first_bits_ ? 0 : (length - first_bits_ + 7) / 8;
}

uint64_t Fib::FirstOf(const AddressBytes& address) const {
  uint64_t first = 0;
  for (uint32_t i = 0; i < first_bits_ / 8; ++i)
    first = first << 8 | address[i];
  return first;
}

absl::Status Fib::Check(const Prefix& prefix) const {
  RETURN_IF_ERROR(CheckPrefix(prefix));
  if (prefix.family == family_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("prefix {}: this table is IPv{}'s", ToString(prefix),
                  family_ == Family::kIpv4 ? 4 : 6));
}

absl::Status Fib::Insert(const Route& route) {
  const Prefix& prefix = route.prefix;
  RETURN_IF_ERROR(Check(prefix));
  if (route.next_hop > kMaxNextHop) {
    return absl::InvalidArgumentError(
        fmt::format("route to {}: next hop {}: at most {}", ToString(prefix),
                    route.next_hop, kMaxNextHop));
  }
  const uint32_t missing =
      MissingGroups(prefix.address, LevelOf(prefix.length));
  if (missing > groups_ - groups_in_use()) {
    return absl::ResourceExhaustedError(fmt::format(
        "route to {}: takes {} more groups of the table, {} of {} are in use",
        ToString(prefix), missing, groups_in_use(), groups_));
  }
  ++version_;
  routes_.insert_or_assign(Key{prefix.address, prefix.length}, route.next_hop);
  PaintPrefix(prefix, {kEntryRoute | route.next_hop, prefix.length});
  return absl::OkStatus();
}

absl::Status Fib::Remove(const Prefix& prefix) {
  RETURN_IF_ERROR(Check(prefix));
  if (routes_.erase(Key{prefix.address, prefix.length}) == 0) {
    return absl::NotFoundError(
        fmt::format("no route to {} is in the table", ToString(prefix)));
  }
  ++version_;
  PaintPrefix(prefix, Covering(prefix));
  DropGroups(prefix.address, LevelOf(prefix.length));
  return absl::OkStatus();
}

absl::Status Fib::Replace(std::span<const Route> routes) {
  // Shorter prefixes first: a longer one then finds few entries to pass over.
  std::vector<Route> sorted(routes.begin(), routes.end());
  std::ranges::stable_sort(
      sorted, {}, [](const Route& route) { return route.prefix.length; });
  Fib fresh(family_, groups_, first_bits_);
  for (const Route& route : sorted) RETURN_IF_ERROR(fresh.Insert(route));
  // Words of groups that are no more stay what they are.
  if (fresh.entries_.size() < entries_.size()) {
    fresh.entries_.insert(
        fresh.entries_.end(),
        entries_.begin() + static_cast<ptrdiff_t>(fresh.entries_.size()),
        entries_.end());
    fresh.lengths_.resize(entries_.size());
    fresh.page_versions_.resize(page_versions_.size());
    for (; fresh.groups_made_ < groups_made_; ++fresh.groups_made_) {
      fresh.free_groups_.push_back(fresh.groups_made_);
    }
  }
  fresh.version_ = version_ + 1;
  for (uint64_t page = 0; page < fresh.page_versions_.size(); ++page) {
    const uint64_t first = page * kPageWords;
    const auto words_of = [first](const std::vector<uint32_t>& entries) {
      return std::span(entries).subspan(
          std::min<uint64_t>(first, entries.size()),
          std::min<uint64_t>(
              kPageWords,
              entries.size() - std::min<uint64_t>(first, entries.size())));
    };
    fresh.page_versions_[page] =
        std::ranges::equal(words_of(fresh.entries_), words_of(entries_))
            ? page_versions_[page]
            : fresh.version_;
  }
  *this = std::move(fresh);
  return absl::OkStatus();
}

std::optional<uint32_t> Fib::Lookup(const AddressBytes& address) const {
  uint32_t entry = entries_[FirstOf(address)];
  for (uint32_t level = 1; (entry & kEntryGroup) != 0; ++level) {
    entry = entries_[GroupBegin(entry) + ByteOf(address, level)];
  }
  if ((entry & kEntryRoute) == 0) return std::nullopt;
  return entry & kEntryValue;
}

std::vector<Fib::Range> Fib::ChangesSince(uint64_t version) const {
  std::vector<Range> ranges;
  for (uint64_t page = 0; page < page_versions_.size(); ++page) {
    if (page_versions_[page] <= version) continue;
    const uint64_t first = page * kPageWords;
    const uint64_t count =
        std::min<uint64_t>(kPageWords, entries_.size() - first);
    if (!ranges.empty() && ranges.back().first + ranges.back().count == first) {
      ranges.back().count += count;
    } else {
      ranges.push_back({first, count});
    }
  }
  return ranges;
}

uint64_t Fib::Descend(const AddressBytes& address, uint32_t level) const {
  uint64_t at = FirstOf(address);
  for (uint32_t i = 1; i <= level; ++i) {
    at = GroupBegin(entries_[at]) + ByteOf(address, i);
  }
  return at;
}

uint32_t Fib::MissingGroups(const AddressBytes& address, uint32_t level) const {
  uint64_t at = FirstOf(address);
  for (uint32_t i = 1; i <= level; ++i) {
    if ((entries_[at] & kEntryGroup) == 0) return level - i + 1;
    at = GroupBegin(entries_[at]) + ByteOf(address, i);
  }
  return 0;
}

void Fib::Set(uint64_t at, Value value) {
  entries_[at] = value.entry;
  lengths_[at] = value.length;
  page_versions_[at / kPageWords] = version_;
}

void Fib::MakeGroup(uint64_t parent) {
  uint32_t group = groups_made_;
  if (free_groups_.empty()) {
    ++groups_made_;
    entries_.resize(entries_.size() + kGroupEntries);
    lengths_.resize(entries_.size());
    page_versions_.resize((entries_.size() + kPageWords - 1) / kPageWords);
  } else {
    group = free_groups_.back();
    free_groups_.pop_back();
  }
  const Value inherited = {entries_[parent], lengths_[parent]};
  const uint64_t begin = GroupBegin(group);
  for (uint64_t i = 0; i < kGroupEntries; ++i) Set(begin + i, inherited);
  Set(parent, {kEntryGroup | group, inherited.length});
}

void Fib::PaintPrefix(const Prefix& prefix, Value value) {
  const uint32_t level = LevelOf(prefix.length);
  uint64_t at = FirstOf(prefix.address);
  for (uint32_t i = 1; i <= level; ++i) {
    if ((entries_[at] & kEntryGroup) == 0) MakeGroup(at);
    at = GroupBegin(entries_[at]) + ByteOf(prefix.address, i);
  }
  Paint(at, uint64_t{1} << (BitsOf(level) - prefix.length), prefix.length,
        value);
}

void Fib::Paint(uint64_t first, uint64_t count, uint32_t most, Value value) {
  for (uint64_t at = first; at < first + count; ++at) {
    if ((entries_[at] & kEntryGroup) != 0) {
      Paint(GroupBegin(entries_[at]), kGroupEntries, most, value);
    } else if (lengths_[at] <= most) {
      Set(at, value);
    }
  }
}

Fib::Value Fib::Covering(const Prefix& prefix) const {
  for (uint32_t length = prefix.length; length-- > 0;) {
    const auto route = routes_.find(
        Key{Masked(prefix.address, length), static_cast<uint8_t>(length)});
    if (route == routes_.end()) continue;
    return {kEntryRoute | route->second, static_cast<uint8_t>(length)};
  }
  return {0, 0};
}

void Fib::DropGroups(const AddressBytes& address, uint32_t level) {
  for (; level > 0; --level) {
    const uint64_t parent = Descend(address, level - 1);
    const uint32_t group = entries_[parent] & kEntryValue;
    const uint64_t begin = GroupBegin(group);
    for (uint64_t i = 0; i < kGroupEntries; ++i) {
      if ((entries_[begin + i] & kEntryGroup) != 0 ||
          lengths_[begin + i] > BitsOf(level - 1)) {
        return;
      }
    }
    // All come from one prefix, which reaches beyond the group, or from none.
    Set(parent, {entries_[begin], lengths_[begin]});
    free_groups_.push_back(group);
  }
}

}  // namespace carillon::forwarding
