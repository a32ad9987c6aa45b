#include "tools/gpu_check/ipsec_cases.h"

#include <algorithm>
#include <span>

#include "kernels/forwarding/wire.h"
#include "kernels/ipsec/sa.h"
#include "kernels/ipsec/wire.h"

namespace carillon::gpu_check {

// Each packet has SAs of its own, so that no two of them race for a number.
void AddIpsecCases(Random* random, std::vector<Case>* cases) {
  using namespace ipsec;
  constexpr uint32_t kCount = 64;
  constexpr uint32_t kStride = 256;
  constexpr uint32_t kBits = 8;
  constexpr uint64_t kTable = forwarding::TableBytes(/*groups=*/1, kBits);
  // Outbound SAs come first, and then their other ends.
  std::vector<Sa> sas(2 * kCount);
  std::vector<uint32_t> policies(kTable / sizeof(uint32_t));
  std::vector<std::byte> packets = random->Bytes(kCount * kStride);
  std::vector<forwarding::Packet> inner, sealed;
  for (uint32_t i = 0; i < kCount; ++i) {
    const bool gcm = i % 2 == 0;
    const auto random_bytes = [&](uint64_t count) {
      std::vector<uint8_t> bytes(count);
      std::ranges::copy(random->Bytes(count),
                        std::as_writable_bytes(std::span(bytes)).begin());
      return bytes;
    };
    const auto cipher_key = random_bytes(gcm ? 20 : 24);
    const auto integrity_key = random_bytes(gcm ? 0 : 20);
    const auto address = random_bytes(i % 4 < 2 ? 4 : 16);
    SaSpec spec{.spi = 2 * kCount * random->Small(2, 1000) + kCount + i,
                .suite = gcm ? Suite::kAesGcm : Suite::kTripleDesSha1,
                .direction = Direction::kOutbound,
                .local = address,
                .peer = address,
                .cipher_key = cipher_key,
                .integrity_key = integrity_key};
    sas[i] = *MakeSa(spec);
    spec.direction = Direction::kInbound;
    const auto other_key = random_bytes(cipher_key.size());
    if (i % 16 == 5) spec.integrity_key = std::span(other_key).first(20);
    if (i % 16 == 6) spec.cipher_key = other_key;
    sas[kCount + i] = *MakeSa(spec);
    policies[forwarding::kTableHeaderWords + i + 1] =
        forwarding::kEntryRoute | i;

    // Inner packets come from where they go to, so the way back is the same.
    std::byte* const packet = &packets[i * kStride];
    const bool four = i % 8 < 6;
    const uint32_t length = random->Small(40, kStride - 96);
    const auto byte = [](uint32_t value) { return std::byte(value); };
    if (four) {
      packet[0] = byte(0x45);
      packet[2] = byte(0);
      packet[3] = byte(length);
      packet[8] = byte(i % 32 == 9 ? 1 : 64);
      packet[12] = packet[16] = byte(i + 1);
      packet[10] = packet[11] = byte(0);
      uint32_t sum = 0;
      for (int k = 0; k < 20; k += 2) {
        sum += std::to_integer<uint32_t>(packet[k]) << 8 |
               std::to_integer<uint32_t>(packet[k + 1]);
      }
      while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
      packet[10] = byte(~sum >> 8 & 0xff);
      packet[11] = byte(~sum & 0xff);
    } else {
      packet[0] = byte(0x60);
      packet[4] = byte(0);
      packet[5] = byte(length - kIpv6HeaderBytes);
      packet[7] = byte(64);
      packet[8] = packet[24] = byte(i + 1);
    }
    inner.push_back({i * kStride, length});
    sealed.push_back({i * kStride, i % 32 == 10 ? 50 : kStride});
  }
  CaseLaunch write =
      Launch("sa_write", {2, 1, 1}, {32, 1, 1}, {{"from", 0}, {"sas", 1}},
             {{"first", 0}, {"count", sas.size()}});
  const auto esp = [&](const char* kernel, size_t from) {
    return Launch(
        kernel, {random->Small(1, 3), 1, 1}, {32, 1, 1},
        {{"sas", 1},
         {"policies4", 2},
         {"policies6", 2},
         {"counts", 3},
         {"packets", from},
         {"descriptors", from + 1},
         {"out", from + 2},
         {"results", from + 3}},
        {{"count", kCount}, {"stride", kStride}, {"first_bits", kBits}});
  };
  CaseLaunch refused = esp("esp_encrypt", 4);
  refused.kmd.block = {64, 1, 1};
  // What is encrypted to buffer 6 is decrypted from there, twice: the second
  // time all numbers have been seen.
  CaseLaunch decrypt = esp("esp_decrypt", 6);
  decrypt.buffers["descriptors"] = 8;
  decrypt.buffers["out"] = 9;
  decrypt.buffers["results"] = 10;
  const Buffer slots{Zeros(kCount * kStride), Compare::kBytes};
  const Buffer results{Zeros(kCount * sizeof(Result)), Compare::kBytes};
  cases->push_back({"ESP tunnels there and back",
                    {{ToBytes(sas)},
                     {Zeros(sas.size() * sizeof(Sa)), Compare::kBytes},
                     {ToBytes(policies)},
                     {Zeros(kVerdicts * sizeof(uint64_t)), Compare::kBytes},
                     {packets},
                     {ToBytes(inner)},
                     slots,
                     results,
                     {ToBytes(sealed)},
                     slots,
                     results},
                    {write, esp("esp_encrypt", 4), decrypt, decrypt, refused}});
}

}  // namespace carillon::gpu_check
