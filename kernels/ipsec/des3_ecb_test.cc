// Checks des3_ecb against OpenSSL, in the papers' shape and in others.
#include "kernels/ipsec/des3_ecb.cuh"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <random>
#include <vector>

#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

struct Keys {
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> encrypt, decrypt;
};

Keys MakeKeys(std::mt19937& random) {
  Keys keys;
  for (uint32_t i = 0; i < des::kKeyBytes; ++i) {
    keys.bytes.push_back(static_cast<uint8_t>(random()));
  }
  const auto words = [](const des::RoundKeys& rounds) {
    return std::vector<uint32_t>(std::begin(rounds.words),
                                 std::end(rounds.words));
  };
  keys.encrypt = words(des::EncryptKeys(keys.bytes.data()));
  keys.decrypt = words(des::DecryptKeys(keys.bytes.data()));
  return keys;
}

std::vector<uint32_t> OpenSsl(const Keys& keys,
                              const std::vector<uint32_t>& text) {
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  std::vector<uint32_t> out(text.size() + 2);
  int length = 0;
  EVP_EncryptInit_ex(context, EVP_des_ede3_ecb(), nullptr, keys.bytes.data(),
                     nullptr);
  EVP_EncryptUpdate(context, reinterpret_cast<uint8_t*>(out.data()), &length,
                    reinterpret_cast<const uint8_t*>(text.data()),
                    static_cast<int>(4 * text.size()));
  EVP_CIPHER_CTX_free(context);
  out.resize(text.size());
  return out;
}

TEST(Des3Ecb, DoesWhatOpenSslDoesInEveryShape) {
  std::mt19937 random(3);
  for (const auto& [grid, block] :
       {std::pair{8u, 32u}, std::pair{1u, 32u}, std::pair{3u, 7u},
        std::pair{1u, 1u}, std::pair{2u, 1024u}}) {
    const Keys keys = MakeKeys(random);
    // 8 packets of 256 bytes, and a block more in the buffers.
    std::vector<uint32_t> in(8 * 64 + 2);
    for (uint32_t& word : in) word = random();
    std::vector<uint32_t> out(in.size(), 7);
    const Des3EcbArgs encrypt{simt::ReadOnly(in), simt::Writable(out),
                              simt::ReadOnly(keys.encrypt), 8 * 32};
    ASSERT_EQ(simt::RunGrid(des3_ecb_info, {grid, 1, 1}, {block, 1, 1}, encrypt)
                  .status,
              0u);
    std::vector<uint32_t> expected = OpenSsl(keys, in);
    expected[512] = expected[513] = 7;
    EXPECT_EQ(out, expected);
    // In place, and back.
    const Des3EcbArgs decrypt{{out.data(), out.size()},
                              simt::Writable(out),
                              simt::ReadOnly(keys.decrypt),
                              8 * 32};
    ASSERT_EQ(simt::RunGrid(des3_ecb_info, {grid, 1, 1}, {block, 1, 1}, decrypt)
                  .status,
              0u);
    in[512] = in[513] = 7;
    EXPECT_EQ(out, in);
  }
}

TEST(Des3Ecb, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint32_t> in(64), out(64, 7), keys(96);
  const Des3EcbArgs good{simt::ReadOnly(in), simt::Writable(out),
                         simt::ReadOnly(keys), 32};
  std::vector<Des3EcbArgs> bad(5, good);
  bad[0].in.size -= 1;
  bad[1].out.size -= 1;
  bad[2].keys.size -= 1;
  bad[3].blocks = 33;
  bad[4].blocks = ~uint64_t{0};
  const simt::LaunchShape shape{{1, 1, 1}, {32, 1, 1}};
  for (const Des3EcbArgs& args : bad) {
    EXPECT_EQ(
        simt::RunGrid(des3_ecb_info, shape.grid, shape.block, args).status,
        simt::kFailBadArguments);
    EXPECT_NE(des3_ecb_info.validate(shape, &args), nullptr);
  }
  EXPECT_EQ(out, std::vector<uint32_t>(64, 7));
  EXPECT_EQ(des3_ecb_info.validate(shape, &good), nullptr);
}

}  // namespace
}  // namespace carillon::kernels
