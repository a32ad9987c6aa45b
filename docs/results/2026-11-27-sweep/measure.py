"""How much longer a sweep takes than its runs: measure.py ROOT OUT, in bazel-bin; ROOT as for sweep_test.py."""

import importlib.util
import json
import pathlib
import sys
import threading
import time
import unittest

OUT = pathlib.Path(sys.argv.pop()).absolute()
TEST = pathlib.Path(__file__).resolve().parents[3] / "integration_tests/conformance/sweep_test.py"
spec = importlib.util.spec_from_file_location("sweep_test", TEST)
sweep_test = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sweep_test)
sweep_test.LIMIT_S = 900

PLAN = pathlib.Path(__file__).resolve().parent / "two-seconds.yaml"
RUNS = 24
SLOTS = 2
LOOK_S = 0.005


class Runs:
    """When each run began, by its worker's log, and ended, by its result."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {}
        self.began = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.stop.wait(LOOK_S):
            for log in (self.folder / "workers").glob("*.log"):
                lines = sum(line.startswith("runs ") for line in log.read_text().splitlines())
                for _ in range(lines - self.lines.get(log.name, 0)):
                    self.began.append(time.time())
                self.lines[log.name] = lines

    def times(self):
        """Sorted beginnings and ends; which end is whose does not matter to sums."""
        self.stop.set()
        self.thread.join()
        ended = sorted(path.stat().st_mtime for path in (self.folder / "runs").glob("*.json"))
        began = sorted(self.began)
        if not len(ended) == len(began) == RUNS:
            raise AssertionError(f"{len(began)} began and {len(ended)} ended: some ran twice")
        return began, ended


class Measure(sweep_test.SweepTest):
    def measure(self, name, *more, environment=None):
        runs = Runs(self.out)
        start = time.time()
        self.run_("sweep", "faults", PLAN, "--seeds", f"1-{RUNS}", "--out", self.out, "--workers", SLOTS, *more,
                  environment=environment)
        end = time.time()
        began, ended = runs.times()
        of_runs = sum(ended) - sum(began)
        # From the last beginning on, a slot is free once its run has ended.
        tail = sum(ended[-1] - one for one in ended[-SLOTS:])
        before = sum(one - start for one in began[:SLOTS])
        behind = SLOTS * (end - ended[-1])
        free = SLOTS * (end - start) - of_runs
        result = {"name": name, "slots": SLOTS, "runs": RUNS, "wall_s": round(end - start, 2),
                  "sum_of_runs_s": round(of_runs, 2), "mean_run_s": round(of_runs / RUNS, 2),
                  "ratio": round(SLOTS * (end - start) / of_runs, 3),
                  # Of the slots' time without a run, in s.
                  "before_the_first": round(before, 2), "between": round(free - before - tail - behind, 2),
                  "while_the_last_runs": round(tail, 2), "behind_the_last": round(behind, 2),
                  "load_1min": float(pathlib.Path("/proc/loadavg").read_text().split()[0])}
        print(json.dumps(result), flush=True)
        with open(OUT, "a") as file:
            file.write(json.dumps(result) + "\n")

    def test_local(self):
        self.measure("two workers on this machine")

    def test_slurm(self):
        slurm = self.start_slurm()
        port, = sweep_test.free_ports(1)
        self.start_etcd(port)
        self.measure("a Slurm array of two, three slurmd on this machine", "--slurm", "--etcd",
                     f"http://127.0.0.1:{port}", environment=slurm)


if __name__ == "__main__":
    names = ["test_local", "test_slurm"] * 2
    runner = unittest.TextTestRunner()
    sys.exit(not runner.run(unittest.TestSuite(map(Measure, names))).wasSuccessful())
