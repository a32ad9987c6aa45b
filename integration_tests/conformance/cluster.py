"""Real etcds and a real Slurm on loopback, as this user, for tests in Python: Debian's packages, unpacked in a folder."""

import contextlib
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time
import unittest

CARILLON = pathlib.Path.cwd() / "tools/cli/carillon"
LIMIT_S = 120


def free_ports(count):
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until(condition, what):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("not in time: " + what)


class ClusterTest(unittest.TestCase):
    """Each test has a folder, `home`; what it starts ends with it."""

    root = None  # where the packages are

    @classmethod
    def setUpClass(cls):
        cls.libraries = cls.root / "usr/lib/x86_64-linux-gnu"
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.environment = {
            "HOME": cls.place.name, "LC_ALL": "C.UTF-8",
            "LD_LIBRARY_PATH": f"{cls.libraries}/slurm-wlm:{cls.libraries}",
            "PATH": f"{cls.root}/usr/bin:{cls.root}/usr/sbin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.home = pathlib.Path(place.name)

    @classmethod
    def run_(cls, *words, code=0, environment=None):
        done = subprocess.run([str(word) for word in (CARILLON, *words)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env=environment or cls.environment, timeout=LIMIT_S)
        if done.returncode != code:
            raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def start(self, *command, log="log"):
        with open(self.home / log, "a") as output:
            process = subprocess.Popen([str(word) for word in command], cwd=self.home, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, env=self.environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def text(self, log="log"):
        return (self.home / log).read_text()

    def start_etcd(self, port, *more, scheme="http"):
        client, peer = f"{scheme}://127.0.0.1:{port}", "unix://peers:0"
        process = self.start(
            "etcd", "--data-dir=etcd", f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            *more, log="etcd.log")
        until(lambda: "ready to serve client requests" in self.text("etcd.log"), "etcd")
        return process

    def start_slurm(self, *more):
        """slurmctld and three slurmd, n1 to n3; the environment for its commands. `more`: lines of slurm.conf."""
        place = self.home / "slurm"
        (place / "state").mkdir(parents=True)
        environment = dict(self.environment, SLURM_CONF=f"{place}/slurm.conf")
        (place / "munge.key").write_bytes(os.urandom(128))
        (place / "munge.key").chmod(0o600)
        self.home.chmod(0o755)  # munged wants to know that others can reach its socket
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        ports = free_ports(4)
        (place / "slurm.conf").write_text("\n".join([
            "ClusterName=lab", "SlurmctldHost=localhost(127.0.0.1)", f"SlurmctldPort={ports[0]}",
            f"SlurmUser={user}", f"SlurmdUser={user}", "AuthType=auth/munge", f"AuthInfo=socket={place}/munge.sock",
            "CredType=cred/munge", f"PluginDir={self.libraries}/slurm-wlm", "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "SwitchType=switch/none", "MpiDefault=none",
            "JobAcctGatherType=jobacct_gather/none", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core",
            "ReturnToService=2", "SlurmdParameters=config_overrides", f"SlurmctldPidFile={place}/ctld.pid",
            f"SlurmdPidFile={place}/%n.pid", f"SlurmdSpoolDir={place}/%n", f"StateSaveLocation={place}/state",
            f"SlurmctldLogFile={place}/ctld.log", f"SlurmdLogFile={place}/%n.log",
            *(f"NodeName=n{i} NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[i]} CPUs=2" for i in (1, 2, 3)),
            "PartitionName=all Nodes=n[1-3] Default=YES State=UP", *more, ""]))
        (place / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

        def start(*command):
            # munged and slurmd end tidily when asked, and so do the job's steps.
            process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)

        files = {name: f"--{name}-file={place}/munge.{name}" for name in ("key", "log", "pid", "seed")}
        start("munged", "--foreground", f"--socket={place}/munge.sock", *files.values())
        until((place / "munge.sock").exists, "munged")
        start("slurmctld-wlm", "-D", "-i", "-f", place / "slurm.conf")
        for i in (1, 2, 3):
            start("slurmd-wlm", "-D", "-N", f"n{i}", "-f", place / "slurm.conf", "-d", self.root / "usr/sbin/slurmstepd-wlm")

        def idle():
            told = subprocess.run(["sinfo", "--noheader", "--format=%D %T"], env=environment, capture_output=True,
                                  text=True).stdout
            return re.fullmatch(r"3 idle\s*", told)

        until(idle, "three idle nodes")
        return environment

    def make_certificates(self, *authorities, me="IP:127.0.0.1"):
        """CA.pem, and of each CA CA-etcd.pem of this machine and CA-me.pem with the alternative names `me`."""
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.home, check=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)

        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9"]
        for ca in authorities:
            openssl(*new, "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
            for name, names in (("etcd", "IP:127.0.0.1"), ("me", me)):
                openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{ca}-{name}.key", "-out", f"{ca}-{name}.pem",
                        "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-addext", "basicConstraints=critical,CA:FALSE",
                        "-addext", f"subjectAltName={names}")
