"""Counts what strace -f -y prints, as it prints it: `strace -o '|python count_calls.py FILE' ...`."""

import collections
import json
import re
import sys

CALL = re.compile(r"^(?:\d+ +)?(\w+)\(([^,)]*)")
RESUMED = re.compile(r"^(?:\d+ +)?<\.\.\.")


def kind(line: str) -> str:
    """What a line is counted as; nothing for the second half of a call."""
    match = CALL.match(line)
    if not match or RESUMED.match(line):
        return ""
    name, first = match[1], match[2]
    if name == "ptrace":
        return first  # PTRACE_INTERRUPT and so on
    if name in ("pread64", "read", "preadv", "readv", "lseek"):
        end = first.rstrip(">").rpartition("/")[2]
        return f"{name} {end}" if "<" in first and "/proc/" in first else name
    return name


def main() -> None:
    counts: collections.Counter[str] = collections.Counter()
    for line in sys.stdin:
        counts[kind(line)] += 1
    del counts[""]
    with open(sys.argv[1], "w") as file:
        json.dump(counts, file)


if __name__ == "__main__":
    main()
