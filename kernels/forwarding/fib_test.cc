#include "kernels/forwarding/fib.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/forwarding/forward_test_util.h"

namespace carillon::forwarding {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kGroups = 20'000;

Route To(const std::string& prefix, uint32_t next_hop) {
  return {*ParsePrefix(prefix), next_hop};
}

// What the kernels find in a half.
std::optional<uint32_t> DeviceLookup(const Fib& fib,
                                     const AddressBytes& bytes) {
  kernels::forward::Address address{};
  for (int i = 0; i < 8; ++i) {
    address.high = address.high << 8 | bytes[i];
    address.low = address.low << 8 | bytes[i + 8];
  }
  const simt::Span<const uint32_t> half = {fib.words().data(),
                                           fib.words().size()};
  const uint32_t entry =
      fib.family() == Family::kIpv4
          ? kernels::forward::Lookup<32>(half, fib.first_bits(), address)
          : kernels::forward::Lookup<128>(half, fib.first_bits(), address);
  EXPECT_EQ(entry & kEntryGroup, 0u);
  if ((entry & kEntryRoute) == 0) return std::nullopt;
  return entry & kEntryValue;
}

struct Shape {
  Family family;
  uint32_t first_bits;
};

class FibTest : public testing::TestWithParam<Shape> {
 protected:
  Family family() const { return GetParam().family; }
  Fib Make(uint32_t groups) const {
    return Fib(family(), groups, GetParam().first_bits);
  }
  // A few networks in each other, so that any order of changes meets the others.
  std::vector<Route> NestedRoutes(uint32_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<Route> routes;
    const uint32_t bits = AddressBits(family());
    for (uint32_t i = 0; i < count; ++i) {
      AddressBytes address{};
      for (uint32_t k = 1; k < bits / 8; ++k) {
        address[k] = static_cast<uint8_t>(random() % 2 * 0x81);
      }
      // A change of a short prefix changes much of a large first level.
      const uint32_t least = GetParam().first_bits == 24 ? 8 : 0;
      const auto length =
          static_cast<uint8_t>(least + random() % (bits + 1 - least));
      routes.push_back({{family(), length, Masked(address, length)},
                        static_cast<uint32_t>(random() % 1000)});
    }
    return routes;
  }
};

TEST_P(FibTest, FindsWhatASearchThroughAllRoutesFinds) {
  const auto routes = MakeRoutes(family(), 20'000, kMaxNextHop, 1);
  Fib fib = Make(kGroups);
  ASSERT_TRUE(fib.Replace(routes).ok());
  uint32_t found = 0;
  for (const AddressBytes& address :
       MakeAddresses(routes, family(), 1'000, 2)) {
    const auto expected = LongestMatch(routes, address);
    ASSERT_EQ(fib.Lookup(address), expected);
    ASSERT_EQ(DeviceLookup(fib, address), expected);
    if (expected) ++found;
  }
  EXPECT_GT(found, 500u);
}

TEST_P(FibTest, InsertsAndRemovesInAnyOrderGiveTheSameRoutes) {
  std::mt19937_64 random(3);
  Fib fib = Make(kGroups);
  std::vector<Route> routes;
  const auto pool = NestedRoutes(120, 4);
  for (int step = 0; step < 1'500; ++step) {
    const Route& route = pool[random() % pool.size()];
    const auto same = std::ranges::find(routes, route.prefix, &Route::prefix);
    if (random() % 2 == 0) {
      ASSERT_TRUE(fib.Insert(route).ok());
      if (same != routes.end()) routes.erase(same);
      routes.push_back(route);
    } else if (same != routes.end()) {
      ASSERT_TRUE(fib.Remove(route.prefix).ok());
      routes.erase(same);
    } else {
      ASSERT_EQ(fib.Remove(route.prefix).code(), absl::StatusCode::kNotFound);
    }
    for (const AddressBytes& address : MakeAddresses(pool, family(), 8, step)) {
      ASSERT_EQ(fib.Lookup(address), LongestMatch(routes, address)) << step;
    }
  }
  EXPECT_GE(fib.groups_in_use(), 3u);
  for (const Route& route : routes) {
    ASSERT_TRUE(fib.Remove(route.prefix).ok());
  }
  EXPECT_EQ(fib.routes(), 0u);
  EXPECT_EQ(fib.groups_in_use(), 0u);
  EXPECT_TRUE(
      std::ranges::all_of(fib.words().first(size_t{1} << fib.first_bits()),
                          [](uint32_t entry) { return entry == 0; }));
}

TEST_P(FibTest, ACopyThatGetsTheChangesIsTheSameTable) {
  std::mt19937_64 random(5);
  Fib fib = Make(kGroups);
  std::vector<uint32_t> copy((size_t{1} << fib.first_bits()) +
                             kGroups * kGroupEntries);
  uint64_t version = 0;
  const auto pool = NestedRoutes(60, 6);
  for (int step = 0; step < 60; ++step) {
    switch (random() % 8) {
      case 0:
        ASSERT_TRUE(fib.Replace(std::span(pool).first(random() % 60)).ok());
        break;
      case 1:
      case 2:
      case 3:
        (void)fib.Remove(pool[random() % pool.size()].prefix);
        break;
      default:
        ASSERT_TRUE(fib.Insert(pool[random() % pool.size()]).ok());
    }
    if (random() % 3 != 0) continue;
    for (const Fib::Range& range : fib.ChangesSince(version)) {
      std::ranges::copy(fib.words().subspan(range.first, range.count),
                        copy.begin() + static_cast<ptrdiff_t>(range.first));
    }
    version = fib.version();
    ASSERT_TRUE(std::ranges::equal(fib.words(),
                                   std::span(copy).first(fib.words().size())))
        << step;
    EXPECT_THAT(fib.ChangesSince(version), IsEmpty());
  }
}

TEST_P(FibTest, ARouteThatFindsNoGroupChangesNothing) {
  const bool four = family() == Family::kIpv4;
  Fib fib = Make(2);
  const auto name = [&](int i) {
    return four ? std::to_string(i + 1) + ".0.0.0/" +
                      std::to_string(GetParam().first_bits + 6)
                : "2" + std::to_string(i) + "00:1000::/" +
                      std::to_string(GetParam().first_bits + 6);
  };
  ASSERT_TRUE(fib.Insert(To(name(0), 1)).ok());
  ASSERT_TRUE(fib.Insert(To(name(1), 2)).ok());
  const uint64_t version = fib.version();
  const absl::Status refused = fib.Insert(To(name(2), 3));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("takes 1 more groups of the table, 2 of 2 are in use"));
  EXPECT_EQ(fib.Replace(std::vector<Route>{To(name(1), 5), To(name(2), 6),
                                           To(name(3), 7)})
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fib.version(), version);
  EXPECT_EQ(fib.routes(), 2u);
  EXPECT_EQ(fib.Lookup(ParsePrefix(name(1))->address), 2u);
  EXPECT_EQ(fib.Lookup(ParsePrefix(name(2))->address), std::nullopt);
  // A group that is given back serves another prefix.
  ASSERT_TRUE(fib.Remove(ParsePrefix(name(0)).value()).ok());
  ASSERT_TRUE(fib.Insert(To(name(2), 3)).ok());
  EXPECT_EQ(fib.Lookup(ParsePrefix(name(2))->address), 3u);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FibTest,
    testing::Values(Shape{Family::kIpv4, 24}, Shape{Family::kIpv4, 8},
                    Shape{Family::kIpv6, 24}, Shape{Family::kIpv6, 16}),
    [](const auto& param) {
      return (param.param.family == Family::kIpv4 ? "Ipv4First" : "Ipv6First") +
             std::to_string(param.param.first_bits);
    });

TEST(Fib, OneRouteChangesOnePage) {
  Fib fib(Family::kIpv4, 4);
  ASSERT_TRUE(fib.Insert(To("10.1.0.0/16", 7)).ok());
  const uint64_t page = 0x0a0100 / Fib::kPageWords * Fib::kPageWords;
  EXPECT_THAT(fib.ChangesSince(0),
              ElementsAre(Fib::Range{page, Fib::kPageWords}));
}

TEST(Fib, RefusesRoutesOfTheOtherFamilyAndNextHopsOfMoreThan24Bits) {
  Fib fib(Family::kIpv4, 4);
  EXPECT_THAT(std::string(fib.Insert(To("2001:db8::/32", 1)).message()),
              HasSubstr("2001:db8::/32: this table is IPv4's"));
  EXPECT_THAT(std::string(fib.Insert(To("10.0.0.0/8", 1 << 24)).message()),
              HasSubstr("next hop 16777216: at most 16777215"));
  EXPECT_FALSE(fib.Insert({{Family::kIpv4, 33, {}}, 1}).ok());
  EXPECT_EQ(fib.version(), 0u);
}

TEST(Prefix, ReadsAndWritesAddressesOfBothFamilies) {
  for (const char* text :
       {"0.0.0.0/0", "10.0.0.0/8", "192.0.2.255/32", "::/0", "2001:db8::/32",
        "2001:db8::ff00:0/105", "::1/128"}) {
    const auto prefix = ParsePrefix(text);
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    EXPECT_EQ(ToString(*prefix), text);
  }
}

TEST(Prefix, SaysWhatIsWrong) {
  for (const auto& [text, complaint] : {
           std::pair{"10.0.0.0", "must end in '/' and a length of 0..32"},
           {"10.0.0.0/", "must end in '/'"},
           {"10.0.0.0/33", "length of 0..32"},
           {"10.0.0.0/-1", "must end in '/'"},
           {"10.0.0.0/ 8", "must end in '/'"},
           {"10.0.0.0/8x", "must end in '/'"},
           {"10.0.0.0/4294967304", "must end in '/'"},
           {"::/129", "length of 0..128"},
           {"10.0.0/8", "'10.0.0' is no IPv4 or IPv6 address"},
           {"", "'' is no IPv4 or IPv6 address"},
           {"2001:db8::g/32", "no IPv4 or IPv6 address"},
           {"10.1.0.0/8",
            "bits are set behind its first 8; perhaps 10.0.0.0/8"},
           {"2001:db8::1/127", "perhaps 2001:db8::/127"},
       }) {
    const auto prefix = ParsePrefix(text);
    EXPECT_EQ(prefix.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(prefix.status().message()), HasSubstr(complaint))
        << text;
  }
}

}  // namespace
}  // namespace carillon::forwarding
