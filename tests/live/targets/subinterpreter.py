"""A thread that runs code in another interpreter of the same process.

That interpreter knows only its own frames, so it writes a report of its own (a line that says "sub"); the main
interpreter's report follows.
"""
import os
import sys

from report import HOLD, OUT, Thread, here

CODE = """
import os, sys
sys.path.insert(0, %(folder)r)
from report import stack_of, _thread
import json


def deep(left):
    if left:
        return deep(left - 1)
    os.write(%(out)d, (json.dumps({"sub": stack_of(sys._getframe()), "ident": _thread.get_ident()}) + chr(10)).encode("ascii")), os.write(%(sync)d, b"."), os.read(%(hold)d, 1)


deep(3)
"""

SYNC_READ, SYNC_WRITE = os.pipe()


def create():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    number = interpreters.create()
    run = getattr(interpreters, "exec", None) or interpreters.run_string
    return lambda code: run(number, code)


def guest(arrived):
    run = create()
    folder = os.path.dirname(os.path.abspath(__file__))
    code = CODE % {"folder": folder, "out": OUT, "hold": HOLD, "sync": SYNC_WRITE}
    arrived(), run(code)


Thread("guest", guest, name="guest").wait_until_parked()
os.read(SYNC_READ, 1)
os.write(OUT, here()), os.read(HOLD, 1)
os._exit(0)
