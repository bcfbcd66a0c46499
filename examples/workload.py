"""Something to look at: a process that computes, waits for a lock, waits for a socket, and has children that compute."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def busy():
    start = 0
    while True:
        sum(1 for n in range(start, start + 2000) if is_prime(n))
        start = (start + 2000) % 200_000
        time.sleep(0.005)


def blocked_on_a_lock(lock):
    with lock:
        raise AssertionError("nobody ever lets go of it")


def blocked_on_io(end):
    end.recv(1)


def child():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    busy()


def main():
    # Leave in order, so that the children are ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    lock = threading.Lock()
    lock.acquire()
    ends = socket.socketpair()
    threading.Thread(target=blocked_on_a_lock, args=(lock,), name="lock", daemon=True).start()
    threading.Thread(target=blocked_on_io, args=(ends[0],), name="io", daemon=True).start()
    for _ in range(2):
        multiprocessing.Process(target=child, daemon=True).start()
    print(f"workload runs as pid {os.getpid()}", flush=True)
    busy()


if __name__ == "__main__":
    main()
