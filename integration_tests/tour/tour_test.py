"""The README's tour, line by line, and the listings of the documents.

`tour_test.py --update` copies the source files into the documents again.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import readme

RUNFILES = pathlib.Path.cwd()
LONGEST_STEP_S = 120
WITH_LISTINGS = ["docs/testing.md", "docs/your_own.md"]


class TourTest(unittest.TestCase):
    def setUp(self):
        self.text = (RUNFILES / "README.md").read_text()

    def test_listings_are_the_files(self):
        listings = [(document, *listing) for document in WITH_LISTINGS
                    for listing in readme.copies((RUNFILES / document).read_text())]
        self.assertEqual(len(listings), 5)
        for document, path, copy in listings:
            self.assertEqual(copy, (RUNFILES / path).read_text(),
                             f"{document} shows an old {path}: run integration_tests/tour/tour_test.py --update")
            self.assertLess(copy.count("\n"), 60, path)

    def test_the_launcher_builds_every_program_that_is_run(self):
        targets = re.findall(r"//[\w/]+:\w+", (RUNFILES / "carillon").read_text())
        programs = readme.built_programs(self.text)
        self.assertTrue(programs)
        self.assertLessEqual(programs, set(targets))

    def test_every_command_works_and_shows_what_the_readme_says(self):
        steps = readme.console_steps(self.text)
        self.assertGreater(len(steps), 10)
        with tempfile.TemporaryDirectory() as place:
            home = pathlib.Path(place)
            # What a clone has, and a launcher that skips installing and building.
            (home / "carillon").write_text(f'#!/bin/sh\nexec {RUNFILES}/tools/cli/carillon "$@"\n')
            (home / "carillon").chmod(0o755)
            (home / "bazel-bin").symlink_to(RUNFILES)
            (home / "tools").symlink_to(RUNFILES / "tools")
            (home / "docs").symlink_to(RUNFILES / "docs")
            environment = dict(os.environ, CARILLON_BIN_DIR=str(RUNFILES),
                               CARILLON_RUNTIME_DIR=str(home / "run"),
                               PATH="/usr/bin:/bin")
            try:
                for command, expected in steps:
                    done = subprocess.run(["bash", "-c", command], cwd=home, env=environment,
                                          capture_output=True, text=True, timeout=LONGEST_STEP_S)
                    shown = f"$ {command}\n{done.stdout}{done.stderr}"
                    print(shown, flush=True)
                    self.assertEqual(done.returncode, 0, shown)
                    if expected:
                        self.assertTrue(
                            readme.output_matches(expected, done.stdout.rstrip().splitlines()),
                            f"README.md promises {expected}, but:\n{shown}")
            finally:
                subprocess.run([home / "carillon", "down", "--all"], env=environment,
                               capture_output=True, timeout=LONGEST_STEP_S)


class ReadmeTest(unittest.TestCase):
    def test_dots_stand_for_any_lines(self):
        self.assertTrue(readme.output_matches(["a", "...", "d"], ["a", "b", "c", "d"]))
        self.assertTrue(readme.output_matches(["...", "d"], ["d"]))
        self.assertFalse(readme.output_matches(["a", "...", "d"], ["a", "b"]))
        self.assertFalse(readme.output_matches(["a"], ["a", "b"]))

    def test_a_command_goes_on_behind_a_backslash(self):
        self.assertEqual(readme.console_steps("```console\n$ a \\\n  b\nc\n```\n"), [("a   b", ["c"])])


def update():
    root = pathlib.Path(__file__).resolve().parents[2]
    for document in WITH_LISTINGS:
        text = (root / document).read_text()
        (root / document).write_text(readme.with_copies(text, lambda path: (root / path).read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main(verbosity=2)
