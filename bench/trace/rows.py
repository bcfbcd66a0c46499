"""What measure.py calls its figures, and tracing.py finds them by."""

# Who takes a turn.
BARE, AGAIN, EMPTY = "bare", "bare again", "empty"
SCRY, VIZTRACER, CPROFILE = "scry", "viztracer", "cProfile"
ALIVE = "scry, a named generator is alive"

# pause() and resume(): calls between them.
BETWEEN = (0, 10, 100, 1000)

# Saving: scry by format, viztracer by its method.
FORMATS = ("json", "pftrace", "scry")
WAYS = ("save", "dump")


def calls(name, c):
    """A piece of work, with or without calls of functions in C."""
    return f"{name}, {'C calls too' if c else 'Python calls'}"


def between(calls):
    return f"{calls:,} calls between" if calls else "nothing between"


def saved(suffix):
    return f"scry .{suffix}"


def saved_by_viztracer(way):
    return f"viztracer {way}()"
