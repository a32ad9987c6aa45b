"""Reads a Perfetto trace as Perfetto would, with nothing of Carillon's but the file.

perfetto_reader.py FILE: prints one JSON document:
  clock    {"primary": id, "clocks": {id: ns}}
  tracks   {uuid: {"name", "path": names from its root on, "pid" or null, "counter": bool}}
  slices   [{"track", "name", "begin", "end" or null, "depth", "args", "from", "to", "group"}]
  instants [{"track", "name", "at", "args", "from", "to", "group"}]
  counts   [{"track", "at", "value"}]
It knows the wire format and Perfetto's field numbers (as protos/perfetto/trace has them), and ends with an error where a
file breaks a rule of the format: an unknown field, a packed flow, a track that nobody described, an end without a begin,
a slice that outlives the one that it lies in, a counter's value on a track that is no counter, times that go back on a
track.
"""

import json
import struct
import sys

VARINT, FIXED64, BYTES = 0, 1, 2
REALTIME, MONOTONIC = 1, 3
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


class Broken(Exception):
    pass


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Broken("a varint without an end at byte %d" % at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire = tag & 7
        if wire == VARINT:
            value, at = varint(data, at)
        elif wire == FIXED64:
            if at + 8 > len(data):
                raise Broken("a cut fixed64")
            (value,) = struct.unpack_from("<Q", data, at)
            at += 8
        elif wire == BYTES:
            size, at = varint(data, at)
            if at + size > len(data):
                raise Broken("a field that is longer than its message")
            value = data[at : at + size]
            at += size
        else:
            raise Broken("wire type %d" % wire)
        yield tag >> 3, wire, value


def message(data, known):
    """{name: value}, or a list where the name ends with []; `known` is {number: (name, wire type)}."""
    found = {name: [] for name, _ in known.values() if name.endswith("[]")}
    for number, wire, value in fields(data):
        if number not in known:
            raise Broken("field %d, where only %s are known" % (number, sorted(known)))
        name, expected = known[number]
        if wire != expected:
            raise Broken("%s has wire type %d" % (name, wire))
        if name.endswith("[]"):
            found[name].append(value)
        elif name in found:
            raise Broken("%s is there twice" % name)
        else:
            found[name] = value
    return found


PACKET = {
    6: ("clock_snapshot", BYTES),
    8: ("timestamp", VARINT),
    10: ("sequence", VARINT),
    11: ("track_event", BYTES),
    12: ("interned", BYTES),
    13: ("flags", VARINT),
    59: ("defaults", BYTES),
    60: ("track_descriptor", BYTES),
}
DESCRIPTOR = {
    1: ("uuid", VARINT),
    2: ("name", BYTES),
    3: ("process", BYTES),
    5: ("parent", VARINT),
    8: ("counter", BYTES),
    11: ("ordering", VARINT),
    12: ("rank", VARINT),
}
EVENT = {
    4: ("annotations[]", BYTES),
    9: ("type", VARINT),
    10: ("name_iid", VARINT),
    11: ("track", VARINT),
    23: ("name", BYTES),
    30: ("value", VARINT),
    47: ("from[]", FIXED64),
    48: ("to[]", FIXED64),
    52: ("group", VARINT),
}


class Reader:
    def __init__(self):
        self.document = {"clock": None, "tracks": {}, "slices": [], "instants": [], "counts": []}
        self.names, self.detail_names = {}, {}
        self.open = {}  # by track: slices
        self.last = {}  # by track: the time of its last event
        self.default_clock = None

    def read(self, data):
        for number, wire, value in fields(data):
            if (number, wire) != (1, BYTES):
                raise Broken("field %d in the trace" % number)
            self.packet(message(value, PACKET))
        return self.document

    def packet(self, packet):
        if "sequence" not in packet:
            raise Broken("a packet of no sequence")
        if "defaults" in packet:
            self.default_clock = message(packet["defaults"], {58: ("clock", VARINT)})["clock"]
        for data in (packet["interned"],) if "interned" in packet else ():
            entry = {1: ("iid", VARINT), 2: ("name", BYTES)}
            interned = message(data, {2: ("names[]", BYTES), 3: ("details[]", BYTES)})
            for into, entries in ((self.names, "names[]"), (self.detail_names, "details[]")):
                for one in interned[entries]:
                    one = message(one, entry)
                    if one["iid"] == 0 or one["iid"] in into:
                        raise Broken("interned name %d is 0 or there" % one["iid"])
                    into[one["iid"]] = one.get("name", b"").decode()
        if "clock_snapshot" in packet:
            self.clocks(packet["clock_snapshot"])
        if "track_descriptor" in packet:
            self.track(message(packet["track_descriptor"], DESCRIPTOR))
        if "track_event" in packet:
            if self.default_clock != MONOTONIC or self.document["clock"] is None:
                raise Broken("an event before its clock is known")
            self.event(packet["timestamp"], packet.get("flags", 0), message(packet["track_event"], EVENT))

    def clocks(self, data):
        snapshot = message(data, {1: ("clocks[]", BYTES), 2: ("primary", VARINT)})
        clocks = {}
        for clock in snapshot["clocks[]"]:
            clock = message(clock, {1: ("id", VARINT), 2: ("time", VARINT)})
            clocks[clock["id"]] = clock["time"]
        if snapshot["primary"] not in clocks:
            raise Broken("the primary clock has no time")
        self.document["clock"] = {"primary": snapshot["primary"], "clocks": clocks}

    def track(self, descriptor):
        uuid = descriptor["uuid"]
        name = descriptor.get("name", b"").decode()
        path, pid = [name], None
        if "parent" in descriptor:
            parent = self.document["tracks"][descriptor["parent"]]
            path, pid = parent["path"] + path, parent["pid"]
        if "process" in descriptor:
            process = message(descriptor["process"], {1: ("pid", VARINT), 6: ("name", BYTES)})
            if process["name"].decode() != name:
                raise Broken("a process with two names")
            pid = process["pid"]
        if uuid == 0 or uuid in self.document["tracks"]:
            raise Broken("track %d is described twice" % uuid)
        self.document["tracks"][uuid] = {"name": name, "path": path, "pid": pid, "counter": "counter" in descriptor}

    def event(self, time, flags, event):
        track, kind = event["track"], event["type"]
        if track not in self.document["tracks"]:
            raise Broken("an event on track %d, which nobody has described" % track)
        if time < self.last.get(track, 0):
            raise Broken("track %d goes back from %d to %d" % (track, self.last[track], time))
        self.last[track] = time
        if (kind == COUNTER) != self.document["tracks"][track]["counter"]:
            raise Broken("an event of type %d on %s" % (kind, self.document["tracks"][track]))
        if kind == COUNTER:
            self.document["counts"].append({"track": track, "at": time, "value": event["value"]})
            return
        open_slices = self.open.setdefault(track, [])
        if kind == END:
            if not open_slices:
                raise Broken("a slice ends on track %d that has not begun" % track)
            open_slices.pop()["end"] = time
            return
        if "name_iid" in event:
            if not flags & 2:
                raise Broken("an interned name in a packet that does not need its sequence's state")
            event["name"] = self.names[event["name_iid"]].encode()
        shown = {
            "track": track,
            "name": event["name"].decode(),
            "args": dict(self.annotation(data) for data in event["annotations[]"]),
            "from": event["from[]"],
            "to": event["to[]"],
            "group": event.get("group", 0),
        }
        if kind == INSTANT:
            self.document["instants"].append(dict(shown, at=time))
        elif kind == BEGIN:
            shown.update(begin=time, end=None, depth=len(open_slices))
            open_slices.append(shown)
            self.document["slices"].append(shown)
        else:
            raise Broken("an event of type %d" % kind)

    def annotation(self, data):
        found = message(data, {1: ("name_iid", VARINT), 3: ("number", VARINT), 6: ("text", BYTES)})
        value = found["text"].decode() if "text" in found else found["number"]
        return self.detail_names[found["name_iid"]], value


def main():
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    try:
        document = Reader().read(data)
    except Broken as error:
        sys.exit("%s: %s" % (sys.argv[1], error))
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()
