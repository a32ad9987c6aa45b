// Checks aes.cuh and ghash.cuh, alone and as AES-128-GCM, against NIST's vectors
// and OpenSSL.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstring>
#include <random>

#include "kernels/ipsec/aes.cuh"
#include "kernels/ipsec/ghash.cuh"
#include "kernels/ipsec/nist_vectors.h"

namespace carillon::kernels {
namespace {

using ghash::Element;
using ipsec_test::Bytes;
using ipsec_test::FromHex;
using ipsec_test::NistVectors;
using ipsec_test::ToHex;
using ipsec_test::Vector;

uint64_t Number(const Bytes& bytes, size_t at, size_t count) {
  uint64_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | bytes[at + i];
  return number;
}
void Append(Bytes& bytes, uint64_t number, int count) {
  for (int shift = 8 * (count - 1); shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<uint8_t>(number >> shift));
  }
}

Bytes Aes(const Bytes& key, const Bytes& text) {
  const aes::RoundKeys keys = aes::EncryptKeys(key.data());
  Bytes out;
  for (size_t at = 0; at < text.size(); at += 16) {
    aes::Block block;
    for (size_t i = 0; i < 4; ++i) {
      block.words[i] = static_cast<uint32_t>(Number(text, at + 4 * i, 4));
    }
    block = aes::Encrypt(aes::Tables(), keys.words, block);
    for (const uint32_t word : block.words) Append(out, word, 4);
  }
  return out;
}

// The sum of what all lanes make, as a warp's shared memory has it.
Element WarpHash(const Element& h, const Bytes& blocks) {
  Element powers[ghash::kPowers];
  ghash::MakePowers(h, powers);
  Element sum{0, 0};
  for (uint32_t lane = 0; lane < ghash::kPowers; ++lane) {
    sum = ghash::Add(
        sum, ghash::LaneSum(
                 powers, lane, static_cast<uint32_t>(blocks.size() / 16),
                 [&](uint32_t i) {
                   return Element{Number(blocks, 16 * uint64_t{i}, 8),
                                  Number(blocks, 16 * uint64_t{i} + 8, 8)};
                 }));
  }
  return sum;
}

struct Sealed {
  Bytes text;
  Bytes tag;
};

// SP 800-38D with an IV of 12 bytes. Encrypts or decrypts `text`; the tag is
// that of `sealed`, the encrypted one.
Sealed Gcm(const Bytes& key, const Bytes& iv, const Bytes& text,
           const Bytes& extra, bool encrypt) {
  Bytes counters;
  for (uint32_t i = 0; i <= (text.size() + 15) / 16; ++i) {
    counters.insert(counters.end(), iv.begin(), iv.end());
    Append(counters, i + 1, 4);
  }
  const Bytes stream = Aes(key, counters);
  Sealed made;
  for (size_t i = 0; i < text.size(); ++i) {
    made.text.push_back(static_cast<uint8_t>(text[i] ^ stream[16 + i]));
  }
  const Bytes& sealed = encrypt ? made.text : text;
  Bytes hashed = extra;
  hashed.resize((hashed.size() + 15) / 16 * 16);
  hashed.insert(hashed.end(), sealed.begin(), sealed.end());
  hashed.resize((hashed.size() + 15) / 16 * 16);
  Append(hashed, 8 * extra.size(), 8);
  Append(hashed, 8 * text.size(), 8);
  const Bytes h = Aes(key, Bytes(16, 0));
  const Element hash = WarpHash({Number(h, 0, 8), Number(h, 8, 8)}, hashed);
  Append(made.tag, hash.high ^ Number(stream, 0, 8), 8);
  Append(made.tag, hash.low ^ Number(stream, 8, 8), 8);
  return made;
}

Bytes OpenSsl(const EVP_CIPHER* cipher, const Bytes& key, const Bytes& iv,
              const Bytes& extra, const Bytes& text, Bytes* tag) {
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  Bytes out(text.size() + 16);
  int length = 0;
  EVP_EncryptInit_ex(context, cipher, nullptr, key.data(),
                     iv.empty() ? nullptr : iv.data());
  EVP_CIPHER_CTX_set_padding(context, 0);
  if (!extra.empty()) {
    EVP_EncryptUpdate(context, nullptr, &length, extra.data(),
                      static_cast<int>(extra.size()));
  }
  EVP_EncryptUpdate(context, out.data(), &length, text.data(),
                    static_cast<int>(text.size()));
  int rest = 0;
  EXPECT_EQ(EVP_EncryptFinal_ex(context, out.data() + length, &rest), 1);
  if (tag != nullptr) {
    tag->resize(16);
    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, tag->data());
  }
  EVP_CIPHER_CTX_free(context);
  out.resize(text.size());
  return out;
}

Bytes Random(std::mt19937& random, size_t size) {
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

TEST(Aes, DoesWhatFips197SaysAndOpenSslDoes) {
  EXPECT_EQ(ToHex(Aes(FromHex("000102030405060708090a0b0c0d0e0f"),
                      FromHex("00112233445566778899aabbccddeeff"))),
            "69c4e0d86a7b0430d8cdb78070b4c55a");
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const Bytes key = Random(random, 16);
    const Bytes text = Random(random, 256);
    EXPECT_EQ(ToHex(Aes(key, text)),
              ToHex(OpenSsl(EVP_aes_128_ecb(), key, {}, {}, text, nullptr)));
  }
}

TEST(Gcm, DoesWhatNistsVectorsSay) {
  size_t count = 0;
  size_t bad = 0;
  for (const char* file : {"ciphers/AES/GCM/gcmEncryptExtIV128.rsp",
                           "ciphers/AES/GCM/gcmDecrypt128.rsp"}) {
    for (const Vector& vector : NistVectors(file)) {
      if (!vector.contains("Tag") || vector.at("IVlen") != "96") continue;
      const Bytes sealed = FromHex(vector.at("CT"));
      const Sealed made =
          Gcm(FromHex(vector.at("Key")), FromHex(vector.at("IV")), sealed,
              FromHex(vector.at("AAD")), false);
      const std::string tag = vector.at("Tag");
      ++count;
      if (vector.contains("FAIL")) {
        EXPECT_NE(ToHex(made.tag).substr(0, tag.size()), tag);
        ++bad;
        continue;
      }
      EXPECT_EQ(ToHex(made.tag).substr(0, tag.size()), tag);
      EXPECT_EQ(ToHex(made.text), vector.at("PT"));
    }
  }
  EXPECT_GT(count, 2000u);
  EXPECT_GT(bad, 200u);
}

TEST(Gcm, DoesWhatOpenSslDoesForEveryLength) {
  std::mt19937 random(2);
  for (size_t size = 0; size < 1100; size += size < 80 ? 1 : 37) {
    const Bytes key = Random(random, 16);
    const Bytes iv = Random(random, 12);
    const Bytes extra = Random(random, size % 41);
    const Bytes text = Random(random, size);
    Bytes tag;
    const Bytes sealed = OpenSsl(EVP_aes_128_gcm(), key, iv, extra, text, &tag);
    const Sealed made = Gcm(key, iv, text, extra, true);
    EXPECT_EQ(ToHex(made.text), ToHex(sealed)) << size;
    EXPECT_EQ(ToHex(made.tag), ToHex(tag)) << size;
  }
}

// Algebra that holds for a field and for few other functions.
TEST(Ghash, MultipliesInAField) {
  std::mt19937_64 random(3);
  const Element one{uint64_t{1} << 63, 0};
  for (int i = 0; i < 1000; ++i) {
    const Element a{random(), random()};
    const Element b{random(), random()};
    const Element c{random(), random()};
    const auto same = [](const Element& x, const Element& y) {
      return x.high == y.high && x.low == y.low;
    };
    EXPECT_TRUE(same(ghash::Multiply(a, one), a));
    EXPECT_TRUE(same(ghash::Multiply(a, b), ghash::Multiply(b, a)));
    EXPECT_TRUE(same(ghash::Multiply(ghash::Multiply(a, b), c),
                     ghash::Multiply(a, ghash::Multiply(b, c))));
    EXPECT_TRUE(same(ghash::Multiply(a, ghash::Add(b, c)),
                     ghash::Add(ghash::Multiply(a, b), ghash::Multiply(a, c))));
  }
}

}  // namespace
}  // namespace carillon::kernels
