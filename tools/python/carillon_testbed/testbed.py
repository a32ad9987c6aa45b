"""A testbed that `carillon up` has brought up, with a board of faults and flight recorders."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from . import programs
from .gpud import Gpud, TestbedError
from .ledger import Ledger
from .load import NicLoad

_NAME = "lab"
# Records of each process's flight recorder, where the topology has no `record`.
_RECORDS = 262144
# How long anything may take before it counts as hanging.
BOUND_S = 60
_LOOK_AGAIN_S = 0.01


class NotInTime(TestbedError):
    """What was waited for has not come."""


def is_stopped(pid):
    """Whether no thread of the process runs."""
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            state = task.read_text().rpartition(") ")[2][0]
        except OSError:  # it has ended
            continue
        if state not in "TtZX":
            return False
    return True


def go_on(pid):
    """Lets a stopped process go on, if it is still there."""
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def how_to_read(kept):
    """Bazel packs its folder of outputs and removes the folder when the test ends."""
    target = os.environ.get("TEST_TARGET")
    if target is None or "TEST_UNDECLARED_OUTPUTS_DIR" not in os.environ:
        return f"carillon postmortem --dir {kept}"
    test = target.lstrip("/@").replace(":", "/")
    return f"unzip bazel-testlogs/{test}/test.outputs/outputs.zip, then carillon postmortem --dir {kept.name}"


class Testbed:
    """Made by up(). For one thread, whose end ends the testbed."""
    __test__ = False  # for pytest

    @classmethod
    def up(cls, topology, timeout_s=BOUND_S):
        """Brings up a topology (docs/cli.md): a path, or its text. Returns when all processes are ready. TestbedError with what
        `carillon up` says."""
        return cls(topology, timeout_s)

    def __init__(self, topology, timeout_s):
        self._bin = programs.bin_directory()
        self._runtime = pathlib.Path(tempfile.mkdtemp(prefix="carillon-test-", dir="/tmp"))
        self.directory = self._runtime / _NAME
        self._loads = {}
        self._environment = dict(os.environ, CARILLON_RUNTIME_DIR=str(self._runtime), CARILLON_BIN_DIR=str(self._bin),
                                 CARILLON_RECORD=str(_RECORDS))
        if isinstance(topology, str) and "\n" not in topology and topology.endswith((".yaml", ".yml")):
            topology = pathlib.Path(topology)
        if isinstance(topology, os.PathLike) and not pathlib.Path(topology).is_file():
            shutil.rmtree(self._runtime)
            raise TestbedError(f"there is no topology file {topology}")
        if not isinstance(topology, os.PathLike):
            text, topology = topology, self._runtime / "topology.yaml"
            topology.write_text(text + "\n")
        self._said = self._runtime / "supervisor.txt"
        with open(self._said, "wb") as said:
            # Killed when this process is; its children go with it.
            self._supervisor = subprocess.Popen(
                ["/usr/bin/setpriv", "--pdeathsig", "KILL", "--", self._program(), "up", "--file", str(topology), "--name", _NAME,
                 "--faults", "--timeout", str(timeout_s)],
                env=self._environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        self._gpud = Gpud._on_socket(f"{self.directory}/operator.sock")
        try:
            # Its own time limits end it.
            while self._state().get("phase") != "up":
                if self._supervisor.poll() is not None:
                    raise TestbedError(self._said.read_text())
                time.sleep(_LOOK_AGAIN_S)
        except BaseException:
            self.down()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None and not issubclass(kind, KeyboardInterrupt):
            try:
                print(f"kept: {how_to_read(self.keep())}")
            except (OSError, TestbedError) as problem:
                print(f"could not keep what tells why: {problem}")
        self.down()

    # --- Looking.

    def processes(self):
        """{name: how the supervisor sees it}: pid, state, restarts, note, ... as in state.json."""
        return {process["name"]: process for process in self._state().get("processes", [])}

    def process(self, name):
        processes = self.processes()
        if name not in processes:
            raise TestbedError(f"there is no process {name}; there are {', '.join(processes)}")
        return processes[name]

    def status(self):
        """gpud's word, as the messages of proto/admin.proto; TestbedError when it does not answer."""
        return self._gpud.status()

    def devices(self):
        return self._gpud.devices()

    def ekt(self):
        return self._gpud.ekt()

    def rings(self):
        return self._gpud.rings()

    # --- Driving.

    def restart(self, name, kill=False):
        """As `carillon restart`; ready again when it returns."""
        self._run("restart", name, *(["--kill"] if kill else []))

    def signal(self, name, number):
        """SIGSTOP: returns when it has stopped."""
        process = self.process(name)
        if process["state"] == "ended":
            raise TestbedError(f"{name} does not run")
        os.kill(process["pid"], number)
        if number == signal.SIGSTOP:
            self._wait(lambda: is_stopped(process["pid"]), BOUND_S, lambda: f"{name} runs")

    def wait_for_restart(self, name, times=1, bound_s=BOUND_S):
        """Until the supervisor has started it again so often and it is ready."""
        def is_back():
            process = self.process(name)
            return process["restarts"] >= times and process["state"] == "ready"
        self._wait(is_back, bound_s, lambda: f"{name} is {self.process(name)['state']}, "
                                             f"restarted {self.process(name)['restarts']} times")

    def wait_for_progress(self, device, events=1, bound_s=BOUND_S):
        """Until the device has taken so many more completions than now. TestbedError at once for a device that there is not, or
        that has ended and does not come back."""
        seen = {}
        taken = 0
        known = [*self.processes(), *(attached.name for attached in self._gpud.devices())]
        if device not in known:
            raise TestbedError(f"there is no device {device}; there are {', '.join(dict.fromkeys(known))}")

        def has_taken():
            nonlocal taken
            process = self.processes().get(device, {})
            if process.get("state") == "ended" and (process["restart"] == "never" or process["given_up"]):
                raise TestbedError(f"{device} has ended: its log is {process['log']}")
            try:
                rings = self.rings()
            except TestbedError:  # gpud is on its way back
                return False
            for ring in rings:
                if ring.device == device:
                    key = (ring.event_id, ring.generation)
                    taken += ring.consumed - seen.get(key, ring.consumed)
                    seen[key] = ring.consumed
            return taken >= events
        self._wait(has_taken, bound_s, lambda: f"{device} has taken {taken} of {events} events")

    def start_load(self, nic):
        """A memcached client that checks every byte and finds the NIC again after its restart; returns when it is served."""
        kind = self.process(nic)["kind"]
        if kind != "nic":
            raise TestbedError(f"{nic} is no NIC, but of kind '{kind}'")
        if nic in self._loads:
            raise TestbedError(f"{nic} has its load already")

        def note():
            process = self.processes().get(nic, {})
            return process.get("note") if process.get("state") == "ready" else None
        load = self._loads[nic] = NicLoad(note)
        self._wait(lambda: load.replies > 0, BOUND_S, lambda: f"{nic} does not answer")

    def replies(self, nic):
        """Good replies to its load so far."""
        return self._loads[nic].replies

    # --- Breaking.

    def inject(self, name, **fault):
        """As Gpud.inject()."""
        self._gpud.inject(name, **fault)

    def clear(self, name=""):
        """Takes a fault off the board, or all."""
        self._gpud.clear(name)

    def faults(self):
        """{name: its entry}: fault, passages, struck, spent."""
        return self._gpud.faults()

    def strikes(self):
        """What has struck, by time: time_ns, fault_id, pid, passage."""
        return self._gpud.strikes()

    def struck(self, name):
        """How often the fault has struck."""
        faults = self.faults()
        if name not in faults:
            raise TestbedError(f"no fault {name} was injected")
        return faults[name].struck

    def wait_for_strike(self, name, times=1, bound_s=BOUND_S):
        """Also while gpud is dead: the board outlives it."""
        entry = None

        def has_struck():
            nonlocal entry
            listed = json.loads(self._run("fault", "list", "--name", _NAME, "-o", "json"))["faults"]
            entry = next((fault for fault in listed if fault["name"] == name), None)
            if entry is None:
                raise TestbedError(f"no fault {name} was injected")
            return entry["struck"] >= times
        self._wait(has_struck, bound_s, lambda: f"{name} has struck {entry['struck']} times, after {entry['passages']} passages")

    # --- Judging.

    def ledger(self):
        """What the flight recorders prove."""
        # 1: indeterminate, 6: violated.
        document = json.loads(self._run("postmortem", "--name", _NAME, "-o", "json", codes=(0, 1, 6)))
        if "verdict" not in document:
            raise TestbedError(f"carillon postmortem: {document['error']['message']}")
        return Ledger(document)

    def keep(self):
        """Stops all processes for a moment and copies recorders, logs, board and state into a new folder (below
        $TEST_UNDECLARED_OUTPUTS_DIR, which Bazel keeps, or /tmp), which it returns. `carillon postmortem --dir` reads it."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="carillon-kept-", dir=os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR", "/tmp")))
        # Copies of recordings that go on meanwhile would contradict one another. gpud first: what a device sees later, gpud's
        # recording has.
        stopped = []
        try:
            for process in self.processes().values():
                if process["state"] != "ended" and not is_stopped(process["pid"]):
                    try:
                        os.kill(process["pid"], signal.SIGSTOP)
                    except ProcessLookupError:  # it has ended meanwhile
                        continue
                    stopped.append(process["pid"])
                    self._wait(lambda: is_stopped(process["pid"]), BOUND_S, lambda: f"{process['name']} runs")
            for name in ["recorder", "logs"]:
                if (self.directory / name).is_dir():
                    shutil.copytree(self.directory / name, folder / name)
            for file in [self.directory / "state.json", self.directory / "faults", self._said]:
                if file.is_file():
                    shutil.copy(file, folder)
        finally:
            for pid in stopped:
                go_on(pid)
        return folder

    def down(self):
        """Takes it down; nothing is left. TestbedError when something is, or a load was answered wrong bytes."""
        if self._supervisor is None:
            return
        supervisor, self._supervisor = self._supervisor, None
        wrong = []
        for load in self._loads.values():
            load.stop()
            wrong += load.wrong
        self._gpud.close()
        came_up = self._state().get("phase") == "up"
        for process in self.processes().values():
            # What is stopped cannot end in order.
            if process["state"] != "ended":
                go_on(process["pid"])
        supervisor.terminate()
        try:
            supervisor.wait(BOUND_S)
        except subprocess.TimeoutExpired:
            supervisor.kill()
            supervisor.wait()
            wrong.append("the supervisor did not end")
        if came_up and self.directory.exists():
            wrong.append(f"{self.directory} was left over: {self._said.read_text()}")
        shutil.rmtree(self._runtime, ignore_errors=True)
        if wrong:
            raise TestbedError("\n".join(wrong[:10]))

    # --- Inside.

    def _program(self):
        return str(self._bin / "tools/cli/carillon")

    def _state(self):
        # It is replaced in one step.
        try:
            return json.loads((self.directory / "state.json").read_text())
        except FileNotFoundError:
            return {}

    def _run(self, *words, codes=(0,)):
        done = subprocess.run([self._program(), *words], env=self._environment, capture_output=True, text=True, timeout=2 * BOUND_S)
        if done.returncode not in codes:
            raise TestbedError(f"carillon {' '.join(words)} ends with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    @staticmethod
    def _wait(state, bound_s, found):
        end = time.monotonic() + bound_s
        while not state():
            if time.monotonic() >= end:
                raise NotInTime(f"{found()} after {bound_s} s")
            time.sleep(_LOOK_AGAIN_S)
