#include "kernels/forwarding/forward_test_util.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <ostream>

namespace carillon::forwarding {
namespace {

constexpr size_t kEthernetBytes = 14;

// The bit of an address, counted from its first.
bool Bit(const AddressBytes& address, uint32_t i) {
  return (address[i / 8] >> (7 - i % 8) & 1) != 0;
}
void SetBit(AddressBytes& address, uint32_t i, bool value) {
  const auto mask = static_cast<uint8_t>(0x80 >> i % 8);
  address[i / 8] = static_cast<uint8_t>(value ? address[i / 8] | mask
                                              : address[i / 8] & ~mask);
}

// A prefix's first or last address.
AddressBytes Filled(const Prefix& prefix, bool ones) {
  AddressBytes address = prefix.address;
  for (uint32_t i = prefix.length; i < AddressBits(prefix.family); ++i) {
    SetBit(address, i, ones);
  }
  return address;
}

// The next address, or the one before.
AddressBytes Neighbour(AddressBytes address, Family family, bool next) {
  for (uint32_t i = AddressBits(family); i-- > 0;) {
    const bool bit = Bit(address, i);
    SetBit(address, i, !bit);
    if (bit != next) break;
  }
  return address;
}

uint8_t Byte(std::mt19937_64& random) { return static_cast<uint8_t>(random()); }

Bytes Frame(const NextHop& hop, uint16_t type,
            std::span<const uint8_t> packet) {
  Bytes frame(hop.to, hop.to + 6);
  frame.insert(frame.end(), hop.from, hop.from + 6);
  frame.push_back(static_cast<uint8_t>(type >> 8));
  frame.push_back(static_cast<uint8_t>(type));
  frame.insert(frame.end(), packet.begin(), packet.end());
  return frame;
}

bool IsIn(const AddressBytes& address, const std::string& prefix) {
  const Prefix network = *ParsePrefix(prefix);
  for (uint32_t i = 0; i < network.length; ++i) {
    if (Bit(address, i) != Bit(network.address, i)) return false;
  }
  return true;
}

bool IsInAny(const AddressBytes& address,
             std::initializer_list<const char*> prefixes) {
  return std::ranges::any_of(
      prefixes, [&](const char* prefix) { return IsIn(address, prefix); });
}

AddressBytes AddressAt(std::span<const uint8_t> packet, size_t at,
                       size_t size) {
  AddressBytes address{};
  std::copy_n(packet.begin() + static_cast<ptrdiff_t>(at), size,
              address.begin());
  return address;
}

// What is alike in both versions, once the header is found to be whole.
Forwarded ExpectRouted(Family family, const AddressBytes& to, uint8_t hops_left,
                       std::span<const Route> routes,
                       std::span<const NextHop> hops, Bytes packet) {
  const std::optional<uint32_t> hop = LongestMatch(routes, to);
  if (!hop) return {Verdict::kNoRoute, 0, {}};
  if (hops_left <= 1) return {Verdict::kExpired, *hop, {}};
  if (hops[*hop].mtu != 0 && packet.size() > hops[*hop].mtu) {
    return {Verdict::kTooLarge, *hop, {}};
  }
  if (family == Family::kIpv4) {
    --packet[8];
    SetChecksum(packet);
    return {Verdict::kForward, *hop, Frame(hops[*hop], 0x0800, packet)};
  }
  --packet[7];
  return {Verdict::kForward, *hop, Frame(hops[*hop], 0x86dd, packet)};
}

Forwarded Expect4(std::span<const uint8_t> packet,
                  std::span<const Route> routes,
                  std::span<const NextHop> hops) {
  if (packet.size() < 20) return {Verdict::kTruncated, 0, {}};
  if (packet[0] / 16 != 4) return {Verdict::kBadVersion, 0, {}};
  const size_t header = packet[0] % 16 * 4;
  const size_t total = packet[2] * 256 + packet[3];
  if (header < 20 || total < header) return {Verdict::kBadLength, 0, {}};
  if (total > packet.size()) return {Verdict::kTruncated, 0, {}};
  if (Checksum(packet.first(header)) != 0) {
    return {Verdict::kBadChecksum, 0, {}};
  }
  const AddressBytes from = AddressAt(packet, 12, 4);
  const AddressBytes to = AddressAt(packet, 16, 4);
  if (IsIn(to, "255.255.255.255/32")) return {Verdict::kNotUnicast, 0, {}};
  const auto martian = {"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16",
                        "240.0.0.0/4"};
  if (IsInAny(from, martian) || IsIn(from, "224.0.0.0/4") ||
      IsInAny(to, martian)) {
    return {Verdict::kMartian, 0, {}};
  }
  if (IsIn(to, "224.0.0.0/4")) return {Verdict::kNotUnicast, 0, {}};
  if (header > 20) return {Verdict::kOptions, 0, {}};
  return ExpectRouted(Family::kIpv4, to, packet[8], routes, hops,
                      Bytes(packet.begin(), packet.begin() + ptrdiff_t(total)));
}

Forwarded Expect6(std::span<const uint8_t> packet,
                  std::span<const Route> routes,
                  std::span<const NextHop> hops) {
  if (packet.size() < 40) return {Verdict::kTruncated, 0, {}};
  if (packet[0] / 16 != 6) return {Verdict::kBadVersion, 0, {}};
  const size_t payload = packet[4] * 256 + packet[5];
  if (payload == 0 && packet[6] == 0) return {Verdict::kBadLength, 0, {}};
  if (payload + 40 > packet.size()) return {Verdict::kTruncated, 0, {}};
  const AddressBytes from = AddressAt(packet, 8, 16);
  const AddressBytes to = AddressAt(packet, 24, 16);
  const auto martian = {"::/128", "::1/128", "::ffff:0:0/96", "fe80::/10"};
  if (IsInAny(from, martian) || IsIn(from, "ff00::/8") ||
      IsInAny(to, martian)) {
    return {Verdict::kMartian, 0, {}};
  }
  if (IsIn(to, "ff00::/8")) return {Verdict::kNotUnicast, 0, {}};
  return ExpectRouted(
      Family::kIpv6, to, packet[7], routes, hops,
      Bytes(packet.begin(), packet.begin() + ptrdiff_t(payload + 40)));
}

}  // namespace

std::vector<Route> MakeRoutes(Family family, uint32_t count, uint32_t next_hops,
                              uint64_t seed) {
  std::mt19937_64 random(seed);
  struct Share {
    uint8_t length;
    uint32_t of_1000;
  };
  static constexpr Share kIpv4[] = {{8, 1},   {12, 1},   {14, 2},   {16, 14},
                                    {17, 8},  {18, 14},  {19, 25},  {20, 44},
                                    {21, 52}, {22, 112}, {23, 101}, {24, 616},
                                    {25, 2},  {27, 2},   {30, 2},   {32, 4}};
  static constexpr Share kIpv6[] = {
      {19, 1},   {20, 3},  {24, 3},  {28, 8},  {29, 45}, {30, 5},  {32, 141},
      {33, 15},  {36, 48}, {40, 70}, {42, 25}, {44, 95}, {46, 26}, {47, 15},
      {48, 481}, {56, 6},  {64, 9},  {96, 2},  {127, 1}, {128, 1}};
  const std::span<const Share> shares = family == Family::kIpv4
                                            ? std::span<const Share>(kIpv4)
                                            : std::span<const Share>(kIpv6);
  std::vector<double> weights;
  for (const Share& share : shares) weights.push_back(share.of_1000);
  std::discrete_distribution<size_t> lengths(weights.begin(), weights.end());
  std::vector<Route> routes(count);
  for (Route& route : routes) {
    Prefix& prefix = route.prefix;
    prefix.family = family;
    prefix.length = shares[lengths(random)].length;
    AddressBytes address{};
    for (uint32_t i = 0; i < AddressBits(family) / 8; ++i) {
      address[i] = Byte(random);
    }
    // 10 networks of 8 bits; 16 of 32 bits.
    if (family == Family::kIpv4) {
      address[0] = static_cast<uint8_t>(20 + random() % 10);
    } else {
      address[0] = 0x20;
      address[1] = 0x01;
      address[2] = static_cast<uint8_t>(random() % 4);
      address[3] = static_cast<uint8_t>(random() % 4);
    }
    for (uint32_t i = 0; i < prefix.length; ++i) {
      SetBit(prefix.address, i, Bit(address, i));
    }
    route.next_hop = static_cast<uint32_t>(random() % next_hops);
  }
  return routes;
}

std::vector<AddressBytes> MakeAddresses(std::span<const Route> routes,
                                        Family family, uint32_t count,
                                        uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<AddressBytes> addresses(count);
  for (AddressBytes& address : addresses) {
    for (uint32_t i = 0; i < AddressBits(family) / 8; ++i) {
      address[i] = Byte(random);
    }
    const uint64_t kind = random() % 6;
    if (kind == 5 || routes.empty()) continue;
    const Prefix& prefix = routes[random() % routes.size()].prefix;
    if (kind == 4) {
      for (uint32_t i = 0; i < prefix.length; ++i) {
        SetBit(address, i, Bit(prefix.address, i));
      }
      continue;
    }
    const bool last = kind % 2 != 0;
    address = Filled(prefix, last);
    if (kind >= 2) address = Neighbour(address, family, last);
  }
  return addresses;
}

std::optional<uint32_t> LongestMatch(std::span<const Route> routes,
                                     const AddressBytes& address) {
  std::optional<uint32_t> best;
  uint32_t length = 0;
  for (const Route& route : routes) {
    const Prefix& prefix = route.prefix;
    if (best && prefix.length < length) continue;
    uint32_t same = 0;
    while (same < prefix.length &&
           Bit(prefix.address, same) == Bit(address, same)) {
      ++same;
    }
    if (same < prefix.length) continue;
    best = route.next_hop;  // of equal prefixes the last one
    length = prefix.length;
  }
  return best;
}

AddressBytes Address(const std::string& text) {
  const bool six = text.find(':') != text.npos;
  return ParsePrefix(text + (six ? "/128" : "/32"))->address;
}

uint16_t Checksum(std::span<const uint8_t> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    sum += bytes[i] * 256u + (i + 1 < bytes.size() ? bytes[i + 1] : 0u);
  }
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  return static_cast<uint16_t>(0xffff - sum);
}

void SetChecksum(Bytes& packet, size_t header_bytes) {
  packet[10] = packet[11] = 0;
  const uint16_t sum = Checksum(std::span(packet).first(header_bytes));
  packet[10] = static_cast<uint8_t>(sum >> 8);
  packet[11] = static_cast<uint8_t>(sum);
}

Bytes MakeIpv4(const AddressBytes& from, const AddressBytes& to, uint8_t ttl,
               uint32_t payload, const Bytes& options) {
  const size_t header = 20 + options.size();
  const size_t total = header + payload;
  Bytes packet = {static_cast<uint8_t>(0x40 + header / 4),
                  0,
                  static_cast<uint8_t>(total >> 8),
                  static_cast<uint8_t>(total),
                  0x12,
                  0x34,
                  0,
                  0,
                  ttl,
                  17,
                  0,
                  0};
  packet.insert(packet.end(), from.begin(), from.begin() + 4);
  packet.insert(packet.end(), to.begin(), to.begin() + 4);
  packet.insert(packet.end(), options.begin(), options.end());
  SetChecksum(packet, header);
  for (uint32_t i = 0; i < payload; ++i) {
    packet.push_back(static_cast<uint8_t>(i * 7 + 1));
  }
  return packet;
}

Bytes MakeIpv6(const AddressBytes& from, const AddressBytes& to,
               uint8_t hop_limit, uint32_t payload) {
  Bytes packet = {0x60,
                  0x0a,
                  0xbc,
                  0xde,
                  static_cast<uint8_t>(payload >> 8),
                  static_cast<uint8_t>(payload),
                  17,
                  hop_limit};
  packet.insert(packet.end(), from.begin(), from.end());
  packet.insert(packet.end(), to.begin(), to.end());
  for (uint32_t i = 0; i < payload; ++i) {
    packet.push_back(static_cast<uint8_t>(i * 5 + 3));
  }
  return packet;
}

void PrintTo(const Forwarded& forwarded, std::ostream* out) {
  *out << "verdict " << static_cast<int>(forwarded.verdict) << ", next hop "
       << forwarded.next_hop << ", frame " << std::hex << std::setfill('0');
  for (const uint8_t byte : forwarded.frame) {
    *out << std::setw(2) << static_cast<int>(byte);
  }
  *out << std::dec;
}

Forwarded ExpectForwarded(Family family, std::span<const uint8_t> packet,
                          std::span<const Route> routes,
                          std::span<const NextHop> hops) {
  return family == Family::kIpv4 ? Expect4(packet, routes, hops)
                                 : Expect6(packet, routes, hops);
}

std::vector<NextHop> MakeNextHops(uint32_t count, uint16_t mtu) {
  std::vector<NextHop> hops(count);
  for (uint32_t i = 0; i < count; ++i) {
    const auto high = static_cast<uint8_t>(i >> 8);
    const auto low = static_cast<uint8_t>(i);
    hops[i] = {.port = {high, low},
               .to = {2, 0, 0, 1, high, low},
               .from = {2, 0, 0, 0, high, low},
               .mtu = mtu};
  }
  return hops;
}

Router::Router(Family family, uint32_t groups, uint32_t first_bits,
               std::vector<NextHop> hops)
    : family_(family),
      first_bits_(first_bits),
      table_words_(TableBytes(groups, first_bits) / sizeof(uint32_t)),
      table_(static_cast<uint32_t*>(std::calloc(table_words_, 4))),
      hops_(std::move(hops)) {
  if (table_ == nullptr) std::abort();
}

void Router::Write(std::span<const uint32_t> words, uint64_t first) {
  const kernels::FibWriteArgs args = {
      .words = {words.data(), words.size()},
      .table = table(),
      .first = first,
      .count = static_cast<uint32_t>(words.size())};
  if (simt::RunGrid(kernels::fib_write_info, {1, 1, 1}, {64, 1, 1}, args)
          .status != 0) {
    std::abort();
  }
}

void Router::Publish(const Fib& fib) {
  const uint32_t half = 1 - active_;
  for (const Fib::Range& range : fib.ChangesSince(versions_[half])) {
    Write(fib.words().subspan(range.first, range.count),
          HalfBegin(table_words_, half) + range.first);
  }
  versions_[half] = fib.version();
  active_ = half;
  Write({&half, 1}, 0);
}

kernels::ForwardArgs Router::args() const {
  kernels::ForwardArgs args{};
  args.table = {table_.get(), table_words_};
  args.next_hops = simt::ReadOnly(hops_);
  args.first_bits = first_bits_;
  return args;
}

std::vector<Forwarded> Router::Forward(const std::vector<Bytes>& packets) {
  Bytes all;
  std::vector<Packet> descriptors;
  for (const Bytes& packet : packets) {
    all.resize((all.size() + kPacketAlignment - 1) / kPacketAlignment *
               kPacketAlignment);
    descriptors.push_back({static_cast<uint32_t>(all.size()),
                           static_cast<uint32_t>(packet.size())});
    all.insert(all.end(), packet.begin(), packet.end());
  }
  return ForwardRaw(all, descriptors);
}

std::vector<Forwarded> Router::ForwardRaw(
    std::span<const uint8_t> packets, const std::vector<Packet>& descriptors) {
  const auto bytes = std::make_unique<uint8_t[]>(packets.size());
  std::copy(packets.begin(), packets.end(), bytes.get());
  std::vector<Header> headers(descriptors.size());
  std::vector<Result> results(descriptors.size());
  kernels::ForwardArgs event = args();
  event.packets = {bytes.get(), packets.size()};
  event.descriptors = simt::ReadOnly(descriptors);
  event.headers = simt::Writable(headers);
  event.results = simt::Writable(results);
  event.count = static_cast<uint32_t>(descriptors.size());
  event_status_ =
      simt::RunGrid(kernel(), {(event.count + block - 1) / block, 1, 1},
                    {block, 1, 1}, event)
          .status;
  const size_t ip_bytes =
      family_ == Family::kIpv4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
  std::vector<Forwarded> answers(descriptors.size());
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const Result& result = results[i];
    answers[i] = {result.verdict, result.next_hop, {}};
    if (result.verdict != Verdict::kForward) continue;
    if (result.length < ip_bytes || result.length > descriptors[i].length) {
      std::abort();  // a device would send bytes that are none of the packet's
    }
    Bytes& frame = answers[i].frame;
    const uint8_t* const from = headers[i].bytes + kEthernetOffset;
    frame.assign(from, from + kEthernetBytes + ip_bytes);
    const uint8_t* const rest = packets.data() + descriptors[i].offset;
    frame.insert(frame.end(), rest + ip_bytes, rest + result.length);
  }
  return answers;
}

}  // namespace carillon::forwarding
