"""Where the time of a program goes, from inside of it: python examples/profile_this.py

Writes profile.svg, and prints what took the most time and what the threads do at the end.
"""

import threading

import scry


def primes(limit: int) -> int:
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, limit))


def words(count: int) -> int:
    return len({f"{n:x}"[::-1] for n in range(count)})


def main() -> None:
    resting = threading.Event()
    thread = threading.Thread(target=resting.wait, name="resting")
    thread.start()
    with scry.record("profile.svg", rate=500) as recorder:
        for _ in range(5):
            primes(40_000)
            words(200_000)
    print(recorder.profile)
    print()
    print(scry.dump())
    resting.set()
    print("\nopen profile.svg in a browser")


if __name__ == "__main__":
    main()
