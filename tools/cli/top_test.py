"""`carillon top`, and a command with -w, on a terminal of tmux, over a testbed whose gpud is killed."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile
import time
import unittest

CARILLON = pathlib.Path.cwd() / "tools/cli/carillon"
LIMIT_S = 60
TOPOLOGY = """
name: lab
gpu: {backend: cpu, trace: true, restart: on_failure}
devices:
  - {name: fpga0, kind: fpga, kernel: dct8x8, size: 64x64, fps: 50, restart: on_failure}
"""


class TopTest(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = pathlib.Path(place.name)
        runtime = self.home / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TERM": "screen", "LC_ALL": "C.UTF-8",
                            "CARILLON_RUNTIME_DIR": str(runtime), "SHELL": "/bin/sh"}
        (self.home / "lab.yaml").write_text(TOPOLOGY)
        self.addCleanup(self.run_, CARILLON, "down", "--all")
        self.run_(CARILLON, "up", "-d", "-f", self.home / "lab.yaml")

    def run_(self, *command, check=True):
        return subprocess.run([str(word) for word in command], check=check, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=self.environment, timeout=LIMIT_S).stdout

    def tmux(self, *command, check=True):
        return self.run_("tmux", "-u", "-S", self.socket, "-f", "/dev/null", *command, check=check)

    def start(self, command, width, height, first="trap : INT QUIT", then=":"):
        """In a shell that outlives Ctrl-C and Ctrl-\\, tells the exit code, and waits."""
        words = shlex.join(str(word) for word in command)
        line = "%s; %s; echo ENDED $?; %s; exec cat" % (first, words, then)
        # A server that is killed may still answer for a moment.
        self.socket = pathlib.Path(tempfile.mkdtemp(dir=self.home)) / "tmux"
        self.addCleanup(self.tmux, "kill-server", check=False)
        self.tmux("new-session", "-d", "-x", width, "-y", height, line)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def until(self, *wanted, without=None):
        """The first screen with all that is wanted."""
        end = time.monotonic() + LIMIT_S
        while True:
            screen = self.screen()
            if all(text in screen for text in wanted) and (without is None or without not in screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError("not %r, without %r, in:\n%s" % (wanted, without, screen))
            time.sleep(0.05)  # between two looks at another process's terminal

    def gpud(self):
        (testbed,) = json.loads(self.run_(CARILLON, "ps", "-o", "json"))["testbeds"]
        return next(process["pid"] for process in testbed["processes"] if process["name"] == "gpud")

    def keep(self, name, screen):
        folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if folder:
            pathlib.Path(folder, name + ".txt").write_text(screen)

    def test_shows_fits_and_takes_keys(self):
        self.start([CARILLON, "top", "--interval", "0.1"], 80, 24)
        screen = self.until("PROCESSES", "fpga0", "dct8x8", "gpud     gpud", "q quit", " us ")
        self.keep("80x24", screen)
        self.assertNotIn("ABORTED", screen)
        self.tmux("resize-window", "-x", "200", "-y", "60")
        screen = self.until("ABORTED", "GRID", "PATH", "NOTE")
        self.keep("200x60", screen)
        self.assertIn("q quit", screen.rstrip("\n").split("\n")[59])
        self.tmux("resize-window", "-x", "80", "-y", "24")
        self.until("q quit", without="ABORTED")
        self.tmux("send-keys", "s", "s")
        self.until("EVENT KERNELS, by DEVICE")
        self.tmux("send-keys", "/", "nothing")
        self.until("filter: nothing_", without="dct8x8")
        self.tmux("send-keys", "Escape")
        self.until("dct8x8", "q quit")
        self.tmux("send-keys", "Space")
        clock = self.until("PAUSED").split("\n")[0]
        self.tmux("send-keys", "r")
        self.assertEqual(self.until("by DEVICE, reversed").split("\n")[0], clock)
        self.tmux("send-keys", "Space")
        self.until("carillon top: lab", without="PAUSED")
        self.tmux("send-keys", "q")
        # The shell's screen is there again.
        self.until("ENDED 0", without="EVENT KERNELS")

    def test_tells_that_gpud_has_gone_and_goes_on_with_the_next(self):
        self.start([CARILLON, "top", "--interval", "0.1"], 80, 24)
        self.until("dct8x8")
        before = self.gpud()
        os.kill(before, signal.SIGKILL)
        screen = self.until("another gpud since", "dct8x8")
        self.keep("another", screen)
        self.assertNotEqual(self.gpud(), before)
        # One that is stopped is told, too.
        os.kill(self.gpud(), signal.SIGSTOP)
        self.keep("stopped", self.until("no picture for", "stopped"))
        os.kill(self.gpud(), signal.SIGCONT)
        self.until("dct8x8", without="no picture for")
        # One that goes down in order ends its streams in order.
        before = self.gpud()
        self.run_(CARILLON, "restart", "gpud")
        self.assertNotEqual(self.gpud(), before)
        self.until("another gpud since", "dct8x8", without="gpud has gone")
        self.tmux("send-keys", "C-c")
        self.until("ENDED 0")

    def test_tells_what_is_left_while_no_gpud_comes(self):
        # Without a policy of restarts no other one comes by itself.
        self.run_(CARILLON, "down", "--all")
        (self.home / "lab.yaml").write_text(TOPOLOGY.replace("restart: on_failure", "restart: never"))
        self.run_(CARILLON, "up", "-d", "-f", self.home / "lab.yaml")
        self.start([CARILLON, "top", "--interval", "0.1"], 80, 24)
        self.until("dct8x8")
        os.kill(self.gpud(), signal.SIGKILL)
        self.keep("gone", self.until("gpud has gone at", "ended (SIGKILL)", "dct8x8"))
        self.run_(CARILLON, "down", "--all")
        # With the testbed itself there is nothing to wait for.
        self.until("ENDED 4", "testbed 'lab' has gone down")

    def test_a_terminal_without_a_cursor_is_refused(self):
        self.start(["env", "TERM=dumb", CARILLON, "top"], 160, 24)
        self.until("the terminal of TERM='dumb' cannot move its cursor", "carillon top --frames 1", "ENDED 1")

    def test_watched_rings_are_drawn_in_place(self):
        self.start([CARILLON, "rings", "-w", "0.1"], 100, 24)
        screen = self.until("carillon rings, every 0.1 s; Ctrl-C ends it", "dct8x8", without="  -")
        self.assertEqual(screen.count("DOORBELL"), 1)
        self.tmux("send-keys", "C-c")
        screen = self.until("ENDED 0", "dct8x8")
        self.assertNotIn("every 0.1 s", screen)

    def test_a_quit_leaves_no_terminal_as_it_is_in_top(self):
        self.start([CARILLON, "top"], 80, 24, then="stty -a")
        self.until("EVENT KERNELS", "dct8x8")
        self.tmux("send-keys", "C-\\")
        self.tmux("send-keys", "q")
        self.until("ENDED 0", " icanon", " echo ", without="EVENT KERNELS")

    def child(self):
        """The pid of what the shell of the terminal runs."""
        (shell,) = self.tmux("list-panes", "-F", "#{pane_pid}").split()
        (child,) = pathlib.Path("/proc", shell, "task", shell, "children").read_text().split()
        return int(child)

    def test_a_crash_leaves_no_terminal_as_it_is_in_top(self):
        for number, died in ((signal.SIGSEGV, 139), (signal.SIGABRT, 134), (signal.SIGUSR1, 138)):
            self.start([CARILLON, "top"], 80, 24, first="ulimit -c 0", then="stty -a")
            self.until("EVENT KERNELS", "dct8x8")
            os.kill(self.child(), number)
            self.until("ENDED %d" % died, " icanon", " echo ", without="EVENT KERNELS")
            self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}"), "0 1\n")
            self.tmux("kill-server")

    def test_a_crash_of_a_watch_leaves_its_screen(self):
        self.start([CARILLON, "rings", "-w", "0.1"], 100, 24, first="ulimit -c 0")
        self.until("every 0.1 s", "dct8x8")
        os.kill(self.child(), signal.SIGABRT)
        self.until("ENDED 134", without="every 0.1 s")
        self.assertEqual(self.tmux("display-message", "-p", "#{alternate_on}"), "0\n")

    def test_an_error_leaves_the_last_picture_of_a_watch(self):
        self.run_(CARILLON, "down", "--all")
        (self.home / "lab.yaml").write_text(TOPOLOGY.replace("restart: on_failure", "restart: never"))
        self.run_(CARILLON, "up", "-d", "-f", self.home / "lab.yaml")
        for command in ("rings", "ekt"):
            self.start([CARILLON, command, "-w", "0.1"], 100, 24)
            self.until("carillon %s, every 0.1 s" % command, "dct8x8")
            os.kill(self.gpud(), signal.SIGKILL)
            self.until("every 0.1 s", "gpud", without="dct8x8")
            self.run_(CARILLON, "down", "--all")
            screen = self.until("ENDED 4", "dct8x8", "carillon: ", without="every 0.1 s")
            self.assertLess(screen.index("dct8x8"), screen.index("carillon: "))
            self.tmux("kill-server")
            self.run_(CARILLON, "up", "-d", "-f", self.home / "lab.yaml")

    def test_a_watch_is_neither_stopped_nor_killed_in_its_screen(self):
        # Job control: the shell goes on where the command is stopped.
        self.start([CARILLON, "rings", "-w", "0.1"], 100, 24, first="set -m")
        self.until("every 0.1 s", "dct8x8")
        self.tmux("send-keys", "C-z", "C-\\", "C-c")
        self.until("ENDED 0", without="every 0.1 s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
