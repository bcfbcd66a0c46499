"""Reads Perfetto's protobuf as far as traces of scry need it, in plain Python, so that every interpreter can.

Strict: a field that is not expected, a name that is not interned, an event out of order is an error.
"""

import struct


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of a message: numbers as int, others as bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            assert len(value) == length, "the file ends in the middle of a field"
        else:
            raise AssertionError(f"wire type {kind}")
        found.append((key >> 3, value))
    return found


def one(message, number, default=None):
    values = [value for key, value in message if key == number]
    assert len(values) <= 1, f"field {number} twice"
    return values[0] if values else default


class Sequence:
    def __init__(self):
        self.time = self.track = None
        self.names = {}


class Trace:
    """tracks: {uuid: facts}; events: {uuid: [(ns, "B" | "E" | "I" | "C", name or value, annotations)]}."""

    def __init__(self, data):
        self.tracks, self.events = {}, {}
        self._sequences = {}
        for number, packet in fields(data):
            assert number == 1, "a trace consists of packets"
            self._packet(fields(packet))

    def _packet(self, packet):
        assert {key for key, _ in packet} <= {6, 8, 10, 11, 12, 13, 59, 60}, packet
        descriptor = one(packet, 60)
        if descriptor is not None:
            self._track(fields(descriptor))
            return
        sequence_id = one(packet, 10)
        assert sequence_id, "every other packet belongs to a sequence"
        if one(packet, 13, 0) & 1:
            self._sequences[sequence_id] = Sequence()
        sequence = self._sequences[sequence_id]
        if one(packet, 6) is not None:
            clocks = [fields(clock) for key, clock in fields(one(packet, 6)) if key == 1]
            assert [one(clock, 1) for clock in clocks] == [64, 6] and one(clocks[0], 3) == 1
            sequence.time = one(clocks[0], 2)
        if one(packet, 59) is not None:
            defaults = fields(one(packet, 59))
            assert one(defaults, 58) == 64
            sequence.track = one(fields(one(defaults, 11)), 11)
            assert sequence.track in self.tracks, "a track is described before it is used"
        if one(packet, 12) is not None:
            for key, entry in fields(one(packet, 12)):
                assert key == 2
                entry = fields(entry)
                sequence.names[one(entry, 1)] = one(entry, 2).decode()
        if one(packet, 11) is not None:
            sequence.time += one(packet, 8)
            self._event(sequence, fields(one(packet, 11)))

    def _track(self, track):
        assert {key for key, _ in track} <= {1, 2, 3, 4, 5, 8}, track
        uuid = one(track, 1)
        assert uuid not in self.tracks, "a track is described once"
        facts = {"parent": one(track, 5), "name": one(track, 2, b"").decode()}
        if one(track, 3) is not None:
            process = fields(one(track, 3))
            facts.update(kind="process", pid=one(process, 1), name=one(process, 6, b"").decode())
        elif one(track, 4) is not None:
            thread = fields(one(track, 4))
            facts.update(kind="thread", pid=one(thread, 1), tid=one(thread, 2))
            facts["name"] = one(thread, 5, b"").decode()
        else:
            facts["kind"] = "counter" if one(track, 8) is not None else "track"
        assert facts["parent"] is None or facts["parent"] in self.tracks
        self.tracks[uuid] = facts

    def _event(self, sequence, event):
        assert {key for key, _ in event} <= {4, 9, 10, 23, 44}, event
        kind = {1: "B", 2: "E", 3: "I", 4: "C"}[one(event, 9)]
        notes = {}
        for key, value in event:
            if key == 4:
                note = fields(value)
                text = one(note, 6) or one(note, 9)
                notes[one(note, 10).decode()] = text.decode() if text else bool(one(note, 2))
        name = None
        if kind == "C":
            name = struct.unpack("<d", one(event, 44))[0]
        elif one(event, 10):
            name = sequence.names[one(event, 10)]
        elif one(event, 23) is not None:
            name = one(event, 23).decode()
        assert (kind == "E") == (name is None), event
        self.events.setdefault(sequence.track, []).append((sequence.time, kind, name, notes))

    def check(self):
        """Slices nest, and every one of them ends."""
        for events in self.events.values():
            depth = 0
            for _, kind, _, _ in events:
                depth += {"B": 1, "E": -1}.get(kind, 0)
                assert depth >= 0, "an end without a begin"
            assert depth == 0, "a begin without an end"
        return self

    def thread(self, name="MainThread"):
        """The events of the thread of this name."""
        found = [u for u, t in self.tracks.items() if t["kind"] == "thread" and t["name"] == name]
        assert len(found) == 1, (name, self.tracks)
        return self.events.get(found[0], [])

    def names(self, track=None):
        """What begins, without files and lines."""
        events = self.thread() if track is None else self.events.get(track, [])
        return [name.split(" (")[0] for _, kind, name, _ in events if kind == "B"]


def load(path):
    with open(path, "rb") as file:
        return Trace(file.read()).check()
