"""Runs the commands of an example's page as its reader would, in a directory of its own."""

import os
import pathlib
import subprocess
import tempfile

import readme

RUNFILES = pathlib.Path.cwd()
LONGEST_STEP_S = 120


def run_page(test, page, clean_up, skip=lambda command: False):
    """Fails `test` at the first command that fails or shows something else than the page.

    `page` is the page's path in the checkout, `clean_up` a command for after a failure.
    """
    steps = readme.console_steps((RUNFILES / page).read_text())
    test.assertGreater(len(steps), 8)
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
                if skip(command):
                    continue
                done = run(command)
                shown = f"$ {command}\n{done.stdout}{done.stderr}"
                print(shown, flush=True)
                test.assertEqual(done.returncode, 0, shown)
                if expected:
                    test.assertTrue(
                        readme.output_matches(expected, done.stdout.rstrip().splitlines()),
                        f"the page promises {expected}, but:\n{shown}")
            # Nothing is left but what the page's own commands made.
            test.assertFalse([path for path in home.iterdir()
                              if path.name.startswith("carillon-")])
        finally:
            run(clean_up)
