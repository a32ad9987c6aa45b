"""sensor.cc in Python: has the GPU checksum its messages, and compares every checksum."""
import sys
import zlib

import carillon_sdk
import numpy

SLOTS, MESSAGES, BYTES, EVENTS = 8, 32, 64, 1000  # 32 messages an event: one warp

with carillon_sdk.attach("sensor0", kind="sensor") as device:
    messages = device.buffer("input", (SLOTS, MESSAGES, BYTES))
    crcs = device.buffer("output", (SLOTS, MESSAGES), dtype="u4")
    queue = device.register("crc32", {"messages": messages.per_slot(), "message_bytes": BYTES,
                                      "crcs": crcs.per_slot()}, block=MESSAGES, max_in_flight=SLOTS)
    for event in range(EVENTS):
        slot = queue.next_slot
        messages[slot] = numpy.random.randint(256, size=(MESSAGES, BYTES))
        queue.ring()
        queue.wait(timeout=5)
        if any(zlib.crc32(message) != crc for message, crc in zip(messages[slot], crcs[slot])):
            sys.exit("bad CRC")
print(EVENTS, "events, all checksums right")
