"""A program that never ends: one thread computes, one waits. Something to point scry at."""

import threading


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def count_primes(start, count):
    return sum(1 for n in range(start, start + count) if is_prime(n))


def long_running_task():
    start, found = 0, 0
    while True:
        found += count_primes(start, 5000)
        start = (start + 5000) % 1_000_000


def wait_for_work(event):
    event.wait()


if __name__ == "__main__":
    waiter = threading.Thread(
        target=wait_for_work, args=(threading.Event(),), name="waiter", daemon=True
    )
    waiter.start()
    long_running_task()
