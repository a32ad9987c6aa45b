// A forwarding information base: the routes of IPv4 or of IPv6, and the words
// of wire.h's table half that ipv4_forward and ipv6_forward look them up in.
//
// A device keeps one of each, sends both halves of its table in GPU memory what
// ChangesSince() names, and publishes them in turn.
#ifndef CARILLON_KERNELS_FORWARDING_FIB_H_
#define CARILLON_KERNELS_FORWARDING_FIB_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/forwarding/prefix.h"
#include "kernels/forwarding/wire.h"

namespace carillon::forwarding {

struct Route {
  Prefix prefix;
  uint32_t next_hop = 0;  // at most kMaxNextHop
};

// Not thread safe. Takes four bytes an entry of the half, and one for the length
// of the prefix that it comes from: 80 MiB and more with 24 first bits.
class Fib {
 public:
  // `groups`: how many the half has room for (TableBytes()). `first_bits`: 8, 16
  // or 24.
  Fib(Family family, uint32_t groups, uint32_t first_bits = kMostFirstBits);

  // Adds a route, or gives it another next hop. Errors, without any change:
  // InvalidArgument (prefix, next hop), ResourceExhausted (no group is left).
  absl::Status Insert(const Route& route);
  // Errors, without any change: InvalidArgument (prefix), NotFound.
  absl::Status Remove(const Prefix& prefix);
  // Has these routes and no others from now on; of equal prefixes the last
  // counts. Errors as for Insert(), without any change.
  absl::Status Replace(std::span<const Route> routes);

  // The next hop of the longest prefix of an address.
  std::optional<uint32_t> Lookup(const AddressBytes& address) const;

  Family family() const { return family_; }
  uint32_t first_bits() const { return first_bits_; }
  uint64_t routes() const { return routes_.size(); }
  uint32_t groups_in_use() const {
    return groups_made_ - static_cast<uint32_t>(free_groups_.size());
  }

  // The half. What lies behind it in memory that was zeros at first is still
  // zeros, or of no account.
  std::span<const uint32_t> words() const { return entries_; }

  // Grows by one with each change. 0: no route has ever been here.
  uint64_t version() const { return version_; }
  struct Range {
    uint64_t first;
    uint64_t count;
    friend bool operator==(const Range&, const Range&) = default;
  };
  // The parts of words() that may differ from what they were at that version, in
  // whole pages of kPageWords, in order.
  static constexpr uint64_t kPageWords = 1024;
  std::vector<Range> ChangesSince(uint64_t version) const;

 private:
  struct Key {
    AddressBytes address;
    uint8_t length;
    template <class H>
    friend H AbslHashValue(H hash, const Key& key) {
      return H::combine(std::move(hash), key.address, key.length);
    }
    friend bool operator==(const Key&, const Key&) = default;
  };
  // What an entry shall hold: no route, or one of a prefix of `length` bits.
  struct Value {
    uint32_t entry;
    uint8_t length;
  };

  // Level 0 is the first; level n looks at the 8 bits behind the first_bits_ +
  // 8 (n - 1) before.
  uint32_t LevelOf(uint32_t length) const;
  uint32_t BitsOf(uint32_t level) const { return first_bits_ + 8 * level; }
  uint64_t FirstOf(const AddressBytes& address) const;
  uint8_t ByteOf(const AddressBytes& address, uint32_t level) const {
    return address[first_bits_ / 8 + level - 1];
  }
  uint64_t GroupBegin(uint32_t entry) const {
    return (uint64_t{1} << first_bits_) +
           uint64_t{entry & kEntryValue} * kGroupEntries;
  }
  absl::Status Check(const Prefix& prefix) const;
  // The place of the entry for `address` in level `level`, whose groups exist
  // up to there.
  uint64_t Descend(const AddressBytes& address, uint32_t level) const;
  // The levels between the first and `level` whose groups are missing.
  uint32_t MissingGroups(const AddressBytes& address, uint32_t level) const;
  void MakeGroup(uint64_t parent);
  // Sets the entries of [first, first + count), and below them, that come from
  // no prefix longer than `most` bits.
  void Paint(uint64_t first, uint64_t count, uint32_t most, Value value);
  void PaintPrefix(const Prefix& prefix, Value value);
  void Set(uint64_t at, Value value);
  Value Covering(const Prefix& prefix) const;
  // Gives back the groups on the way to `level` that no prefix needs any more.
  void DropGroups(const AddressBytes& address, uint32_t level);

  Family family_;
  uint32_t groups_;
  uint32_t first_bits_;
  uint32_t groups_made_ = 0;
  std::vector<uint32_t> free_groups_;
  absl::flat_hash_map<Key, uint32_t> routes_;
  std::vector<uint32_t> entries_;
  std::vector<uint8_t> lengths_;  // of the prefix behind each entry
  uint64_t version_ = 0;
  std::vector<uint64_t> page_versions_;
};

}  // namespace carillon::forwarding

#endif  // CARILLON_KERNELS_FORWARDING_FIB_H_
