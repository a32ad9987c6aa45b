#!/usr/bin/env python3
"""Floods that no gRPC client makes, byte by byte, against a real gpud: on its
sockets, and over TCP with a viewer's certificate. None acknowledges
gpud's SETTINGS. gpud must live, stay below MAX_MIB, and answer honest calls
meanwhile, on its operators' socket and over TCP. How long those take is printed,
and judges nothing.

    raw_http2_test.py GPUD
"""

import multiprocessing
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

FLOOD_S = 2
CONNECTIONS = 16
MAX_MIB = 256
PATIENCE_S = 60

HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, DATA = 1, 3, 4, 8, 0
END_STREAM = END_HEADERS_ACK = 1
END_HEADERS = 4


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def field(name, value):
    return b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value


def head(method):
    """The header block of a connection's first call; the later ones are SAME."""
    return b"\x83\x86" + b"".join(
        field(name, value) for name, value in (
            (b":path", method.encode()), (b":authority", b"x"), (b"te", b"trailers"),
            (b"content-type", b"application/grpc")))


SAME = b"\x83\x86\xc1\xc0\xbf\xbe"
GET_STATUS = "/carillon.v1.Admin/GetStatus"


class Http2:
    """A connection that has sent preface and SETTINGS, and reads nothing."""

    def __init__(self, where):
        self.socket = where()
        self.streams = 0
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) +
                  frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))

    def send(self, data):
        self.socket.sendall(data)

    def call(self, method=GET_STATUS):
        """The frame that begins one more call, and its stream."""
        stream = 2 * self.streams + 1
        self.streams += 1
        return frame(HEADERS, END_HEADERS, stream, head(method) if stream == 1 else SAME), stream

    def message(self, method, message):
        begin, stream = self.call(method)
        data = b"\0" + struct.pack(">I", len(message)) + message
        frames = [frame(DATA, 0, stream, data[at:at + 16384]) for at in range(0, len(data), 16384)]
        return begin + b"".join(frames) + frame(DATA, END_STREAM, stream)

    def read_frame(self):
        def exactly(n):
            got = b""
            while len(got) < n:
                more = self.socket.recv(n - len(got))
                if not more:
                    raise OSError("closed")
                got += more
            return got
        header = exactly(9)
        return (header[3], header[4], struct.unpack(">I", header[5:])[0],
                exactly(struct.unpack(">I", b"\0" + header[:3])[0]))

    def answer(self, stream):
        """Acknowledges SETTINGS; returns all header blocks of the stream's answer."""
        blocks = b""
        while True:
            kind, flags, of, body = self.read_frame()
            if kind == SETTINGS and not flags:
                self.send(frame(SETTINGS, END_HEADERS_ACK, 0))
            if of == stream and kind == HEADERS:
                blocks += body
                if flags & END_STREAM:
                    return blocks
            if of == stream and kind == RST_STREAM:
                raise OSError("reset")


# --- Floods. Each plays until the connection ends or time is over, and returns
# --- nothing; `over()` says that it is.


def streams(http, over):
    """Calls without a message."""
    while not over():
        http.send(b"".join(http.call()[0] for _ in range(400)))


def acknowledged(http, over):
    """The same behind an acknowledgement, which is early unless gpud's SETTINGS were sent by then:
    then gpud ends the connection; else they hold."""
    http.send(frame(SETTINGS, END_HEADERS_ACK, 0))
    streams(http, over)


def resets(http, over):
    """Calls that are reset at once."""
    while not over():
        frames = [http.call() for _ in range(400)]
        http.send(b"".join(begin + frame(RST_STREAM, 0, stream, struct.pack(">I", 8))
                           for begin, stream in frames))


def endless(http, over):
    """One message of 4 GB."""
    begin, stream = http.call()
    http.send(begin + frame(DATA, 0, stream, b"\0\xff\xff\xff\xff"))
    while not over():
        http.send(frame(DATA, 0, stream, bytes(16384)) * 16)


def many_endless(http, over):
    """60 messages of 4 GB at a time."""
    calls = [http.call() for _ in range(60)]
    http.send(b"".join(begin + frame(DATA, 0, stream, b"\0\xff\xff\xff\xff")
                       for begin, stream in calls))
    while not over():
        http.send(b"".join(frame(DATA, 0, stream, bytes(16384)) for _, stream in calls))


def no_message(http, over):
    """Calls that end before their message."""
    while not over():
        http.send(b"".join(begin + frame(DATA, END_STREAM, stream)
                           for begin, stream in (http.call() for _ in range(10))))


def unpacks(method, tag, size):
    """Legal messages of empty fields, each of which unpacks to many bytes."""
    def flood(http, over):
        while not over():
            http.send(http.message(method, bytes([tag << 3 | 2, 0]) * (size // 2)))
    return flood


FLOODS = {
    "streams": streams,
    "acknowledged": acknowledged,
    "resets": resets,
    "endless": endless,
    "many endless": many_endless,
    "no message": no_message,
    "30 M bindings": unpacks("/carillon.v1.Events/RegisterEvent", 9, 39_000_000),
    "60,000 bindings": unpacks("/carillon.v1.Events/RegisterEvent", 9, 120_000),
    "20 M kernels": unpacks("/carillon.v1.Admin/RegisterModule", 3, 39_000_000),
    "8,000 counters": unpacks("/carillon.v1.Devices/Attach", 5, 16_000),
}


class Gpud:
    def __init__(self, program, folder):
        self.folder = folder
        ca(folder)
        self.process = subprocess.Popen(
            [program, "--dir", folder + "/testbed", "--backend", "cpu", "--workers", "1",
             "--memory", "64MiB", "--listen", "127.0.0.1:0", "--tls-cert", folder + "/gpud.pem",
             "--tls-key", folder + "/gpud.key", "--tls-client-ca", folder + "/ca.pem"],
            stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.port = None
        threading.Thread(target=self._read, daemon=True).start()
        give_up = time.monotonic() + PATIENCE_S
        while self.port is None and self.process.poll() is None and time.monotonic() < give_up:
            time.sleep(0.01)
        assert self.port, f"gpud does not listen: {self.lines}"
        self.ends = {"control.sock": lambda: self.by_socket("control.sock"),
                     "operator.sock": lambda: self.by_socket("operator.sock"), "tcp": self.by_tcp}

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"listens on 127.0.0.1:(\d+)", line):
                self.port = int(found[1])

    def by_socket(self, name):
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(PATIENCE_S)
        end.connect(self.folder + "/testbed/" + name)
        return end

    def by_tcp(self):
        context = ssl.create_default_context(cafile=self.folder + "/ca.pem")
        context.check_hostname = False
        context.load_cert_chain(self.folder + "/anna.pem", self.folder + "/anna.key")
        context.set_alpn_protocols(["h2"])
        return context.wrap_socket(
            socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S))

    def peak_mib(self):
        """The most memory that it has had since forget_peak()."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return max((int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")),
                       default=0)

    def forget_peak(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as clear:
            clear.write("5")


def ca(folder):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *key, "-days", "9", "-subj", "/CN=ca", "-keyout", "ca.key", "-out",
            "ca.pem")
    for name, other in (("gpud", "IP:127.0.0.1"), ("anna", "URI:carillon:role:viewer")):
        openssl("req", *key, "-subj", f"/CN={name}", "-addext", f"subjectAltName={other}",
                "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days",
                "9", "-CAcreateserial", "-copy_extensions", "copy", "-out", f"{name}.pem")


def status(gpud, end):
    """The seconds that an honest GetStatus takes, with all attempts and connecting."""
    began = time.monotonic()
    while True:
        try:
            http = Http2(gpud.ends[end])
            http.send(http.message(GET_STATUS, b""))
            blocks = http.answer(1)
            http.socket.close()
            # A new connection has no table yet, so the trailer is spelt out. A
            # gpud whose threads are all busy says so at once.
            if b"grpc-status\x010" in blocks:
                return time.monotonic() - began
            assert b"Threadpool Exhausted" in blocks, blocks
            time.sleep(0.01)
        except OSError:
            if time.monotonic() - began > PATIENCE_S:
                raise


def flood(gpud, end, name):
    gpud.forget_peak()
    # Forked before there are threads.
    callers = [Caller(gpud, honest) for honest in ("operator.sock", "tcp")]
    until = time.monotonic() + FLOOD_S
    refusals = []

    def play():
        while time.monotonic() < until:
            try:
                http = Http2(gpud.ends[end])
                # OpenSSL's connections are one thread's: over TCP nobody reads.
                if end != "tcp":
                    threading.Thread(target=drain, args=(http.socket,), daemon=True).start()
                FLOODS[name](http, lambda: time.monotonic() > until)
            except OSError:
                refusals.append(time.monotonic())

    def drain(end):
        try:
            while end.recv(65536):
                pass
        except (OSError, ValueError):
            pass

    threads = [threading.Thread(target=play, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    # Far above the limit, this test would be the end of the machine.
    while (time.monotonic() < until + 0.5 and gpud.peak_mib() < 2048 and
           gpud.process.poll() is None):
        time.sleep(0.01)
    peak = gpud.peak_mib()
    assert gpud.process.poll() is None, f"{name}: gpud has ended: {gpud.process.returncode}"
    answers = [caller.end() for caller in callers]
    print(f"{end:14}{name:16} peak {peak} MiB; {len(refusals)} connections ended;",
          "; ".join(answers), flush=True)
    assert peak <= MAX_MIB, f"{name}: {peak} MiB: {MAX_MIB} is the limit"


class Caller:
    """Honest calls, one after the other, of a process of its own."""

    def __init__(self, gpud, end):
        self.name = end
        self.over = multiprocessing.Event()
        self.answers = multiprocessing.SimpleQueue()
        self.process = multiprocessing.Process(target=self._run, args=(gpud, end), daemon=True)
        self.process.start()

    def _run(self, gpud, end):
        slowest, calls = 0.0, 0
        while not self.over.is_set() or calls == 0:
            slowest = max(slowest, status(gpud, end))
            calls += 1
        self.answers.put((slowest, calls))

    def end(self):
        """Says how they went. One at least was answered."""
        self.over.set()
        self.process.join(2 * PATIENCE_S)
        assert self.process.exitcode == 0, f"no honest call on {self.name} was answered"
        slowest, calls = self.answers.get()
        return f"{calls} calls on {self.name}, the slowest {slowest:.2f} s"


def ends_before_its_65th_call(gpud, end):
    http = Http2(gpud.ends[end])
    http.socket.settimeout(10)
    http.send(b"".join(http.call()[0] for _ in range(64)))
    # All is read: gpud's own SETTINGS come, and nothing else.
    http.read_frame()
    http.send(http.call()[0])
    try:
        while True:
            http.read_frame()
    except socket.timeout:
        raise AssertionError("the 65th unacknowledged call is served") from None
    except OSError:
        pass


def ends_over_tcp(gpud):
    http = Http2(gpud.by_tcp)
    http.socket.settimeout(10)
    try:
        for _ in range(40):
            http.send(b"".join(http.call()[0] for _ in range(50)))
        while True:
            http.read_frame()
    except socket.timeout:
        raise AssertionError("2,000 unacknowledged calls are served") from None
    except OSError:
        pass


def main():
    program = os.path.abspath(sys.argv[1])
    only = sys.argv[2:]
    folder = tempfile.mkdtemp(prefix="raw-http2-", dir="/tmp")
    gpud = Gpud(program, folder)
    failed = []
    try:
        for end in ("operator.sock", "tcp"):
            status(gpud, end)
        cases = [(ends_over_tcp, (gpud,))]
        for end in ("control.sock", "operator.sock"):
            cases.append((ends_before_its_65th_call, (gpud, end)))
        cases += [(flood, (gpud, end, name)) for end in gpud.ends for name in FLOODS
                  if not only or name in only]
        for case, arguments in cases:
            try:
                case(*arguments)
            except AssertionError as problem:
                failed.append(f"{case.__name__} {arguments[1:]}: {problem}")
            if gpud.process.poll() is not None:
                break
        gpud.process.terminate()
        if (ended := gpud.process.wait(PATIENCE_S)) != 0:
            failed.append(f"gpud has ended with {ended}")
    finally:
        gpud.process.kill()
        gpud.process.wait()
        shutil.rmtree(folder)
        if failed:
            print("".join(gpud.lines[-20:]))
    for line in failed:
        print("FAILED:", line)
    return 1 if failed else 0


sys.exit(main())
