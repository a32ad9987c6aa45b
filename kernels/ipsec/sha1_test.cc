// Checks sha1.cuh against NIST's vectors, those of RFC 2202, and OpenSSL.
#include "kernels/ipsec/sha1.cuh"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstring>
#include <random>

#include "kernels/ipsec/nist_vectors.h"

namespace carillon::kernels::sha1 {
namespace {

using ipsec_test::Bytes;
using ipsec_test::FromHex;
using ipsec_test::NistVectors;
using ipsec_test::ToHex;
using ipsec_test::Vector;

Bytes ToBytes(const State& state) {
  Bytes bytes;
  for (const uint32_t word : state.words) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<uint8_t>(word >> shift));
    }
  }
  return bytes;
}

// The message in whole words, whose last bytes are garbage.
std::vector<uint32_t> Words(const Bytes& bytes) {
  std::vector<uint32_t> words((bytes.size() + 3) / 4, 0xa5a5a5a5);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

Bytes Hash(const Bytes& message) {
  return ToBytes(Digest(kInitial, 0, Words(message).data(),
                        static_cast<uint32_t>(message.size())));
}
Bytes HmacOf(const Bytes& key, const Bytes& message) {
  return ToBytes(
      Hmac(MakeHmacKey(key.data(), static_cast<uint32_t>(key.size())),
           Words(message).data(), static_cast<uint32_t>(message.size())));
}

TEST(Sha1, DoesWhatNistsVectorsSay) {
  size_t count = 0;
  for (const char* file :
       {"hashes/SHA1/SHA1ShortMsg.rsp", "hashes/SHA1/SHA1LongMsg.rsp"}) {
    for (const Vector& vector : NistVectors(file)) {
      if (!vector.contains("MD")) continue;
      Bytes message = FromHex(vector.at("Msg"));
      message.resize(std::stoul(vector.at("Len")) / 8);
      EXPECT_EQ(ToHex(Hash(message)), vector.at("MD"));
      ++count;
    }
  }
  EXPECT_GT(count, 100u);
}

TEST(Sha1, HmacDoesWhatRfc2202Says) {
  size_t count = 0;
  for (const Vector& vector : NistVectors("HMAC/rfc-2202-sha1.txt")) {
    if (!vector.contains("MD")) continue;
    const Bytes key = FromHex(vector.at("Key"));
    if (key.size() > kBlockBytes) continue;
    EXPECT_EQ(ToHex(HmacOf(key, FromHex(vector.at("Msg")))), vector.at("MD"));
    ++count;
  }
  EXPECT_EQ(count, 5u);
}

TEST(Sha1, DoesWhatOpenSslDoesForEveryLength) {
  std::mt19937 random(5);
  for (uint32_t size = 0; size < 300; ++size) {
    Bytes key(1 + random() % 64);
    Bytes message(size);
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
    Bytes digest(20);
    EVP_Digest(message.data(), message.size(), digest.data(), nullptr,
               EVP_sha1(), nullptr);
    EXPECT_EQ(ToHex(Hash(message)), ToHex(digest)) << size;
    HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()), message.data(),
         message.size(), digest.data(), nullptr);
    EXPECT_EQ(ToHex(HmacOf(key, message)), ToHex(digest)) << size;
  }
}

}  // namespace
}  // namespace carillon::kernels::sha1
