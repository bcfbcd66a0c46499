# -*- coding: utf-8 -*-
"""How a target says where it stands, and then stays there.

Runs under every interpreter from 2.7 on. The target is given two descriptors: OUT, where it writes one line of
JSON with what a correct look from outside must show, and HOLD, a pipe that nobody writes to: reading it blocks
until the test closes its end.

A thread reports and parks with builtins only, all on ONE line of its innermost function:

    os.write(OUT, here()), os.read(HOLD, 1)

here() looks at its caller's frame while that line runs. Once it has returned only C functions are called, so
from the moment the test has read the whole report the stack, down to the line number, no longer changes. Other
threads do the same with the release of a lock in place of the write (see Thread).
"""
import json
import os
import sys
import threading

try:
    import _thread
except ImportError:
    import thread as _thread

OUT = int(os.environ["SCRY_TEST_OUT"])
HOLD = int(os.environ["SCRY_TEST_HOLD"])

PY2 = sys.version_info[0] == 2
_known = {}


def native_id():
    """The kernel's id of this thread, as this process sees it."""
    if hasattr(threading, "get_native_id"):
        return threading.get_native_id()
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


def register(label, name):
    """Note who the calling thread is; name is None where `threading` knows none."""
    if PY2 and name is not None:
        name = name.decode("utf-8")
    _known[_thread.get_ident()] = {"label": label, "name": name, "native_id": native_id()}


def frame_entry(frame):
    code = frame.f_code
    filename = code.co_filename
    if PY2:
        filename = filename.decode(sys.getfilesystemencoding() or "utf-8")
    return {
        "name": code.co_name,
        "qualname": getattr(code, "co_qualname", code.co_name),
        "filename": filename,
        "line": frame.f_lineno or 0,
    }


def stack_of(frame):
    """Leaf first, as scry reports it."""
    found = []
    while frame is not None:
        found.append(frame_entry(frame))
        frame = frame.f_back
    return found


def here(**extra):
    """The whole report, as the caller's line sees it, ready to be written."""
    stacks = sys._current_frames()
    me = _thread.get_ident()
    stacks[me] = sys._getframe(1)
    threads = []
    for ident, frame in stacks.items():
        entry = dict(_known.get(ident, {"label": None, "name": None, "native_id": None}))
        entry["ident"] = ident
        entry["frames"] = stack_of(frame)
        threads.append(entry)
    told = {
        "pid": os.getpid(),
        "version": list(sys.version_info[:3]),
        "main": _MAIN,
        "threads": threads,
    }
    told.update(extra)
    text = json.dumps(told) + "\n"
    # Nothing of this call may stay in cycles that a later collection would have to run for.
    del stacks, frame
    return text.encode("ascii")


class Thread(object):
    """A thread that runs body(arrived) and counts as parked once arrived() was called.

    arrived is the release of a lock: the body calls it on the very line on which it then blocks.
    """

    def __init__(self, label, body, name=None, daemon=True, bare=False):
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self._label = label
        self._body = body
        self._name = name
        if bare:
            self.thread = None
            _thread.start_new_thread(self._run_bare, ())
        else:
            self.thread = threading.Thread(target=self._run_named)
            if name is not None:
                self.thread.name = name
            self.thread.daemon = daemon
            self.thread.start()

    def _run_bare(self):
        register(self._label, None)
        self._body(self._lock.release)

    def _run_named(self):
        register(self._label, threading.current_thread().name)
        self._body(self._lock.release)

    def wait_until_parked(self):
        self._lock.acquire()


_MAIN = _thread.get_ident()
register("main", threading.current_thread().name)
