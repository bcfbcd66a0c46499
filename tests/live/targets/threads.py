"""Threads of every kind: named, renamed, not named, daemonic, started without `threading`."""
import os
import threading

from report import HOLD, OUT, PY2, Thread, here


def park(arrived):
    arrived(), os.read(HOLD, 1)


def rename_then_park(arrived):
    threading.current_thread().name = "renamed later"
    park(arrived)


def unicode_name():
    name = b"\xd0\xbf\xd0\xbe\xd1\x82\xd0\xbe\xd0\xba \xf0\x9f\x90\x8d \xc3\xa9"
    return name if PY2 else name.decode("utf-8")


Thread("named", park, name="a name").wait_until_parked()
Thread("numbered", park).wait_until_parked()
Thread("daemon", park, name="daemon", daemon=True).wait_until_parked()
Thread("not daemon", park, name="not daemon", daemon=False).wait_until_parked()
Thread("unicode", park, name=unicode_name()).wait_until_parked()
Thread("long", park, name="long " * 40).wait_until_parked()
Thread("quotes", park, name='say "hi"\t\\ \x1b[31mred').wait_until_parked()
Thread("renamed", rename_then_park, name="at first").wait_until_parked()
Thread("bare", park, bare=True).wait_until_parked()
Thread("bare too", park, bare=True).wait_until_parked()
os.write(OUT, here()), os.read(HOLD, 1)
os._exit(0)
