"""Chrome traces: the rules of the Trace Event Format, and a replay that must give back the samples."""

import json

import jsonschema
import pytest

NUMBER = {"type": "number", "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
COMMON = {"cat": {"type": "string"}, "pid": WHOLE, "tid": WHOLE, "ts": NUMBER}
NAME = {"type": "string"}


def event(phase, extra, required):
    return {
        "type": "object",
        "properties": {**COMMON, "ph": {"const": phase}, **extra},
        "required": ["ph", "pid", "tid", "ts", *required],
        "additionalProperties": False,
    }


ARGS = {
    "type": "object",
    "properties": {"filename": {"type": "string"}, "line": {"type": ["integer", "null"]}},
    "required": ["filename", "line"],
    "additionalProperties": False,
}
METADATA = {
    "name": {"enum": ["process_name", "thread_name"]},
    "args": {"type": "object", "properties": {"name": NAME}, "required": ["name"]},
}
RULES = {
    "B": event("B", {"name": NAME, "args": ARGS}, ["name", "args"]),
    "E": event("E", {"name": NAME}, ["name"]),
    "M": event("M", METADATA, ["name", "args"]),
}
VALIDATORS = {phase: jsonschema.Draft7Validator(rule) for phase, rule in RULES.items()}


def load(path):
    events = json.loads(path.read_text())
    assert isinstance(events, list)
    for e in events:
        VALIDATORS[e["ph"]].validate(e)
    return events


def replay(events):
    """{(pid, tid): [(from, to, names)]}: what is open in which stretch of time; checks order and nesting."""
    stacks, now, stretches = {}, {}, {}
    for e in events:
        if e["ph"] == "M":
            continue
        key = (e["pid"], e["tid"])
        stack = stacks.setdefault(key, [])
        before = now.get(key, 0)
        assert e["ts"] >= before, "time runs forward on every track"
        if e["ts"] > before and stack:
            stretches.setdefault(key, []).append((before, e["ts"], list(stack)))
        now[key] = e["ts"]
        if e["ph"] == "B":
            stack.append(e["name"])
        else:
            assert stack.pop() == e["name"], "a slice ends inside the one around it"
    assert not any(stacks.values()), "every slice ends"
    return stretches


@pytest.mark.parametrize("case", ["basic", "empty", "hostile", "web"])
def test_rules_of_the_format(written, case):
    replay(load(written(case, "chrometrace")))


def test_replay_gives_back_the_samples(written, basic):
    stretches = replay(load(written("basic", "chrometrace")))
    for thread, samples in basic.items():
        expected = [(end, frames) for end, frames in samples if frames]
        seen = []
        for start, end, names in stretches[thread]:
            for time in range(round(start / 1000) + 10, round(end / 1000) + 1, 10):
                seen.append((time, names))
        assert seen == expected


def test_a_moving_line_does_not_cut_a_call(written):
    events = load(written("basic", "chrometrace"))
    begins = [e for e in events if e["ph"] == "B" and e["name"] == "load"]
    assert [(e["ts"], e["args"]["line"]) for e in begins] == [(0, 7), (110000, 7)]


def test_nothing_is_open_in_a_gap(written):
    for start, end, _ in replay(load(written("basic", "chrometrace")))[(100, 100)]:
        assert end <= 40000 or start >= 100000


def test_processes_and_threads_have_names(written):
    names = {
        (e["name"], e["pid"], e["tid"]): e["args"]["name"]
        for e in load(written("basic", "chrometrace"))
        if e["ph"] == "M"
    }
    assert names == {
        ("process_name", 100, 100): "python3 app.py",
        ("thread_name", 100, 100): "MainThread",
        ("thread_name", 100, 101): 'worker; "1"',
        ("process_name", 120, 120): "python -c …",
    }


def test_lines_can_be_left_out(written):
    events = load(written("basic", "chrometrace", "--nolineno"))
    assert {e["args"]["line"] for e in events if e["ph"] == "B"} == {None}
