"""docs/examples/imaging-pipeline/README.md, command by command."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import readme

RUNFILES = pathlib.Path.cwd()
PAGE = RUNFILES / "docs/examples/imaging-pipeline/README.md"
LONGEST_STEP_S = 120


class ImagingPageTest(unittest.TestCase):
    def test_every_command_works_and_shows_what_the_page_says(self):
        steps = readme.console_steps(PAGE.read_text())
        self.assertGreater(len(steps), 8)
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            home = pathlib.Path(place)
            # What a clone has, and a launcher that skips installing and building.
            (home / "carillon").write_text(f'#!/bin/sh\nexec {RUNFILES}/tools/cli/carillon "$@"\n')
            (home / "carillon").chmod(0o755)
            (home / "docs").symlink_to(RUNFILES / "docs")
            environment = dict(os.environ, CARILLON_BIN_DIR=str(RUNFILES),
                               CARILLON_RUNTIME_DIR=str(home / "run"), PATH="/usr/bin:/bin")

            def run(command):
                return subprocess.run(["bash", "-c", command], cwd=home, env=environment,
                                      capture_output=True, text=True, timeout=LONGEST_STEP_S)

            try:
                for command, expected in steps:
                    done = run(command)
                    shown = f"$ {command}\n{done.stdout}{done.stderr}"
                    print(shown, flush=True)
                    self.assertEqual(done.returncode, 0, shown)
                    if expected:
                        self.assertTrue(
                            readme.output_matches(expected, done.stdout.rstrip().splitlines()),
                            f"the page promises {expected}, but:\n{shown}")
            finally:
                run("./carillon down --name imaging-pipeline")


if __name__ == "__main__":
    unittest.main(verbosity=2)
