# -*- coding: utf-8 -*-
"""Every way one Python function gets to call another, one thread per way.

The test compares each thread's stack with the interpreter's own account of it, frame by frame.
"""
import functools
import os
import re
import sys

from report import HOLD, OUT, PY2, Thread, here


def simple(arrived):
    arrived(), os.read(HOLD, 1)


def chain(arrived):
    def third():
        simple(arrived)

    def second():
        third()

    second()


def recursion(arrived, depth=50):
    if depth:
        return recursion(arrived, depth - 1)
    arrived(), os.read(HOLD, 1)


def generators(arrived):
    def innermost():
        yield 1
        arrived(), os.read(HOLD, 1)
        yield 2

    def middle():
        for value in innermost():
            yield value

    for _ in middle():
        pass


def lambdas(arrived):
    first = lambda: (arrived(), os.read(HOLD, 1))
    second = lambda: first()
    second()


def comprehension(arrived):
    return [simple(arrived) for _ in range(1)]


def nested_comprehension(arrived):
    return {i: [set(simple(arrived) or "" for _ in "x") for _ in range(1)] for i in range(1)}


def sort_key(arrived):
    def key(_):
        arrived(), os.read(HOLD, 1)

    sorted([1], key=key)


def through_map(arrived):
    return list(map(lambda _: simple(arrived), [1]))


def through_partial(arrived):
    functools.partial(simple, arrived)()


def through_sub(arrived):
    re.sub("x", lambda _: simple(arrived) or "", "x")


class Base(object):
    def __init__(self, arrived):
        self.arrived = arrived
        simple(arrived)


class Derived(Base):
    def __init__(self, arrived):
        super(Derived, self).__init__(arrived)


def constructor(arrived):
    Derived(arrived)


def noop(*_):
    return 0


class SpecialisedInit(object):
    def __init__(self, arrived):
        if arrived is not None:
            arrived(), os.read(HOLD, 1)


def specialised_constructor(arrived):
    # The same call site, warm, makes the last object: from 3.13 on a shim frame stands between the two.
    for value in [None] * 200 + [arrived]:
        SpecialisedInit(value)


class Attributes(object):
    @property
    def prop(self):
        return self.missing

    def __getattr__(self, name):
        arrived = object.__getattribute__(self, "__dict__")["arrived"]
        arrived(), os.read(HOLD, 1)


def attributes(arrived):
    thing = Attributes()
    thing.arrived = arrived
    return thing.prop


class Operators(object):
    def __init__(self, arrived):
        self.arrived = arrived

    def __add__(self, other):
        return self[other]

    def __getitem__(self, key):
        return self == key

    def __eq__(self, other):
        return bool(self)

    def __hash__(self):
        return 1

    def __len__(self):
        self.arrived(), os.read(HOLD, 1)
        return 0


def operators(arrived):
    return Operators(arrived) + 1


class Context(object):
    def __init__(self, arrived):
        self.arrived = arrived

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        self.arrived(), os.read(HOLD, 1)


def context_manager(arrived):
    with Context(arrived):
        pass


def except_and_finally(arrived):
    try:
        try:
            raise KeyError(1)
        except KeyError:
            raise ValueError(2)
        finally:
            simple(arrived)
    except ValueError:
        pass


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@decorator
@decorator
def decorated(arrived):
    arrived(), os.read(HOLD, 1)


def executed(arrived):
    source = "def inside():\n    pass\n    simple(arrived)\n\n\n\ninside()\n"
    exec(compile(source, "<made up>", "exec"), {"simple": simple, "arrived": arrived})


def evaluated(arrived):
    eval("simple(arrived)", {"simple": simple, "arrived": arrived})


class Outer(object):
    class Inner(object):
        def method(self, arrived):
            def local():
                class Deep(object):
                    @staticmethod
                    def static():
                        arrived(), os.read(HOLD, 1)

                Deep.static()

            local()

    @classmethod
    def build(cls, arrived):
        cls.Inner().method(arrived)


def qualified(arrived):
    Outer.build(arrived)


def class_body(arrived):
    class Body(object):
        simple(arrived)


def keywords_and_star(arrived):
    def inner(*args, **kwargs):
        kwargs["arrived"]()
        args[0](kwargs["arrived"])

    noop_arrived = {"arrived": noop}
    inner(lambda _: simple(arrived), **noop_arrived)


def multi_line_call(arrived):
    # The caller's line is inside the expression, below and above the line on which the statement starts.
    return max(
        len(
            str(
                simple(
                    arrived,
                )
            )
        ),
        1,
        2,
    )


def multi_line_operands(arrived):
    return (
        1
        + 2
        + len([
            noop(),
            simple(arrived),
            noop(),
        ])
        + noop()
    )


def negative_lines(arrived):
    return (
        noop,
        noop,
    )[
        0 if simple(
            arrived) else 1
    ](
        noop(),
        noop(),
    )


def loop_else(arrived):
    for i in range(3):
        if i == 5:
            break
    else:
        while True:
            simple(arrived)
            break


def extended_args(arrived):
    # More than 255 names: instructions with extended arguments between the caller's start and the call.
    scope = {"simple": simple, "arrived": arrived}
    source = ["def wide():"]
    source += ["    v%d = %d" % (i, i) for i in range(400)]
    source += ["    if v399:", "        simple(arrived)", "    return v1", "wide()"]
    exec(compile("\n".join(source), "<wide>", "exec"), scope)


SHAPES = [
    simple,
    chain,
    recursion,
    generators,
    lambdas,
    comprehension,
    nested_comprehension,
    sort_key,
    through_map,
    through_partial,
    through_sub,
    constructor,
    specialised_constructor,
    attributes,
    operators,
    context_manager,
    except_and_finally,
    decorated,
    executed,
    evaluated,
    qualified,
    class_body,
    keywords_and_star,
    multi_line_call,
    multi_line_operands,
    negative_lines,
    loop_else,
    extended_args,
]

if not PY2:
    from shapes_py3 import SHAPES as MORE

    SHAPES += MORE


def main():
    for shape in SHAPES:
        Thread(shape.__name__, shape, name="shape " + shape.__name__).wait_until_parked()
    os.write(OUT, here()), os.read(HOLD, 1)


main()
os._exit(0)
