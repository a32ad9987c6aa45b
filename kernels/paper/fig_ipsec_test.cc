// Checks fig_ipsec and fig_ipsec_shared against published vectors and OpenSSL.
#include "kernels/paper/fig_ipsec.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/paper/event_references.h"
#include "kernels/simt/kernel_test_util.h"

namespace carillon::kernels {
namespace {

using simt::Dim3;
using simt::ReadOnly;
using simt::RunGrid;
using simt::Writable;

const Dim3 kWarp{32, 1, 1};

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoul(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<uint32_t> Words(const des::RoundKeys& keys) {
  return {std::begin(keys.words), std::end(keys.words)};
}
const uint8_t* Key(const std::string& bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}
std::vector<uint32_t> EncryptKeys(const std::string& key) {
  return Words(des::EncryptKeys(Key(key)));
}
std::vector<uint32_t> DecryptKeys(const std::string& key) {
  return Words(des::DecryptKeys(Key(key)));
}

// Encrypts up to whole packets; the rest of the last one is zeros.
std::string Crypt(const std::vector<uint32_t>& keys, std::string text) {
  const size_t bytes = text.size();
  const uint32_t count = static_cast<uint32_t>((bytes + 255) / 256);
  text.resize(count * 256);
  std::vector<uint32_t> in(count * 64);
  memcpy(in.data(), text.data(), text.size());
  std::vector<uint32_t> out(count * 64);
  const std::vector<uint32_t> tables(des::Tables(),
                                     des::Tables() + des::kTableWords);
  const FigIpsecArgs args{ReadOnly(in), Writable(out), ReadOnly(tables),
                          ReadOnly(keys), count};
  std::vector<uint32_t> first;
  for (const simt::KernelInfo* kernel :
       {&fig_ipsec_info, &fig_ipsec_shared_info}) {
    std::ranges::fill(out, 0);
    EXPECT_EQ(kernel->validate({{count, 1, 1}, kWarp}, &args), nullptr);
    // One block more than needed does no harm.
    const simt::GridResult result =
        RunGrid(*kernel, {count + 1, 1, 1}, kWarp, args, {.workers = 2});
    EXPECT_EQ(result.status, simt::kFailNone) << result.message;
    if (first.empty()) first = out;
  }
  EXPECT_EQ(first, out) << "the kernels differ";
  memcpy(text.data(), out.data(), text.size());
  return text.substr(0, bytes);
}

TEST(FigIpsec, EncryptsTheExampleOfSp80067) {
  const std::string key =
      FromHex("0123456789ABCDEF23456789ABCDEF01456789ABCDEF0123");
  const std::string text = "The qufck brown fox jump";
  const std::string sealed =
      FromHex("A826FD8CE53B855FCCE21C8112256FE668D5C05DD9B6B900");
  EXPECT_EQ(Crypt(EncryptKeys(key), text), sealed);
  EXPECT_EQ(Crypt(DecryptKeys(key), sealed), text);
}

// SP 800-17, "Substitution Table Known Answer Test": together they use every
// entry of every S-box. With one key three times, triple DES is DES.
TEST(FigIpsec, HasEveryEntryOfTheSubstitutionTables) {
  constexpr const char* kVectors[][3] = {
      {"7CA110454A1A6E57", "01A1D6D039776742", "690F5B0D9A26939B"},
      {"0131D9619DC1376E", "5CD54CA83DEF57DA", "7A389D10354BD271"},
      {"07A1133E4A0B2686", "0248D43806F67172", "868EBB51CAB4599A"},
      {"3849674C2602319E", "51454B582DDF440A", "7178876E01F19B2A"},
      {"04B915BA43FEB5B6", "42FD443059577FA2", "AF37FB421F8C4095"},
      {"0113B970FD34F2CE", "059B5E0851CF143A", "86A560F10EC6D85B"},
      {"0170F175468FB5E6", "0756D8E0774761D2", "0CD3DA020021DC09"},
      {"43297FAD38E373FE", "762514B829BF486A", "EA676B2CB7DB2B7A"},
      {"07A7137045DA2A16", "3BDD119049372802", "DFD64A815CAF1A0F"},
      {"04689104C2FD3B2F", "26955F6835AF609A", "5C513C9C4886C088"},
      {"37D06BB516CB7546", "164D5E404F275232", "0A2AEEAE3FF4AB77"},
      {"1F08260D1AC2465E", "6B056E18759F5CCA", "EF1BF03E5DFA575A"},
      {"584023641ABA6176", "004BD6EF09176062", "88BF0DB6D70DEE56"},
      {"025816164629B007", "480D39006EE762F2", "A1F9915541020B56"},
      {"49793EBC79B3258F", "437540C8698F3CFA", "6FBF1CAFCFFD0556"},
      {"4FB05E1515AB73A7", "072D43A077075292", "2F22E49BAB7CA1AC"},
      {"49E95D6D4CA229BF", "02FE55778117F12A", "5A6B612CC26CCE4A"},
      {"018310DC409B26D6", "1D9D5C5018F728C2", "5F4C038ED12B2E41"},
      {"1C587F1C13924FEF", "305532286D6F295A", "63FAC0D034D9F793"},
  };
  for (const auto& [key, text, sealed] : kVectors) {
    const std::string one = FromHex(key);
    EXPECT_EQ(Crypt(EncryptKeys(one + one + one), FromHex(text)),
              FromHex(sealed))
        << key;
  }
}

TEST(FigIpsec, EncryptsAsOpenSslDoes) {
  std::mt19937 random(31);
  for (const size_t packets : {1u, 2u, 5u}) {
    std::string key(24, '\0');
    std::string text(packets * 256, '\0');
    for (char& c : key) c = static_cast<char>(random());
    for (char& c : text) c = static_cast<char>(random());
    const std::string sealed = Crypt(EncryptKeys(key), text);
    EXPECT_EQ(sealed, reference::TripleDes({Key(key), key.size()}, text));
    EXPECT_EQ(Crypt(DecryptKeys(key), sealed), text);
  }
}

TEST(FigIpsec, ArgumentsThatDoNotFitFailAndTouchNothing) {
  std::vector<uint32_t> in(128), out(128, 7), tables(512), keys(96);
  const FigIpsecArgs good{ReadOnly(in), Writable(out), ReadOnly(tables),
                          ReadOnly(keys), 2};
  std::vector<FigIpsecArgs> bad(6, good);
  bad[0].in.size -= 1;
  bad[1].out.size -= 1;
  bad[2].tables.size -= 1;
  bad[3].keys.size -= 1;
  bad[4].count = 3;
  bad[5].count = 0xffffffff;
  const Dim3 grid{2, 1, 1};
  for (const simt::KernelInfo* kernel :
       {&fig_ipsec_info, &fig_ipsec_shared_info}) {
    for (const FigIpsecArgs& args : bad) {
      EXPECT_EQ(RunGrid(*kernel, grid, kWarp, args).status,
                simt::kFailBadArguments);
      EXPECT_NE(kernel->validate({grid, kWarp}, &args), nullptr);
    }
    for (const simt::LaunchShape& wrong :
         {simt::LaunchShape{grid, {64, 1, 1}},
          simt::LaunchShape{{2, 2, 1}, kWarp}}) {
      EXPECT_EQ(RunGrid(*kernel, wrong.grid, wrong.block, good).status,
                simt::kFailBadShape);
      EXPECT_NE(kernel->check_shape(wrong), nullptr);
    }
    EXPECT_NE(kernel->validate({{1, 1, 1}, kWarp}, &good), nullptr);
    EXPECT_EQ(kernel->validate({grid, kWarp}, &good), nullptr);
  }
  EXPECT_EQ(out, std::vector<uint32_t>(128, 7));
}

}  // namespace
}  // namespace carillon::kernels
