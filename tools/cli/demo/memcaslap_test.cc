#include "tools/cli/demo/memcaslap.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace carillon::cli {
namespace {

// The end of a real report.
constexpr char kReport[] = R"(Set Statistics (4644 events)
   Min:        30
   Max:     34917
   Avg:       388

Total Statistics (46411 events)
   Min:        23
   Max:     73067
   Avg:       345
   Geo:    112.75
   Std:   1858.44
   Log2 Dist:
       4:        0       14     6365    34441

cmd_get: 41773
cmd_set: 4646
get_misses: 1
verify_misses: 2
verify_failed: 3
written_bytes: 1438770
read_bytes: 1953819
object_bytes: 83628
packet_disorder: 4
packet_drop: 5
udp_timeout: 6

Run time: 2.0s Ops: 46419 TPS: 23207 Net_rate: 1.6M/s
)";

TEST(Memcaslap, ReportIsReadToTheLastFigure) {
  const auto result = ParseMemcaslap(kReport);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->gets, 41773u);
  EXPECT_EQ(result->sets, 4646u);
  EXPECT_EQ(result->get_misses, 1u);
  EXPECT_EQ(result->verify_misses, 2u);
  EXPECT_EQ(result->verify_failed, 3u);
  EXPECT_EQ(result->packet_disorder, 4u);
  EXPECT_EQ(result->packet_drop, 5u);
  EXPECT_EQ(result->udp_timeout, 6u);
  EXPECT_EQ(result->operations, 46419u);
  EXPECT_EQ(result->seconds, 2.0);
  EXPECT_EQ(result->operations_per_s, 23207u);
  EXPECT_EQ(result->min_us, 23u);
  EXPECT_EQ(result->average_us, 345u);
  EXPECT_EQ(result->max_us, 73067u);
}

TEST(Memcaslap, ReportThatBreaksOffIsNoResult) {
  const std::string report(kReport);
  EXPECT_EQ(ParseMemcaslap("").status().message(),
            "memcaslap's report has no line 'cmd_get:'");
  EXPECT_EQ(ParseMemcaslap(report.substr(0, report.find("verify_failed")))
                .status()
                .message(),
            "memcaslap's report has no line 'verify_failed:'");
  EXPECT_EQ(ParseMemcaslap(report.substr(0, report.find("Run time")))
                .status()
                .message(),
            "memcaslap's report has no line 'Run time:'");
}

TEST(FreePort, IsFreeForBoth) {
  const auto port = FindFreePort();
  ASSERT_TRUE(port.ok()) << port.status();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(*port);
  for (const int type : {SOCK_DGRAM, SOCK_STREAM}) {
    const UniqueFd fd(socket(AF_INET, type, 0));
    EXPECT_EQ(
        bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
        0);
  }
}

}  // namespace
}  // namespace carillon::cli
