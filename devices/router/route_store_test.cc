#include "devices/router/route_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "devices/router/route_file.h"

namespace carillon::router {
namespace {

using forwarding::Family;
using ::testing::HasSubstr;

Routes Parse(const std::string& text) {
  auto routes = ParseRoutes(text, std::vector<std::string>{"p"});
  EXPECT_TRUE(routes.ok()) << routes.status();
  return *std::move(routes);
}

std::string Line(const std::string& prefix, uint32_t hop) {
  char mac[32];
  snprintf(mac, sizeof(mac), " 02:00:00:00:%02x:%02x", hop >> 8 & 0xff,
           hop & 0xff);
  return prefix + mac + " 02:00:00:00:00:ff\n";
}

// The last two bytes of the next hop's address that a packet would get.
std::optional<uint32_t> HopOf(const RouteStore& store, const std::string& host,
                              Family family = Family::kIpv4) {
  const auto prefix = forwarding::ParsePrefix(
      host + (family == Family::kIpv4 ? "/32" : "/128"));
  const auto number = store.fib(family).Lookup(prefix->address);
  if (!number) return std::nullopt;
  const auto& to = store.next_hops()[*number].to;
  return to[4] << 8 | to[5];
}

TEST(RouteStore, NewRoutesTakeThePlaceOfTheOldOnes) {
  auto store =
      RouteStore::Make(Parse(Line("10.0.0.0/8", 1) + Line("10.1.0.0/16", 2) +
                             Line("11.0.0.0/8", 1) + Line("2001:db8::/32", 3)));
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(HopOf(*store, "10.1.2.3"), 2u);
  // One gone, one with another next hop, one as it was, one new.
  ASSERT_TRUE(
      store
          ->Replace(Parse(Line("10.0.0.0/8", 4) + Line("11.0.0.0/8", 1) +
                          Line("12.0.0.0/8", 5) + Line("2001:db8::/32", 6)))
          .ok());
  EXPECT_EQ(HopOf(*store, "10.1.2.3"), 4u);
  EXPECT_EQ(HopOf(*store, "11.0.0.1"), 1u);
  EXPECT_EQ(HopOf(*store, "12.0.0.1"), 5u);
  EXPECT_EQ(HopOf(*store, "13.0.0.1"), std::nullopt);
  EXPECT_EQ(HopOf(*store, "2001:db8::1", Family::kIpv6), 6u);
  EXPECT_EQ(store->fib(Family::kIpv4).routes(), 3u);
}

// Packets in flight look the numbers of the routes up that they began with.
TEST(RouteStore, ANumberIsNotGivenAwayWhileTheRoutesBeforeMayBeInUse) {
  auto store = RouteStore::Make(Parse(""));
  ASSERT_TRUE(store.ok()) << store.status();
  std::mt19937 random(1);
  const auto number_of = [&](int i) {
    const auto prefix =
        forwarding::ParsePrefix("10.0." + std::to_string(i) + ".1/32");
    return store->fib(Family::kIpv4).Lookup(prefix->address);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<std::pair<uint32_t, forwarding::NextHop>> in_use;
    for (int i = 0; i < 250; ++i) {
      if (const auto number = number_of(i)) {
        in_use.emplace_back(*number, store->next_hops()[*number]);
      }
    }
    std::string text;
    for (int i = 0; i < 250; ++i) {
      text += Line("10.0." + std::to_string(i) + ".0/24", random() % 2000);
    }
    ASSERT_TRUE(store->Replace(Parse(text)).ok());
    EXPECT_EQ(in_use.size(), round == 0 ? 0u : 250u);
    for (const auto& [number, hop] : in_use) {
      EXPECT_EQ(std::memcmp(&store->next_hops()[number], &hop, sizeof(hop)), 0);
    }
  }
}

TEST(RouteStore, WhatFindsNoRoomChangesNothing) {
  auto store = RouteStore::Make(Parse(Line("10.0.0.0/8", 1) + Line("::/0", 2)));
  ASSERT_TRUE(store.ok()) << store.status();
  std::string many_hops, many_groups = Line("10.0.0.0/8", 9);
  for (uint32_t i = 0; i < 2 * RouteStore::kLeastRoom; ++i) {
    const std::string host =
        std::to_string(i / 256) + "." + std::to_string(i % 256) + ".0";
    many_hops += Line("10." + host + "/24", i);
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "2001:%x::/40", i);
    many_groups += Line(prefix, 3);
  }
  for (const auto& [text, complaint] :
       {std::pair(many_hops, "next hops find no room"),
        std::pair(many_groups, "group")}) {
    const absl::Status status = store->Replace(Parse(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr(complaint));
    EXPECT_EQ(HopOf(*store, "10.0.3.1"), 1u);
    EXPECT_EQ(HopOf(*store, "2001:1::1", Family::kIpv6), 2u);
    EXPECT_EQ(store->fib(Family::kIpv4).routes(), 1u);
    EXPECT_EQ(store->fib(Family::kIpv6).routes(), 1u);
  }
  EXPECT_LE(store->fib(Family::kIpv6).words().size_bytes(),
            forwarding::TableBytes(store->groups(Family::kIpv6), 16) / 2);
  // What was refused holds no room.
  for (int i = 0; i < 5; ++i) {
    std::string text;
    for (uint32_t k = 0; k < RouteStore::kLeastRoom / 2; ++k) {
      text += Line(std::to_string(10 + k / 256) + "." +
                       std::to_string(k % 256) + ".0.0/16",
                   10'000u + 600u * static_cast<uint32_t>(i) + k);
    }
    EXPECT_TRUE(store->Replace(Parse(text)).ok());
  }
}

TEST(RouteStore, AFewNewRoutesChangeAFewPages) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += Line("10." + std::to_string(i / 256) + "." +
                     std::to_string(i % 256) + ".0/24",
                 static_cast<uint32_t>(i % 7));
  }
  auto store = RouteStore::Make(Parse(text));
  ASSERT_TRUE(store.ok()) << store.status();
  const uint64_t version = store->fib(Family::kIpv4).version();
  ASSERT_TRUE(store->Replace(Parse(text + Line("99.1.2.0/24", 100))).ok());
  EXPECT_EQ(store->fib(Family::kIpv4).ChangesSince(version).size(), 1u);
  EXPECT_EQ(HopOf(*store, "99.1.2.3"), 100u);
}

}  // namespace
}  // namespace carillon::router
