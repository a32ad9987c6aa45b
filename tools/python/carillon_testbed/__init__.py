"""Testbeds for tests in Python: bring one up, break it on purpose, and have it proven that nothing is lost.

    with Testbed.up(topology) as lab:
        lab.inject("nic-dies", process="nic0", point="device.ring", nth=500, action="kill")
        lab.wait_for_strike("nic-dies")
        lab.ledger().expect_nothing_lost()

Needs a built checkout, and Debian's python3-grpcio. docs/testing.md is the reference.
"""

from .gpud import Gpud, TestbedError
from .ledger import Ledger, LedgerError
from .testbed import NotInTime, Testbed

__all__ = ["Gpud", "Ledger", "LedgerError", "NotInTime", "Testbed", "TestbedError"]
