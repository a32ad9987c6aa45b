"""./carillon in a checkout of its own, with a dpkg, an apt-get and a Bazel that do as each test says."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

RUNFILES = pathlib.Path.cwd()
BROWSER = "tools/dashboard/browser"

INSTALLED = """#!/bin/sh
sed 's/^/installed /' "$HOME/installed"
"""
# Notes its calls; installs what comes after the options of `install`.
APT_GET = """#!/bin/sh
echo "$*" >> "$HOME/apt-calls"
[ ! -e "$HOME/apt-fails" ] || { echo "E: no space left"; exit 100; }
case " $* " in *" install "*) for word; do echo "$word"; done >> "$HOME/installed" ;; esac
"""
NPM = """#!/bin/sh
echo "$PWD: $*" >> "$HOME/npm-calls"
[ ! -e "$HOME/npm-fails" ] || { echo "npm error: EINTEGRITY"; exit 1; }
"""
BAZEL = """#!/bin/sh
[ "$1" != sync ] || exit 0
echo "$*" >> "$HOME/bazel-calls"
[ ! -e "$HOME/build-fails" ] || { echo "INFO: noise"; echo "ERROR: shm/ring.h: no"; exit 1; }
mkdir -p bazel-bin/tools/cli bazel-out
printf '#!/bin/sh\\necho "ran: $*"\\nexit 7\\n' > bazel-bin/tools/cli/carillon
chmod +x bazel-bin/tools/cli/carillon
"""


class LauncherTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = pathlib.Path(place.name)
        self.checkout = self.home / "checkout"
        for folder in ["bazel", "shm", BROWSER]:
            (self.checkout / folder).mkdir(parents=True)
        for file in ["WORKSPACE", "BUILD", ".bazelrc", "shm/ring.h"]:
            (self.checkout / file).touch()
        for file in ["carillon", "bazel/packages.txt", "bazel/test_packages.txt",
                     f"{BROWSER}/package.json", f"{BROWSER}/package-lock.json"]:
            shutil.copy(RUNFILES / file, self.checkout / file)
        # Sources are older than what is built from them.
        for path in self.checkout.rglob("*"):
            os.utime(path, (1, 1))
        self.programs = self.home / "bin"
        self.programs.mkdir()
        self.program("dpkg-query", INSTALLED)
        self.program("apt-get", APT_GET)
        self.program("bazel", BAZEL)
        self.program("npm", NPM)
        self.program("id", "#!/bin/sh\necho 0\n")
        self.wanted = self.packages("packages.txt")
        self.for_tests = self.packages("test_packages.txt")
        self.have(self.wanted)

    def packages(self, file):
        return [line.split()[0] for line in (self.checkout / "bazel" / file).read_text().splitlines()
                if line and not line.startswith("#")]

    def program(self, name, text):
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def have(self, packages):
        (self.home / "installed").write_text("".join(name + "\n" for name in packages))

    def calls(self, of):
        notes = self.home / f"{of}-calls"
        return notes.read_text().splitlines() if notes.exists() else []

    def start(self, *arguments, **environment):
        return subprocess.run([self.checkout / "carillon", *arguments], capture_output=True, text=True, timeout=60,
                              env={"HOME": str(self.home), "PATH": f"{self.programs}:/usr/bin:/bin", **environment})

    def test_builds_and_hands_over_its_arguments_and_the_exit_code(self):
        done = self.start("up", "-f", "a file.yaml")
        self.assertEqual((done.stdout, done.returncode), ("ran: up -f a file.yaml\n", 7), done.stderr)
        self.assertEqual(len(self.calls("bazel")), 1)
        self.assertIn("//gpu_daemon:gpud", self.calls("bazel")[0])
        self.assertEqual(self.calls("apt"), [])

    def test_builds_again_only_after_a_change(self):
        self.start("ps")
        self.start("ps")
        self.assertEqual(len(self.calls("bazel")), 1)
        (self.checkout / "shm/ring.h").write_text("// changed")
        self.start("ps")
        self.assertEqual(len(self.calls("bazel")), 2)
        self.start("ps", CARILLON_NO_CUDA="1")
        self.assertEqual(len(self.calls("bazel")), 3)

    def test_builds_again_after_a_change_anywhere_in_the_checkout(self):
        self.start("ps")
        builds = 1
        changes = [lambda: (self.checkout / "a new folder").mkdir(),
                   lambda: (self.checkout / "a new folder/file.h").touch(),
                   lambda: (self.checkout / "user.bazelrc").touch(),
                   lambda: (self.checkout / "shm/ring.h").unlink()]
        for change in changes:
            self.start("ps")
            self.assertEqual(len(self.calls("bazel")), builds)
            change()
            self.start("ps")
            builds += 1
            self.assertEqual(len(self.calls("bazel")), builds)

    def test_builds_again_after_a_deletion_anywhere_in_the_checkout(self):
        for file in ["shm/ring.h", "WORKSPACE", ".bazelrc"]:
            self.start("help")
            builds = len(self.calls("bazel"))
            (self.checkout / file).unlink()
            self.start("help")
            self.assertEqual(len(self.calls("bazel")), builds + 1, file)

    def test_refuses_a_path_that_bazel_cannot_take_before_it_installs(self):
        self.have([])
        for name in ["my checkout", "tést", "a$b"]:
            self.checkout = self.checkout.rename(self.home / name)
            done = self.start("demo")
            self.assertEqual(done.returncode, 1)
            self.assertIn("move the checkout;", done.stderr)
            self.assertIn(f"not in {self.checkout}", done.stderr)
        self.assertEqual(self.calls("apt"), [])

    def test_ignores_what_git_and_bazel_write(self):
        self.start("ps")
        for file in [".git/index", "bazel-out/x", "bazel-testlogs/y"]:
            (self.checkout / file).parent.mkdir(exist_ok=True)
            (self.checkout / file).touch()
        self.start("ps")
        self.assertEqual(len(self.calls("bazel")), 1)

    def test_builds_what_the_command_needs(self):
        def built(*command):
            before = len(self.calls("bazel"))
            done = self.start(*command)
            self.assertEqual(done.returncode, 7, done.stderr)
            return " ".join(self.calls("bazel")[before:])
        self.assertNotIn("gpud", built("sim", "ops"))
        demo = built("demo", "--seconds", "1")
        self.assertIn("//devices/nic:nic", demo)
        self.assertNotIn("//devices/example", demo)
        self.assertIn("//devices/example:sensor", built("up"))
        self.assertEqual(built("ps"), "", "what up needs is there")

    def test_installs_what_tests_need_for_tests_only(self):
        self.start("demo")
        self.assertEqual(self.calls("apt"), [])
        self.assertEqual(self.start("test", "--quick").returncode, 7)
        install, = (call for call in self.calls("apt") if " install " in call)
        self.assertTrue(install.endswith(" ".join(sorted(self.for_tests))), install)
        self.assertEqual(set(self.wanted) & set(self.for_tests), set())

    def test_a_demo_needs_no_browser(self):
        self.assertTrue({"chromium", "nodejs"} <= set(self.for_tests))
        self.have([])
        for command in ["demo", "up", "dashboard", "sim"]:
            self.assertEqual(self.start(command).returncode, 7)
        self.assertEqual({"chromium", "nodejs"} & set(" ".join(self.calls("apt")).split()), set())
        self.assertEqual(self.calls("npm"), [])

    def test_installs_the_modules_of_the_browsers_test_by_their_lock(self):
        cache = self.home / ".cache/carillon/browser"
        self.have(self.wanted + self.for_tests)
        (self.home / "npm-fails").touch()
        done = self.start("test")
        self.assertEqual(done.returncode, 1)
        self.assertIn("npm error: EINTEGRITY", done.stderr)
        self.assertEqual(self.calls("bazel"), [])
        (self.home / "npm-fails").unlink()
        for _ in range(2):
            self.assertEqual(self.start("test").returncode, 7)
            self.assertEqual(len(self.calls("npm")), 2)
        self.assertEqual(self.calls("npm")[1], f"{cache}: ci --ignore-scripts --no-audit --no-fund")
        lock = self.checkout / BROWSER / "package-lock.json"
        self.assertEqual((cache / "package-lock.json").read_text(), lock.read_text())
        lock.write_text("{}")
        os.utime(lock, (1, 1))
        self.assertEqual(self.start("test").returncode, 7)
        self.assertEqual(len(self.calls("npm")), 3, "another lock")

    def test_only_tells_of_modules_when_it_must_not_install(self):
        self.have(self.wanted + self.for_tests)
        done = self.start("test", CARILLON_NO_INSTALL="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"into {self.home}/.cache/carillon/browser by: npm ci", done.stderr)
        self.assertEqual(self.calls("npm") + self.calls("bazel"), [])

    def test_installs_what_is_missing_and_says_why(self):
        self.have(name for name in self.wanted + self.for_tests if name not in ("spin", "libzmq3-dev"))
        done = self.start("test")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, r"spin +checks the model of the ring protocol\n")
        self.assertRegex(done.stderr, r"libzmq3-dev +telemetry bus")
        install, = (call for call in self.calls("apt") if " install " in call)
        self.assertTrue(install.endswith("--no-install-recommends libzmq3-dev spin"), install)

    def test_only_tells_when_it_must_not_install(self):
        self.have(name for name in self.wanted if name != "g++")
        done = self.start("ps", CARILLON_NO_INSTALL="1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"g\+\+ +compiles everything")
        self.assertIn("apt-get install g++", done.stderr)
        self.assertEqual(self.calls("apt") + self.calls("bazel"), [])

    def test_shows_why_packages_could_not_be_installed(self):
        self.have([])
        (self.home / "apt-fails").touch()
        done = self.start("ps")
        self.assertEqual(done.returncode, 1)
        self.assertIn("E: no space left", done.stderr)
        self.assertEqual(self.calls("bazel"), [])

    def test_needs_root_or_sudo_to_install(self):
        self.have([])
        self.program("id", "#!/bin/sh\necho 1000\n")
        self.program("sudo", "#!/bin/sh\nexit 1\n")
        done = self.start("ps")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.calls("apt"), [])

    def test_shows_why_the_build_failed_and_tries_again_next_time(self):
        (self.home / "build-fails").touch()
        done = self.start("ps")
        self.assertEqual(done.returncode, 125)
        self.assertIn("ERROR: shm/ring.h: no", done.stderr)
        self.assertNotIn("INFO: noise", done.stderr)
        (self.home / "build-fails").unlink()
        self.assertEqual(self.start("ps").returncode, 7)

    def test_leaves_no_temporary_file(self):
        scratch = self.home / "tmp"
        scratch.mkdir()
        self.start("ps", TMPDIR=str(scratch))
        (self.home / "build-fails").touch()
        (self.checkout / "shm/ring.h").write_text("// changed")
        self.start("ps", TMPDIR=str(scratch))
        self.assertEqual(list(scratch.iterdir()), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
