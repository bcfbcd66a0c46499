"""Runs programs twice, under a profile function in plain Python and under the tracer, and says what each saw.

Reads programs from standard input, one JSON string per line; answers {"reference": [...], "traced": [...]}.
"""

import gc
import json
import sys

import perfetto
import scry
import scry.trace

gc.disable()
OUTPUT = sys.argv[1]
OPTIONS = json.loads(sys.argv[2])


def described(code):
    name = getattr(code, "co_qualname", code.co_name)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})"


def reference(program):
    """[depth-first] of what begins (a name) and ends (None)."""
    seen = []

    def hook(frame, event, arg):
        if event == "call":
            seen.append(described(frame.f_code))
        elif event == "c_call":
            seen.append(arg.__name__)
        else:
            seen.append(None)

    sys.setprofile(hook)
    try:
        program()
    finally:
        sys.setprofile(None)
    # The end of setprofile(hook), where there is one, and the beginning of setprofile(None).
    assert seen.pop() == "setprofile"
    return seen[1:] if seen and seen[0] is None else seen


def traced(program):
    tracer = scry.trace.Tracer(log_exceptions=False, **OPTIONS)
    tracer.start()
    try:
        program()
    finally:
        tracer.stop()
    tracer.save(OUTPUT)
    tracer.clear()
    events = perfetto.load(OUTPUT).thread()
    times = [time for time, _, _, _ in events]
    assert times == sorted(times)
    seen = []
    for _, kind, name, _ in events:
        if kind != "I":
            seen.append(None if kind == "E" else name if " (" in name else name.split(".")[-1])
    assert tracer.last.dropped == 0
    return seen


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
