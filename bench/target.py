"""A program to measure profilers on: counts its work in a file, eight bytes per thread.

target.py FILE THREADS IDLE
"""

import mmap
import struct
import sys
import threading


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def work(counts, slot):
    done = 0
    while True:
        fibonacci(12)
        done += 1
        struct.pack_into("q", counts, slot * 8, done)


def main(path, threads, idle):
    with open(path, "r+b") as file:
        counts = mmap.mmap(file.fileno(), 0)
    never = threading.Event()
    for _ in range(idle):
        threading.Thread(target=never.wait, daemon=True).start()
    for slot in range(1, threads):
        threading.Thread(target=work, args=(counts, slot), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    work(counts, 0)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
