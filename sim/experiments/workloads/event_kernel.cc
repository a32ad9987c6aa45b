#include "sim/experiments/workloads/event_kernel.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/ipsec/des.cuh"
#include "kernels/paper/event_references.h"
#include "kernels/paper/fig_ipsec.cuh"
#include "kernels/paper/fig_ipv4.cuh"
#include "kernels/paper/fig_ipv6.cuh"
#include "kernels/paper/fig_memc.cuh"
#include "kernels/paper/lpm_tables.h"
#include "kernels/paper/memc_sets.h"
#include "sim/experiments/workloads/compare.h"

namespace carillon::sim::figures {
namespace {

namespace reference = kernels::reference;

constexpr uint32_t kPackets = simt::kWarpSize;  // of an event
constexpr uint32_t kHops = 200;

template <class T>
std::span<const uint8_t> AsBytes(std::span<T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

// --- IPv4 and IPv6

struct V4 {
  static constexpr const char* kName = "IPv4";
  static constexpr const simt::KernelInfo& kKernel = kernels::fig_ipv4_info;
  static constexpr uint32_t kTbl24 = kernels::kFigLpm4Tbl24;
  using Entry = uint16_t;
  using Prefix = kernels::Prefix4;
  using Address = uint32_t;
  using Args = kernels::FigIpv4Args;

  // Resembles a routing table of the Internet: half of the prefixes have 24
  // bits, nearly all others fewer. Few are in tbl8, which has room for 256.
  static Prefix MakePrefix(uint32_t i, std::mt19937& random) {
    uint8_t length = 24;
    if (i % 2 == 0) length = static_cast<uint8_t>(12 + random() % 12);
    if (i < 200) length = static_cast<uint8_t>(25 + random() % 8);
    return {static_cast<Address>(random()), length,
            static_cast<uint8_t>(random() % kHops)};
  }
  static Address Within(const Prefix& prefix, std::mt19937& random) {
    const uint32_t mask =
        static_cast<uint32_t>(0xffffffffull << (32 - prefix.length));
    return (prefix.address & mask) | (random() & ~mask);
  }
  static Address Anywhere(std::mt19937& random) {
    return static_cast<Address>(random());
  }
  static auto Build(const std::vector<Prefix>& prefixes) {
    return kernels::BuildLpm4(prefixes);
  }
  static constexpr auto Put = &reference::PutIpv4;
  static constexpr auto Route = &reference::Route4;
  static constexpr auto Forwarded = &reference::Forwarded4;
};

struct V6 {
  static constexpr const char* kName = "IPv6";
  static constexpr const simt::KernelInfo& kKernel = kernels::fig_ipv6_info;
  static constexpr uint32_t kTbl24 = kernels::kFigLpm6Tbl24;
  using Entry = uint32_t;
  using Prefix = kernels::Prefix6;
  using Address = reference::Address6;
  using Args = kernels::FigIpv6Args;

  // Half of the prefixes have 48 bits, the others 20 to 64.
  static Prefix MakePrefix(uint32_t i, std::mt19937& random) {
    Address address = Anywhere(random);
    address[0] = 0x20 | (address[0] & 0x1f);  // 2000::/3
    const auto length =
        static_cast<uint8_t>(i % 2 == 0 ? 20 + random() % 45 : 48);
    return {address, length, static_cast<uint32_t>(random() % kHops)};
  }
  static Address Within(const Prefix& prefix, std::mt19937& random) {
    Address address = prefix.address;
    for (size_t bit = prefix.length; bit < 128; ++bit) {
      if (random() % 2 == 0) address[bit / 8] ^= uint8_t(0x80 >> bit % 8);
    }
    return address;
  }
  static Address Anywhere(std::mt19937& random) {
    Address address;
    for (uint8_t& byte : address) byte = static_cast<uint8_t>(random());
    return address;
  }
  static auto Build(const std::vector<Prefix>& prefixes) {
    return kernels::BuildLpm6(prefixes);
  }
  static constexpr auto Put = &reference::PutIpv6;
  static constexpr auto Route = &reference::Route6;
  static constexpr auto Forwarded = &reference::Forwarded6;
};

// The elements of tbl8: the groups that so many prefixes need at most.
constexpr uint32_t Tbl8Room(uint32_t prefixes) { return prefixes * 5 * 256; }

template <class V>
class Forward final : public EventKernel {
 public:
  Forward(uint32_t prefixes, uint32_t slots, Kernels* kernels)
      : EventKernel(V::kName, slots, kernels),
        prefixes_(prefixes),
        before_(slots),
        packets_(kernels->Allocate<uint32_t>(
            slots * kPackets * kernels::kFigSlotWords,
            fmt::format("{} packets", V::kName))),
        results_(kernels->Allocate<uint32_t>(
            slots * kPackets, fmt::format("{} results", V::kName))),
        hops_(kernels->Allocate<kernels::FigNextHop>(
            kHops, fmt::format("{} hops", V::kName))),
        tbl24_(kernels->Allocate<typename V::Entry>(
            V::kTbl24, fmt::format("{} tbl24", V::kName))),
        tbl8_(kernels->Allocate<typename V::Entry>(
            Tbl8Room(prefixes), fmt::format("{} tbl8", V::kName))) {}

 private:
  void MakeTables(std::mt19937& random) override {
    for (uint32_t i = 0; i < prefixes_.size(); ++i) {
      prefixes_[i] = V::MakePrefix(i, random);
    }
    const auto tables = V::Build(prefixes_);
    // MakePrefix() makes only prefixes that can exist.
    assert(tables.ok() && tables->tbl8.size() <= tbl8_.values.size());
    std::ranges::copy(tables->tbl24, tbl24_.values.begin());
    std::ranges::copy(tables->tbl8, tbl8_.values.begin());
    std::ranges::copy(reference::MakeHops(kHops), hops_.values.begin());
  }

  Launch MakeLaunch(uint32_t slot) const override {
    return Make(V::kKernel,
                typename V::Args{Packets(slot).span(), tbl24_.read_only(),
                                 tbl8_.read_only(), hops_.read_only(),
                                 Results(slot).span(), kPackets});
  }

  void PutRequests(uint32_t slot, std::mt19937& random) override {
    for (uint32_t i = 0; i < kPackets; ++i) {
      // One packet of 16 goes to an unknown prefix, or has no hop left.
      const bool known = random() % 32 != 0;
      const auto to =
          known ? V::Within(prefixes_[random() % prefixes_.size()], random)
                : V::Anywhere(random);
      const uint8_t life = random() % 32 == 0 ? 1 : 64;
      V::Put(Frame(slot, i), to, life, random);
    }
    const auto bytes = AsBytes(Packets(slot).values);
    before_[slot].assign(bytes.begin(), bytes.end());
    std::ranges::fill(Results(slot).values, 0x1234);
  }

  absl::Status CheckResults(uint32_t slot) const override {
    const size_t stride = kernels::kFigSlotWords * sizeof(uint32_t);
    for (uint32_t i = 0; i < kPackets; ++i) {
      const std::span<const uint8_t> before =
          std::span(before_[slot])
              .subspan(i * stride + 2, reference::kFrameBytes);
      const uint32_t hop = V::Route(prefixes_, before);
      if (Results(slot).values[i] != hop) {
        return absl::DataLossError(
            fmt::format("{}: packet {} has next hop {}, not {}", V::kName, i,
                        Results(slot).values[i], hop));
      }
      const std::vector<uint8_t> expected =
          hop == kernels::kFigNoHop
              ? std::vector<uint8_t>(before.begin(), before.end())
              : V::Forwarded(before, hop);
      const absl::Status status =
          Compare(fmt::format("{}: packet {}: byte", V::kName, i),
                  Frame(slot, i), expected);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Array<uint32_t> Packets(uint32_t slot) const {
    constexpr size_t kWords = kPackets * kernels::kFigSlotWords;
    return packets_.part(slot * kWords, kWords);
  }
  Array<uint32_t> Results(uint32_t slot) const {
    return results_.part(slot * kPackets, kPackets);
  }
  std::span<uint8_t> Frame(uint32_t slot, uint32_t packet) const {
    const std::span words = Packets(slot).values.subspan(
        packet * kernels::kFigSlotWords, kernels::kFigSlotWords);
    return {reinterpret_cast<uint8_t*>(words.data()) + 2,
            reference::kFrameBytes};
  }

  std::vector<typename V::Prefix> prefixes_;
  std::vector<std::vector<uint8_t>> before_;  // packets of each slot
  const Array<uint32_t> packets_, results_;
  const Array<kernels::FigNextHop> hops_;
  const Array<typename V::Entry> tbl24_, tbl8_;
};

// --- memcached

class Memc final : public EventKernel {
 public:
  Memc(uint32_t sets, uint32_t keys, uint32_t slots, Kernels* kernels)
      : EventKernel("MemC", slots, kernels),
        keys_(keys),
        expected_(slots),
        table_(kernels->Allocate<kernels::FigMemcEntry>(
            sets * kernels::kFigMemcWays, "MemC table")),
        requests_(kernels->Allocate<uint8_t>(
            slots * kPackets * kernels::kFigMemcSlot, "MemC requests")),
        replies_(kernels->Allocate<uint8_t>(
            slots * kPackets * kernels::kFigMemcSlot, "MemC replies")),
        lengths_(
            kernels->Allocate<uint32_t>(slots * kPackets, "MemC lengths")) {}

 private:
  // Keys of 16 bytes, as memaslap's in the artifact.
  static std::string KeyOf(uint32_t i) {
    std::string key = fmt::format("key-{}-", i * 7919u);
    key.resize(16, 'x');
    return key;
  }

  void MakeTables(std::mt19937& random) override {
    kernels::MemcSets sets(static_cast<uint32_t>(table_.values.size()) /
                           kernels::kFigMemcWays);
    for (uint32_t i = 0; i < keys_; ++i) {
      sets.Set(
          KeyOf(i),
          std::string(2 + random() % 7, static_cast<char>('a' + random() % 26)),
          1);
    }
    std::ranges::copy(sets.entries(), table_.values.begin());
    // A set that was full has lost a key.
    values_.clear();
    for (const kernels::FigMemcEntry& entry : table_.values) {
      if (entry.key_length == 0) continue;
      values_[std::string(entry.key, entry.key + entry.key_length)] =
          std::string(entry.value, entry.value + entry.value_length);
    }
  }

  Launch MakeLaunch(uint32_t slot) const override {
    return Make(
        kernels::fig_memc_info,
        kernels::FigMemcArgs{Part(requests_, slot).read_only(),
                             Part(replies_, slot).span(),
                             lengths_.part(slot * kPackets, kPackets).span(),
                             table_.span(), /*now=*/2, kPackets});
  }

  void PutRequests(uint32_t slot, std::mt19937& random) override {
    expected_[slot].clear();
    for (uint32_t i = 0; i < kPackets; ++i) {
      // One request of 16 asks for a key that was never set.
      const std::string key = KeyOf(random() % (keys_ + keys_ / 16));
      reference::MemcDatagram datagram;
      datagram.from_port = random() & 0xffff;
      datagram.id = random() & 0xffff;
      datagram.text = fmt::format("get {}\r\n", key);
      std::ranges::copy(datagram.Frame(), Slot(requests_, slot, i).begin() +
                                              kernels::kFigMemcFrame);
      const auto found = values_.find(key);
      expected_[slot].push_back(datagram.Reply(reference::MemcText(
          key, found == values_.end() ? nullptr : &found->second)));
    }
    std::ranges::fill(Part(replies_, slot).values, 0xee);
  }

  absl::Status CheckResults(uint32_t slot) const override {
    for (uint32_t i = 0; i < kPackets; ++i) {
      const std::string& expected = expected_[slot][i];
      const uint32_t length = lengths_.values[slot * kPackets + i];
      if (length != expected.size()) {
        return absl::DataLossError(fmt::format(
            "MemC: reply {} has {} bytes, not {}", i, length, expected.size()));
      }
      const absl::Status status = Compare(
          fmt::format("MemC: reply {}: byte", i),
          Slot(replies_, slot, i).subspan(kernels::kFigMemcFrame, length),
          AsBytes(std::span(expected)));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  static Array<uint8_t> Part(const Array<uint8_t>& array, uint32_t slot) {
    constexpr size_t kBytes = kPackets * kernels::kFigMemcSlot;
    return array.part(slot * kBytes, kBytes);
  }
  static std::span<uint8_t> Slot(const Array<uint8_t>& array, uint32_t slot,
                                 uint32_t request) {
    return Part(array, slot)
        .values.subspan(request * kernels::kFigMemcSlot, kernels::kFigMemcSlot);
  }

  const uint32_t keys_;
  std::unordered_map<std::string, std::string> values_;
  std::vector<std::vector<std::string>> expected_;  // replies of each slot
  const Array<kernels::FigMemcEntry> table_;
  const Array<uint8_t> requests_, replies_;
  const Array<uint32_t> lengths_;
};

// --- IPSec

class Ipsec final : public EventKernel {
 public:
  Ipsec(uint32_t slots, Kernels* kernels)
      : EventKernel("IPSec", slots, kernels),
        in_(kernels->Allocate<uint32_t>(slots * kernels::kFigIpsecWords,
                                        "IPSec in")),
        out_(kernels->Allocate<uint32_t>(slots * kernels::kFigIpsecWords,
                                         "IPSec out")),
        tables_(kernels->Allocate<uint32_t>(kernels::des::kTableWords,
                                            "IPSec tables")),
        keys_(kernels->Allocate<uint32_t>(kernels::des::kKeyWords,
                                          "IPSec keys")) {}

 private:
  void MakeTables(std::mt19937& random) override {
    for (uint8_t& byte : key_) byte = static_cast<uint8_t>(random());
    std::copy_n(kernels::des::Tables(), kernels::des::kTableWords,
                tables_.values.begin());
    std::ranges::copy(kernels::des::EncryptKeys(key_.data()).words,
                      keys_.values.begin());
  }

  Launch MakeLaunch(uint32_t slot) const override {
    return Make(kernels::fig_ipsec_info,
                kernels::FigIpsecArgs{Part(in_, slot).read_only(),
                                      Part(out_, slot).span(),
                                      tables_.read_only(), keys_.read_only(),
                                      /*count=*/1});
  }

  void PutRequests(uint32_t slot, std::mt19937& random) override {
    for (uint32_t& word : Part(in_, slot).values) {
      word = static_cast<uint32_t>(random());
    }
    std::ranges::fill(Part(out_, slot).values, 0);
  }

  absl::Status CheckResults(uint32_t slot) const override {
    const auto in = AsBytes(Part(in_, slot).values);
    const std::string expected = reference::TripleDes(
        key_, {reinterpret_cast<const char*>(in.data()), in.size()});
    return Compare("IPSec: byte", AsBytes(Part(out_, slot).values),
                   AsBytes(std::span(expected)));
  }

  static Array<uint32_t> Part(const Array<uint32_t>& array, uint32_t slot) {
    return array.part(slot * kernels::kFigIpsecWords, kernels::kFigIpsecWords);
  }

  std::array<uint8_t, kernels::des::kKeyBytes> key_{};
  const Array<uint32_t> in_, out_, tables_, keys_;
};

struct Entry {
  std::string_view name;
  const simt::KernelInfo& kernel;
  std::unique_ptr<EventKernel> (*make)(Size size, uint32_t slots,
                                       Kernels* kernels);
};

template <class V>
std::unique_ptr<EventKernel> MakeForward(Size size, uint32_t slots,
                                         Kernels* kernels) {
  return std::make_unique<Forward<V>>(size == Size::kFull ? 10000 : 1000, slots,
                                      kernels);
}
// The artifact's table: 16k entries, 8k of them set.
std::unique_ptr<EventKernel> MakeMemc(Size size, uint32_t slots,
                                      Kernels* kernels) {
  const uint32_t sets = size == Size::kFull ? 2048 : 64;
  return std::make_unique<Memc>(sets, sets * 4, slots, kernels);
}
std::unique_ptr<EventKernel> MakeIpsec(Size, uint32_t slots, Kernels* kernels) {
  return std::make_unique<Ipsec>(slots, kernels);
}

constexpr Entry kEntries[] = {
    {"IPv4", kernels::fig_ipv4_info, &MakeForward<V4>},
    {"IPv6", kernels::fig_ipv6_info, &MakeForward<V6>},
    {"MemC", kernels::fig_memc_info, &MakeMemc},
    {"IPSec", kernels::fig_ipsec_info, &MakeIpsec},
};

absl::StatusOr<const Entry*> Find(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return &entry;
  }
  return absl::NotFoundError(fmt::format("no event kernel '{}'; there are {}",
                                         name,
                                         fmt::join(EventKernelNames(), ", ")));
}

}  // namespace

EventKernel::EventKernel(std::string_view name, uint32_t slots,
                         Kernels* kernels)
    : name_(name),
      kernels_(kernels),
      failure_(kernels->Allocate<uint32_t>(1, "status of an event")),
      launches_(slots) {}

void EventKernel::Start(uint32_t seed) {
  random_.seed(seed);
  failure_.values[0] = 0;
  MakeTables(random_);
  for (uint32_t slot = 0; slot < slots(); ++slot) {
    launches_[slot] = MakeLaunch(slot);
  }
}

absl::Status EventKernel::Check(uint32_t slot) const {
  if (failure_.values[0] != 0) {
    return absl::InternalError(fmt::format("{}: the kernel failed with {}",
                                           name_, failure_.values[0]));
  }
  return CheckResults(slot);
}

std::vector<std::string_view> EventKernelNames() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.name);
  return names;
}

absl::StatusOr<uint32_t> RegistersOfEventKernel(std::string_view name,
                                                Kernels& kernels) {
  ASSIGN_OR_RETURN(const auto entry, Find(name));
  ASSIGN_OR_RETURN(const auto code, kernels.Find(entry->kernel));
  return code.function->registers;
}

absl::StatusOr<std::unique_ptr<EventKernel>> MakeEventKernel(
    std::string_view name, Size size, uint32_t slots, Kernels* kernels) {
  ASSIGN_OR_RETURN(const auto entry, Find(name));
  auto event = entry->make(size, slots, kernels);
  if (!kernels->status().ok()) return kernels->status();
  return event;
}

}  // namespace carillon::sim::figures
