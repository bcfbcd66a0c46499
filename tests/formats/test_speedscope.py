"""speedscope files, against speedscope's own schema and against the samples they came from."""

import json
from collections import Counter
from pathlib import Path

import jsonschema
import pytest

SCHEMA = Path(__file__).parents[1] / "node_modules/speedscope/dist/release/file-format-schema.json"


def load(path):
    text = path.read_text()
    assert "\n" not in text
    return json.loads(text)


@pytest.mark.parametrize("case", ["basic", "empty", "hostile", "web"])
@pytest.mark.parametrize(
    "options", [(), ("--nolineno",), ("--threads", "--processes"), ("--function",)]
)
def test_speedscopes_schema_holds(written, case, options):
    schema = json.loads(SCHEMA.read_text())
    # speedscope reads "none" as null, too, and that is what scripts expect here.
    for key in ("line", "col"):
        schema["definitions"]["FileFormat.Frame"]["properties"][key]["type"] = ["number", "null"]
    jsonschema.validate(load(written(case, "speedscope", *options)), schema)


def test_keys_stand_in_the_order_scripts_know(written):
    profile = load(written("basic", "speedscope"))
    assert list(profile) == [
        "$schema",
        "profiles",
        "shared",
        "activeProfileIndex",
        "exporter",
        "name",
    ]
    assert list(profile["profiles"][0]) == [
        "type", "name", "unit", "startValue", "endValue", "samples", "weights",
    ]  # fmt: skip
    assert all(
        list(frame) == ["name", "file", "line", "col"] for frame in profile["shared"]["frames"]
    )
    assert profile["exporter"].startswith("scry@")


def test_time_is_real_and_gaps_are_gaps(written, basic):
    profile = load(written("basic", "speedscope"))
    frames = [frame["name"] for frame in profile["shared"]["frames"]]
    assert len(profile["profiles"]) == len(basic)
    for thread, samples in zip(profile["profiles"], basic.values()):
        assert thread["startValue"] == pytest.approx((samples[0][0] - 10) / 1000)
        assert thread["endValue"] == pytest.approx(samples[-1][0] / 1000)
        assert sum(thread["weights"]) == pytest.approx(thread["endValue"] - thread["startValue"])
        now, seen = thread["startValue"], []
        for sample, weight in zip(thread["samples"], thread["weights"]):
            now += weight
            if weight == pytest.approx(0.01):
                seen.append((round(now * 1000), [frames[i] for i in sample]))
            else:
                assert sample == [], "only a gap may last longer than a sample"
        assert seen == samples


def test_one_entry_per_sample(written):
    """Nothing is merged: who counts entries counts samples."""
    profile = load(written("web", "speedscope"))
    counts = Counter(tuple(sample) for p in profile["profiles"] for sample in p["samples"])
    gaps = counts.pop((), 0)
    assert sum(counts.values()) == 3540
    assert gaps == 6  # between the busy times of the second thread


def test_threads_and_processes_are_named(written):
    names = [p["name"] for p in load(written("basic", "speedscope"))["profiles"]]
    assert names == ['Thread 100 "MainThread"', 'Thread 101 "worker; "1""', 'Thread 120 ""']
    names = [p["name"] for p in load(written("basic", "speedscope", "--processes"))["profiles"]]
    assert names[0] == 'Process 100 Thread 100 "MainThread"'
    assert names[2] == 'Process 120 Thread 120 ""'


def test_root_frames_have_no_place(written):
    profile = load(written("basic", "speedscope", "--threads", "--processes"))
    frames = profile["shared"]["frames"]
    stack = [frames[i] for i in profile["profiles"][2]["samples"][0]]
    assert [frame["name"] for frame in stack] == [
        'process 100:"/usr/bin/python3 /srv/app.py --token=secret"',
        'process 120:"python -c "import a; b()""',
        "thread (120)",
        "<module>",
    ]
    assert all(frame["file"] == "" and frame["line"] == 0 for frame in stack[:3])


@pytest.mark.parametrize(
    ("option", "lines"), [((), {7, 9}), (("--function",), {5}), (("--nolineno",), {None})]
)
def test_lines(written, option, lines):
    profile = load(written("basic", "speedscope", *option))
    assert {f["line"] for f in profile["shared"]["frames"] if f["name"] == "load"} == lines
    assert {f["file"] for f in profile["shared"]["frames"] if f["name"] == "load"} == {
        "/srv/data.py"
    }
