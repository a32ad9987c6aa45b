#include "devices/router/route_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace carillon::router {
namespace {

using ::testing::HasSubstr;

TEST(RouteFile, ReadsRoutesAndNamesEachNextHopOnce) {
  const auto routes = ParseRoutes(
      "# prefix to from mtu\n"
      "  # of one site\n"
      "10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:ff\n"
      "\n"
      "2001:db8::/32\t02:00:00:00:00:02 02:00:00:00:00:ff 1500\r\n"
      "10.1.0.0/16 02:00:00:00:00:01 02:00:00:00:00:ff\n"
      "10.2.0.0/16 02:00:00:00:00:01 02:00:00:00:00:ff 1500");
  ASSERT_TRUE(routes.ok()) << routes.status();
  ASSERT_EQ(routes->ipv4.size(), 3u);
  ASSERT_EQ(routes->ipv6.size(), 1u);
  ASSERT_EQ(routes->next_hops.size(), 3u);
  EXPECT_EQ(routes->ipv4[0].next_hop, routes->ipv4[1].next_hop);
  const forwarding::NextHop& hop = routes->next_hops[routes->ipv6[0].next_hop];
  EXPECT_EQ(hop.mtu, 1500);
  EXPECT_EQ(std::memcmp(hop.to, "\2\0\0\0\0\2", 6), 0);
  EXPECT_EQ(std::memcmp(hop.from, "\2\0\0\0\0\xff", 6), 0);
  EXPECT_EQ(forwarding::ToString(routes->ipv4[2].prefix), "10.2.0.0/16");
}

TEST(RouteFile, SaysWhatIsWrongInWhichLine) {
  const std::string macs = " 02:00:00:00:00:01 02:00:00:00:00:ff";
  for (const auto& [line, complaint] : {
           std::pair<std::string, const char*>{"10.0.0.1/8" + macs,
                                               "perhaps 10.0.0.0/8"},
           {"10.0.0.0/8", "a route is a prefix, two Ethernet addresses"},
           {"10.0.0.0/8" + macs + " 1500 x", "a route is a prefix"},
           {"10.0.0.0/8 02:00:00:00:00:01 2", "'2' is no Ethernet address"},
           {"10.0.0.0/8" + macs + " 67", "allowed: 68 to 65535"},
           {"10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:100",
            "'02:00:00:00:00:100' is no Ethernet address"},
           {"10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:01:02",
            "is no Ethernet address"},
           {"10.0.0.0/8 02:00:00:00:00:01x 02:00:00:00:00:01",
            "is no Ethernet address"},
           {"10.0.0.0/8 02:00::00:00:01 02:00:00:00:00:01",
            "is no Ethernet address"},
       }) {
    const auto routes = ParseRoutes("# one\n" + line + "\n");
    EXPECT_EQ(routes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(routes.status().message()),
                ::testing::AllOf(HasSubstr("line 2: "), HasSubstr(complaint)));
  }
}

TEST(RouteFile, APrefixHasOneRoute) {
  const std::string macs = " 02:00:00:00:00:01 02:00:00:00:00:ff\n";
  EXPECT_EQ(ParseRoutes("10.0.0.0/8" + macs + "10.0.0.0/16" + macs +
                        "\n10.0.0.0/8" + macs)
                .status()
                .message(),
            "line 4: 10.0.0.0/8 has a route already, in line 1");
}

}  // namespace
}  // namespace carillon::router
