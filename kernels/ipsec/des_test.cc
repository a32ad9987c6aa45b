// Checks des.cuh against NIST's vectors and against OpenSSL.
#include "kernels/ipsec/des.cuh"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstring>
#include <random>

#include "kernels/ipsec/nist_vectors.h"

namespace carillon::kernels::des {
namespace {

using ipsec_test::Bytes;
using ipsec_test::FromHex;
using ipsec_test::NistVectors;
using ipsec_test::ToHex;
using ipsec_test::Vector;

Bytes KeyOf(const Vector& vector) {
  const auto three = [&](const char* name) {
    const Bytes one = FromHex(vector.at(name));
    Bytes key;
    for (int i = 0; i < 3; ++i) key.insert(key.end(), one.begin(), one.end());
    return key;
  };
  if (vector.contains("KEYs")) return three("KEYs");
  Bytes key = FromHex(vector.at("KEY1"));
  for (const char* name : {"KEY2", "KEY3"}) {
    const Bytes part = FromHex(vector.at(name));
    key.insert(key.end(), part.begin(), part.end());
  }
  return key;
}

// ECB of whole blocks, kBlocks at a time while there are so many.
template <uint32_t kBlocks>
Bytes Ecb(const RoundKeys& keys, const Bytes& text) {
  if (text.empty()) return {};  // memcpy takes no null pointer
  std::vector<uint32_t> words(text.size() / 4);
  std::memcpy(words.data(), text.data(), text.size());
  size_t at = 0;
  for (; at + 2 * kBlocks <= words.size(); at += 2 * kBlocks) {
    Block blocks[kBlocks];
    for (uint32_t i = 0; i < kBlocks; ++i) {
      blocks[i] = LoadBlock(&words[at + 2 * i]);
    }
    Crypt(Tables(), keys.words, blocks);
    for (uint32_t i = 0; i < kBlocks; ++i) {
      StoreBlock(blocks[i], &words[at + 2 * i]);
    }
  }
  for (; at < words.size(); at += 2) {
    StoreBlock(CryptOne(Tables(), keys.words, LoadBlock(&words[at])),
               &words[at]);
  }
  Bytes out(text.size());
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

// CBC, out of ECB of single blocks.
Bytes CbcEncrypt(const Bytes& key, Bytes chain, const Bytes& text) {
  Bytes out;
  for (size_t at = 0; at < text.size(); at += 8) {
    for (size_t i = 0; i < 8; ++i) chain[i] ^= text[at + i];
    chain = Ecb<1>(EncryptKeys(key.data()), chain);
    out.insert(out.end(), chain.begin(), chain.end());
  }
  return out;
}
Bytes CbcDecrypt(const Bytes& key, const Bytes& iv, const Bytes& text) {
  Bytes out = Ecb<1>(DecryptKeys(key.data()), text);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] ^= i < 8 ? iv[i] : text[i - 8];
  }
  return out;
}

TEST(Des, DoesWhatNistsVectorsSay) {
  size_t count = 0;
  for (const std::string mode : {"ECB", "CBC"}) {
    for (const char* name : {"MMT1", "MMT2", "MMT3", "invperm", "permop",
                             "subtab", "varkey", "vartext"}) {
      for (const Vector& vector :
           NistVectors("ciphers/3DES/" + mode + "/T" + mode + name + ".rsp")) {
        if (!vector.contains("PLAINTEXT")) continue;
        ++count;
        const Bytes key = KeyOf(vector);
        const Bytes plain = FromHex(vector.at("PLAINTEXT"));
        const Bytes sealed = FromHex(vector.at("CIPHERTEXT"));
        SCOPED_TRACE(mode + name + " " + vector.at("COUNT"));
        if (mode == "ECB") {
          EXPECT_EQ(ToHex(Ecb<1>(EncryptKeys(key.data()), plain)),
                    ToHex(sealed));
          EXPECT_EQ(ToHex(Ecb<2>(DecryptKeys(key.data()), sealed)),
                    ToHex(plain));
        } else {
          const Bytes iv = FromHex(vector.at("IV"));
          EXPECT_EQ(ToHex(CbcEncrypt(key, iv, plain)), ToHex(sealed));
          EXPECT_EQ(ToHex(CbcDecrypt(key, iv, sealed)), ToHex(plain));
        }
      }
    }
  }
  EXPECT_GT(count, 1000u);
}

Bytes OpenSslEcb(const Bytes& key, const Bytes& text) {
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  Bytes out(text.size() + 8);
  int length = 0;
  EXPECT_EQ(EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, key.data(),
                               nullptr),
            1);
  EXPECT_EQ(EVP_EncryptUpdate(context, out.data(), &length, text.data(),
                              static_cast<int>(text.size())),
            1);
  EVP_CIPHER_CTX_free(context);
  out.resize(static_cast<size_t>(length));
  return out;
}

TEST(Des, DoesWhatOpenSslDoesHoweverManyBlocksAtATime) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    Bytes key(kKeyBytes);
    Bytes text(8 * (random() % 12));
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    for (uint8_t& byte : text) byte = static_cast<uint8_t>(random());
    const RoundKeys keys = EncryptKeys(key.data());
    const std::string expected = ToHex(OpenSslEcb(key, text));
    EXPECT_EQ(ToHex(Ecb<1>(keys, text)), expected);
    EXPECT_EQ(ToHex(Ecb<2>(keys, text)), expected);
    EXPECT_EQ(ToHex(Ecb<3>(keys, text)), expected);
    EXPECT_EQ(ToHex(Ecb<4>(keys, text)), expected);
    EXPECT_EQ(ToHex(Ecb<4>(DecryptKeys(key.data()), Ecb<3>(keys, text))),
              ToHex(text));
  }
}

TEST(Des, ParityBitsOfAKeyDoNotCount) {
  Bytes key(kKeyBytes, 0x10);
  Bytes other(kKeyBytes, 0x11);
  EXPECT_TRUE(std::ranges::equal(EncryptKeys(key.data()).words,
                                 EncryptKeys(other.data()).words));
}

}  // namespace
}  // namespace carillon::kernels::des
