#include "kernels/memcached/memc_bytes.cuh"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carillon::kernels::memc {
namespace {

uint32_t Hash(std::string key) {
  const uint32_t length = static_cast<uint32_t>(key.size());
  key.append(kReadSlack, '\x5a');
  return HashKey(reinterpret_cast<const uint8_t*>(key.data()), length);
}

// hashlittle() byte by byte, as lookup3.c describes it.
uint32_t ReferenceHash(const std::string& key) {
  const auto rot = [](uint32_t x, int k) { return (x << k) | (x >> (32 - k)); };
  uint32_t word[3];
  for (uint32_t& w : word) w = 0xdeadbeef + static_cast<uint32_t>(key.size());
  auto& [a, b, c] = word;
  if (key.empty()) return c;
  size_t at = 0;
  const auto add = [&](size_t n) {
    for (size_t i = 0; i < n; ++i) {
      word[i / 4] += static_cast<uint32_t>(static_cast<uint8_t>(key[at + i]))
                     << (8 * (i % 4));
    }
    at += n;
  };
  while (key.size() - at > 12) {
    add(12);
    a -= c;
    a ^= rot(c, 4);
    c += b;
    b -= a;
    b ^= rot(a, 6);
    a += c;
    c -= b;
    c ^= rot(b, 8);
    b += a;
    a -= c;
    a ^= rot(c, 16);
    c += b;
    b -= a;
    b ^= rot(a, 19);
    a += c;
    c -= b;
    c ^= rot(b, 4);
    b += a;
  }
  add(key.size() - at);
  c ^= b;
  c -= rot(b, 14);
  a ^= c;
  a -= rot(c, 11);
  b ^= a;
  b -= rot(a, 25);
  c ^= b;
  c -= rot(b, 16);
  a ^= c;
  a -= rot(c, 4);
  b ^= a;
  b -= rot(a, 14);
  c ^= b;
  c -= rot(b, 24);
  return c;
}

TEST(HashKey, GivesThePublishedVectorsOfLookup3) {
  EXPECT_EQ(Hash(""), 0xdeadbeef);
  EXPECT_EQ(Hash("Four score and seven years ago"), 0x17770551u);
}

TEST(HashKey, IsHashlittleForEveryLengthAndAlignment) {
  std::string key;
  for (int length = 0; length <= 260; ++length) {
    const uint32_t expected = ReferenceHash(key);
    for (int shift = 0; shift < 8; ++shift) {
      const std::string moved = std::string(shift, 'x') + key +
                                std::string(kReadSlack, char('a' + shift));
      EXPECT_EQ(HashKey(reinterpret_cast<const uint8_t*>(moved.data()) + shift,
                        length),
                expected)
          << length << " bytes at " << shift;
    }
    key += static_cast<char>(length * 37 + 200);
  }
}

TEST(FindDelimiter, FindsTheFirstBlankOrNewlineAtEveryDistance) {
  for (uint32_t start = 0; start < 9; ++start) {
    for (uint32_t distance = 0; distance < 40; ++distance) {
      for (const char delimiter : {' ', '\n'}) {
        // Bytes that differ from the delimiters in one bit, and after it both.
        std::string text(start, '\n');
        for (uint32_t i = 0; i < distance; ++i)
          text += "\x21\x0b\x1f\xa0\x8a"[i % 5];
        text += delimiter;
        text += "\x21\n \x0b";
        text.append(kReadSlack, ' ');
        EXPECT_EQ(
            FindDelimiter(reinterpret_cast<const uint8_t*>(text.data()), start),
            start + distance);
      }
    }
  }
}

TEST(CopyAndEqual, TakeExactlyTheBytesThatTheyAreGiven) {
  for (uint32_t n = 0; n < 300; ++n) {
    std::vector<uint8_t> from(n);
    for (uint32_t i = 0; i < n; ++i) from[i] = static_cast<uint8_t>(i * 7 + 1);
    std::vector<uint8_t> to(n + 2, 0xee);
    CopyBytes(to.data() + 1, from.data(), n);
    EXPECT_EQ(to.front(), 0xee);
    EXPECT_EQ(to.back(), 0xee);
    EXPECT_TRUE(EqualBytes(to.data() + 1, from.data(), n));
    for (uint32_t i = 0; i < n; ++i) {
      to[i + 1] ^= 0x10;
      EXPECT_FALSE(EqualBytes(to.data() + 1, from.data(), n))
          << i << " of " << n;
      to[i + 1] ^= 0x10;
    }
    std::vector<uint8_t> copy(n + 8, 0xee);
    CopyFromDevice(copy.data(), from.data(), n, n);
    EXPECT_TRUE(EqualBytes(copy.data(), from.data(), n));
  }
}

TEST(FormatDecimal, WritesWhatPrintfWrites) {
  std::vector<uint64_t> values{0, ~uint64_t{0}};
  for (uint64_t power = 1; power < 10'000'000'000'000'000'000u; power *= 10) {
    for (const uint64_t v : {power - 1, power, power + 1, power * 7}) {
      values.push_back(v);
    }
  }
  for (const uint64_t value : values) {
    uint8_t digits[kMaxDecimalDigits];
    const uint32_t n = FormatDecimal(value, digits);
    EXPECT_EQ(std::string(reinterpret_cast<char*>(digits), n),
              std::to_string(value));
  }
}

TEST(ParseDecimal, JudgesNumbersAsStrtolDoesInMemcached) {
  struct Case {
    std::string text;
    bool ok;
    bool negative;
    uint64_t magnitude;
  };
  const std::vector<Case> cases{
      {"0", true, false, 0},
      {"007", true, false, 7},
      {"+5", true, false, 5},
      {"-12", true, true, 12},
      {" \t 8", true, false, 8},
      {"8\r", true, false, 8},
      {"12 apples", true, false, 12},
      {std::string("12\0x", 4), true, false, 12},
      {"18446744073709551615", true, false, ~uint64_t{0}},
      {"18446744073709551616", false, false, 0},
      {"99999999999999999999999", false, false, 0},
      {"", false, false, 0},
      {"-", false, true, 0},
      {"- 1", false, true, 0},
      {"1x", false, false, 0},
      {"x1", false, false, 0},
      {"0x10", false, false, 0},
      {"noreply", false, false, 0},
  };
  for (const Case& c : cases) {
    const Decimal got =
        ParseDecimal(reinterpret_cast<const uint8_t*>(c.text.data()),
                     static_cast<uint32_t>(c.text.size()));
    EXPECT_EQ(got.ok, c.ok) << c.text;
    if (!c.ok) continue;
    EXPECT_EQ(got.negative, c.negative) << c.text;
    EXPECT_EQ(got.magnitude, c.magnitude) << c.text;
  }
}

}  // namespace
}  // namespace carillon::kernels::memc
