"""Hosts of one testbed by the etcd that one of them starts: own_etcd_test.py ROOT, as sweep_test.py."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import unittest

import cluster
from cluster import CARILLON, LIMIT_S, free_ports, until

ROOT = pathlib.Path(sys.argv.pop(1)).absolute() if len(sys.argv) > 1 else None
ECHO = pathlib.Path.cwd() / "integration_tests/echo_device"
# Judges its own events: it ends with 1 if one is missing, comes twice, or has another answer.
JUDGE = f"[{ECHO}, --pause, 5, --patience, 100000, --resume-within, 60]"


class OwnEtcdTest(cluster.ClusterTest):
    root = ROOT

    def setUp(self):
        super().setUp()
        self.make_certificates("ca", me="URI:carillon:role:link,DNS:a,DNS:b")
        self.file = self.home / "lab.yaml"
        # etcd takes the port before the link's.
        while True:
            [self.port] = free_ports(1)
            with contextlib.suppress(OSError), socket.socket() as before:
                before.bind(("127.0.0.1", self.port - 1))
                break
        self.write_topology()
        self.addCleanup(self.end_what_is_left)

    def write_topology(self, address="127.0.0.1", node=""):
        self.file.write_text(f"""
name: lab
mesh:
  lease: 120
  etcd: own
  tls: {{certificate: ca-me.pem, key: ca-me.key, ca: ca.pem}}
hosts: {{a: , b: {{address: "{address}:{self.port}"{node}}}}}
gpu: {{host: b, backend: cpu, workers: 1, restart: on_failure}}
devices:
  - {{name: echo0, kind: exec, host: a, command: {JUDGE}}}
  - {{name: fpga0, kind: fpga, host: b, fps: 5}}
""")

    def end_what_is_left(self):
        left = self.left_running()
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, [])

    def left_running(self):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                program = os.readlink(process / "exe")
                if str(self.home).encode() in words and \
                        re.search(r"/(carillon|gpud|linkd|echo_device|fpga|etcd)$", program):
                    found.append((int(process.name), program))
        return found

    def at(self, host):
        return dict(self.environment, CARILLON_RUNTIME_DIR=f"{self.home}/{host}")

    def up(self, host, log=None, runtime=None):
        before, self.environment = self.environment, self.at(runtime or host)
        try:
            return self.start(CARILLON, "up", "-f", self.file, "--host", host, "--timeout", "60",
                              log=log or f"{host}.log")
        finally:
            self.environment = before

    def refused(self, host, *, code, runtime=None, **environment):
        return self.run_("up", "-d", "-f", self.file, "--host", host, "--timeout", "1", code=code,
                         environment=dict(self.at(runtime or host), **environment))

    def states(self):
        """No etcd: none."""
        done = subprocess.run([CARILLON, "hosts", "-f", self.file, "-o", "json"], env=self.environment,
                              capture_output=True, text=True, timeout=LIMIT_S)
        return {host["name"]: host["state"] for host in json.loads(done.stdout or "{}").get("hosts", [])}

    def both_up(self):
        until(lambda: self.states() == {"a": "up", "b": "up"}, "both hosts")

    def taken(self):
        done = subprocess.run([CARILLON, "devices", "echo0", "-o", "json"], env=self.at("a"), capture_output=True,
                              text=True, timeout=LIMIT_S)
        return {one["name"]: int(one["value"]) for one in json.loads(done.stdout or "{}").get("counters", [])}

    def goes_on(self):
        before = self.taken().get("taken", 0)
        until(lambda: self.taken().get("taken", 0) >= before + 100, f"events after {before}")
        self.assertEqual(self.taken()["failed"], 0)

    def listed_etcd(self):
        """As host b's ps has it: state, pid, restarts, and by what the last one ended."""
        listed = json.loads(self.run_("ps", "-o", "json", environment=self.at("b")))["testbeds"][0]["processes"]
        [etcd] = [process for process in listed if process["kind"] == "etcd"]
        last = etcd["last_exit"]
        return etcd["state"], etcd["pid"], etcd["restarts"], last and last["signal"]

    def etcd_pid(self):
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "cwd") == f"{self.home}/b/lab/etcd" and \
                        os.readlink(process / "exe").endswith("/etcd"):
                    return int(process.name)
        return None

    def test_the_gpus_host_has_it_as_long_as_it_is_up(self):
        self.assertRegex(self.run_("hosts", "-f", self.file, code=4),
                         r"etcd does not answer.*\n.*etcd: own is on host 'b', as long as that is up")
        a = self.up("a")
        until(lambda: "waits for etcd, which host 'b' has" in self.text("a.log"), "a's word")
        b = self.up("b")
        self.both_up()
        self.goes_on()
        self.assertTrue((self.home / "b/lab/etcd/data/member").is_dir())
        doctor = subprocess.run([CARILLON, "doctor", "-f", self.file], env=self.environment, capture_output=True,
                                text=True, timeout=LIMIT_S).stdout
        self.assertRegex(doctor, rf"ok +etcd +https://127.0.0.1:{self.port - 1}\n")

        # It dies, and another one has what it knew; nothing that runs is the worse for it.
        first = self.etcd_pid()
        self.assertEqual(self.listed_etcd(), ("ready", first, 0, None))
        os.kill(first, signal.SIGKILL)
        until(lambda: self.etcd_pid() not in (None, first), "another etcd")
        self.both_up()
        until(lambda: self.listed_etcd() == ("ready", self.etcd_pid(), 1, signal.SIGKILL), "ps's word of it")
        self.assertRegex(self.run_("ps", environment=self.at("b")),
                         rf"etcd +etcd +ready +{self.etcd_pid()} .*1 \(last: SIGKILL\) "
                         rf"+https://127.0.0.1:{self.port - 1}")
        until(lambda: "etcd etcd ready" in " ".join(self.run_("ps", "-f", self.file).split()), "etcd's word of itself")
        self.assertIn("started again whenever it ends", self.run_("restart", "etcd", code=1, environment=self.at("b")))
        self.assertIn("etcd ended (SIGKILL): another one is started; what runs goes on", self.text("b.log"))
        self.goes_on()

        # All end by one command, and leave nothing.
        self.assertIn("is down on 2 hosts", self.run_("down", "-f", self.file, environment=self.environment))
        self.assertEqual((a.wait(LIMIT_S), b.wait(LIMIT_S)), (0, 0), self.text("a.log") + self.text("b.log"))
        until(lambda: self.left_running() == [], "the end of all")
        self.assertFalse((self.home / "b/lab").exists())
        self.assertNotIn("not everything went well", self.text("a.log") + self.text("b.log"))

    def test_it_goes_with_its_supervisor_and_comes_with_the_next(self):
        b, a = self.up("b"), self.up("a")
        self.both_up()
        b.kill()
        b.wait()
        until(lambda: self.etcd_pid() is None, "the end of etcd")
        until(lambda: "what runs goes on" in self.text("a.log"), "a's word")
        b = self.up("b", log="b2.log")
        # It begins with nothing, and the other host is there again by itself.
        self.both_up()
        self.goes_on()
        self.run_("down", "--name", "lab", environment=self.at("b"))
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b2.log"))
        self.assertIsNone(self.etcd_pid())
        self.assertIsNone(a.poll())
        a.send_signal(signal.SIGTERM)
        a.wait(LIMIT_S)
        until(lambda: self.left_running() == [], "the end of all")

    def test_whatever_is_wrong_is_one_clear_line(self):
        # Not a port of everybody's.
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", self.port - 1))
            other.listen()
            self.assertRegex(
                self.refused("b", code=1),
                rf"etcd: own cannot listen on 127.0.0.1:{self.port - 1}: another process does\n.*give host 'b' another")
        self.assertFalse((self.home / "b/lab").exists())
        # No program.
        self.assertRegex(self.refused("b", code=3, PATH="/nowhere"), r"etcd.*\n.*apt-get install etcd-server")
        self.assertFalse((self.home / "b/lab").exists())
        # Not this machine.
        self.write_topology(address="192.0.2.1")
        self.assertRegex(self.refused("b", code=4), r"cannot listen on 192.0.2.1:\d+: .*\n.*is this host 'b'\?")
        self.write_topology()
        # Nobody has it.
        self.assertRegex(self.refused("a", code=4), r"etcd does not answer.*\n.*host 'b': carillon up --host b there")
        # Slurm has to know where it is.
        self.assertIn("give host 'b' node: NODE", self.run_("up", "--slurm", "-f", self.file, code=2))
        # A second one, and a certificate of nobody's.
        b = self.up("b")
        until(lambda: self.states().get("b") == "up", "b")
        self.assertRegex(self.refused("b", code=1, runtime="second"),
                         rf"host 'b' of testbed 'lab' is up already \(.*, pid {b.pid}\)")
        self.make_certificates("stranger", me="URI:carillon:role:link,DNS:a,DNS:b")
        good = self.file.read_text()
        for right, wrong, trouble in (("ca-me", "stranger-me", "refuses this host's certificate: "),
                                      ("ca: ca", "ca: stranger", "is not to be believed: .*certificate")):
            self.file.write_text(good.replace(right, wrong))
            for said in (self.run_("hosts", "-f", self.file, code=5), self.refused("a", code=5)):
                self.assertRegex(said, rf"etcd on 127.0.0.1:{self.port - 1}, which host 'b' starts, {trouble}")
        self.write_topology()
        self.assertEqual(self.states(), {"a": "not up", "b": "up"})
        self.run_("down", "-f", self.file)
        self.assertEqual(b.wait(LIMIT_S), 0, self.text("b.log"))
        until(lambda: self.left_running() == [], "the end of all")

    def test_slurm_starts_it_where_the_gpus_host_is(self):
        self.write_topology(node=", node: n2")
        prolog = self.home / "prolog.sh"
        prolog.write_text(f'#!/bin/sh\necho "export CARILLON_RUNTIME_DIR={self.home}/$SLURMD_NODENAME"\n')
        prolog.chmod(0o755)
        self.environment = self.start_slurm(f"TaskProlog={prolog}")
        told = self.run_("up", "--slurm", "-f", self.file, "--timeout", "60", environment=self.environment)
        self.assertIn("all up", told)
        self.assertEqual(self.states(), {"a": "up", "b": "up"})
        self.assertTrue((self.home / "n2/lab/etcd").is_dir())
        again = self.run_("up", "--slurm", "-f", self.file, code=1, environment=self.environment)
        self.assertIn("is up already", again)
        self.assertIn("is down on 2 hosts", self.run_("down", "-f", self.file, environment=self.environment))
        until(lambda: subprocess.run(["squeue", "--noheader"], env=self.environment, capture_output=True,
                                     text=True, check=True).stdout == "", "the job's end")
        until(lambda: self.left_running() == [], "the end of all")


if __name__ == "__main__":
    unittest.main(verbosity=2)
