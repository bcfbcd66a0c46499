"""Busy in its main thread, blocked on a lock in another, with a forked child that is busy too. Says so in one line."""

import os
import sys
import threading
import time


def busy_main():
    while True:
        busy_inner()


def busy_inner():
    return sum(i * i for i in range(2000))


def blocked_on_lock(lock, ready):
    ready.set()
    lock.acquire()


def child_work():
    while True:
        child_inner()


def child_inner():
    return sum(i * i for i in range(2000))


def main():
    reader, writer = os.pipe()
    child = 0
    if "--child" in sys.argv:
        child = os.fork()
        if child == 0:
            os.close(writer)
            threading.Thread(target=lambda: (os.read(reader, 1), os._exit(0)), daemon=True).start()
            child_work()
    lock, ready = threading.Lock(), threading.Event()
    lock.acquire()
    thread = threading.Thread(target=blocked_on_lock, args=(lock, ready), name="blocked", daemon=True)
    thread.start()
    ready.wait()
    print(f"pid {os.getpid()} child {child}", flush=True)
    if "--idle" in sys.argv:
        time.sleep(3600)
    busy_main()


main()
