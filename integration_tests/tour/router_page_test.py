"""docs/examples/ipv4-router/README.md, command by command."""

import os
import pathlib
import unittest

import page

# In a user namespace, as without root, tcpdump cannot become the user that it means to be.
IS_ROOT = os.geteuid() == 0 and pathlib.Path("/proc/self/setgroups").read_text().strip() == "allow"


class RouterPageTest(unittest.TestCase):
    def test_every_command_works_and_shows_what_the_page_says(self):
        page.run_page(self, "docs/examples/ipv4-router/README.md",
                      clean_up="kill $(cat iperf3.pid); example/net down",
                      skip=lambda command: "tcpdump" in command and not IS_ROOT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
