"""Others' view of memc_gnom_get, for gnom_peers_test.

  gnom_peers.py make   prints lines "set COMMAND" and "get FRAME ANSWER", in hex: Scapy made the
                       frame, and Debian's memcached gave the answer to the same request
  gnom_peers.py check  reads lines "REQUEST REPLY" of frames in hex, and prints for each what Scapy
                       finds wrong with the reply: nothing, or a sentence
"""

import os
import random
import socket
import subprocess
import sys
import tempfile
import time

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

BYTES_OF_FRAME = 8  # memcached's, before each datagram


class Memcached:
    """Debian's memcached on ports of its own choice."""

    def __init__(self, folder):
        ports = os.path.join(folder, "ports")
        user = ["-u", "root"] if os.getuid() == 0 else []
        self.process = subprocess.Popen(
            ["/usr/bin/memcached", "-l", "127.0.0.1", "-p", "-1", "-U", "-1", "-t", "1", *user],
            env={**os.environ, "MEMCACHED_PORT_FILENAME": ports},
        )
        deadline = time.monotonic() + 60
        while not os.path.exists(ports):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("memcached does not start")
            time.sleep(0.01)
        with open(ports, encoding="ascii") as file:
            found = dict(line.split(": ") for line in file)
        self.tcp = socket.create_connection(("127.0.0.1", int(found["TCP INET"])), timeout=60)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.settimeout(60)
        self.udp.connect(("127.0.0.1", int(found["UDP INET"])))

    def store(self, command):
        self.tcp.sendall(command)
        answer = self.tcp.recv(1000)
        if answer != b"STORED\r\n":
            raise RuntimeError(f"{command!r}: {answer!r}")

    def ask(self, number, text):
        frame = number.to_bytes(2, "big") + b"\0\0\0\1\0\0"
        self.udp.send(frame + text)
        answer = self.udp.recv(65536)
        if answer[:BYTES_OF_FRAME] != frame:
            raise RuntimeError(f"{text!r}: an answer of another frame")
        return answer[BYTES_OF_FRAME:]


def make():
    draw = random.Random(4)
    with tempfile.TemporaryDirectory() as folder:
        server = Memcached(folder)
        try:
            keys = []
            for length in range(1, 251):
                key = bytes(draw.randrange(33, 127) for _ in range(length))
                keys.append(key)
                if length % 4 == 0:
                    continue
                value = bytes(draw.randrange(256) for _ in range(draw.choice([0, 2, 40, 100])))
                command = b"set %b %d 0 %d\r\n%b\r\n" % (key, draw.choice([0, 7, 2**32 - 1]), len(value), value)
                server.store(command)
                print("set", command.hex())
            for number, key in enumerate(keys):
                text = b"get " + key + b"\r\n"
                frame = (
                    Ether(src="02:00:00:00:00:%02x" % (number % 256), dst="02:00:00:00:01:00")
                    / IP(src="10.0.%d.9" % number, dst="10.0.0.2", ttl=draw.randrange(1, 255))
                    / UDP(sport=draw.randrange(1, 65536), dport=11211)
                    / (number.to_bytes(2, "big") + b"\0\0\0\1\0\0" + text)
                )
                print("get", bytes(frame).hex(), server.ask(number, text).hex())
        finally:
            server.process.kill()
            server.process.wait()


def fault(request, reply):
    """What is wrong with the frame `reply`, or an empty text."""
    asked = Ether(request)
    got = Ether(reply)
    if UDP not in got:
        return "no UDP over IPv4: " + got.summary()
    # Scapy computes the lengths and checksums again that are taken away here.
    again = Ether(reply)
    del again[IP].len, again[IP].chksum, again[UDP].len, again[UDP].chksum
    if bytes(again) != reply:
        return "Scapy makes other lengths or checksums: " + bytes(again).hex()
    if got[UDP].chksum == 0:
        return "no checksum of UDP"
    there = (asked.src, asked.dst, asked[IP].src, asked[IP].dst, asked[UDP].sport, asked[UDP].dport)
    back = (got.dst, got.src, got[IP].dst, got[IP].src, got[UDP].dport, got[UDP].sport)
    if there != back:
        return f"from {back}, not {there}"
    if bytes(got[UDP].payload)[:2] != bytes(asked[UDP].payload)[:2]:
        return "another request's id"
    return ""


def check():
    for line in sys.stdin:
        request, reply = (bytes.fromhex(word) for word in line.split())
        print(fault(request, reply))


{"make": make, "check": check}[sys.argv[1]]()
