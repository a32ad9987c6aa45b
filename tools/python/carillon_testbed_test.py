"""The library: what it drives is driven, and what it says is true."""

import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from carillon_testbed import Gpud, Ledger, LedgerError, NotInTime, Testbed, TestbedError, programs
from carillon_testbed.load import NicLoad

FPGA = """
gpu: {backend: cpu, memory: 64MiB}
devices:
  - {name: fpga0, kind: fpga, size: 64x64, fps: 500, check: true, restart: on_failure}
"""
REASONS = ("overwritten", "device_died", "not_recorded", "not_taken")
SHORT_S = 0.05
NEW_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


def document(**changes):
    events = {"ok": 20, "failed": 0, "lost": 0, "indeterminate": dict.fromkeys(REASONS, 0)}
    return {"events": events, "violations": [], "unreadable": [], "around_first": [],
            "processes": [{"process": "gpud", "overwritten": 3}, {"process": "nic0", "overwritten": 0}]} | changes


class LedgerTest(unittest.TestCase):
    def test_holds_where_every_event_ends_once(self):
        Ledger(document()).expect_nothing_lost()

    def test_shows_the_first_violation_and_what_was_around_it(self):
        step = {"time_ns": 5, "process": "nic0", "pid": 7, "words": "event 3: takes 20"}
        with self.assertRaisesRegex(LedgerError, "(?s)1 violations; the first: twice.*nic0 .pid 7.  event 3: takes 20"):
            Ledger(document(violations=[{"sentence": "twice"}], around_first=[step])).expect_nothing_lost()

    def test_fails_where_nothing_is_proven(self):
        with self.assertRaisesRegex(LedgerError, "no event has ended"):
            Ledger(document(events=document()["events"] | {"ok": 0})).expect_nothing_lost()
        for reason in ("overwritten", "not_recorded", "not_taken"):
            events = document()["events"] | {"indeterminate": dict.fromkeys(REASONS, 0) | {reason: 2}}
            with self.assertRaisesRegex(LedgerError, f"2 events are indeterminate: {reason}"):
                Ledger(document(events=events)).expect_nothing_lost()
        with self.assertRaisesRegex(LedgerError, "records of nic0 are overwritten"):
            Ledger(document(processes=[{"process": "nic0", "overwritten": 1}])).expect_nothing_lost()
        with self.assertRaisesRegex(LedgerError, "not every recorder can be read: x.rec"):
            Ledger(document(unreadable=["x.rec"])).expect_nothing_lost()


class ProgramsTest(unittest.TestCase):
    def test_says_what_builds_messages_that_are_not_there(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "tools/cli/carillon")
            program.parent.mkdir(parents=True)
            program.touch()
            library = pathlib.Path(programs.__file__).parents[1]
            done = subprocess.run([sys.executable, "-P", "-c", "from carillon_testbed import programs; programs.messages()"],
                                  env={"PYTHONPATH": str(library), "CARILLON_BIN_DIR": folder},
                                  capture_output=True, text=True)
            self.assertIn(f"there is no {folder}/proto/admin_pb2.py: bazel build //proto:python makes it", done.stderr)


class NicLoadTest(unittest.TestCase):
    """Against a NIC that says what the test lets it say."""

    def setUp(self):
        self.nic = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.nic.close)
        self.nic.bind(("127.0.0.1", 0))
        self.nic.settimeout(60)
        self.load = NicLoad(lambda: "udp %s:%d tcp 127.0.0.1:1" % self.nic.getsockname())

    def answer(self, text):
        request, client = self.nic.recvfrom(65536)
        self.nic.sendto(request[:8] + text, client)

    # An answer may come too late for a client whose machine is busy.

    def test_counts_good_replies(self):
        answered = 0
        while self.load.replies < 3:
            self.answer(b"STORED\r\n")
            answered += 1
        self.load.stop()
        self.assertEqual(self.load.wrong, [])
        self.assertLessEqual(self.load.replies, answered)

    def test_notes_wrong_bytes(self):
        while not self.load.wrong:
            self.answer(b"STORE\r\n")
        self.load.stop()
        self.assertRegex(self.load.wrong[0], r"set key\d+ .* is answered b'STORE")
        self.assertEqual(self.load.replies, 0)


class GpudTest(unittest.TestCase):
    def test_asks_over_tcp_what_its_certificate_allows(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="carillon-tls-"))
        self.addCleanup(shutil.rmtree, folder)
        for line in [f"req -x509 {NEW_KEY} -subj /CN=ca -keyout ca.key -out ca.pem"] + [
                line for name, names in [("gpud", "IP:127.0.0.1"), ("anna", "URI:carillon:role:viewer"),
                                         ("fritz", "URI:carillon:role:viewer,URI:carillon:role:fault-injector")]
                for line in [f"req {NEW_KEY} -subj /CN={name} -addext subjectAltName={names} -keyout {name}.key -out {name}.csr",
                             f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -copy_extensions copy -out {name}.pem"]]:
            subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)
        tls = "{certificate: %s, key: %s, client_ca: %s}" % tuple(folder / name for name in ["gpud.pem", "gpud.key", "ca.pem"])
        with Testbed.up(f"gpu: {{backend: cpu, memory: 64MiB, listen: '127.0.0.1:0', tls: {tls}}}") as lab:
            def ask(name):
                return Gpud(lab.status().listen, tls_ca=folder / "ca.pem", tls_cert=folder / f"{name}.pem",
                            tls_key=folder / f"{name}.key")
            with ask("anna") as anna, ask("fritz") as fritz:
                self.assertEqual(anna.status().testbed, "lab")
                with self.assertRaisesRegex(TestbedError, "Inject: PERMISSION_DENIED: Faults.Inject needs the role fault-injector; "
                                                          "the certificate of CN=anna carries viewer"):
                    anna.inject("late", process="gpud", action="stop", for_ns=1, after_ns=10**15)
                fritz.inject("late", process="gpud", action="stop", for_ns=1, after_ns=10**15)
                self.assertEqual(list(anna.faults()), ["late"])
                fritz.clear("late")
                self.assertEqual(lab.faults(), {})
            with self.assertRaisesRegex(TestbedError, "No such file"):
                ask("nobody")


class TestbedTest(unittest.TestCase):
    def test_says_what_is_wrong_with_a_topology(self):
        with self.assertRaisesRegex(TestbedError, ":2:.*device"):
            Testbed.up("gpu: {backend: cpu}\ndevice: []\n")
        for path in (pathlib.Path("/nonexistent.yaml"), "/nonexistent.yaml"):
            with self.assertRaisesRegex(TestbedError, "there is no topology file /nonexistent.yaml"):
                Testbed.up(path)

    def test_processes_are_looked_at_stopped_and_restarted(self):
        with Testbed.up(FPGA) as lab:
            self.assertEqual([device.name for device in lab.devices()], ["fpga0"])
            self.assertEqual(lab.status().devices, 1)
            self.assertEqual([ring.device for ring in lab.rings()], ["fpga0"])
            self.assertEqual(lab.status().ekt_used, len(lab.ekt().entries))
            lab.wait_for_progress("fpga0", 10)
            lab.signal("fpga0", signal.SIGSTOP)
            self.assertEqual(pathlib.Path(f"/proc/{lab.process('fpga0')['pid']}/stat").read_text().rpartition(") ")[2][0], "T")
            lab.signal("fpga0", signal.SIGCONT)
            lab.wait_for_progress("fpga0", 10)
            pid = lab.process("fpga0")["pid"]
            lab.restart("fpga0", kill=True)
            lab.wait_for_restart("fpga0")
            self.assertNotEqual(lab.process("fpga0")["pid"], pid)
            lab.wait_for_progress("fpga0", 10)
            lab.ledger().expect_nothing_lost()
            directory = lab.directory
        self.assertFalse(directory.exists())

    def test_what_does_not_come_is_said(self):
        with Testbed.up(FPGA) as lab:
            with self.assertRaisesRegex(TestbedError, "Inject: INVALID_ARGUMENT"):
                lab.inject("No Name", process="fpga0", point="device.ring", action="kill")
            with self.assertRaisesRegex(TypeError, "takes no nht"):
                lab.inject("a", process="fpga0", point="device.ring", action="kill", nht=3)
            with self.assertRaisesRegex(TestbedError, "no fault nobody"):
                lab.wait_for_strike("nobody")
            with self.assertRaisesRegex(TestbedError, "no process fpga7; there are gpud, fpga0"):
                lab.process("fpga7")
            lab.inject("late", process="fpga0", point="device.ring", nth=10**9, action="kill")
            with self.assertRaisesRegex(NotInTime, "late has struck 0 times, after"):
                lab.wait_for_strike("late", bound_s=SHORT_S)
            with self.assertRaisesRegex(NotInTime, "fpga0 has taken .* of 1000000000 events"):
                lab.wait_for_progress("fpga0", 10**9, bound_s=SHORT_S)
            with self.assertRaisesRegex(TestbedError, "there is no device fpga7; there are gpud, fpga0"):
                lab.wait_for_progress("fpga7")
            with self.assertRaisesRegex(TestbedError, "fpga0 is no NIC, but of kind 'fpga'"):
                lab.start_load("fpga0")
            lab.clear("late")
            self.assertEqual(lab.faults(), {})

    def test_strikes_are_seen_while_gpud_is_dead(self):
        with Testbed.up(FPGA) as lab:
            lab.inject("gpud-dies", process="gpud", point="gpud.completed", nth=50, action="kill")
            lab.wait_for_strike("gpud-dies")
            with self.assertRaisesRegex(TestbedError, "GetStatus: "):
                lab.status()

    def test_wrong_bytes_are_an_error_at_the_end(self):
        with self.assertRaisesRegex(TestbedError, "wrong bytes"):
            with Testbed.up("gpu: {backend: cpu}\ndevices: [{name: nic0, kind: nic, udp_port: 0, tcp_port: 0}]") as lab:
                lab.start_load("nic0")
                self.assertGreater(lab.replies("nic0"), 0)
                lab._loads["nic0"].wrong.append("wrong bytes")
        self.assertFalse(lab.directory.exists())

    def test_what_is_kept_tells_the_story(self):
        # As fast as it can: there is always something in flight.
        with Testbed.up(FPGA.replace("fps: 500, ", "")) as lab:
            for _ in range(8):
                lab.wait_for_progress("fpga0", 10)
                kept = lab.keep()
                lab.wait_for_progress("fpga0", 10)  # it has gone on
                try:
                    done = subprocess.run([programs.bin_directory() / "tools/cli/carillon", "postmortem", "--dir", kept],
                                          capture_output=True, text=True)
                    self.assertIn(done.returncode, [0, 1], done.stdout)  # 1: something was in flight
                    self.assertIn("fpga0 (pid", done.stdout)
                    self.assertTrue(pathlib.Path(kept, "supervisor.txt").exists())
                finally:
                    shutil.rmtree(kept)

    def test_a_process_that_ends_meanwhile_leaves_none_stopped(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        with Testbed.up(FPGA) as lab:
            processes = lab.processes
            lab.processes = lambda: processes() | {"gone": {"name": "gone", "pid": gone.pid, "state": "ready"}}
            try:
                shutil.rmtree(lab.keep())
            finally:
                lab.processes = processes
            lab.wait_for_progress("fpga0", 10)


if __name__ == "__main__":
    unittest.main()
