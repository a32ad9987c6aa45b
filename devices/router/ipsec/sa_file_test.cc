#include "devices/router/ipsec/sa_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <string>

#include "base/temp_directory.h"

namespace carillon::router {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of `bytes` bytes, all with this value.
std::string Key(int byte, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += fmt::format("{:02x}", byte);
  return text;
}
std::string Gcm(int byte) { return Key(byte, 20); }
std::string TripleDes(int byte) {
  return Key(byte, 24) + " " + Key(byte + 1, 20);
}

std::string Error(const std::string& text) {
  const auto table = ParseSas(text);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(table.status().message());
}

TEST(SaFile, PutsEachSaWhereTheKernelsLookForIt) {
  const auto table = ParseSas(fmt::format(
      "# comment\n\n"
      "out 0x2001 192.0.2.1 192.0.2.2 aes-gcm 0x{} 10.2.0.0/16 "
      "2001:db8:2::/48\n"
      "in 4097 192.0.2.1 192.0.2.2 3des-sha1 {}\n"
      "  out 0x2001 2001:db8::1 2001:db8::3 3des-sha1 {} 10.3.0.0/16\n"
      "in 0x1003 2001:db8::1 2001:db8::3 aes-gcm {}\n",
      Gcm(1), TripleDes(2), TripleDes(4), Gcm(6)));
  ASSERT_TRUE(table.ok()) << std::string(table.status().message());
  const size_t size = table->places.size();
  ASSERT_GE(size, 4u);
  for (const uint32_t spi : {0x1001u, 0x1003u}) {
    const auto& place = table->places[spi % size];
    EXPECT_EQ(place.sa.spi, spi);
    EXPECT_EQ(place.sa.direction, ipsec::Direction::kInbound);
    EXPECT_EQ(place.sa.family, spi == 0x1001 ? 4u : 6u);
  }
  ASSERT_EQ(table->policies4.size(), 2u);
  ASSERT_EQ(table->policies6.size(), 1u);
  std::set<uint32_t> places;
  for (const auto& route : table->policies4) {
    const auto& sa = table->places[route.next_hop].sa;
    places.insert(route.next_hop);
    EXPECT_EQ(sa.spi, 0x2001u);
    EXPECT_EQ(sa.direction, ipsec::Direction::kOutbound);
    const bool second = forwarding::ToString(route.prefix) == "10.2.0.0/16";
    EXPECT_EQ(sa.suite,
              second ? ipsec::Suite::kAesGcm : ipsec::Suite::kTripleDesSha1);
    EXPECT_EQ(sa.family, second ? 4u : 6u);
  }
  EXPECT_EQ(places.size(), 2u);
  EXPECT_TRUE(places.contains(table->policies6[0].next_hop));
}

TEST(SaFile, EveryMistakeIsNamedWithItsLine) {
  const std::string ends = "192.0.2.1 192.0.2.2";
  const auto out = [&](const std::string& rest) {
    return "# first\nout 0x100 " + ends + " " + rest + "\n";
  };
  const auto both = [&](const std::string& second) {
    return fmt::format("out 0x100 {} aes-gcm {} 10.0.0.0/8\n{}\n", ends, Gcm(1),
                       second);
  };
  const struct {
    std::string text, reason;
  } cases[] = {
      {"", "no SA in it"},
      {"through 1\n", "line 1: an SA begins with 'out' or 'in'"},
      {"out 0x100\n", "line 1: an SA is 'out' or 'in', an SPI"},
      {"out 255 " + ends + " aes-gcm " + Gcm(1), "the second word is no SPI"},
      {"out 0x1g0 " + ends + " aes-gcm " + Gcm(1), "the second word is no SPI"},
      {"out 0x100 192.0.2.1 there aes-gcm " + Gcm(1),
       "the remote address is neither IPv4's nor"},
      {"out 0x100 192.0.2.1 2001:db8::1 aes-gcm " + Gcm(1) + " 10.0.0.0/8",
       "the peer's address has 16 bytes, and must have 4"},
      {out("aes-cbc " + Gcm(1)), "line 2: behind the addresses stands"},
      {out("aes-gcm " + Key(1, 16) + " 10.0.0.0/8"),
       "AES-128-GCM, with its salt, has 16 bytes, and must have 20"},
      {out("3des-sha1 " + Key(1, 23) + " " + Key(2, 20) + " 10.0.0.0/8"),
       "the key of 3DES has 23 bytes"},
      {out("3des-sha1 " + Key(1, 24)),
       "the key of HMAC-SHA1 is no even number of hex digits"},
      {out("aes-gcm " + Gcm(1)), "needs a network behind its peer"},
      {out("aes-gcm " + Gcm(1) + " 10.0.0.0/8 10.0.0.1/8"),
       "word 2 behind the keys is no network"},
      {both("out 0x101 " + ends + " aes-gcm " + Gcm(2) + " 10.0.0.0/8"),
       "line 2: 10.0.0.0/8 is a network of line 1"},
      {both("in 0x101 " + ends + " aes-gcm " + Gcm(1)),
       "line 2: its key is that of line 1"},
      {both("in 0x101 " + ends + " aes-gcm " + Gcm(2) + " 10.1.0.0/16"),
       "line 2: an 'in' SA has no networks"},
      {both("in 0x101 192.0.2.1 192.0.2.9 aes-gcm " + Gcm(2)),
       "line 2: its peer has no 'out' SA"},
      {both("in 0x101 " + ends + " aes-gcm " + Gcm(2) + "\nin 0x101 " + ends +
            " aes-gcm " + Gcm(3)),
       "line 3: its SPI is that of line 2"},
  };
  for (const auto& [text, reason] : cases) {
    EXPECT_THAT(Error(text), HasSubstr(reason)) << text;
  }
}

TEST(SaFile, TripleDesKeysThatDifferInParityAloneAreTheSame) {
  EXPECT_THAT(
      Error(fmt::format("out 0x100 192.0.2.1 192.0.2.2 3des-sha1 {} {} "
                        "10.0.0.0/8\n"
                        "in 0x101 192.0.2.1 192.0.2.2 3des-sha1 {} {}\n",
                        Key(0x10, 24), Key(1, 20), Key(0x11, 24), Key(2, 20))),
      HasSubstr("line 2: its key is that of line 1"));
}

// Each word of a line that has a key in it, with the key at every place.
TEST(SaFile, NoMessageShowsAPartOfAKey) {
  const std::string secret = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec";
  const std::vector<std::string> words = {"out",       "0x100",     "192.0.2.1",
                                          "192.0.2.2", "3des-sha1", Key(1, 24),
                                          Key(2, 20),  "10.0.0.0/8"};
  for (size_t at = 0; at <= words.size(); ++at) {
    for (const bool instead : {true, false}) {
      std::vector<std::string> broken = words;
      if (instead && at < words.size()) {
        broken[at] = secret;
      } else {
        broken.insert(broken.begin() + static_cast<std::ptrdiff_t>(at), secret);
      }
      EXPECT_THAT(Error(fmt::format("{}", fmt::join(broken, " "))),
                  Not(HasSubstr("5ec2e7")))
          << at;
    }
  }
}

TEST(SaFile, AFileThatOthersMayReadIsRefused) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/tunnels";
  std::ofstream(path) << "out 0x100 192.0.2.1 192.0.2.2 aes-gcm " << Gcm(1)
                      << " 10.0.0.0/8\n";
  for (const mode_t mode : {0640, 0604, 0620}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto table = ReadSas(path);
    EXPECT_EQ(table.status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(table.status().message()),
                HasSubstr("chmod 600 " + path));
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(ReadSas(path).ok());
  EXPECT_EQ(ReadSas(path + "2").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace carillon::router
