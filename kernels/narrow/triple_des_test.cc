#include "kernels/narrow/triple_des.cuh"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/ipsec/des.cuh"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

std::vector<uint32_t> KeyWords(const des::RoundKeys& keys) {
  return {std::begin(keys.words), std::end(keys.words)};
}

std::vector<uint32_t> OpenSslEcb(const std::vector<uint8_t>& key,
                                 const std::vector<uint32_t>& packet) {
  std::vector<uint32_t> out(packet.size());
  const int bytes = static_cast<int>(packet.size() * sizeof(uint32_t));
  int length = 0;
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  EXPECT_EQ(EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, key.data(),
                               nullptr),
            1);
  EXPECT_EQ(EVP_EncryptUpdate(
                context, reinterpret_cast<unsigned char*>(out.data()), &length,
                reinterpret_cast<const unsigned char*>(packet.data()), bytes),
            1);
  EXPECT_EQ(length, bytes);
  EVP_CIPHER_CTX_free(context);
  return out;
}

struct Case {
  uint32_t bytes, blocks, threads;
};

TEST(TripleDes, EncryptsWholePacketsAsOpenSslDoesAndDecryptsThem) {
  std::mt19937 random(10);
  for (const Case& c : std::vector<Case>{{2048, 1, 128},
                                         {63'488, 1, 128},
                                         {65'536, 1, 32},
                                         {8, 1, 128},
                                         {1000, 3, 96},
                                         {72, 1, 7}}) {
    std::vector<uint8_t> key(des::kKeyBytes);
    for (uint8_t& byte : key) byte = static_cast<uint8_t>(random());
    std::vector<uint32_t> packet(c.bytes / 4);
    for (uint32_t& word : packet) word = static_cast<uint32_t>(random());
    // Beyond the packet nothing may change.
    std::vector<uint32_t> out(packet.size() + 2, 0xeeeeeeee);
    const auto run = [&](const des::RoundKeys& keys,
                         simt::Span<const uint32_t> in) {
      const std::vector<uint32_t> words = KeyWords(keys);
      ASSERT_EQ(
          RunGrid(triple_des_info, {c.blocks, 1, 1}, {c.threads, 1, 1},
                  TripleDesArgs{ReadOnly(words), in, Writable(out), c.bytes},
                  {.workers = 2})
              .status,
          simt::kFailNone);
    };
    run(des::EncryptKeys(key.data()), ReadOnly(packet));
    std::vector<uint32_t> expected = OpenSslEcb(key, packet);
    expected.resize(out.size(), 0xeeeeeeee);
    EXPECT_EQ(out, expected) << c.bytes;
    run(des::DecryptKeys(key.data()), ReadOnly(out));
    out.resize(packet.size());
    EXPECT_EQ(out, packet) << c.bytes;
  }
}

TEST(TripleDes, ArgumentsThatDoNotFitFailAndTouchNothing) {
  const std::vector<uint32_t> keys(des::kKeyWords);
  std::vector<uint32_t> packet(16), out(16, 5);
  const TripleDesArgs good{ReadOnly(keys), ReadOnly(packet), Writable(out), 64};
  std::vector<TripleDesArgs> bad(7, good);
  bad[0].keys.size = des::kKeyWords - 1;
  bad[1].packet.size = 15;
  bad[2].out.size = 15;
  bad[3].bytes = 0;
  bad[4].bytes = 60;
  bad[5].bytes = 63;
  bad[6].bytes = 0xfffffff8;
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(RunGrid(triple_des_info, shape.grid, shape.block, bad[i]).status,
              simt::kFailBadArguments)
        << i;
    EXPECT_NE(triple_des_info.validate(shape, &bad[i]), nullptr) << i;
  }
  EXPECT_EQ(triple_des_info.validate(shape, &good), nullptr);
  EXPECT_EQ(out, std::vector<uint32_t>(16, 5));
}

}  // namespace
}  // namespace carillon::kernels
