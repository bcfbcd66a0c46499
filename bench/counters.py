"""Figures that a target keeps in a file both sides map: the bench reads them while the target runs, so that asking
costs the target nothing and needs no thread or signal in it.

Each slot is three numbers: pid, units of work done, spare. The pauses target keeps a histogram behind the slots.
Everything here also runs inside the targets, so it uses only the standard library.
"""

from __future__ import annotations

import mmap
import os
import struct

SLOTS = 256
SLOT = struct.Struct("<qqq")
BUCKETS = 400
PER_DECADE = 50  # buckets of the histogram are 4.7 % wide
FIRST_NS = 20_000  # gaps below this are no pauses
HISTOGRAM = SLOTS * SLOT.size
SIZE = HISTOGRAM + 8 * BUCKETS
WORD = struct.Struct("<q")


class Counters:
    def __init__(self, path: str, create: bool = False) -> None:
        if create:
            with open(path, "wb") as file:
                file.truncate(SIZE)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), SIZE)

    def take(self, slot: int) -> None:
        """Called by the target: this slot belongs to this process."""
        SLOT.pack_into(self.map, slot * SLOT.size, os.getpid(), 0, 0)

    def set(self, slot: int, work: int) -> None:
        WORD.pack_into(self.map, slot * SLOT.size + 8, work)

    def pids(self) -> list[int]:
        slots = (SLOT.unpack_from(self.map, n * SLOT.size) for n in range(SLOTS))
        return sorted({pid for pid, _, _ in slots if pid})

    def work(self) -> int:
        return sum(WORD.unpack_from(self.map, n * SLOT.size + 8)[0] for n in range(SLOTS))

    def gap(self, bucket: int) -> None:
        at = HISTOGRAM + 8 * bucket
        WORD.pack_into(self.map, at, WORD.unpack_from(self.map, at)[0] + 1)

    def gaps(self) -> list[int]:
        return [WORD.unpack_from(self.map, HISTOGRAM + 8 * n)[0] for n in range(BUCKETS)]


def bucket_ns(bucket: int) -> float:
    """The middle of a bucket."""
    return FIRST_NS * 10 ** ((bucket + 0.5) / PER_DECADE)
