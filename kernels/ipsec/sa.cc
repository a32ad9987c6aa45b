#include "kernels/ipsec/sa.h"

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kernels/ipsec/aes.cuh"
#include "kernels/ipsec/des.cuh"
#include "kernels/ipsec/ghash.cuh"
#include "kernels/ipsec/sha1.cuh"

namespace carillon::ipsec {
namespace {

constexpr uint32_t kSaltBytes = 4;
constexpr uint32_t kSha1KeyBytes = 20;

absl::Status CheckBytes(const char* what, std::span<const uint8_t> bytes,
                        size_t wanted) {
  if (bytes.size() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} has {} bytes, and must have {}", what, bytes.size(), wanted));
}

}  // namespace

absl::StatusOr<Sa> MakeSa(const SaSpec& spec) {
  if (spec.spi < 256) {
    return absl::InvalidArgumentError(fmt::format(
        "SPI {}: those below 256 are reserved (RFC 4303 2.1)", spec.spi));
  }
  if (spec.direction != Direction::kOutbound &&
      spec.direction != Direction::kInbound) {
    return absl::InvalidArgumentError("an SA is outbound or inbound");
  }
  if (spec.local.size() != 4 && spec.local.size() != 16) {
    return absl::InvalidArgumentError(
        fmt::format("an address has 4 or 16 bytes, the local one has {}",
                    spec.local.size()));
  }
  if (absl::Status status =
          CheckBytes("the peer's address", spec.peer, spec.local.size());
      !status.ok()) {
    return status;
  }
  Sa sa{};
  sa.spi = spec.spi;
  sa.suite = spec.suite;
  sa.direction = spec.direction;
  sa.family = spec.local.size() == 4 ? 4 : 6;
  std::ranges::copy(spec.local, sa.local);
  std::ranges::copy(spec.peer, sa.peer);
  const uint8_t* const key = spec.cipher_key.data();
  switch (spec.suite) {
    case Suite::kTripleDesSha1: {
      absl::Status status = CheckBytes("the key of 3DES", spec.cipher_key,
                                       kernels::des::kKeyBytes);
      status.Update(CheckBytes("the key of HMAC-SHA1-96", spec.integrity_key,
                               kSha1KeyBytes));
      if (!status.ok()) return status;
      TripleDesSha1Keys& keys = sa.keys.triple_des_sha1;
      keys = {};
      std::ranges::copy((spec.direction == Direction::kOutbound
                             ? kernels::des::EncryptKeys(key)
                             : kernels::des::DecryptKeys(key))
                            .words,
                        keys.rounds);
      const kernels::sha1::HmacKey hmac =
          kernels::sha1::MakeHmacKey(spec.integrity_key.data(), kSha1KeyBytes);
      std::ranges::copy(hmac.inner.words, keys.inner);
      std::ranges::copy(hmac.outer.words, keys.outer);
      return sa;
    }
    case Suite::kAesGcm: {
      absl::Status status =
          CheckBytes("the key of AES-128-GCM, with its salt,", spec.cipher_key,
                     kernels::aes::kKeyBytes + kSaltBytes);
      status.Update(CheckBytes("the integrity key of AES-128-GCM",
                               spec.integrity_key, 0));
      if (!status.ok()) return status;
      AesGcmKeys& keys = sa.keys.aes_gcm;
      keys = {};
      const kernels::aes::RoundKeys rounds = kernels::aes::EncryptKeys(key);
      std::ranges::copy(rounds.words, keys.rounds);
      for (uint32_t i = 0; i < kSaltBytes; ++i) {
        keys.salt = keys.salt << 8 | key[kernels::aes::kKeyBytes + i];
      }
      const kernels::aes::Block h = kernels::aes::Encrypt(
          kernels::aes::Tables(), rounds.words, kernels::aes::Block{});
      kernels::ghash::Element powers[kernels::ghash::kPowers];
      kernels::ghash::MakePowers({uint64_t{h.words[0]} << 32 | h.words[1],
                                  uint64_t{h.words[2]} << 32 | h.words[3]},
                                 powers);
      for (uint32_t i = 0; i < kernels::ghash::kPowers; ++i) {
        keys.powers[i][0] = powers[i].high;
        keys.powers[i][1] = powers[i].low;
      }
      return sa;
    }
    case Suite::kNone:
      break;
  }
  return absl::InvalidArgumentError(
      fmt::format("there is no suite {}", static_cast<uint32_t>(spec.suite)));
}

void BeginAfter(uint32_t number, Sa* sa) {
  if (sa->direction == Direction::kOutbound) {
    sa->sequence = number;
    return;
  }
  sa->highest = number;
  std::ranges::fill(sa->seen, 0);
  const uint64_t last = number / kNumbersOfWord;
  for (uint64_t block = last + 1 > kReplayWords ? last + 1 - kReplayWords : 0;
       block <= last; ++block) {
    // The highest bit of the last word is the number's.
    const uint32_t bits = block == last
                              ? 0xffffffffu >> (31 - number % kNumbersOfWord)
                              : 0xffffffffu;
    sa->seen[block % kReplayWords] = block << 32 | bits;
  }
}

std::string FingerprintOf(const SaSpec& spec) {
  std::vector<uint8_t> key(spec.cipher_key.begin(), spec.cipher_key.end());
  if (spec.suite == Suite::kTripleDesSha1) {
    for (uint8_t& byte : key) byte &= 0xfe;
  }
  const kernels::sha1::HmacKey hmac =
      kernels::sha1::MakeHmacKey(key.data(), static_cast<uint32_t>(key.size()));
  const uint32_t suite = static_cast<uint32_t>(spec.suite);
  const kernels::sha1::State digest =
      kernels::sha1::Hmac(hmac, &suite, sizeof(suite));
  std::string text;
  for (const uint32_t word : digest.words) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace carillon::ipsec
