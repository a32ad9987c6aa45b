"""Hosts of one testbed by real etcds and a real Slurm: hosts_by_slurm_test.py ROOT, as sweep_test.py."""

import base64
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
import urllib.request

import cluster
from cluster import CARILLON, LIMIT_S, free_ports, until

ROOT = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 else None
ECHO = pathlib.Path.cwd() / "integration_tests/echo_device"
# Judges its own events: it ends with 1 if one is missing, comes twice, or has another answer.
JUDGE = f"[{ECHO}, --pause, 5, --patience, 100000, --resume-within, 60]"


class HostsTest(cluster.ClusterTest):
    root = ROOT

    def setUp(self):
        super().setUp()
        self.environment = dict(self.environment, CARILLON_RUNTIME_DIR=f"{self.home}/here")
        self.make_certificates("ca", me="URI:carillon:role:link,DNS:a,DNS:b,DNS:c")
        self.file = self.home / "lab.yaml"
        [self.port] = free_ports(1)
        self.addCleanup(self.end_what_is_left)

    def end_what_is_left(self):
        left = self.left_running()
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [])

    def start_http_etcd(self):
        self.etcd = self.start_etcd(self.port)
        self.url = f"http://127.0.0.1:{self.port}"

    def start_https_etcd(self):
        self.etcd = self.start_etcd(
            self.port, "--client-cert-auth", f"--trusted-ca-file={self.home}/ca.pem",
            f"--cert-file={self.home}/ca-etcd.pem", f"--key-file={self.home}/ca-etcd.key", scheme="https")
        self.url = f"https://127.0.0.1:{self.port}"

    def write_topology(self, c=JUDGE):
        self.file.write_text(f"""
name: lab
mesh:
  lease: 120
  etcd: [{self.url}]
  tls: {{certificate: ca-me.pem, key: ca-me.key, ca: ca.pem}}
hosts: {{a: , b: {{node: n2}}, c: }}
gpu: {{host: b, backend: cpu, workers: 1, restart: on_failure}}
devices:
  - {{name: echo0, kind: exec, host: a, command: {JUDGE}}}
  - {{name: fpga0, kind: fpga, host: b, fps: 5}}
  - {{name: echo1, kind: exec, host: c, command: {c}}}
""")

    def start_slurm_of_hosts(self):
        """The nodes are one machine here, and each gets a runtime directory of its own."""
        prolog = self.home / "prolog.sh"
        prolog.write_text(f'#!/bin/sh\necho "export CARILLON_RUNTIME_DIR={self.home}/$SLURMD_NODENAME"\n')
        prolog.chmod(0o755)
        self.environment = self.start_slurm(f"TaskProlog={prolog}")
        self.addCleanup(self.end_jobs)

    def end_jobs(self):
        """Before Slurm ends: it would leave their steps."""
        subprocess.run(["scancel", "--name=carillon-lab"], env=self.environment, check=True)
        until(lambda: self.jobs() == "", "the jobs' end")

    def call(self, *words, code=0):
        return self.run_(*words, code=code, environment=self.environment)

    def hosts(self):
        return {host["name"]: host for host in json.loads(self.call("hosts", "-f", self.file, "-o", "json"))["hosts"]}

    def states(self):
        return {name: host["state"] for name, host in self.hosts().items()}

    def of(self, host):
        """The environment of the node that host `host` is on, and its supervisor."""
        for state in self.home.glob("*/lab/state.json"):
            with contextlib.suppress(ValueError, OSError):
                found = json.loads(state.read_text())
                if found.get("host") == host:
                    return dict(self.environment, CARILLON_RUNTIME_DIR=str(state.parent.parent)), \
                        found["supervisor"]["pid"]
        raise AssertionError("no host " + host)

    def counter(self, host, device, name):
        environment, _ = self.of(host)
        done = subprocess.run([CARILLON, "devices", device, "-o", "json"], env=environment, capture_output=True,
                              text=True, timeout=LIMIT_S)
        counters = json.loads(done.stdout or "{}").get("counters", [])
        return next((int(one["value"]) for one in counters if one["name"] == name), 0)

    def goes_on(self, host, device):
        before = self.counter(host, device, "taken")
        until(lambda: self.counter(host, device, "taken") >= before + 100, f"events of {device} after {before}")
        self.assertEqual(self.counter(host, device, "failed"), 0)

    def left_running(self):
        """Processes of Carillon's that have this test's folder on their command line or in their environment."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                program = os.readlink(process / "exe")
                if str(self.home).encode() in words and re.search(r"/(carillon|gpud|linkd|echo_device|fpga)$", program):
                    found.append((int(process.name), program))
        return found

    def ask_etcd(self, call, **fields):
        text = lambda value: base64.b64encode(value.encode()).decode()
        request = urllib.request.Request(
            f"{self.url}/v3/kv/{call}", json.dumps({key: text(value) for key, value in fields.items()}).encode())
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def keys(self, prefix):
        found = self.ask_etcd("range", key=prefix, range_end=prefix[:-1] + "0")
        return [base64.b64decode(one["key"]).decode() for one in found.get("kvs", [])]

    def doctor(self):
        """What it says of etcd and Slurm; the rest is the machine's."""
        done = subprocess.run([CARILLON, "doctor", "-f", self.file], env=self.environment, capture_output=True,
                              text=True, timeout=LIMIT_S)
        return done.stdout[done.stdout.index(" etcd ") - 8:]

    def jobs(self):
        return subprocess.run(["squeue", "--noheader", "--format=%i %T"], env=self.environment, capture_output=True,
                              text=True, check=True).stdout.strip()

    def up_by_hand(self, host, runtime, log):
        """`up` in the foreground, as on a machine with that runtime directory."""
        before, self.environment = self.environment, dict(
            self.environment, CARILLON_RUNTIME_DIR=str(self.home / runtime))
        try:
            return self.start(CARILLON, "up", "-f", self.file, "--host", host, "--timeout", "60", log=log)
        finally:
            self.environment = before

    def test_three_hosts_by_slurm(self):
        self.start_https_etcd()
        self.write_topology()
        self.start_slurm_of_hosts()
        self.assertEqual(set(self.states().values()), {"not up"})
        begin = time.monotonic()
        told = self.call("up", "--slurm", "-f", self.file, "--timeout", "60")
        print(f"three hosts are up {time.monotonic() - begin:.2f} s after the command; it says:\n{told}", flush=True)
        self.assertEqual(self.states(), {"a": "up", "b": "up", "c": "up"})
        self.assertRegex(self.call("ps", "-f", self.file), r"lab +a +echo0 +exec +ready")
        self.assertRegex(self.call("ps", "-f", self.file), r"lab +b +linkd-c +link +ready")
        self.assertEqual(self.of("b")[0]["CARILLON_RUNTIME_DIR"], f"{self.home}/n2")
        self.goes_on("a", "echo0")
        self.goes_on("c", "echo1")
        self.assertIn("host 'a' of testbed 'lab' is up already", self.call("up", "--slurm", "-f", self.file, code=1))

        self.assertRegex(self.doctor(), r"ok +etcd +https://127.0.0.1:\d+\nok +Slurm +its commands are there\n")

        # A second host of that name, and a host that dies.
        second = dict(self.environment, CARILLON_RUNTIME_DIR=f"{self.home}/second")
        holder = f"pid {self.of('a')[1]}, job 1"
        refused = self.run_("up", "-d", "-f", self.file, "--host", "a", code=1, environment=second)
        self.assertRegex(refused, rf"host 'a' of testbed 'lab' is up already \(.*, {holder}\)")
        os.kill(self.of("c")[1], signal.SIGKILL)
        died = time.monotonic()
        until(lambda: self.states()["c"] == "gone", "the end of c")
        print(f"a killed host is shown as gone after {time.monotonic() - died:.2f} s", flush=True)
        self.assertRegex(self.call("ps", "-f", self.file), r"lab \(gone\) +c")
        # A busy machine may be late with a lease.
        until(lambda: (self.states()["a"], self.states()["b"]) == ("up", "up"), "a and b")
        self.goes_on("a", "echo0")

        # etcd goes, and comes.
        self.etcd.kill()
        self.etcd.wait()
        self.assertIn("etcd does not answer", self.call("hosts", "-f", self.file, code=4))
        until(lambda: "what runs goes on" in self.text("lab.slurm/a.log"), "a's word")
        self.goes_on("a", "echo0")
        self.start_https_etcd()
        until(lambda: "etcd answers again" in self.text("lab.slurm/a.log"), "a's second word")
        self.goes_on("a", "echo0")
        # A busy machine may be late with a lease.
        until(lambda: (self.states()["a"], self.states()["b"]) == ("up", "up"), "a and b")

        self.assertIn("is down on 2 hosts", self.call("down", "-f", self.file))
        self.assertEqual(set(self.states().values()), {"not up"})
        self.assertNotIn("not everything went well", self.text("lab.slurm/a.log") + self.text("lab.slurm/b.log"))
        until(lambda: self.jobs() == "", "the job's end")
        until(lambda: self.left_running() == [], "the end of all")
        self.assertIn("no host of testbed 'lab' is up", self.call("down", "-f", self.file))

    def test_a_host_that_fails_ends_the_job_and_is_named(self):
        self.start_http_etcd()
        self.write_topology(c="[/bin/false]")
        self.start_slurm_of_hosts()
        told = self.call("up", "--slurm", "-f", self.file, "--timeout", "60", code=1)
        self.assertIn("host 'c' failed", told)
        self.assertIn("echo1 ended during bring-up (exit code 1)", told)
        self.assertIn(f"its log: {self.home}/lab.slurm/c.log", told)
        self.assertIn("echo1 ended during bring-up", self.text("lab.slurm/c.log"))
        until(lambda: self.jobs() == "", "the job's end")
        until(lambda: self.left_running() == [], "the end of all")
        self.assertEqual(self.hosts()["c"]["state"], "failed")
        # What is mended comes up, and scancel ends it in order.
        self.write_topology()
        self.call("up", "--slurm", "-f", self.file, "--timeout", "60")
        subprocess.run(["scancel", "--name=carillon-lab"], env=self.environment, check=True)
        until(lambda: set(self.states().values()) == {"not up"}, "the hosts' end")
        until(lambda: self.left_running() == [], "the end of all")

    def test_what_slurm_refuses_is_told(self):
        self.start_http_etcd()
        self.write_topology()
        self.start_slurm_of_hosts()
        self.assertIn("sbatch: ", self.call("up", "--slurm", "-f", self.file, "--", "--partition=none", code=1))
        self.assertEqual(self.keys("/carillon/v1/lab/"), [])

    def test_a_job_that_waits_is_not_forgotten_for_another_one(self):
        self.start_http_etcd()
        self.write_topology()
        self.start_slurm_of_hosts()
        with open(self.home / "first.log", "w") as log:
            first = subprocess.Popen([CARILLON, "up", "--slurm", "-f", self.file, "--", "--hold"], stdout=log,
                                     stderr=log, env=self.environment)
        until(lambda: self.keys("/carillon/v1/lab/") == ["/carillon/v1/lab/job"], "the first job")
        told = self.call("up", "--slurm", "-f", self.file, code=1)
        self.assertRegex(told, r"job 1 is to bring testbed 'lab' up already, says etcd, and is PENDING \(JobHeldUser\)")
        self.assertIn(f"carillon down -f {self.file} ends it", told)
        self.call("down", "-f", self.file)
        until(lambda: self.jobs() == "", "the job's end")
        self.assertEqual(first.wait(LIMIT_S), 1, self.text("first.log"))
        self.assertIn("job 1 has ended, and 0 of 3 hosts were up", self.text("first.log"))
        # One that Slurm has forgotten is not in the way.
        self.ask_etcd("put", key="/carillon/v1/lab/job", value="1")
        self.call("up", "--slurm", "-f", self.file, "--timeout", "60")
        self.call("down", "-f", self.file)
        until(lambda: self.left_running() == [], "the end of all")

    def test_garbage_in_etcd_harms_nobody(self):
        self.start_http_etcd()
        self.write_topology()
        garbage = {"/carillon/v1/lab/hosts/a": "\x1b[2J{", "/carillon/v1/lab/hosts/zz": "{}",
                   "/carillon/v1/lab/last/dd": r'{"place": "\u001b[2Jx", "error": "\u001b[3Jy"}',
                   "/carillon/v1/lab/job": "--user=me",
                   "/carillon/v1/lab/last/c": '{"place": 7}', "/carillon/v1/lab/want": "up",
                   "/carillon/v1/lab/else": "[", "/carillon/v1/lab2/hosts/b": "{}",
                   "/carillon/v1/lab2/want": "down"}
        for key, value in garbage.items():
            self.ask_etcd("put", key=key, value=value)
        b = self.up_by_hand("b", "n2", "b.log")
        until(lambda: self.states()["b"] == "up", "b")
        self.assertEqual(self.states(), {"a": "damaged", "b": "up", "c": "damaged", "dd": "failed", "zz": "damaged"})
        told = self.call("hosts", "-f", self.file)
        self.assertIn("etcd's key /carillon/v1/lab/hosts/a is damaged", told)
        self.assertRegex(told, r"dd +failed +\\x1b\[2Jx .*\\x1b\[3Jy")
        self.assertNotIn("\x1b", told)
        self.assertNotIn("\x1b", self.call("ps", "-f", self.file))
        self.assertRegex(self.call("ps", "-f", self.file), r"lab +b +fpga0 +fpga +ready")
        self.assertIn("etcd's key /carillon/v1/lab/hosts/a is damaged",
                      self.call("up", "-d", "-f", self.file, "--host", "a", code=1))
        # What somebody removes is there again: else another supervisor could take the host.
        self.ask_etcd("deleterange", key="/carillon/v1/lab/hosts/b")
        until(lambda: self.states().get("b") == "up", "b, once more")
        # No supervisor keeps those: `down` takes them away. The other testbed's are nobody's business.
        self.assertIn("'--user=me' is no job's number", self.call("down", "-f", self.file))
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b.log"))
        self.assertEqual(sorted(key for key in self.keys("/carillon/v1/lab/") if "/else" not in key and "/want" not in key), [])
        self.assertEqual(sorted(self.keys("/carillon/v1/lab2/")), ["/carillon/v1/lab2/hosts/b", "/carillon/v1/lab2/want"])

    def test_a_host_that_was_cut_off_gives_way_to_the_next_one(self):
        self.start_http_etcd()
        self.write_topology()
        b = self.up_by_hand("b", "n2", "b.log")
        old = self.up_by_hand("a", "n1", "old.log")
        until(lambda: self.states()["a"] == "up", "a")
        self.goes_on("a", "echo0")
        old.send_signal(signal.SIGSTOP)
        until(lambda: self.states()["a"] == "gone", "the end of its lease")
        new = self.up_by_hand("a", "n3", "new.log")
        until(lambda: self.states()["a"] == "up", "the next a")
        old.send_signal(signal.SIGCONT)
        self.assertEqual(old.wait(LIMIT_S), 1)
        self.assertIn("host 'a' is another supervisor's now", self.text("old.log"))
        self.assertIn(f"pid {new.pid}", self.text("old.log"))
        self.goes_on("a", "echo0")
        # One that is killed can be followed at once, though its lease lives.
        new.kill()
        new.wait()
        third = self.up_by_hand("a", "n4", "third.log")
        until(lambda: "look in with" in self.text("third.log"), "the third a")
        self.call("down", "-f", self.file)
        self.assertEqual(third.wait(LIMIT_S), 0, self.text("third.log"))
        self.assertIn("carillon down was called for all hosts", self.text("third.log"))
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b.log"))

    def test_two_testbeds_of_one_name_are_kept_apart(self):
        self.start_http_etcd()
        self.write_topology()
        b = self.up_by_hand("b", "n2", "b.log")
        until(lambda: self.states()["b"] == "up", "b")
        before = self.ask_etcd("range", key="/carillon/v1/lab/last/", range_end="/carillon/v1/lab/last0")["kvs"]
        mine, self.file = self.file, self.home / "other.yaml"
        self.file.write_text(mine.read_text().replace("c: }", "y: }").replace("host: c", "host: y"))
        refused = rf"another testbed 'lab' is up in etcd {self.url}: its hosts are a, b \(with the GPU\), c, and not " \
            r"a, b \(with the GPU\), y\n.*give this one a name of its own, or use that one's file"
        # A host that only this one has, one that both have and that is up, and one that both have.
        for words in (*(["up", "-d", "--host", host] for host in "yba"), ["up", "--slurm"], ["hosts"], ["ps"], ["down"]):
            with self.subTest(words=words):
                self.assertRegex(self.call(*words, "-f", self.file, code=1), refused)
        self.assertRegex(self.doctor(), r"problem +etcd +another testbed 'lab' .*\n +-> give this one a name of its own")
        # Nothing of them is left, and the first one has heard nothing.
        self.assertEqual(self.keys("/carillon/v1/lab/"), ["/carillon/v1/lab/hosts/b", "/carillon/v1/lab/last/b"])
        self.assertEqual(
            self.ask_etcd("range", key="/carillon/v1/lab/last/", range_end="/carillon/v1/lab/last0")["kvs"], before)
        self.assertIsNone(b.poll())
        self.file = mine
        self.assertEqual(self.states(), {"a": "not up", "b": "up", "c": "not up"})
        self.assertIn("is down on 1 host", self.call("down", "-f", self.file))
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b.log"))
        # Its name is free then.
        self.file = self.home / "other.yaml"
        b = self.up_by_hand("b", "n2", "b2.log")
        until(lambda: self.states() == {"a": "not up", "b": "up", "y": "not up"}, "the other b")
        # So it is when all have been killed, once their leases have ended.
        b.kill()
        b.wait()
        self.file = mine
        until(lambda: self.keys("/carillon/v1/lab/hosts/") == [], "the end of its lease")
        b = self.up_by_hand("b", "n3", "b3.log")
        until(lambda: self.states()["b"] == "up", "b, once more")
        self.call("down", "-f", self.file)
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b3.log"))

    def test_bad_input(self):
        self.url = f"http://127.0.0.1:{self.port}"  # of nobody
        self.write_topology()
        for words, code, said in [
                (["up", "--slurm"], 2, "--slurm needs -f FILE"),
                (["up", "--slurm", "-f", self.file, "--host", "a"], 2, "leave one of them out"),
                (["up", "-f", self.file, "--host", "a", "--", "-N2"], 2, "only --slurm takes some"),
                (["up", "--slurm", "-f", self.file], 4, "etcd does not answer"),
                (["up", "-d", "-f", self.file, "--host", "b"], 4, "etcd does not answer"),
                (["hosts", "-f", self.file], 4, "etcd does not answer"),
                (["down", "-f", self.file], 4, "etcd does not answer"),
                (["ps", "-f", self.home / "none.yaml"], 3, "none.yaml"),
        ]:
            with self.subTest(words=words):
                self.assertIn(said, self.call(*words, code=code))
        self.file.write_text(re.sub(r"  etcd: .*\n", "", self.file.read_text()).replace("node: n2", "address: 10.0.0.6"))
        for words in (["up", "--slurm"], ["hosts"], ["ps"], ["down"]):
            self.assertIn("names no etcd", self.call(*words, "-f", self.file, code=2))

    def test_doctor_says_what_is_missing(self):
        self.url = f"http://127.0.0.1:{self.port}"  # of nobody
        self.write_topology()
        self.environment = dict(self.environment, PATH="/nowhere")
        self.assertRegex(self.doctor(), r"problem +etcd +etcd does not answer: .*\n +-> apt-get install etcd-server")
        self.assertRegex(self.doctor(), r"problem +Slurm +no scancel: up --slurm needs it\n +-> .*slurm-client")


if __name__ == "__main__":
    unittest.main(verbosity=2)
