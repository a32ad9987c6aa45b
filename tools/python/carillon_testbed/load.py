"""A memcached client over UDP that checks every byte, and finds its NIC again after a restart."""

import re
import socket
import struct
import threading

_KEYS = 64
_ANSWER_S = 0.1


class NicLoad:
    """One request at a time in a thread, until stop(). `note` tells where the NIC is: a function that returns what it said
    with its readiness, or None."""

    def __init__(self, note):
        self.replies = 0
        self.wrong = []
        self._note = note
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def _serve(self):
        number = 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(_ANSWER_S)
            address = None
            while not self._stop.is_set():
                address = address or self._find()
                if address is None:
                    self._stop.wait(_ANSWER_S)
                    continue
                number += 1
                if not self._ask(sock, address, number):
                    address = None

    def _find(self):
        found = re.search(r"udp ([\d.]+):(\d+)", self._note() or "")
        return (found[1], int(found[2])) if found else None

    def _ask(self, sock, address, number):
        """Sets a key, or gets one. False: no answer."""
        key = number % _KEYS
        value = f"value-of-{key}".encode()
        if number // _KEYS % 2 == 0:
            request = b"set key%d 0 0 %d\r\n%s\r\n" % (key, len(value), value)
            right = [b"STORED\r\n"]
        else:
            request = b"get key%d\r\n" % key
            # A NIC that has come back has an empty store.
            right = [b"VALUE key%d 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value), b"END\r\n"]
        identity = number & 0xffff
        try:
            sock.sendto(struct.pack(">HHHH", identity, 0, 1, 0) + request, address)
            while True:
                answer = sock.recv(65536)
                if struct.unpack(">H", answer[:2])[0] == identity:
                    break
        except OSError:
            return False
        if answer[8:] in right:
            self.replies += 1
        else:
            self.wrong.append(f"{request!r} is answered {answer[8:]!r}")
        return True
