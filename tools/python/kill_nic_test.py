"""A NIC dies between writing an event and ringing its doorbell: no event is lost."""

import unittest

from carillon_testbed import Testbed

TOPOLOGY = """
gpu: {backend: cpu, memory: 256MiB}
devices:
  - {name: nic0, kind: nic, udp_port: 0, tcp_port: 0, restart: on_failure}
"""


class KillNicTest(unittest.TestCase):
    def test_nothing_is_lost(self):
        with Testbed.up(TOPOLOGY) as lab:
            lab.start_load("nic0")  # a memcached client
            lab.inject("nic-dies", process="nic0", point="device.ring", nth=500, action="kill")
            lab.wait_for_strike("nic-dies")
            lab.wait_for_restart("nic0")
            lab.wait_for_progress("nic0", 100)
            lab.ledger().expect_nothing_lost()


if __name__ == "__main__":
    unittest.main()
