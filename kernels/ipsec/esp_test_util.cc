#include "kernels/ipsec/esp_test_util.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <random>

namespace carillon::ipsec_test {
namespace {

constexpr uint32_t kGroups = 40;
constexpr uint32_t kFirstBits = 8;
constexpr size_t kEspHeader = 16;  // with the IV

void Must(bool good) {
  if (!good) std::abort();
}

uint32_t Number(std::span<const uint8_t> bytes, size_t at, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | bytes[at + i];
  return number;
}
void Append(Bytes& bytes, uint64_t number, int count) {
  for (int shift = 8 * (count - 1); shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<uint8_t>(number >> shift));
  }
}
void Append(Bytes& bytes, std::span<const uint8_t> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}
Bytes Part(std::span<const uint8_t> bytes, size_t from, size_t to) {
  return {bytes.begin() + static_cast<ptrdiff_t>(from),
          bytes.begin() + static_cast<ptrdiff_t>(to)};
}

size_t IcvOf(Suite suite) { return suite == Suite::kAesGcm ? 16 : 12; }
size_t BlockOf(Suite suite) { return suite == Suite::kAesGcm ? 4 : 8; }

struct ContextFreer {
  void operator()(EVP_CIPHER_CTX* context) const {
    EVP_CIPHER_CTX_free(context);
  }
};

Bytes TripleDes(bool encrypt, const EVP_CIPHER* cipher, const Bytes& key,
                const Bytes& iv, const Bytes& text) {
  const std::unique_ptr<EVP_CIPHER_CTX, ContextFreer> context(
      EVP_CIPHER_CTX_new());
  Bytes out(text.size() + 8);
  int length = 0;
  Must(EVP_CipherInit_ex(context.get(), cipher, nullptr, key.data(), iv.data(),
                         encrypt ? 1 : 0) == 1);
  EVP_CIPHER_CTX_set_padding(context.get(), 0);
  Must(EVP_CipherUpdate(context.get(), out.data(), &length, text.data(),
                        static_cast<int>(text.size())) == 1);
  out.resize(static_cast<size_t>(length));
  return out;
}

Bytes HmacSha1(const Bytes& key, const Bytes& text) {
  Bytes digest(20);
  Must(HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()), text.data(),
            text.size(), digest.data(), nullptr) != nullptr);
  digest.resize(12);
  return digest;
}

// Encrypts and gives `tag`, or decrypts and checks it. Empty if it is wrong.
std::optional<Bytes> AesGcm(bool encrypt, const Bytes& key, const Bytes& iv,
                            const Bytes& extra, const Bytes& text, Bytes& tag) {
  const std::unique_ptr<EVP_CIPHER_CTX, ContextFreer> context(
      EVP_CIPHER_CTX_new());
  Bytes nonce = Part(key, 16, 20);
  Append(nonce, iv);
  Bytes out(text.size() + 16);
  int length = 0;
  Must(EVP_CipherInit_ex(context.get(), EVP_aes_128_gcm(), nullptr, key.data(),
                         nonce.data(), encrypt ? 1 : 0) == 1);
  Must(EVP_CipherUpdate(context.get(), nullptr, &length, extra.data(),
                        static_cast<int>(extra.size())) == 1);
  Must(EVP_CipherUpdate(context.get(), out.data(), &length, text.data(),
                        static_cast<int>(text.size())) == 1);
  if (!encrypt) {
    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, 16, tag.data());
  }
  int rest = 0;
  if (EVP_CipherFinal_ex(context.get(), out.data() + length, &rest) != 1) {
    return std::nullopt;
  }
  if (encrypt) {
    tag.resize(16);
    EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, 16, tag.data());
  }
  out.resize(text.size());
  return out;
}

// An IPv4 or IPv6 header by the words of RFC 1812 5.2.2 and RFC 8200.
struct Parsed {
  Verdict verdict = Verdict::kDone;
  bool four = false;
  size_t header = 0;
  size_t total = 0;
};
Parsed Parse(std::span<const uint8_t> packet) {
  if (packet.size() < 20) return {.verdict = Verdict::kTruncated};
  Parsed parsed;
  if (packet[0] >> 4 == 4) {
    parsed.four = true;
    parsed.header = packet[0] % 16 * 4u;
    parsed.total = Number(packet, 2, 2);
    if (parsed.header < 20 || parsed.total < parsed.header) {
      parsed.verdict = Verdict::kBadLength;
    } else if (packet.size() < parsed.total) {
      parsed.verdict = Verdict::kTruncated;
    } else if (forwarding::Checksum(packet.first(parsed.header)) != 0) {
      parsed.verdict = Verdict::kBadChecksum;
    }
    return parsed;
  }
  if (packet[0] >> 4 != 6) return {.verdict = Verdict::kBadVersion};
  if (packet.size() < 40) return {.verdict = Verdict::kTruncated};
  parsed.header = 40;
  parsed.total = 40 + Number(packet, 4, 2);
  if (parsed.total == 40 && packet[6] == 0) {
    parsed.verdict = Verdict::kBadLength;
  } else if (packet.size() < parsed.total) {
    parsed.verdict = Verdict::kTruncated;
  }
  return parsed;
}

uint8_t TrafficClass(std::span<const uint8_t> packet) {
  return packet[0] >> 4 == 4
             ? packet[1]
             : static_cast<uint8_t>(packet[0] << 4 | packet[1] >> 4);
}

forwarding::Fib MakeFib(Family family, const std::vector<Route>& routes) {
  forwarding::Fib fib(family, kGroups, kFirstBits);
  for (const Route& route : routes) {
    if (route.prefix.family == family) Must(fib.Insert(route).ok());
  }
  return fib;
}

}  // namespace

ipsec::Sa ToSa(const Association& association) {
  if (association.spi == 0) return ipsec::Sa{};
  const auto sa = ipsec::MakeSa({.spi = association.spi,
                                 .suite = association.suite,
                                 .direction = association.direction,
                                 .local = association.local,
                                 .peer = association.peer,
                                 .cipher_key = association.cipher_key,
                                 .integrity_key = association.integrity_key});
  Must(sa.ok());
  return *sa;
}

Association MakeAssociation(uint32_t spi, Suite suite, Direction direction,
                            const std::string& local, const std::string& peer,
                            uint32_t seed) {
  std::mt19937 random(seed);
  const auto bytes = [&](size_t count) {
    Bytes made(count);
    for (uint8_t& byte : made) byte = static_cast<uint8_t>(random());
    return made;
  };
  const auto address = [](const std::string& text) {
    const auto all = Address(text);
    return Bytes(all.begin(),
                 all.begin() + (text.find(':') == text.npos ? 4 : 16));
  };
  const bool gcm = suite == Suite::kAesGcm;
  return {spi,
          suite,
          direction,
          address(local),
          address(peer),
          bytes(gcm ? 20 : 24),
          bytes(gcm ? 0 : 20)};
}

Association OtherEnd(const Association& association) {
  Association other = association;
  std::swap(other.local, other.peer);
  other.direction = association.direction == Direction::kOutbound
                        ? Direction::kInbound
                        : Direction::kOutbound;
  return other;
}

Bytes PadPayload(Suite suite, const Bytes& inner, uint8_t next_header) {
  Bytes payload = inner;
  uint8_t padding = 0;
  while ((payload.size() + 2) % BlockOf(suite) != 0) {
    payload.push_back(++padding);
  }
  payload.push_back(padding);
  payload.push_back(next_header);
  return payload;
}

Bytes SealEsp(const Association& sa, uint32_t sequence, const Bytes& payload) {
  Bytes esp;
  Append(esp, sa.spi, 4);
  Append(esp, sequence, 4);
  Bytes number;
  Append(number, sequence, 8);
  if (sa.suite == Suite::kAesGcm) {
    Bytes tag;
    const Bytes text = *AesGcm(true, sa.cipher_key, number, esp, payload, tag);
    Append(esp, number);
    Append(esp, text);
    Append(esp, tag);
    return esp;
  }
  const Bytes iv =
      TripleDes(true, EVP_des_ede3_ecb(), sa.cipher_key, {}, number);
  Append(esp, iv);
  Append(esp, TripleDes(true, EVP_des_ede3_cbc(), sa.cipher_key, iv, payload));
  Append(esp, HmacSha1(sa.integrity_key, esp));
  return esp;
}

Bytes WithOuterHeader(const Association& sa, const Bytes& esp,
                      uint8_t traffic_class, uint16_t id, bool stays_whole) {
  Bytes packet;
  if (sa.local.size() == 4) {
    Append(packet, 0x45, 1);
    Append(packet, traffic_class, 1);
    Append(packet, 20 + esp.size(), 2);
    Append(packet, id, 2);
    Append(packet, stays_whole ? 0x4000 : 0, 2);
    Append(packet, 64, 1);
    Append(packet, 50, 1);
    Append(packet, 0, 2);
    Append(packet, sa.local);
    Append(packet, sa.peer);
    forwarding::SetChecksum(packet);
  } else {
    Append(packet, 0x60000000u | uint32_t{traffic_class} << 20, 4);
    Append(packet, esp.size(), 2);
    Append(packet, 50, 1);
    Append(packet, 64, 1);
    Append(packet, sa.local);
    Append(packet, sa.peer);
  }
  Append(packet, esp);
  return packet;
}

void PrintTo(const Handled& handled, std::ostream* out) {
  *out << "verdict " << static_cast<int>(handled.verdict) << ", SPI "
       << handled.spi << ", number " << handled.sequence << ", packet "
       << std::hex << std::setfill('0');
  for (const uint8_t byte : handled.packet) {
    *out << std::setw(2) << static_cast<int>(byte);
  }
  *out << std::dec;
}

Model::Model(std::vector<Association> table, std::vector<Route> routes,
             uint32_t stride)
    : table_(std::move(table)),
      routes_(std::move(routes)),
      stride_(stride),
      states_(table_.size()) {}

std::optional<uint32_t> Model::Policy(Family family,
                                      std::span<const uint8_t> address) const {
  std::vector<Route> routes;
  for (const Route& route : routes_) {
    if (route.prefix.family == family) routes.push_back(route);
  }
  forwarding::AddressBytes bytes{};
  std::ranges::copy(address, bytes.begin());
  return forwarding::LongestMatch(routes, bytes);
}

Handled Model::Encrypt(std::span<const uint8_t> packet) {
  const Parsed parsed = Parse(packet);
  if (parsed.verdict != Verdict::kDone) return {parsed.verdict};
  Bytes inner = Part(packet, 0, parsed.total);
  uint8_t& hops = inner[parsed.four ? 8 : 7];
  if (hops <= 1) return {Verdict::kExpired};
  --hops;
  if (parsed.four) forwarding::SetChecksum(inner, parsed.header);
  const auto policy = parsed.four
                          ? Policy(Family::kIpv4, packet.subspan(16, 4))
                          : Policy(Family::kIpv6, packet.subspan(24, 16));
  if (!policy) return {Verdict::kNoSa};
  const Association& sa = table_[*policy];
  if (sa.spi == 0 || sa.direction != Direction::kOutbound) {
    return {Verdict::kNoSa};
  }
  const Bytes payload = PadPayload(sa.suite, inner, parsed.four ? 4 : 41);
  const size_t outer = sa.local.size() == 4 ? 20 : 40;
  const size_t total = outer + kEspHeader + payload.size() + IcvOf(sa.suite);
  if (total > stride_ || total > 65535) return {Verdict::kTooLarge, sa.spi};
  State& state = states_[*policy];
  if (++state.sequence > 0xffffffff) {
    return {Verdict::kSequenceExhausted, sa.spi};
  }
  const auto sequence = static_cast<uint32_t>(state.sequence);
  return {Verdict::kDone, sa.spi, sequence,
          WithOuterHeader(sa, SealEsp(sa, sequence, payload),
                          TrafficClass(packet), static_cast<uint16_t>(sequence),
                          !parsed.four || (packet[6] & 0x40) != 0)};
}

// RFC 4303 3.4.3, by a list of all numbers.
bool Model::TooOldOrSeen(const State& state, uint32_t sequence) const {
  return sequence == 0 ||
         uint64_t{sequence} + ipsec::kReplayWindow <= state.highest ||
         state.seen.contains(sequence);
}

Handled Model::Decrypt(std::span<const uint8_t> packet) {
  const Parsed parsed = Parse(packet);
  if (parsed.verdict != Verdict::kDone) return {parsed.verdict};
  const uint8_t protocol = packet[parsed.four ? 9 : 6];
  if (parsed.four && (Number(packet, 6, 2) & 0x3fff) != 0) {
    return {Verdict::kFragment};
  }
  if (!parsed.four && protocol == 44) return {Verdict::kFragment};
  if (protocol != 50) return {Verdict::kNotEsp};
  const std::span<const uint8_t> esp =
      packet.subspan(parsed.header, parsed.total - parsed.header);
  if (esp.size() < 8) return {Verdict::kTruncated};
  const uint32_t spi = Number(esp, 0, 4);
  if (spi == 0 || table_.empty()) return {Verdict::kUnknownSpi};
  const size_t place = spi % table_.size();
  const Association& sa = table_[place];
  if (sa.spi != spi || sa.direction != Direction::kInbound) {
    return {Verdict::kUnknownSpi};
  }
  return Open(sa, states_[place], (TrafficClass(packet) & 3) == 3, esp);
}

Handled Model::Open(const Association& sa, State& state, bool congested,
                    std::span<const uint8_t> esp) {
  const uint32_t sequence = Number(esp, 4, 4);
  const auto bad = [&](Verdict verdict) {
    return Handled{verdict, sa.spi, sequence, {}};
  };
  const size_t icv = IcvOf(sa.suite);
  if (esp.size() < kEspHeader + BlockOf(sa.suite) + icv) {
    return bad(Verdict::kTruncated);
  }
  const Bytes text = Part(esp, kEspHeader, esp.size() - icv);
  if (text.size() % BlockOf(sa.suite) != 0) return bad(Verdict::kBadLength);
  if (text.size() > stride_) return bad(Verdict::kTooLarge);
  if (TooOldOrSeen(state, sequence)) return bad(Verdict::kReplayed);
  const Bytes iv = Part(esp, 8, 16);
  Bytes found_icv = Part(esp, esp.size() - icv, esp.size());
  Bytes payload;
  if (sa.suite == Suite::kAesGcm) {
    const auto opened =
        AesGcm(false, sa.cipher_key, iv, Part(esp, 0, 8), text, found_icv);
    if (!opened) return bad(Verdict::kBadIcv);
    payload = *opened;
  } else {
    if (HmacSha1(sa.integrity_key, Part(esp, 0, esp.size() - icv)) !=
        found_icv) {
      return bad(Verdict::kBadIcv);
    }
    payload = TripleDes(false, EVP_des_ede3_cbc(), sa.cipher_key, iv, text);
  }
  state.seen.insert(sequence);
  state.highest = std::max(state.highest, sequence);

  const size_t padding = payload[payload.size() - 2];
  const uint8_t next_header = payload.back();
  if (padding + 2 > payload.size()) return bad(Verdict::kBadPadding);
  const size_t length = payload.size() - 2 - padding;
  for (size_t i = 0; i < padding; ++i) {
    if (payload[length + i] != i + 1) return bad(Verdict::kBadPadding);
  }
  if (next_header == 59) return bad(Verdict::kDummy);
  Bytes inner = Part(payload, 0, length);
  const bool four = next_header == 4;
  if ((!four && next_header != 41) || length < (four ? 20 : 40) ||
      inner[0] >> 4 != (four ? 4 : 6)) {
    return bad(Verdict::kBadInner);
  }
  const size_t header = four ? inner[0] % 16 * 4u : 40;
  const size_t total = four ? Number(inner, 2, 2) : 40 + Number(inner, 4, 2);
  if (header < 20 || total < header || total > length) {
    return bad(Verdict::kBadInner);
  }
  const auto policy =
      four ? Policy(Family::kIpv4, std::span(inner).subspan(12, 4))
           : Policy(Family::kIpv6, std::span(inner).subspan(8, 16));
  if (!policy || table_[*policy].peer != sa.peer) {
    return bad(Verdict::kWrongSource);
  }
  inner.resize(total);
  const int ecn = TrafficClass(inner) & 3;
  if (congested && (ecn == 1 || ecn == 2)) {
    if (four) {
      // As RFC 1624 has it: a checksum that was wrong is as wrong as before.
      uint32_t sum =
          (~Number(inner, 10, 2) & 0xffff) + (~Number(inner, 0, 2) & 0xffff);
      inner[1] |= 3;
      sum += Number(inner, 0, 2);
      while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
      inner[10] = static_cast<uint8_t>(~sum >> 8);
      inner[11] = static_cast<uint8_t>(~sum);
    } else {
      inner[1] |= 0x30;
    }
  }
  return {Verdict::kDone, sa.spi, sequence, inner};
}

Gateway::Gateway(const std::vector<Association>& table,
                 const std::vector<Route>& routes, uint32_t stride)
    : stride_(stride),
      sas_count_(table.size()),
      sas_(static_cast<ipsec::Sa*>(std::aligned_alloc(
          alignof(ipsec::Sa),
          std::max<size_t>(1, table.size()) * sizeof(ipsec::Sa)))),
      four_(Family::kIpv4, kGroups, kFirstBits, {}),
      six_(Family::kIpv6, kGroups, kFirstBits, {}) {
  std::fill_n(sas_.get(), sas_count_, ipsec::Sa{});
  std::vector<ipsec::Sa> sas;
  for (const Association& association : table) sas.push_back(ToSa(association));
  Write(0, sas);
  four_.Publish(MakeFib(Family::kIpv4, routes));
  six_.Publish(MakeFib(Family::kIpv6, routes));
}

void Gateway::Write(uint64_t first, const std::vector<ipsec::Sa>& sas) {
  const kernels::SaWriteArgs args = {
      .from = simt::ReadOnly(sas),
      .sas = this->sas(),
      .first = first,
      .count = static_cast<uint32_t>(sas.size())};
  Must(simt::RunGrid(kernels::sa_write_info, {1, 1, 1}, {32, 1, 1}, args)
           .status == 0);
}

kernels::EspArgs Gateway::args() const {
  kernels::EspArgs args{};
  args.sas = sas();
  const auto four = four_.table();
  const auto six = six_.table();
  args.policies4 = {four.data, four.size};
  args.policies6 = {six.data, six.size};
  args.stride = stride_;
  args.first_bits = kFirstBits;
  return args;
}

std::vector<Handled> Gateway::Run(const simt::KernelInfo& kernel,
                                  const std::vector<Bytes>& packets) {
  Bytes all;
  std::vector<forwarding::Packet> descriptors;
  for (const Bytes& packet : packets) {
    all.resize((all.size() + 7) / 8 * 8);
    descriptors.push_back({static_cast<uint32_t>(all.size()),
                           static_cast<uint32_t>(packet.size())});
    Append(all, packet);
  }
  return RunRaw(kernel, all, descriptors);
}

std::vector<Handled> Gateway::RunRaw(
    const simt::KernelInfo& kernel, std::span<const uint8_t> packets,
    const std::vector<forwarding::Packet>& descriptors) {
  const auto bytes = std::make_unique<uint8_t[]>(packets.size());
  std::copy(packets.begin(), packets.end(), bytes.get());
  const size_t count = descriptors.size();
  std::vector<ipsec::Unit> out(count * stride_ / sizeof(ipsec::Unit));
  ipsec::Unit garbage;
  std::ranges::fill(garbage.bytes, uint8_t{0xcd});
  std::ranges::fill(out, garbage);
  std::vector<ipsec::Result> results(count);
  kernels::EspArgs event = args();
  event.packets = {bytes.get(), packets.size()};
  event.descriptors = simt::ReadOnly(descriptors);
  event.out = simt::Writable(out);
  event.results = simt::Writable(results);
  event.counts = simt::Writable(counts_);
  event.count = static_cast<uint32_t>(count);
  event_status_ = simt::RunGrid(kernel, {blocks, 1, 1}, {32, 1, 1}, event,
                                {.workers = workers})
                      .status;
  std::vector<Handled> answers(count);
  for (size_t i = 0; i < count; ++i) {
    const ipsec::Result& result = results[i];
    answers[i] = {result.verdict, result.spi, result.sequence, {}};
    if (result.verdict != Verdict::kDone) continue;
    Must(result.length <= stride_);
    const auto* const slot = out[i * stride_ / sizeof(ipsec::Unit)].bytes;
    answers[i].packet.assign(slot, slot + result.length);
  }
  return answers;
}

}  // namespace carillon::ipsec_test
