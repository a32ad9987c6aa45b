// Packets of other hosts through ipv4_forward and ipv6_forward, and descriptors
// and words of the table that a device wrote. Every buffer ends where its
// allocation does, so AddressSanitizer sees an access one byte too far.
//
//   u8       bit 0: IPv6; bit 1: the packet gets a right IPv4 checksum;
//            bit 2: descriptors from the input; bits 4..7: how many words of
//            the table come from it
//   words    u32 place, u32 value
//   u8, ...  with bit 2: their number, and descriptors of 8 bytes each
//   rest     the packet, or the packets
#include <algorithm>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {
namespace {

constexpr uint32_t kGroups = 40;
constexpr uint32_t kFirstBits = 8;

struct Network {
  explicit Network(Family family)
      : hops(MakeNextHops(8, 300)), router(family, kGroups, kFirstBits, hops) {
    const std::vector<const char*> prefixes =
        family == Family::kIpv4
            ? std::vector{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.128/25",
                          "10.1.2.200/32", "128.0.0.0/2"}
            : std::vector{"2000::/3", "2001:db8::/32", "2001:db8:1::/48",
                          "2001:db8:1::8000:0:0:0/65", "2001:db8::1/128"};
    Fib fib(family, kGroups, kFirstBits);
    for (uint32_t i = 0; i < prefixes.size(); ++i) {
      routes.push_back({*ParsePrefix(prefixes[i]), i});
      FUZZ_CHECK(fib.Insert(routes.back()).ok());
    }
    router.Publish(fib);
  }

  std::vector<NextHop> hops;
  std::vector<Route> routes;
  Router router;
};

// A batch after words of the table were overwritten: no packet has to go the
// right way, but each to a next hop that there is.
void RunBroken(Network& network, std::span<const uint8_t> packets,
               const std::vector<Packet>& descriptors) {
  for (const Forwarded& found :
       network.router.ForwardRaw(packets, descriptors)) {
    FUZZ_CHECK(found.verdict != Verdict::kNone);
    FUZZ_CHECK(found.next_hop < network.hops.size());
    if (found.verdict == Verdict::kBadTable) {
      FUZZ_CHECK(network.router.event_status() ==
                 kernels::forward::kFailBadTable);
    }
  }
}

void Run(fuzz::FuzzInput input) {
  static auto* const four = new Network(Family::kIpv4);
  static auto* const six = new Network(Family::kIpv6);
  const auto how = input.Take<uint8_t>();
  const Family family = (how & 1) != 0 ? Family::kIpv6 : Family::kIpv4;
  Network& network = family == Family::kIpv4 ? *four : *six;
  const simt::Span<uint32_t> table = network.router.table();
  std::vector<std::pair<uint64_t, uint32_t>> before;
  for (int i = 0; i < how >> 4; ++i) {
    const uint64_t at = input.Take<uint32_t>() % table.size;
    before.emplace_back(at, table[at]);
    table[at] = input.Take<uint32_t>();
  }
  std::vector<Packet> descriptors((how & 4) != 0 ? input.Take<uint8_t>() % 40
                                                 : 1);
  if ((how & 4) != 0) {
    for (Packet& descriptor : descriptors) {
      descriptor.offset = input.Take<uint32_t>();
      descriptor.length = input.Take<uint32_t>();
    }
  }
  const std::string_view rest = input.TakeRest();
  Bytes packets(rest.begin(), rest.end());
  if ((how & 4) == 0) {
    descriptors[0] = {0, static_cast<uint32_t>(packets.size())};
    const size_t header = packets.empty() ? 0 : packets[0] % 16 * 4;
    if ((how & 2) != 0 && header >= 20 && header <= packets.size()) {
      SetChecksum(packets, header);
    }
  }
  if (!before.empty()) {
    RunBroken(network, packets, descriptors);
    std::ranges::reverse(before);
    for (const auto& [at, value] : before) table[at] = value;
    return;
  }
  const auto found = network.router.ForwardRaw(packets, descriptors);
  FUZZ_CHECK(network.router.event_status() == 0);
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const uint64_t offset = descriptors[i].offset;
    const uint64_t length = descriptors[i].length;
    const bool inside =
        offset + length <= packets.size() && offset % kPacketAlignment == 0;
    FUZZ_CHECK((found[i].verdict == Verdict::kBadDescriptor) == !inside);
    if (!inside) continue;
    FUZZ_CHECK(found[i] ==
               ExpectForwarded(family,
                               std::span(packets).subspan(offset, length),
                               network.routes, network.hops));
  }
}

}  // namespace
}  // namespace carillon::forwarding

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::forwarding::Run({data, size});
  return 0;
}
