// Packets of other hosts through esp_encrypt and esp_decrypt, payloads that were
// encrypted with the right key, descriptors, and words of the tables. Every
// buffer ends where its allocation does, so AddressSanitizer sees an access one
// byte too far.
//
//   u8       bit 0: to decrypt; bit 1: the packet gets a right IPv4 checksum;
//            bit 2: descriptors from the input; bit 3: a payload, not a packet;
//            bits 4..7: how many words of the tables come from the input
//   words    u32 place, u32 value; bit 31 of the place: of the IPv4 policies
//   u8, ...  with bit 2: their number, and descriptors of 8 bytes each
//   ...      with bit 3: u8 peer, u32 number, u8 traffic class
//   rest     the packet, the packets, or the payload
#include <algorithm>
#include <vector>

#include "base/testing/fuzz_input.h"
#include "kernels/ipsec/esp_test_util.h"

namespace carillon::ipsec_test {
namespace {

constexpr uint32_t kStride = 256;
constexpr uint32_t kPlaces = 8;

std::vector<Association> Table() {
  std::vector<Association> table(kPlaces);
  for (uint32_t i = 0; i < 4; ++i) {
    const Suite suite = i % 2 == 0 ? Suite::kTripleDesSha1 : Suite::kAesGcm;
    const char* const local = i < 2 ? "198.51.100.1" : "2001:db8:e::1";
    const char* const peer = i < 2 ? "192.0.2.1" : "2001:db8:f::1";
    table[i] =
        MakeAssociation(0x100 + i, suite, Direction::kOutbound, local, peer, i);
    table[4 + i] = MakeAssociation(0x104 + i, suite, Direction::kInbound, local,
                                   peer, 4 + i);
  }
  return table;
}

std::vector<Route> Routes() {
  const std::vector<const char*> prefixes = {
      "10.0.0.0/16", "10.1.0.0/16",   "10.2.0.0/16",     "10.3.0.0/16",
      "2000::/16",   "2001:db8::/32", "2001:db8:2::/48", "2001:db8:3::/48"};
  std::vector<Route> routes;
  for (uint32_t i = 0; i < prefixes.size(); ++i) {
    routes.push_back({*forwarding::ParsePrefix(prefixes[i]), i % 4});
  }
  return routes;
}

struct Packets {
  Bytes bytes;
  std::vector<forwarding::Packet> descriptors;
};

void Add(Packets& packets, const Bytes& one) {
  packets.bytes.resize((packets.bytes.size() + 7) / 8 * 8);
  packets.descriptors.push_back({static_cast<uint32_t>(packets.bytes.size()),
                                 static_cast<uint32_t>(one.size())});
  packets.bytes.insert(packets.bytes.end(), one.begin(), one.end());
}

// The payload as a peer sends it, and once more.
void AddSealed(Packets& packets, fuzz::FuzzInput& input) {
  Association sa = OtherEnd(Table()[4 + input.Take<uint8_t>() % 4]);
  const auto sequence = input.Take<uint32_t>();
  const auto traffic_class = input.Take<uint8_t>();
  const std::string_view rest = input.TakeRest();
  Bytes payload(rest.begin(), rest.end());
  const size_t block = sa.suite == Suite::kAesGcm ? 4 : 8;
  payload.resize(std::max(block, payload.size() / block * block));
  const Bytes packet =
      WithOuterHeader(sa, SealEsp(sa, sequence, payload), traffic_class);
  Add(packets, packet);
  Add(packets, packet);
}

void AddPacket(Packets& packets, bool right_checksum, std::string_view rest) {
  Bytes packet(rest.begin(), rest.end());
  const size_t header = packet.empty() ? 0 : packet[0] % 16 * 4u;
  if (right_checksum && header >= 20 && header <= packet.size()) {
    forwarding::SetChecksum(packet, header);
  }
  Add(packets, packet);
}

void Run(fuzz::FuzzInput input) {
  static auto* const gateway = new Gateway(Table(), Routes(), kStride);
  static const std::vector<ipsec::Sa> fresh(gateway->sas().data,
                                            gateway->sas().data + kPlaces);
  static const Model fresh_model(Table(), Routes(), kStride);
  std::ranges::copy(fresh, gateway->sas().data);
  Model model = fresh_model;

  const auto how = input.Take<uint8_t>();
  auto* const sa_words = reinterpret_cast<uint32_t*>(gateway->sas().data);
  const auto policies = gateway->policies(Family::kIpv4);
  std::vector<std::pair<uint64_t, uint32_t>> before;
  for (int i = 0; i < how >> 4; ++i) {
    const auto place = input.Take<uint32_t>();
    const auto value = input.Take<uint32_t>();
    if (place >> 31 != 0) {
      const uint64_t at = (place & 0x7fffffff) % policies.size;
      before.emplace_back(at, policies[at]);
      policies[at] = value;
    } else {
      sa_words[place % (kPlaces * sizeof(ipsec::Sa) / 4)] = value;
    }
  }
  Packets packets;
  if ((how & 4) != 0) {
    packets.descriptors.resize(input.Take<uint8_t>() % 40);
    for (forwarding::Packet& descriptor : packets.descriptors) {
      descriptor.offset = input.Take<uint32_t>();
      descriptor.length = input.Take<uint32_t>();
    }
    const std::string_view rest = input.TakeRest();
    packets.bytes.assign(rest.begin(), rest.end());
  } else if ((how & 8) != 0) {
    AddSealed(packets, input);
  } else {
    AddPacket(packets, (how & 2) != 0, input.TakeRest());
  }

  const bool decrypt = (how & 1) != 0;
  const auto found = gateway->RunRaw(
      decrypt ? kernels::esp_decrypt_info : kernels::esp_encrypt_info,
      packets.bytes, packets.descriptors);
  const uint32_t status = gateway->event_status();
  std::ranges::reverse(before);
  for (const auto& [at, value] : before) policies[at] = value;
  if (how >> 4 != 0) {
    // With other keys and counters each packet has a verdict, and what is read
    // and written lies inside the buffers.
    bool bad_table = false;
    for (const Handled& one : found) {
      FUZZ_CHECK(one.verdict != Verdict::kNone);
      bad_table = bad_table || one.verdict == Verdict::kBadTable;
    }
    FUZZ_CHECK(status == (bad_table ? kernels::esp::kFailBadTable : 0));
    return;
  }
  FUZZ_CHECK(status == 0);
  for (size_t i = 0; i < found.size(); ++i) {
    const uint64_t offset = packets.descriptors[i].offset;
    const uint64_t length = packets.descriptors[i].length;
    const bool inside =
        offset + length <= packets.bytes.size() && offset % 8 == 0;
    FUZZ_CHECK((found[i].verdict == Verdict::kBadDescriptor) == !inside);
    if (!inside) continue;
    const auto packet = std::span(packets.bytes).subspan(offset, length);
    FUZZ_CHECK(found[i] ==
               (decrypt ? model.Decrypt(packet) : model.Encrypt(packet)));
  }
}

}  // namespace
}  // namespace carillon::ipsec_test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carillon::ipsec_test::Run({data, size});
  return 0;
}
