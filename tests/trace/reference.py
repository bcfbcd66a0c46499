"""Runs programs twice, under a profile function in plain Python and under the tracer, and says what each saw.

Reads programs from standard input, one JSON string per line; answers {"reference": {...}, "traced": {...}}: for each thread
depth-first what begins (a name) and ends (None). Of a program with threads only those that it starts are compared: how often
the main thread looks for them to end differs.
"""

import gc
import json
import sys
import threading

import perfetto
import scry
import scry.trace

gc.disable()
OUTPUT = sys.argv[1]
OPTIONS = json.loads(sys.argv[2])


def described(code):
    name = getattr(code, "co_qualname", code.co_name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def of_body(seen):
    """Without what Python itself does before and after the program's function runs in a thread."""
    first = next(i for i, name in enumerate(seen) if name and name.startswith("body ("))
    depth = 0
    for last in range(first, len(seen)):
        depth += -1 if seen[last] is None else 1
        if depth == 0:
            return seen[first : last + 1]
    raise AssertionError("it does not end")


def by_thread(seen):
    workers = {name: of_body(events) for name, events in seen.items() if "worker" in name}
    return workers or {"MainThread": of_body(seen["MainThread"])}


def reference(program):
    seen = {}

    def hook(frame, event, arg):
        # Not current_thread(): that makes one up for a thread that is about to end.
        thread = threading._active.get(threading.get_ident())
        mine = seen.setdefault(thread.name if thread else "", [])
        if event == "call":
            mine.append(described(frame.f_code))
        elif event == "c_call":
            mine.append(arg.__name__)
        else:
            mine.append(None)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        program()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return by_thread(seen)


def traced(program):
    tracer = scry.trace.Tracer(log_exceptions=False, **OPTIONS)
    tracer.start()
    try:
        program()
    finally:
        tracer.stop()
    tracer.save(OUTPUT)
    tracer.clear()
    trace = perfetto.load(OUTPUT)
    seen = {}
    for uuid, track in trace.tracks.items():
        if track["kind"] == "thread":
            events = trace.events.get(uuid, [])
            times = [time for time, _, _, _ in events]
            assert times == sorted(times)
            seen[track["name"]] = mine = []
            for _, kind, name, _ in events:
                if kind != "I":
                    mine.append(
                        None if kind == "E" else name if " (" in name else name.split(".")[-1]
                    )
    assert tracer.last.dropped == 0
    return by_thread(seen)


def main():
    for line in sys.stdin:
        source = json.loads(line)
        answer = {}
        for name, way in (("reference", reference), ("traced", traced)):
            space = {"__name__": "generated"}
            exec(compile(source, "generated.py", "exec"), space)
            answer[name] = way(space["main"])
        print(json.dumps(answer), flush=True)


main()
