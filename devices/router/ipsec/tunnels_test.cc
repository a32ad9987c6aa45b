#include "devices/router/ipsec/tunnels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "devices/router/ipsec/sa_file.h"
#include "devices/router/route_file.h"
#include "devices/router/route_store.h"

namespace carillon::router {
namespace {

uint64_t PortsWith(const std::string& routes) {
  const std::string key(40, 'a');
  const auto sas =
      ParseSas("out 0x2001 192.0.2.1 192.0.2.2 aes-gcm " + key +
               " 10.2.0.0/16\nout 0x2002 2001:db8::1 2001:db8::2 aes-gcm " +
               std::string(40, 'b') + " 10.3.0.0/16\n");
  EXPECT_TRUE(sas.ok()) << std::string(sas.status().message());
  const auto parsed =
      ParseRoutes(routes, std::vector<std::string>{"a", "b", "c"});
  EXPECT_TRUE(parsed.ok()) << std::string(parsed.status().message());
  const auto store = RouteStore::Make(*parsed);
  EXPECT_TRUE(store.ok()) << std::string(store.status().message());
  return Tunnels::OuterPorts(*sas, *store);
}

TEST(Tunnels, ClearPacketsFromBehindAPeerAreRefusedWhereThePeersAre) {
  EXPECT_EQ(PortsWith("192.0.2.0/24 02:00:00:00:00:01 02:00:00:00:00:02 dev b\n"
                      "::/0 02:00:00:00:00:01 02:00:00:00:00:02 dev c\n"),
            0b110u);
}

TEST(Tunnels, TheyAreRefusedFromEveryPortWhileAPeerHasNoRoute) {
  for (const char* const routes :
       {"", "192.0.2.0/24 02:00:00:00:00:01 02:00:00:00:00:02 dev b\n",
        "2001:db8::/32 02:00:00:00:00:01 02:00:00:00:00:02 dev c\n"}) {
    EXPECT_EQ(PortsWith(routes), Tunnels::kAllPorts) << routes;
  }
}

}  // namespace
}  // namespace carillon::router
