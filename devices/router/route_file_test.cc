#include "devices/router/route_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace carillon::router {
namespace {

using ::testing::HasSubstr;

const std::vector<std::string> kOnePort = {"file"};
const std::vector<std::string> kPorts = {"lan", "wan"};

TEST(RouteFile, ReadsRoutesAndNamesEachNextHopOnce) {
  const auto routes = ParseRoutes(
      "# prefix to from mtu\n"
      "  # of one site\n"
      "10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:ff\n"
      "\n"
      "2001:db8::/32\t02:00:00:00:00:02 02:00:00:00:00:ff 1500\r\n"
      "10.1.0.0/16 02:00:00:00:00:01 02:00:00:00:00:ff\n"
      "10.2.0.0/16 02:00:00:00:00:01 02:00:00:00:00:ff 1500",
      kOnePort);
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

TEST(RouteFile, ARouteGoesToThePortThatItNames) {
  const std::string macs = " 02:00:00:00:00:01 02:00:00:00:00:ff";
  const auto routes =
      ParseRoutes("10.0.0.0/8" + macs + " dev wan\n" + "11.0.0.0/8" + macs +
                      " 1400 dev lan\n" + "12.0.0.0/8" + macs + "\tdev  lan\n",
                  kPorts);
  ASSERT_TRUE(routes.ok()) << routes.status();
  ASSERT_EQ(routes->next_hops.size(), 3u);
  const auto port_of = [&](size_t route) {
    return routes->next_hops[routes->ipv4[route].next_hop].port[1];
  };
  EXPECT_EQ(port_of(0), 1);
  EXPECT_EQ(port_of(1), 0);
  EXPECT_EQ(port_of(2), 0);
  EXPECT_EQ(routes->next_hops[1].mtu, 1400);
}

TEST(RouteFile, SaysWhatIsWrongInWhichLine) {
  const std::string macs = " 02:00:00:00:00:01 02:00:00:00:00:ff";
  for (const auto& [line, complaint] : {
           std::pair<std::string, const char*>{"10.0.0.1/8" + macs,
                                               "perhaps 10.0.0.0/8"},
           {"10.0.0.0/8" + macs,
            "'dev' must name the route's port; the ports "
            "are lan, wan"},
           {"10.0.0.0/8" + macs + " dev lo", "there is no port 'lo'"},
           {"10.0.0.0/8" + macs + " dev", "a route is a prefix"},
           {"10.0.0.0/8" + macs + " 1500 wan", "a route is a prefix"},
           {"10.0.0.0/8" + macs + " 1500 dev wan 3", "a route is a prefix"},
           {"10.0.0.0/8", "a route is a prefix, two Ethernet addresses"},
           {"10.0.0.0/8" + macs + " 1500 x", "a route is a prefix"},
           {"10.0.0.0/8 02:00:00:00:00:01 2 dev lan",
            "'2' is no Ethernet address"},
           {"10.0.0.0/8" + macs + " 67 dev lan", "allowed: 68 to 65535"},
           {"10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:100 dev lan",
            "'02:00:00:00:00:100' is no Ethernet address"},
           {"10.0.0.0/8 02:00:00:00:00:01 02:00:00:00:00:01:02 dev lan",
            "is no Ethernet address"},
           {"10.0.0.0/8 02:00:00:00:00:01x 02:00:00:00:00:01 dev lan",
            "is no Ethernet address"},
           {"10.0.0.0/8 02:00::00:00:01 02:00:00:00:00:01 dev lan",
            "is no Ethernet address"},
       }) {
    const auto routes = ParseRoutes("# one\n" + line + "\n", kPorts);
    EXPECT_EQ(routes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(routes.status().message()),
                ::testing::AllOf(HasSubstr("line 2: "), HasSubstr(complaint)));
  }
}

TEST(RouteFile, APrefixHasOneRoute) {
  const std::string macs = " 02:00:00:00:00:01 02:00:00:00:00:ff\n";
  EXPECT_EQ(ParseRoutes("10.0.0.0/8" + macs + "10.0.0.0/16" + macs +
                            "\n10.0.0.0/8" + macs,
                        kOnePort)
                .status()
                .message(),
            "line 4: 10.0.0.0/8 has a route already, in line 1");
}

}  // namespace
}  // namespace carillon::router
