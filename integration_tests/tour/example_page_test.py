"""The page of an example, docs/examples/NAME/README.md, command by command.

example_page_test.py NAME
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import readme

# In a user namespace, as without root, tcpdump cannot become the user that it means to be.
IS_ROOT = os.geteuid() == 0 and pathlib.Path("/proc/self/setgroups").read_text().strip() == "allow"
RUNFILES = pathlib.Path.cwd()
PAGE = RUNFILES / "docs/examples" / sys.argv.pop(1) / "README.md"
LONGEST_STEP_S = 120


class ExamplePageTest(unittest.TestCase):
    def test_every_command_works_and_shows_what_the_page_says(self):
        steps = readme.console_steps(PAGE.read_text())
        self.assertGreater(len(steps), 10)
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            home = pathlib.Path(place)
            # What a clone has, and a launcher that skips installing and building.
            (home / "carillon").write_text(f'#!/bin/sh\nexec {RUNFILES}/tools/cli/carillon "$@"\n')
            (home / "carillon").chmod(0o755)
            (home / "docs").symlink_to(RUNFILES / "docs")
            environment = dict(os.environ, CARILLON_BIN_DIR=str(RUNFILES),
                               CARILLON_RUNTIME_DIR=str(home / "run"), TMPDIR=place,
                               PATH="/usr/sbin:/usr/bin:/sbin:/bin")

            def run(command):
                return subprocess.run(["bash", "-c", command], cwd=home, env=environment,
                                      capture_output=True, text=True, timeout=LONGEST_STEP_S)

            try:
                for command, expected in steps:
                    if ("tcpdump" in command or "seen.pcap" in command) and not IS_ROOT:
                        continue
                    done = run(command)
                    shown = f"$ {command}\n{done.stdout}{done.stderr}"
                    print(shown, flush=True)
                    self.assertEqual(done.returncode, 0, shown)
                    if expected:
                        self.assertTrue(
                            readme.output_matches(expected, done.stdout.rstrip().splitlines()),
                            f"the page promises {expected}, but:\n{shown}")
                # Nothing is left but what the page's own commands made.
                self.assertFalse([path for path in home.iterdir()
                                  if path.name.startswith("carillon-")])
            finally:
                run("kill $(cat iperf3.pid); example/net down")


if __name__ == "__main__":
    unittest.main(verbosity=2)
