"""Shapes that Python 2 cannot even parse."""
import asyncio
import contextlib
import os
import sys

from report import HOLD


def simple(arrived):
    arrived(), os.read(HOLD, 1)


def yield_from(arrived):
    def innermost():
        yield 1
        arrived(), os.read(HOLD, 1)

    def middle():
        yield from innermost()

    def outer():
        yield 0
        yield from middle()

    for _ in outer():
        pass


def generator_sent(arrived):
    def receiver():
        while True:
            value = yield
            if value:
                arrived(), os.read(HOLD, 1)

    def delegate():
        yield from receiver()

    generator = delegate()
    next(generator)
    generator.send(0)
    generator.send(1)


def generator_thrown(arrived):
    def catcher():
        try:
            yield
        except KeyError:
            arrived(), os.read(HOLD, 1)

    def delegate():
        yield from catcher()

    generator = delegate()
    next(generator)
    try:
        generator.throw(KeyError())
    except StopIteration:
        pass


def generator_closed(arrived):
    def closing():
        try:
            yield
        finally:
            arrived(), os.read(HOLD, 1)

    generator = closing()
    next(generator)
    generator.close()


class Step:
    def __await__(self):
        yield self


async def innermost_coroutine(arrived):
    await Step()
    arrived(), os.read(HOLD, 1)


async def middle_coroutine(arrived):
    await innermost_coroutine(arrived)


async def outer_coroutine(arrived):
    await middle_coroutine(arrived)


def coroutine_by_hand(arrived):
    coroutine = outer_coroutine(arrived)
    coroutine.send(None)
    try:
        coroutine.send(None)
    except StopIteration:
        pass


async def with_asyncio_main(arrived):
    await asyncio.sleep(0)
    await with_asyncio_inner(arrived)


async def with_asyncio_inner(arrived):
    await asyncio.gather(with_asyncio_leaf(arrived), asyncio.sleep(0))


async def with_asyncio_leaf(arrived):
    await asyncio.sleep(0)
    arrived(), os.read(HOLD, 1)


def with_asyncio(arrived):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(with_asyncio_main(arrived))


async def ticker():
    yield 1
    yield 2


async def async_for_body(arrived):
    async for value in ticker():
        if value == 2:
            arrived(), os.read(HOLD, 1)


def async_for(arrived):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(async_for_body(arrived))


class AsyncContext:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        self.arrived(), os.read(HOLD, 1)


async def async_with_body(arrived):
    async with AsyncContext() as context:
        context.arrived = arrived


def async_with(arrived):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(async_with_body(arrived))


def context_library(arrived):
    @contextlib.contextmanager
    def managed():
        arrived(), os.read(HOLD, 1)
        yield

    with managed():
        pass


def привет_мир(arrived):
    def größe():
        arrived(), os.read(HOLD, 1)

    größe()


def astral(arrived):
    def 𝔘𝔫𝔦𝔠𝔬𝔡𝔢_𐐷():
        arrived(), os.read(HOLD, 1)

    𝔘𝔫𝔦𝔠𝔬𝔡𝔢_𐐷()


def strange_file_names(arrived):
    scope = {"simple": simple, "arrived": arrived}
    for number, name in enumerate(["<a b>", "semi;colon.py", "tab\there", "quote\"s.py", "é.py", "snow☃.py", "\U0001f4a9.py", ""]):
        scope["f%d" % number] = lambda: None
        source = "def f%d():\n    %s\n" % (number, "f%d()" % (number - 1) if number else "simple(arrived)")
        exec(compile(source, name, "exec"), scope)
    scope["f7"]()


SHAPES = [
    yield_from,
    generator_sent,
    generator_thrown,
    generator_closed,
    coroutine_by_hand,
    with_asyncio,
    async_for,
    async_with,
    context_library,
    привет_мир,
    astral,
    strange_file_names,
]

if sys.version_info >= (3, 10):
    from shapes_py310 import SHAPES as MORE

    SHAPES += MORE
