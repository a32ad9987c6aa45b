// A NIC dies between writing an event and ringing its doorbell. It comes back,
// the other NIC is not disturbed, and no event is lost.
#include "integration_tests/testbed.h"

namespace carillon::testing {

TEST(KillNicTest, NothingIsLost) {
  auto testbed = FaultTestbed::Up(R"(
      gpu: {backend: cpu, memory: 256MiB}
      devices:
        - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, restart: on_failure}
        - {name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true})");
  ASSERT_TRUE(testbed.ok()) << testbed.status();
  FaultTestbed& lab = **testbed;
  ASSERT_TRUE(lab.StartLoad("nic0"));  // a memcached client
  ASSERT_TRUE(lab.Inject({.name = "nic-dies",
                          .process = "nic0",
                          .point = faults::Point::kDeviceRing,
                          .nth = 500,
                          .action = faults::Action::kKill}));
  EXPECT_TRUE(lab.WaitForStrike("nic-dies"));
  EXPECT_TRUE(lab.WaitForRestart("nic0"));
  EXPECT_TRUE(lab.WaitForProgress("nic0", 100));
  EXPECT_TRUE(lab.WaitForProgress("fpga0", 100));
  EXPECT_EQ(lab.ProcessOf("fpga0").restarts, 0u);
  EXPECT_THAT(lab.Ledger(), NothingLost());
}

}  // namespace carillon::testing
