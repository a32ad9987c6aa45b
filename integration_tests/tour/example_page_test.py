"""The page of an example with a network, docs/examples/NAME/README.md, command by command.

example_page_test.py NAME
"""

import os
import pathlib
import sys
import unittest

import page

NAME = sys.argv.pop(1)
# In a user namespace, as without root, tcpdump cannot become the user that it means to be.
IS_ROOT = os.geteuid() == 0 and pathlib.Path("/proc/self/setgroups").read_text().strip() == "allow"


def needs_root(command):
    return "tcpdump" in command or "seen.pcap" in command


class ExamplePageTest(unittest.TestCase):
    def test_every_command_works_and_shows_what_the_page_says(self):
        page.run_page(self, f"docs/examples/{NAME}/README.md",
                      clean_up="kill $(cat iperf3.pid); example/net down",
                      skip=lambda command: needs_root(command) and not IS_ROOT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
