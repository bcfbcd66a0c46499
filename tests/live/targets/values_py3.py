"""What 2.7 has not: keyword-only arguments, enumerations, coroutines, instances of classes with annotations."""

import collections
import datetime
import enum
import inspect
import sys

from values import stand_still, tell


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1


class Reader:
    def __init__(self):
        self.first = 1
        self.second = "two"

    def read(self, positional, *, only, other=3):
        looked_at = vars(self)
        tell("read", locals(), ["self", "positional", "only", "other"])
        enumerations(only)


def enumerations(then):
    red, green, low = Colour.RED, Colour.GREEN, Level.LOW
    colours, builtin_bytes = Colour, b"\x00"
    tell("enumerations", locals(), ["then"])
    then()


def library(then):
    moment, day = datetime.datetime(2024, 2, 29, 13, 5, 0, 1), datetime.date(1999, 12, 31)
    midnight, aware = datetime.time(0, 0), datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
    folded = datetime.datetime(2024, 1, 2, 3, 4, 5, fold=1)
    zone = datetime.timezone(datetime.timedelta(hours=2), "EET")
    no_time, while_, back = datetime.timedelta(0), datetime.timedelta(1, 5, 7), datetime.timedelta(microseconds=-1)
    ordered, unordered = collections.OrderedDict([("b", 1), ("a", 2)]), collections.OrderedDict()
    with_default, without_default = collections.defaultdict(list, k=[1]), collections.defaultdict()
    queue, bounded, empty = collections.deque(range(200)), collections.deque("ab", maxlen=3), collections.deque()
    queue.rotate(70)
    tell("library", locals(), ["then"])
    then()


async def coroutine(then, waited=None):
    local = [waited]
    tell("coroutine", locals(), ["then", "waited"])
    then()
    return local


def comprehension(then):
    found = []
    [found.append((n, then())) for n in [41] if n]


def run(first):
    try:
        first.send(None)
    except StopIteration:
        pass


if __name__ == "__main__":
    assert inspect.iscoroutinefunction(coroutine), sys.version
    Reader().read(1, only=lambda: run(coroutine(lambda: comprehension(lambda: library(stand_still)), waited=True)))
