"""Random dialogues with the NIC and with Debian's memcached, over TCP and UDP: the same answers.

What a server may choose is left out: the values of "cas unique", of which each server is told its
own. Times are far away or past, so that no clock decides.
"""

import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import tempfile
import time
import unittest

RUNFILES = pathlib.Path(os.environ.get("CARILLON_TEST_PROGRAMS", "."))
BOUND_S = 60
COMMANDS = 3000

KEYS = ["a", "b", "n", "m", "k" * 250]
NUMBERS = [0, 1, 7, 9, 10, 99, 2**31, 2**32, 2**63, 2**64 - 1, 2**64 - 2]
DELTAS = [str(n) for n in NUMBERS] + [str(2**64), "-1", "x", "", "01", "+1"]
# A month and more is a date. Negative: over at once. (Of more than 32 bits memcached cuts some off.)
TIMES = ["0", "0", "0", "100", "5000", "2592000", "2592001", "-1", "-100", "-2147483648",
         "2147483647", "x", ""]
FLAGS = ["0", "1", "65535", "4294967295", "-1", "x"]


def free_port():
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                continue
            return tcp.getsockname()[1]


class Server:
    """One of the two, over one transport."""

    def __init__(self, port, udp):
        self.udp = udp
        self.cas = {}  # by key
        self.id = 0
        self.socket = socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
        self.socket.settimeout(BOUND_S)
        self.socket.connect(("127.0.0.1", port))
        self.rest = b""

    def ask(self, key, command):
        """The answer to a command; {cas} in it is what this server has said of the key."""
        command = command.replace("{cas}", self.cas.get(key, "1")).encode("latin-1")
        answer = (self.ask_udp(command) if self.udp else self.ask_tcp(command)).decode("latin-1")
        for match in re.finditer(r"^VALUE (\S+) \d+ \d+ (\d+)\r$", answer, re.M):
            self.cas[match[1]] = match[2]
        return re.sub(r"^(VALUE \S+ \d+ \d+) \d+\r$", r"\1 CAS\r", answer, flags=re.M)

    def ask_tcp(self, command):
        # The last command's answer ends what the first ones are answered.
        self.socket.sendall(command + b"mn\r\n")
        while not self.rest.endswith(b"MN\r\n"):
            part = self.socket.recv(65536)
            if not part:
                return self.rest + b"<closed>"
            self.rest += part
        answer, self.rest = self.rest[:-4], b""
        return answer

    def ask_udp(self, command):
        self.id = self.id % 1000 + 1
        self.socket.send(struct.pack(">HHHH", self.id, 0, 1, 0) + command)
        if b"noreply" in command:
            # Nothing comes back but what an error in the line is answered; `mn` comes after it.
            self.socket.send(struct.pack(">HHHH", 2000, 0, 1, 0) + b"mn\r\n")
        parts, total = {}, None
        while total is None or len(parts) < total:
            datagram = self.socket.recv(65536)
            number, sequence, of, _ = struct.unpack(">HHHH", datagram[:8])
            if number == 2000:
                break
            if number != self.id:
                raise AssertionError(f"an answer to {number}, not {self.id}: {datagram}")
            parts[sequence], total = datagram[8:], of
        else:
            if b"noreply" in command:
                self.socket.recv(65536)
        return b"".join(parts[i] for i in sorted(parts))


def some_command(rng, udp):
    """(the key that it is about, the command)"""
    key = rng.choice(KEYS)
    noreply = rng.choice(["", "", "", " noreply"])
    kind = rng.randrange(22)
    if kind < 8:
        verb = rng.choice(["set", "set", "add", "replace", "append", "prepend", "cas"])
        # No minus sign: memcached finds it in what lies behind a number of 64 bits, too.
        value = rng.choice([str(rng.choice(NUMBERS)), str(rng.choice(NUMBERS)) + "  ", "", "text",
                            "x" * rng.randrange(3000), "5x"])
        cas = " " + rng.choice(["{cas}", "{cas}", "1", "99999999999", "x"]) if verb == "cas" else ""
        length = len(value)
        line = f"{verb} {key} {rng.choice(FLAGS[:4])} {rng.choice(TIMES[:11])} {length}{cas}{noreply}"
        if udp and cas == " x":
            return key, "mn\r\n"
        if cas == " x":  # its data would be read as a command
            return key, f"{line}\r\n"
        return key, f"{line}\r\n{value}\r\n"
    if kind < 10:
        return key, f"{rng.choice(['incr', 'decr'])} {key} {rng.choice(DELTAS)}{noreply}\r\n"
    if kind < 13:
        verb = rng.choice(["get", "gets"])
        more = [] if udp else rng.choices(KEYS, k=rng.randrange(3))
        return key, " ".join([verb, key, *more]) + "\r\n"
    if kind < 15:
        return key, f"{rng.choice(['gat', 'gats'])} {rng.choice(TIMES)} {key}\r\n"
    if kind < 16:
        return key, f"touch {key} {rng.choice(TIMES)}{noreply}\r\n"
    if kind < 18:
        return key, f"delete {key}{rng.choice(['', ' 0', ' 5'])}{noreply}\r\n"
    if kind < 19:
        delay = rng.choice(["", " 0", " 5000", " -1", " x", " 2147483647", " 1000000"])
        return key, f"flush_all{delay}{noreply}\r\n"
    if kind < 20:
        return key, rng.choice([f"verbosity 1{noreply}\r\n", "bogus\r\n", "\r\n", "set a b\r\n",
                                "incr a\r\n", "touch a\r\n", "gat 0\r\n", "get\r\n", "cas a 0 0\r\n",
                                "delete\r\n", "gats x a\r\n", f"get {'k' * 251}\r\n",
                                f"touch {'k' * 251} 0\r\n", f"incr {'k' * 251} 1\r\n"])
    # Quiet meta commands, of which only some are answered.
    if udp:
        return key, "mg " + key + " v f s\r\n"
    return key, rng.choice([f"mg {key} v q k\r\n", f"ms {key} 2 q\r\nab\r\n", f"md {key} q\r\n",
                            f"ma {key} q v\r\n", f"mg {key} v f s O1 q\r\n", f"ms {key} S1 q\r\n",
                            f"ms {key} 1 ME q F5\r\nx\r\n", f"ma {key} MD q D3\r\n"])


class DialogueTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(dir="/tmp")
        self.processes = []
        self.addCleanup(self.end)
        self.ports = [free_port(), free_port()]
        ours, theirs = map(str, self.ports)
        home = pathlib.Path(self.place.name)
        self.start(RUNFILES / "gpu_daemon/gpud", "--dir", home / "testbed", "--backend", "cpu")
        self.wait(lambda: any(home.glob("testbed/*control*")), "gpud")
        self.start(RUNFILES / "devices/nic/nic", "--dir", home / "testbed", "--name", "nic0",
                   "--udp-port", ours, "--tcp-port", ours, "--resume-within", "0")
        user = ["-u", "root"] if os.geteuid() == 0 else []
        self.start("memcached", "-l", "127.0.0.1", "-p", theirs, "-U", theirs, "-t", "1",
                   "-o", "no_lru_maintainer", *user)
        for port in self.ports:
            self.wait(lambda: self.listens(port), f"the server at {port}")

    def start(self, *argv):
        with open(pathlib.Path(self.place.name) / f"{len(self.processes)}.log", "wb") as log:
            self.processes.append(subprocess.Popen(list(map(str, argv)), stdout=log, stderr=log))

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        self.place.cleanup()

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def wait(self, ready, what):
        end = time.monotonic() + BOUND_S
        while not ready():
            self.assertLess(time.monotonic(), end, f"{what} does not come up")
            self.assertFalse([p.args for p in self.processes if p.poll() is not None])
            time.sleep(0.02)

    def converse(self, udp, seed):
        rng = random.Random(seed)
        ours, theirs = (Server(port, udp) for port in self.ports)
        for server in ours, theirs:
            self.addCleanup(server.socket.close)
        said = []
        for _ in range(COMMANDS):
            key, command = some_command(rng, udp)
            said.append(command.replace("k" * 250, "K" * 9)[:60])
            commands = [(key, command)]
            if command.startswith("flush_all"):
                # What memcached has not looked at since, a later flush_all with a delay revives.
                commands += [(each, f"get {each}\r\n") for each in KEYS]
            for each in commands:
                self.assertEqual(
                    ours.ask(*each), theirs.ask(*each),
                    f"ours and theirs, after "
                    f"{[s for s in said if f' {key[:9]}' in s.lower() or 'flush' in s][-9:]}")

    def test_over_tcp(self):
        self.converse(udp=False, seed=41)

    def test_over_udp(self):
        self.converse(udp=True, seed=43)


if __name__ == "__main__":
    unittest.main(verbosity=2)
