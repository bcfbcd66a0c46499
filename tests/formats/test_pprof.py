"""pprof files, read with protobuf and with pprof itself where Go is installed."""

import gzip
import shutil
import subprocess

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# pprof's schema, written down here by itself so that a slip in the writer's own is found.
# message -> field -> (number, type); a type in [] is repeated.
MESSAGES = {
    "Profile": {
        "sample_type": (1, ["ValueType"]), "sample": (2, ["Sample"]), "mapping": (3, ["Mapping"]),
        "location": (4, ["Location"]), "function": (5, ["Function"]), "string_table": (6, ["string"]),
        "drop_frames": (7, "int64"), "keep_frames": (8, "int64"), "time_nanos": (9, "int64"),
        "duration_nanos": (10, "int64"), "period_type": (11, "ValueType"), "period": (12, "int64"),
        "comment": (13, ["int64"]), "default_sample_type": (14, "int64"),
    },
    "ValueType": {"type": (1, "int64"), "unit": (2, "int64")},
    "Sample": {"location_id": (1, ["uint64"]), "value": (2, ["int64"]), "label": (3, ["Label"])},
    "Label": {"key": (1, "int64"), "str": (2, "int64"), "num": (3, "int64"), "num_unit": (4, "int64")},
    "Mapping": {
        "id": (1, "uint64"), "memory_start": (2, "uint64"), "memory_limit": (3, "uint64"),
        "file_offset": (4, "uint64"), "filename": (5, "int64"), "build_id": (6, "int64"),
        "has_functions": (7, "bool"), "has_filenames": (8, "bool"), "has_line_numbers": (9, "bool"),
    },
    "Location": {"id": (1, "uint64"), "mapping_id": (2, "uint64"), "address": (3, "uint64"), "line": (4, ["Line"])},
    "Line": {"function_id": (1, "uint64"), "line": (2, "int64")},
    "Function": {
        "id": (1, "uint64"), "name": (2, "int64"), "system_name": (3, "int64"), "filename": (4, "int64"),
        "start_line": (5, "int64"),
    },
}  # fmt: skip


def profile_class():
    file = descriptor_pb2.FileDescriptorProto(name="pprof.proto", package="t", syntax="proto3")
    for message, fields in MESSAGES.items():
        m = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            f = m.field.add(name=field, number=number, label=1)
            if isinstance(kind, list):
                f.label, kind = 3, kind[0]
            if kind in MESSAGES:
                f.type, f.type_name = 11, f".t.{kind}"
            else:
                f.type = {"int64": 3, "uint64": 4, "bool": 8, "string": 9}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Profile"))


@pytest.fixture
def load(written):
    def read(*arguments):
        profile = profile_class()()
        profile.ParseFromString(gzip.decompress(written(*arguments).read_bytes()))
        check(profile)
        return profile

    return read


def check(profile):
    """What pprof demands of every profile."""
    strings = profile.string_table
    assert strings[0] == ""
    assert len(set(strings)) == len(strings)
    locations = {location.id: location for location in profile.location}
    functions = {function.id for function in profile.function}
    mappings = {mapping.id for mapping in profile.mapping}
    for ids, table in (
        (locations, profile.location),
        (functions, profile.function),
        (mappings, profile.mapping),
    ):
        assert 0 not in ids and len(ids) == len(table), "ids are not zero and not used twice"
    for location in profile.location:
        assert location.mapping_id in mappings
        assert all(line.function_id in functions for line in location.line)
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        assert sample.location_id and all(i in locations for i in sample.location_id)
    for message in (*profile.function, *profile.mapping, *profile.sample_type, profile.period_type):
        for field, value in message.ListFields():
            if field.name in ("name", "system_name", "filename", "type", "unit"):
                assert value < len(strings)


def stacks(profile):
    """{(labels, names from the root): values}"""
    strings = profile.string_table
    name = {f.id: strings[f.name] for f in profile.function}
    at = {location.id: name[location.line[0].function_id] for location in profile.location}
    found = {}
    for sample in profile.sample:
        labels = {strings[label.key]: strings[label.str] or label.num for label in sample.label}
        key = (
            labels["pid"],
            labels["thread id"],
            tuple(at[i] for i in reversed(sample.location_id)),
        )
        old = found.get(key, (0, 0))
        found[key] = (old[0] + sample.value[0], old[1] + sample.value[1])
    return found


def test_samples_are_those_recorded(load, basic):
    expected = {}
    for (pid, tid), samples in basic.items():
        for _, frames in samples:
            if frames:
                key = (pid, tid, tuple(frames))
                count = expected.get(key, (0, 0))[0] + 1
                expected[key] = (count, count * 10_000_000)
    assert stacks(load("basic", "pprof")) == expected


def test_what_the_numbers_mean(load):
    profile = load("basic", "pprof")
    strings = profile.string_table
    kinds = [(strings[t.type], strings[t.unit]) for t in profile.sample_type]
    assert kinds == [("samples", "count"), ("wall", "nanoseconds")]
    assert strings[profile.default_sample_type] == "wall"
    assert (strings[profile.period_type.type], profile.period) == ("wall", 10_000_000)
    assert profile.time_nanos == 1_700_000_000 * 10**9
    assert profile.duration_nanos == 150_000_000


def test_threads_are_labelled(load):
    profile = load("basic", "pprof")
    strings = profile.string_table
    names = {
        strings[label.str]
        for s in profile.sample
        for label in s.label
        if strings[label.key] == "thread name"
    }
    assert names == {"MainThread", 'worker; "1"'}


def test_functions_have_files_and_lines(load):
    profile = load("basic", "pprof")
    strings = profile.string_table
    load_function = next(f for f in profile.function if strings[f.name] == "load")
    assert strings[load_function.filename] == "/srv/data.py"
    assert load_function.start_line == 5
    lines = {
        line.line
        for at in profile.location
        for line in at.line
        if line.function_id == load_function.id
    }
    assert lines == {7, 9}


def test_root_frames(load):
    profile = load("basic", "pprof", "--threads", "--processes")
    roots = {names[:2] for pid, _, names in stacks(profile) if pid == 100}
    program = 'process 100:"/usr/bin/python3 /srv/app.py --token=secret"'
    assert roots == {(program, "thread (100): MainThread"), (program, 'thread (101): worker; "1"')}


@pytest.mark.parametrize("case", ["empty", "hostile", "web"])
def test_rules_of_the_format(load, case):
    load(case, "pprof")


def test_same_input_same_bytes(written):
    assert written("web", "pprof").read_bytes() == written("web", "pprof").read_bytes()


@pytest.mark.skipif(
    not shutil.which("go"), reason="Go is not installed: pprof itself was not asked"
)
@pytest.mark.timeout(600)  # newer releases of Go build the tool on first use
def test_pprof_itself_shows_the_functions(written):
    profile = written("basic", "pprof")
    result = subprocess.run(
        ["go", "tool", "pprof", "-top", profile], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    rows = {line.split()[-1]: line.split() for line in result.stdout.splitlines() if "%" in line}
    assert rows["load"][0] == "40ms" and rows["load"][3] == "50ms"
    # Not taken for a C++ template and stripped.
    assert rows["<module>"][3] == "80ms"
