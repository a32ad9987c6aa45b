#include "kernels/paper/lpm_tables.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/paper/fig_ipv4.cuh"
#include "kernels/paper/fig_ipv6.cuh"

namespace carillon::kernels {
namespace {

constexpr size_t kGroup = 256;
constexpr size_t kMaxGroups4 = 256;
constexpr size_t kMaxGroups6 = kFigLpm6HopMask + 1;

uint32_t First24(const std::array<uint8_t, 16>& address) {
  return uint32_t{address[0]} << 16 | uint32_t{address[1]} << 8 | address[2];
}

// Inserts shorter prefixes first; a longer one then overwrites a part of them.
template <class Prefix>
void SortByLength(std::vector<Prefix>& prefixes) {
  std::ranges::stable_sort(prefixes, {}, &Prefix::length);
}

}  // namespace

absl::StatusOr<Lpm4Tables> BuildLpm4(std::vector<Prefix4> prefixes) {
  SortByLength(prefixes);
  Lpm4Tables tables;
  tables.tbl24.resize(kFigLpm4Tbl24);
  for (const Prefix4& prefix : prefixes) {
    const uint32_t length = prefix.length;
    if (length > 32) {
      return absl::InvalidArgumentError(
          absl::StrCat("IPv4 prefix of ", length, " bits: at most 32"));
    }
    const uint32_t first =
        length == 0 ? 0 : prefix.address & ~uint32_t{0} << (32 - length);
    const uint16_t entry = static_cast<uint16_t>(
        length << kFigLpm4DepthShift | kFigLpm4Valid | prefix.next_hop);
    if (length <= 24) {
      // No group is there yet.
      std::fill_n(tables.tbl24.begin() + (first >> 8),
                  size_t{1} << (24 - length), entry);
      continue;
    }
    uint16_t& parent = tables.tbl24[first >> 8];
    if ((parent & kFigLpm4Ext) == 0) {
      const size_t group = tables.tbl8.size() / kGroup;
      if (group == kMaxGroups4) {
        return absl::ResourceExhaustedError(
            "IPv4 prefixes of more than 24 bits in more than 256 networks of "
            "24 bits: entries of 16 bits name no more groups");
      }
      tables.tbl8.resize(tables.tbl8.size() + kGroup, parent);
      parent = static_cast<uint16_t>(kFigLpm4Valid | kFigLpm4Ext | group);
    }
    const size_t group = parent & 0xff;
    std::fill_n(tables.tbl8.begin() + group * kGroup + (first & 0xff),
                size_t{1} << (32 - length), entry);
  }
  return tables;
}

absl::StatusOr<Lpm6Tables> BuildLpm6(std::vector<Prefix6> prefixes) {
  SortByLength(prefixes);
  Lpm6Tables tables;
  tables.tbl24.resize(kFigLpm6Tbl24);
  for (const Prefix6& prefix : prefixes) {
    const uint32_t length = prefix.length;
    if (length > 128 || prefix.next_hop > kFigLpm6HopMask) {
      return absl::InvalidArgumentError(
          absl::StrCat("IPv6 prefix of ", length, " bits to ", prefix.next_hop,
                       ": at most 128 bits, next hops below 2^21"));
    }
    const uint32_t entry = length << kFigLpm6DepthShift | kFigLpm6Valid |
                           kFigLpm6ValidGroup | prefix.next_hop;
    if (length <= 24) {
      const uint32_t count = uint32_t{1} << (24 - length);
      std::fill_n(
          tables.tbl24.begin() + (First24(prefix.address) & ~(count - 1)),
          count, entry);
      continue;
    }
    // Descend to the group in which the prefix ends, at byte `last`.
    const size_t last = (length - 1) / 8;
    uint32_t* parent = &tables.tbl24[First24(prefix.address)];
    for (size_t byte = 3;; ++byte) {
      size_t group = *parent & kFigLpm6HopMask;
      if ((*parent & kFigLpm6Ext) == 0) {
        group = tables.tbl8.size() / kGroup;
        if (group == kMaxGroups6) {
          return absl::ResourceExhaustedError(
              "IPv6 prefixes need more than 2^21 groups of tbl8");
        }
        const uint32_t inherited = *parent;
        *parent = kFigLpm6Valid | kFigLpm6ValidGroup | kFigLpm6Ext |
                  static_cast<uint32_t>(group);
        tables.tbl8.resize(tables.tbl8.size() + kGroup, inherited);
      }
      uint32_t* entries = &tables.tbl8[group * kGroup];
      if (byte == last) {
        const uint32_t count = uint32_t{1} << (8 * (last + 1) - length);
        std::fill_n(entries + (prefix.address[byte] & ~(count - 1)), count,
                    entry);
        break;
      }
      parent = &entries[prefix.address[byte]];
    }
  }
  return tables;
}

FigNextHop MakeNextHop(const std::array<uint8_t, 6>& to,
                       const std::array<uint8_t, 6>& from) {
  FigNextHop hop{};
  auto* bytes = reinterpret_cast<uint8_t*>(hop.words);
  memcpy(bytes + 2, to.data(), to.size());
  memcpy(bytes + 8, from.data(), from.size());
  return hop;
}

}  // namespace carillon::kernels
