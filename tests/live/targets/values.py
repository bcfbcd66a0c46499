# -*- coding: utf-8 -*-
"""Functions one inside the other; each writes down the repr of its variables before it calls the next."""

import collections
import json
import math
import os
import sys

OUT, HOLD = int(os.environ["SCRY_TEST_OUT"]), int(os.environ["SCRY_TEST_HOLD"])
REPORT = {"frames": {}, "pid": os.getpid()}


def tell(label, values, arguments=()):
    REPORT["frames"][label] = {
        "variables": dict((name, repr(value)) for name, value in values.items()),
        "arguments": sorted(arguments),
    }


def stand_still():
    os.write(OUT, (json.dumps(REPORT) + "\n").encode())
    os.read(HOLD, 1)


class Base(object):
    attribute = 1

    def method(self):
        pass

    class Inner(object):
        pass


class Slots(object):
    __slots__ = ("a", "b")


class IntChild(int):
    pass


class StrChild(str):
    pass


class ListChild(list):
    pass


class DictChild(dict):
    pass


class Mistake(ValueError):
    pass


Point = collections.namedtuple("Point", "x y")


def numbers(then):
    zero, one, minus = 0, 1, -1
    digit_edge, digit_over, two_digits = 2 ** 30 - 1, 2 ** 30, -(2 ** 60)
    word_max, word_over, word_min = 2 ** 63 - 1, 2 ** 63, -(2 ** 63)
    large, larger = 10 ** 50, -(7 ** 300)
    yes, no, nothing, dots, other = True, False, None, Ellipsis, NotImplemented
    half, tenth, sum_of, third = 0.5, 0.1, 0.1 + 0.2, 1 / 3.0
    whole, big_whole, bigger, tiny = 1.0, 123456789012345.0, 1e16, 1e-7
    denormal, largest, negative_zero = 5e-324, sys.float_info.max, -0.0
    power_of_two, infinite, minus_infinite, not_a_number = 2.0 ** -44, float("inf"), -float("inf"), float("nan")
    pair, imaginary, negative_pair = 1 + 2j, 3j, complex(-0.0, -1.5)
    child = IntChild(7)
    tell("numbers", locals(), ["then"])
    then()


def texts(then):
    empty, plain, single, double, both = "", "abc", "it's", 'say "no"', "it's \"so\""
    escapes = "tab\t newline\n return\r back\\slash nul\0 bell\x07 delete\x7f"
    latin, cyrillic, astral = u"h\xe9llo \xff", u"\u0424\u0443\u043d\u043a", u"a\U0001f4a9b"
    hidden = u"\xa0\xad\u200b\u2028\ufeff\ue000\U000e0001"
    combined = u"e\u0301\u4e2d\u6587"
    long_text = "0123456789" * 40
    some_bytes, quoted_bytes, array = b"by\x00tes\xff", b"it's", bytearray(b"xyz\x80")
    child = StrChild("child")
    tell("texts", locals(), ["then"])
    then()


def containers(then):
    empty_list, flat, nested = [], [1, "a", None], [[], [1, [2, [3]]], ()]
    empty_tuple, single, several = (), (1,), (1, 2.5, "x")
    empty_dict, small, mixed = {}, {"k": 1}, {1: "a", "b": [2], (3, 4): {5: 6}}
    emptied = dict((n, n) for n in range(20))
    for n in range(19):
        del emptied[n]
    many = dict((n, str(n)) for n in range(100))
    del many[50]
    empty_set, small_set, frozen, empty_frozen = set(), set([1]), frozenset(["x"]), frozenset()
    thinned = set(range(50))
    for n in range(48):
        thinned.discard(n)
    deleted_n = n
    del n
    numbers_to_10, stepped, backwards = range(10), range(0, 20, 5), range(5, 0, -2)
    cut, point = slice(1, None, 2), Point(1, "q")
    list_child, dict_child = ListChild([1]), DictChild(a=1)
    cyclic_list, cyclic_dict = [1], {}
    cyclic_list.append(cyclic_list)
    cyclic_dict["me"] = cyclic_dict
    tell("containers", locals(), ["then"])
    then()


def named(then):
    function, method_of, builtin, builtin_method = tell, Base().method, len, [].append
    a_lambda = lambda: 0  # noqa: E731
    module, package, own_module = math, json, sys.modules["__main__"]
    builtin_class, own_class, inner_class, exception_class = int, Base, Base.Inner, KeyError
    plain_object, instance, slotted = object(), Base(), Slots()
    error, no_arguments, two_arguments, own_error = ValueError("x"), KeyError(), OSError(2, "no"), Mistake("y", 1)
    generator = (n for n in [1])
    tell("named", locals(), ["then"])
    then()


def closures(then, taken):
    kept = "in a cell"
    later = None

    def inner(own, default=2, *rest, **more):
        local = [own]
        tell("inner", dict(locals()), ["own", "default", "rest", "more"])
        then()
        return kept, taken, local

    later = inner
    tell("closures", locals(), ["then", "taken"])
    later("first", 5, 6, 7, word=8)


def unset(then):
    deleted = 1
    del deleted
    if then is None:
        never = 1  # noqa: F841
    tell("unset", locals(), ["then"])
    then()


def generators(then):
    def produce(start):
        count = start + 1
        tell("produce", locals(), ["start"])
        yield then()
        del count

    next(produce(10))


def chain(functions):
    if not functions:
        stand_still()
        return
    functions[0](*((lambda: chain(functions[1:]),) + (("argument in a cell",) if functions[0] is closures else ())))


if __name__ == "__main__":
    chain([numbers, texts, containers, named, closures, unset, generators])
