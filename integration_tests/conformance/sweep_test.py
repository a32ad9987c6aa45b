"""`carillon sweep` with real etcds and a real Slurm: sweep_test.py ROOT, where Debian's packages are unpacked."""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import cluster
from cluster import CARILLON, LIMIT_S, free_ports, until

ROOT = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 else None
FIGURE = ["figure", "fig12", "--quick"]
RUNS = 19  # of FIGURE


def with_another_result(kept):
    """The file of a run whose result is another one, as Carillon would keep it: the hash is FNV-1a."""
    other = dict(kept, result={"another": 1}, seconds=1.5)
    hash_ = 0xcbf29ce484222325
    for byte in json.dumps({key: other[key] for key in ("result", "seconds")}, separators=(",", ":")).encode():
        hash_ = (hash_ ^ byte) * 0x100000001b3 % 2**64
    return dict(other, hash=f"{hash_:016x}")


class SweepTest(cluster.ClusterTest):
    root = ROOT

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = pathlib.Path(cls.place.name) / "alone"
        cls.run_("sim", *FIGURE, "--out", cls.alone)

    def setUp(self):
        super().setUp()
        self.out = self.home / "out"

    def start_sweep(self, *more):
        return self.start(CARILLON, "sweep", *FIGURE, "--out", self.out, *more)

    def begun(self):
        """Which runs workers began, by their logs."""
        return collections.Counter(
            line for log in (self.out / "workers").glob("*.log")
            for line in log.read_text().splitlines() if line.startswith("runs "))

    def assert_same_figure(self):
        """As one process makes it without etcd, to the byte."""
        self.assertEqual((self.out / "fig12.json").read_bytes(), (self.alone / "fig12.json").read_bytes())
        results = lambda folder: {
            path.name: json.loads(path.read_text())["result"] for path in (folder / "runs").glob("*.json")}
        self.assertEqual(results(self.out), results(self.alone))
        self.assertEqual([path.name for path in (self.out / "runs").iterdir() if path.suffix != ".json"], [])

    def left_running(self):
        """Processes that have this test's folder on their command line, and sweeps' own etcds of this test's."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                own_etcd = b"unix://clients:0" in words and (process / "exe").resolve().is_relative_to(ROOT.resolve())
                if str(self.out).encode() in words or own_etcd:
                    found.append(words)
        return found

    def workers(self):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if words[1:4] == [b"sweep", b"work", str(self.out).encode()]:
                    found.append(int(process.name))
        return found

    def test_three_workers_run_each_run_once(self):
        said = self.run_("sweep", *FIGURE, "--out", self.out, "--workers", "3")
        self.assertIn(f"{RUNS} runs, {RUNS} of them kept from before", said)
        self.assertIn("preemption over draining, mean, all", said)
        self.assert_same_figure()
        begun = self.begun()
        self.assertEqual(len(begun), RUNS)
        self.assertEqual(set(begun.values()), {1})
        self.assertEqual(self.left_running(), [])

    def test_a_killed_workers_run_is_another_ones(self):
        sweep = self.start_sweep("--workers", "2")
        first = until(self.workers, "workers")[0]
        until(self.begun, "a run")
        os.kill(first, signal.SIGKILL)
        self.assertEqual(sweep.wait(LIMIT_S), 0, self.text())
        self.assertIn("a worker died (SIGKILL)", self.text())
        self.assert_same_figure()

    def test_a_worker_that_sleeps_longer_than_its_lease_harms_nothing(self):
        sweep = self.start_sweep("--workers", "2")
        both = until(lambda: len(self.workers()) == 2 and self.workers(), "two workers")
        until(lambda: len(self.begun()) > 2, "runs")
        os.kill(both[0], signal.SIGSTOP)
        until(lambda: 2 in self.begun().values() or sweep.poll() is not None, "the other one's taking of its run")
        with contextlib.suppress(ProcessLookupError):  # where that was the last run
            os.kill(both[0], signal.SIGCONT)
        self.assertEqual(sweep.wait(LIMIT_S), 0, self.text())
        self.assertNotIn("died", self.text())
        self.assert_same_figure()

    def test_without_workers_it_ends(self):
        sweep = self.start_sweep("--workers", "2")
        until(self.begun, "a run")
        # Both at once, stopped first: neither may do the other's work.
        both = until(lambda: len(self.workers()) == 2 and self.workers(), "two workers")
        for signal_ in (signal.SIGSTOP, signal.SIGKILL):
            for worker in both:
                os.kill(worker, signal_)
        self.assertEqual(sweep.wait(LIMIT_S), 4, self.text())
        self.assertRegex(self.text(), rf"\d+ of {RUNS} runs, and no worker is left; .*/workers has what they wrote")

    def test_ctrl_c_and_then_the_rest(self):
        sweep = self.start_sweep("--workers", "2")
        until(lambda: list((self.out / "runs").glob("*.json")), "a result")
        sweep.send_signal(signal.SIGINT)
        self.assertEqual(sweep.wait(LIMIT_S), 130, self.text())
        until(lambda: not self.left_running(), "everybody's end")
        done = {path.name for path in (self.out / "runs").glob("*.json")}
        before = sum(self.begun().values())
        self.run_("sweep", *FIGURE, "--out", self.out)
        self.assertEqual(sum(self.begun().values()) - before, RUNS - len(done))
        self.assert_same_figure()

    def test_an_etcd_that_comes_back_loses_nothing(self):
        [port] = free_ports(1)
        etcd = self.start_etcd(port)
        sweep = self.start_sweep("--workers", "2", "--etcd", f"http://127.0.0.1:{port}")
        until(self.begun, "a run")
        etcd.kill()
        etcd.wait()
        time.sleep(1)
        self.start_etcd(port)
        self.assertEqual(sweep.wait(LIMIT_S), 0, self.text())
        self.assert_same_figure()

    def test_a_worker_of_ones_own_joins(self):
        [port] = free_ports(1)
        self.start_etcd(port)
        sweep = self.start_sweep("--workers", "1", "--etcd", f"http://127.0.0.1:{port}")
        until((self.out / "sweep.json").exists, "sweep.json")
        guest = self.start(CARILLON, "sweep", "work", self.out, log="guest")
        self.assertEqual(sweep.wait(LIMIT_S), 0, self.text())
        self.assertEqual(guest.wait(LIMIT_S), 0, self.text("guest"))
        self.assert_same_figure()
        guests = [line for line in self.text("guest").splitlines() if line.startswith("runs ")]
        self.assertEqual(len(guests) + sum(self.begun().values()), RUNS)
        self.assertNotEqual(guests, [])

    def test_mutual_tls(self):
        self.make_certificates("ca", "other")
        [port] = free_ports(1)
        self.start_etcd(port, "--client-cert-auth", f"--trusted-ca-file={self.home}/ca.pem",
                        f"--cert-file={self.home}/ca-etcd.pem", f"--key-file={self.home}/ca-etcd.key", scheme="https")
        etcd = ["--etcd", f"https://127.0.0.1:{port}", "--tls-ca", self.home / "ca.pem"]
        own = ["--tls-cert", self.home / "ca-me.pem", "--tls-key", self.home / "ca-me.key"]
        foreign = ["--tls-cert", self.home / "other-me.pem", "--tls-key", self.home / "other-me.key"]
        self.assertIn("etcd does not answer", self.run_("sweep", *FIGURE, "--out", self.out, *etcd, *foreign, code=4))
        self.assertEqual(list(self.out.glob("workers/*")), [])
        self.run_("sweep", *FIGURE, "--out", self.out, *etcd, *own)
        self.assert_same_figure()

    def write_plan(self, name, **expected):
        plan = self.home / f"{name}.yaml"
        plan.write_text(f"""
plan: {name}
topology:
  gpu: {{backend: cpu, memory: 256MiB}}
  devices: [{{name: fpga0, kind: fpga, size: 64x64, fps: 200, check: true, restart: on_failure}}]
faults: [{{name: dies, target: {{process: fpga0}}, when: {{point: device.ring, nth: 20}}, do: kill}}]
run: {{for: 300ms, settle: 1s}}
expect: {{indeterminate: {{device_died: any}}, restarts: {expected}}}
""")
        return plan

    def test_fault_plans_by_seeds(self):
        holds, fails = self.write_plan("holds", fpga0=1), self.write_plan("fails", fpga0=7)
        sweep = ["sweep", "faults", holds, "--seeds", "5-10", "--out", self.out, "--workers", "2"]
        self.assertRegex(self.run_(*sweep), r"PLAN +OK +VIOLATED\nholds +6 +0\n")
        self.assertEqual(sorted(self.begun()), sorted(f"runs holds, seed {seed}" for seed in range(5, 11)))
        # What was run is not run again.
        sweep.insert(3, fails)
        told = self.run_(*sweep, code=6)
        self.assertRegex(told, r"fails +0 +6\nholds +6 +0\n")
        self.assertIn("what must hold does not hold in 6 runs", told)
        self.assertIn("replay with: ", told)
        self.assertIn(f"{fails} --seed 9", told)
        self.assertEqual(set(self.begun().values()), {1})
        self.assertEqual(len(self.begun()), 12)
        [edited] = (self.out / "runs").glob("fails-9-*.json")
        edited.write_text(edited.read_text().replace('"violated"', "7"))
        self.assertIn(f"{edited} is no document of a fault plan", self.run_(*sweep, code=1))
        self.assertEqual(self.left_running(), [])

    def test_fault_plans_that_cannot_be_swept(self):
        plan = self.write_plan("holds", fpga0=1)
        (self.home / "bare.yaml").write_text("plan: bare\nfaults: [{name: a, target: {process: b}, do: kill}]\n")
        for words, code, said in [
                ([plan, "--seeds", "5-"], 2, "one or two numbers"),
                ([plan, "--seeds", "5-4"], 2, "the first must not be above the last"),
                ([plan, "--seeds", "0-1000000"], 2, "1000000 seeds is the most"),
                ([plan, plan], 2, "two plans have the name holds"),
                ([self.home / "bare.yaml"], 2, "has no topology"),
                ([self.home / "none.yaml"], 3, "none.yaml")]:
            with self.subTest(words=words):
                self.assertIn(said, self.run_("sweep", "faults", *words, "--out", self.out, code=code))
        # One that does not start stops the sweep by its name.
        nowhere = dict(self.environment, CARILLON_RUNTIME_DIR="/proc/none")
        self.assertIn("holds, seed 1: carillon fault run", self.run_(
            "sweep", "faults", plan, "--seeds", "1", "--out", self.out, code=4, environment=nowhere))

    def test_slurm_runs_the_workers(self):
        slurm = self.start_slurm()
        [port] = free_ports(1)
        self.start_etcd(port)
        self.run_("sweep", *FIGURE, "--out", self.out, "--slurm", "--workers", "3", "--etcd",
                  f"http://127.0.0.1:{port}", environment=slurm)
        self.assert_same_figure()
        begun = self.begun()
        self.assertEqual((len(begun), set(begun.values())), (RUNS, {1}))
        self.assertEqual({path.name for path in (self.out / "workers").iterdir()}, {"1.log", "2.log", "3.log"})

    def test_what_slurm_refuses_is_told(self):
        slurm = self.start_slurm()
        [port] = free_ports(1)
        self.start_etcd(port)
        self.assertIn("sbatch: ", self.run_(
            "sweep", *FIGURE, "--out", self.out, "--slurm", "--sbatch=--partition=none", "--etcd",
            f"http://127.0.0.1:{port}", code=1, environment=slurm))

    def test_a_cancelled_slurm_job_is_no_success(self):
        slurm = self.start_slurm()
        [port] = free_ports(1)
        self.start_etcd(port)
        self.environment = slurm
        sweep = self.start_sweep("--slurm", "--workers", "2", "--etcd", f"http://127.0.0.1:{port}")
        until(self.begun, "a run")
        subprocess.run(["scancel", "--name=carillon-sweep"], env=slurm, check=True)
        self.assertEqual(sweep.wait(LIMIT_S), 4, self.text())
        self.assertIn("no worker is left", self.text())

    def test_bad_input(self):
        out = ["--out", self.out]
        for words, code, said in [
                (["figure", *out], 2, "no figure is given"),
                (["figure", "fig12"], 2, "--out DIR is missing"),
                (["figure", "fig999", *out], 3, "there is no figure 'fig999'"),
                (["figure", "fig12", *out, "--slurm"], 2, "--slurm needs --etcd"),
                (["figure", "fig12", *out, "--sbatch=x"], 2, "--sbatch needs --slurm"),
                (["figure", "fig12", *out, "--etcd", "10.0.0.1"], 2, "10.0.0.1 is no address of an etcd"),
                (["figure", "fig12", *out, "--etcd", "http://127.0.0.1:1"], 4, "etcd does not answer: http://127.0.0.1:1"),
                (["figure", "fig12", *out, "--etcd", "https://127.0.0.1:1", "--tls-ca", "none.pem"], 2,
                 "missing: --tls-cert, --tls-key"),
                (["figure", "fig12", *out, "--tls-ca", "none.pem"], 2, "are for an --etcd of https://"),
                (["figure", "fig12", *out, "--slurm", "--etcd", "unix:a"], 2, "cannot open a unix: etcd"),
                (["figure", "fig12", "--out", "/proc/none"], 5, "/proc/none"),
                (["work", self.out], 3, f"cannot read {self.out}/sweep.json"),
        ]:
            with self.subTest(words=words):
                self.assertIn(said, self.run_("sweep", *words, code=code))
        (self.out).mkdir(exist_ok=True)
        (self.out / "sweep.json").write_text("{}")
        self.assertIn("is no file of a sweep", self.run_("sweep", "work", self.out, code=2))

    def test_two_sweeps_in_one_folder(self):
        sweep = self.start_sweep("--workers", "1")
        until(self.begun, "a run")
        self.assertIn(f"another carillon sweep works on {self.out}",
                      self.run_("sweep", *FIGURE, "--out", self.out, code=1))
        self.assertEqual(sweep.wait(LIMIT_S), 0, self.text())
        self.assert_same_figure()

    def test_another_result_of_a_run_ends_the_sweep(self):
        sweep = self.start_sweep("--workers", "1")
        planted = 0
        while sweep.poll() is None:
            runs = sum(self.begun().values())
            log = self.out / "workers/1.log"
            title = log.read_text().splitlines()[-1].removeprefix("runs ") if runs else ""
            [worker] = self.workers() or [None]
            if worker and title:
                # What another worker would have kept of the run that this one is at.
                with contextlib.suppress(ProcessLookupError):  # it is over
                    os.kill(worker, signal.SIGSTOP)
                [first] = (self.alone / "runs").glob(f"{title.replace('/', '_')}-*.json")
                other = with_another_result(json.loads(first.read_text()))
                with contextlib.suppress(FileExistsError), open(self.out / "runs" / first.name, "x") as file:
                    json.dump(other, file)
                    planted += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGCONT)
            until(lambda: sum(self.begun().values()) > runs or sweep.poll() is not None, "the next run")
        self.assertEqual(sweep.returncode, 6, f"{planted} planted\n" + self.text())
        self.assertRegex(self.text(), "two runs of .* have different results")

    def test_a_full_folder_is_named_and_what_was_done_is_kept(self):
        for namespace in (["--mount"], ["--map-root-user", "--mount"]):
            if subprocess.run(["unshare", *namespace, "mount", "-t", "tmpfs", "none", "/mnt"],
                              stderr=subprocess.DEVNULL).returncode == 0:
                break
        else:
            subprocess.run(["bazel/skip.sh", "a mount namespace needs root or user namespaces"], check=True)
            self.skipTest("no mount namespace")
        self.out.mkdir()
        # Too small for a page of each run.
        done = subprocess.run(
            ["unshare", *namespace, "sh", "-uc", """
mount -t tmpfs -o size=64k full "$0" || exit 99
"$@"
code=$?
ls -i "$0"/runs/*.json > "$0".kept
mount -o remount,size=64m "$0" || exit 99
"$@" > "$0".again 2>&1 || exit 98
ls -i "$0"/runs/*.json > "$0".all
cp -r "$0" "$0".full
exit $code""", self.out, CARILLON, "sweep", *FIGURE, "--out", self.out, "--workers", "2"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment, timeout=LIMIT_S)
        kept, all_ = (set(self.text(f"out.{when}").splitlines()) for when in ("kept", "all"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(
            f"carillon: {self.out} is full: free space and repeat the command; "
            f"{len(kept)} of {RUNS} results are kept (", done.stdout)
        self.assertGreater(len(kept), 0)
        # They are the same files still, and the others have come.
        self.assertLess(kept, all_)
        self.out = self.home / "out.full"
        self.assert_same_figure()

    def test_a_worker_of_another_build_is_refused(self):
        [port] = free_ports(1)
        self.start_etcd(port)
        sweep = self.start_sweep("--workers", "1", "--etcd", f"http://127.0.0.1:{port}")
        until(self.begun, "a run")
        sweep.kill()
        file = self.out / "sweep.json"
        file.write_text(re.sub(r'"runs": "[0-9a-f]+"', '"runs": "0"', file.read_text()))
        self.assertIn("is of another build of carillon", self.run_("sweep", "work", self.out, code=1))

    def test_without_etcd_it_says_what_to_install(self):
        self.assertIn("apt-get install etcd-server",
                      self.run_("sweep", *FIGURE, "--out", self.out, code=3, environment={"PATH": "/nowhere"}))


if __name__ == "__main__":
    unittest.main(verbosity=2)
