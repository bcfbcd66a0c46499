"""Shapes with syntax from Python 3.10 and later."""
import os
import sys

from report import HOLD


def simple(arrived):
    arrived(), os.read(HOLD, 1)


def matched(arrived):
    match [1, arrived]:
        case [2, _]:
            pass
        case [1, call] if (
            simple(call) is None
        ):
            pass


def walrus(arrived):
    if (
        x := simple(arrived)
    ) or x:
        pass


def formatted(arrived):
    return f"{arrived!s:>{len(str(simple(arrived)))}}"


SHAPES = [matched, walrus, formatted]

if sys.version_info >= (3, 11):
    exec(
        "def except_star(arrived):\n"
        "    try:\n"
        "        raise ExceptionGroup('g', [KeyError()])\n"
        "    except* KeyError:\n"
        "        simple(arrived)\n"
    )
    SHAPES.append(except_star)  # noqa: F821

if sys.version_info >= (3, 12):
    exec(
        "def type_parameters(arrived):\n"
        "    def generic[T: simple(arrived)](x: T): pass\n"
        "    generic.__type_params__[0].__bound__\n"
    )
    SHAPES.append(type_parameters)  # noqa: F821
