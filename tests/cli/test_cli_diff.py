"""diff: two recordings of real programs compared, as a table, as JSON and as a flame graph."""

import json
import os
import pty
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

# Both versions do the same number of rounds; "next" does three times the work in parse(), none in legacy(),
# and has modern() instead.
PROGRAM = """
import sys
import threading

def spin(n):
    total = 0
    for i in range(n):
        total += i
    return total

def parse(n):
    total = 0
    for i in range(n):
        total += i
    return total

def legacy(n):
    total = 0
    for i in range(n):
        total += i
    return total

def modern(n):
    total = 0
    for i in range(n):
        total += i
    return total

def rounds(next_version):
    for _ in range(300):
        spin(20000)
        parse(60000 if next_version else 20000)
        (modern if next_version else legacy)(20000)

rounds(sys.argv[1] == "next")
"""
SVG = "{http://www.w3.org/2000/svg}"
FG = "{urn:scry:flamegraph}"


@pytest.fixture(scope="module")
def folder(scry, tmp_path_factory):
    """before.scry and after.scry, recorded from a program in two versions."""
    folder = tmp_path_factory.mktemp("diff")
    (folder / "app.py").write_text(PROGRAM)
    for name, version in (("before", "this"), ("after", "next")):
        command = [scry, "record", "-f", "scry", "-r", "1000", "-o", f"{name}.scry", "--"]
        subprocess.run(
            [*command, sys.executable, "app.py", version],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=120,
        )
    return folder


@pytest.fixture
def diff(tool, folder):
    """Calls diff on the two recordings, in a folder of its own."""

    def call(*args, **options):
        files = [folder / "before.scry", folder / "after.scry"]
        return tool("diff", *args, *files, **options)

    return call


def functions(result):
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    return {f["function"]: f for f in found["functions"]}


def test_what_grew_and_what_shrank(diff):
    found = functions(diff("-f", "json"))
    parse, legacy, modern = found["parse"], found["legacy"], found["modern"]
    # 1 of 3 parts became 3 of 5
    assert parse["own"]["change"] > 10 and parse["own"]["significant"]
    assert parse["file"] == "app.py"
    assert legacy["own"]["after"] == 0 and legacy["own"]["change"] < -10
    assert modern["own"]["before"] == 0 and modern["own"]["change"] > 10
    assert legacy["own"]["samples"][1] == 0 and modern["own"]["samples"][0] == 0
    top = found["rounds"]["total"]
    assert top["before"] > 80 and top["after"] > 80
    for f in found.values():
        for figures in (f["own"], f["total"]):
            assert figures["change"] == pytest.approx(
                figures["after"] - figures["before"], abs=1e-5
            )
            assert figures["significant"] == (abs(figures["sigmas"]) >= 3)
            assert 0 <= figures["before"] <= 100 and 0 <= figures["after"] <= 100


def test_own_shares_add_up(diff):
    found = json.loads(diff("-f", "json").stdout)["functions"]
    for moment in ("before", "after"):
        assert sum(f["own"][moment] for f in found) == pytest.approx(100, abs=1e-3)


def test_the_greatest_change_comes_first(diff):
    listed = json.loads(diff("-f", "json").stdout)["functions"]
    changes = [abs(f["own"]["change"]) for f in listed]
    assert changes == sorted(changes, reverse=True)
    assert {f["function"] for f in listed[:3]} <= {"parse", "legacy", "modern", "spin"}


def test_a_recording_and_itself(tool, folder):
    path = folder / "before.scry"
    result = tool("diff", "-f", "json", path, path)
    for f in functions(result).values():
        assert f["own"]["change"] == 0 and f["total"]["change"] == 0
        assert not f["own"]["significant"]
    assert "nothing changed" in tool("diff", path, path).stdout


def test_the_other_way_round_changes_the_signs(tool, folder, diff):
    there = functions(diff("-f", "json"))
    back = functions(tool("diff", "-f", "json", folder / "after.scry", folder / "before.scry"))
    assert there.keys() == back.keys()
    for name, f in there.items():
        assert f["own"]["change"] == pytest.approx(-back[name]["own"]["change"])
        assert f["own"]["sigmas"] == pytest.approx(-back[name]["own"]["sigmas"])


def test_the_table(diff):
    result = diff()
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Before: before.scry, ") and " at 1000 Hz" in lines[0]
    assert lines[1].startswith("After:  after.scry, ")
    (parse,) = [line for line in lines if line.endswith("  parse (app.py)")]
    change, before, after = parse.split()[:3]
    assert float(change) == pytest.approx(float(after[:-1]) - float(before[:-1]), abs=0.02)
    (legacy,) = [line for line in lines if line.endswith("  legacy (app.py)")]
    assert legacy.split()[0].startswith("-") and legacy.split()[2] == "-"
    assert "\x1b" not in result.stdout
    assert all(line == line.rstrip() for line in lines)


def test_noise_is_marked(tool, diff):
    """What the JSON calls significant is what has no mark in the table, and the other way round."""
    found = functions(diff("-f", "json", "--full-filenames"))
    table = diff("--limit", 0, "--full-filenames").stdout
    assert "~ less than 3 standard deviations" in table
    for name in ("parse", "legacy", "modern", "rounds"):
        (line,) = [t for t in table.splitlines() if f"  {name} (" in t]
        assert ("~" not in line[:9]) == found[name]["own"]["significant"]


def test_limit(diff):
    def rows(*args):
        result = diff(*args)
        assert result.returncode == 0, result.stderr
        return [line for line in result.stdout.splitlines() if re.match(r" *[+-]\d", line)]

    assert len(rows("--limit", 2)) == 2
    assert "more functions that changed less; --limit 0 shows all" in diff("--limit", 2).stdout
    everything = rows("--limit", 0)
    assert len(everything) == len(json.loads(diff("-f", "json").stdout)["functions"])
    assert rows("--limit", 2) == everything[:2]


def test_on_a_terminal_it_has_colours_and_keeps_to_the_width(scry, folder):
    master, slave = pty.openpty()
    os.set_inheritable(slave, True)
    subprocess.run(["stty", "cols", "70"], stdin=slave, check=True)
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "CLICOLOR_FORCE")}
    process = subprocess.Popen(
        [scry, "diff", "before.scry", "after.scry"],
        cwd=folder,
        stdout=slave,
        env=env | {"TERM": "xterm"},
    )
    os.close(slave)
    data = b""
    try:
        while block := os.read(master, 65536):
            data += block
    except OSError:  # the other end is closed
        pass
    os.close(master)
    assert process.wait() == 0
    text = data.decode()
    assert "\x1b[31m" in text and "\x1b[94m" in text
    table = re.sub(r"\x1b\[[\d;]*m", "", text).split("\r\n\r\n")[1].splitlines()[2:]
    assert len(table) > 3 and max(map(len, table)) <= 70
    assert any(line.endswith("…") for line in table)


# ---- the flame graph ----


def views(path):
    """{view: {label without figures: box}} and the view that is shown."""
    root = ET.parse(path).getroot()
    found, shown = {}, []
    for view in root.findall(f"{SVG}svg"):
        name = view.get("id").removeprefix("frames-")
        if "display:none" not in view.get("style", ""):
            shown.append(name)
        boxes = found[name] = {}
        for g in view.findall(f"{SVG}g"):
            title, rect = g.find(f"{SVG}title").text, g.find(f"{SVG}rect")
            label, figures = re.fullmatch(r"(.*) \((before .*)\)", title).groups()
            boxes.setdefault(label, (figures, rect.get("class"), int(rect.get(f"{FG}w"))))
    return found, shown


def test_the_flame_graph(tool, diff):
    result = diff("-o", "change.svg")
    assert result.returncode == 0, result.stderr
    assert result.stderr == (
        "scry: wrote differential flame graph to 'change.svg'; open it in a browser\n"
    )
    found, shown = views(tool.folder / "change.svg")
    assert shown == ["after"]
    assert found.keys() == {"before", "after"}
    after, before = found["after"], found["before"]
    figures, colour, _ = after["parse (app.py)"]
    assert re.search(r"\+\d\d\.\d\d points, own \+", figures) and colour.startswith("g")
    assert "legacy (app.py)" not in after and "modern (app.py)" not in before
    figures, colour, _ = before["legacy (app.py)"]
    assert ", after 0.00%, -" in figures and " → 0 samples" in figures
    assert colour.startswith("d") and colour != "d0"
    assert after["all"][1] == "r d0"
    # the same figures in both layouts, widths of their own
    assert after["parse (app.py)"][0] == before["parse (app.py)"][0]
    for view, moment in ((before, 0), (after, 1)):
        counts = re.search(r"([\d,]+) → ([\d,]+) samples", view["parse (app.py)"][0]).groups()
        assert view["parse (app.py)"][2] == int(counts[moment].replace(",", ""))


def test_widths_of_before_at_first(tool, diff):
    assert diff("--widths", "before", "-o", "change.svg").returncode == 0
    assert views(tool.folder / "change.svg")[1] == ["before"]


def test_by_time(tool, diff):
    found = functions(diff("-f", "json", "--by", "time"))
    assert 50 < found["rounds"]["total"]["after"] <= 101
    assert diff("--by", "time", "-o", "change.svg").returncode == 0
    views_found, _ = views(tool.folder / "change.svg")
    assert views_found["after"]["all"][2] > 100000, "widths are microseconds"
    assert "% of the wall clock" in diff("--by", "time").stdout


@pytest.mark.parametrize(
    "option, label",
    [
        ("--nolineno", "parse (app.py)"),
        ("--function", "parse (app.py:11)"),
        ("--lines", "parse (app.py:14)"),
        ("--full-filenames", "parse (<folder>/app.py)"),
        ("--threads", "thread: MainThread"),
    ],
)
def test_options_of_the_view(tool, folder, diff, option, label):
    assert diff(option, "-o", "change.svg").returncode == 0
    found, _ = views(tool.folder / "change.svg")
    label = label.replace("<folder>", str(folder))
    assert label in found["before"] and label in found["after"]


def test_the_flame_graph_without_a_name(tool, folder, refused):
    for name in ("before", "after"):
        (tool.folder / f"{name}.scry").write_bytes((folder / f"{name}.scry").read_bytes())
    result = tool("diff", "-f", "flamegraph", "before.scry", "after.scry")
    assert result.returncode == 0, result.stderr
    assert tool.left() == ["after-diff.svg", "after.scry", "before.scry"]
    again = tool("diff", "-f", "flamegraph", "before.scry", "after.scry")
    refused(again, 1, "'after-diff.svg' is there already", "-o")


def test_to_standard_output(tool, diff):
    assert diff("-f", "flamegraph", "-o", "-").stdout.rstrip().endswith("</svg>")
    assert diff("-f", "text", "-o", "-").stdout.startswith("Before: ")
    assert tool.left() == []


def test_text_and_json_into_files(tool, diff):
    assert diff("-f", "text", "-o", "t").returncode == 0
    assert diff("-f", "json", "-o", "j").returncode == 0
    assert (tool.folder / "t").read_text() == diff().stdout
    assert (tool.folder / "j").read_text() == diff("-f", "json").stdout
    env = {"CLICOLOR_FORCE": "1"}
    assert diff("-f", "text", "-o", "t", env=env).returncode == 0
    assert "\x1b" not in (tool.folder / "t").read_text()


@pytest.fixture
def pair(scry, tool):
    maker = Path(scry).resolve().parent / "tests" / "golden" / "make_profile"
    for case in ("web", "web-next", "hostile", "empty"):
        subprocess.run([maker, case, "scry", tool.folder / f"{case}.scry"], check=True)
    return tool.left()


@pytest.mark.parametrize(
    "args, status, says",
    [
        ([], 2, ["needs two recordings", "given 0"]),
        (["web.scry"], 2, ["needs two recordings", "given 1"]),
        (["web.scry", "web.scry", "web.scry"], 2, ["needs two recordings", "given 3"]),
        (["web.scry", "gone.scry"], 1, ["'gone.scry'", "No such file"]),
        (["cut.scry", "web.scry"], 1, ["'cut.scry' is cut off", "--partial"]),
        (["web.scry", "web-next.scry", "-F", "--lines"], 2, ["--lines", "--function"]),
        (["web.scry", "web-next.scry", "-f", "pprof"], 2, ["'pprof'", "flamegraph", "json"]),
        (["web.scry", "web-next.scry", "--by", "weight"], 2, ["'weight'", "share", "time"]),
        (["web.scry", "web-next.scry", "--limit", "some"], 2, ["--limit 'some'", "number"]),
        (["web.scry", "web-next.scry", "--limit", "-1"], 2, ["--limit '-1'"]),
        (["web.scry", "web-next.scry", "-o", "web.scry"], 2, ["'web.scry'", "read"]),
        (["web.scry", "web-next.scry", "-o", "/dev/full"], 1, ["'/dev/full'", "-o"]),
        (["web.scry", "web-next.scry", "-o", "no/such/x"], 1, ["'no/such/x'", "folder first"]),
    ],
)
def test_bad_input(tool, refused, pair, args, status, says):
    data = (tool.folder / "web.scry").read_bytes()
    (tool.folder / "cut.scry").write_bytes(data[: len(data) // 2])
    before = tool.left()
    refused(tool("diff", *args), status, *says)
    assert tool.left() == before


def test_part_of_a_recording(tool, pair):
    data = (tool.folder / "web.scry").read_bytes()
    (tool.folder / "cut.scry").write_bytes(data[: len(data) // 2])
    result = tool("diff", "--partial", "cut.scry", "web.scry")
    assert result.returncode == 0
    assert "'cut.scry' is cut off or damaged: taking the " in result.stderr


def test_hostile_names(tool, pair):
    result = tool("diff", "hostile.scry", "web.scry")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    assert tool("diff", "-t", "-o", "h.svg", "hostile.scry", "web.scry").returncode == 0
    svg = (tool.folder / "h.svg").read_text()
    assert svg.count("<script>") == 1
    ET.fromstring(svg)
    json.loads(tool("diff", "-f", "json", "hostile.scry", "web.scry").stdout)


def test_nothing_to_compare_with(tool, pair):
    assert functions(tool("diff", "-f", "json", "empty.scry", "web.scry"))
    assert tool("diff", "-o", "e.svg", "empty.scry", "empty.scry").returncode == 0
    assert "No samples" in (tool.folder / "e.svg").read_text()
    assert "nothing changed" in tool("diff", "empty.scry", "empty.scry").stdout
