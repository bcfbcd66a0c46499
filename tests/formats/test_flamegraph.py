"""The flame graph as a file: well-formed, complete, bounded. What it does in a browser: tests/browser."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

SVG = "{http://www.w3.org/2000/svg}"
FG = "{urn:scry:flamegraph}"
TITLE = re.compile(r"(?s)(.*) \(([\d,]+) samples?, ([\d.]+)%\)")


def boxes(path):
    """[(label, samples, x, row)] in the order of the file."""
    root = ElementTree.parse(path).getroot()
    frames = next(svg for svg in root.iter(SVG + "svg") if svg.get("id") == "frames")
    found = []
    for g in frames.iter(SVG + "g"):
        rect = g.find(SVG + "rect")
        label, samples, percent = TITLE.fullmatch(g.find(SVG + "title").text).groups()
        assert int(samples.replace(",", "")) == int(rect.get(FG + "w"))
        share = 100 * int(rect.get(FG + "w")) / int(frames.get("total_samples"))
        assert float(percent) == pytest.approx(share, abs=0.006)
        found.append((label, int(rect.get(FG + "w")), int(rect.get(FG + "x")), int(rect.get("y"))))
    return found


@pytest.mark.parametrize("options", [(), ("--threads", "--processes")])
@pytest.mark.parametrize("case", ["basic", "web", "hostile", "huge"])
def test_every_box_lies_within_its_caller(written, case, options):
    path = []
    for _, width, x, y in boxes(written(case, "flamegraph", *options)):
        while path and path[-1][2] >= y:
            path.pop()
        if path:
            left, right, _ = path[-1]
            assert left <= x and x + width <= right
            assert y == path[-1][2] + 18
        path.append((x, x + width, y))


def test_scripts_that_read_py_spys_find_what_they_look_for(written):
    text = written("basic", "flamegraph").read_text()
    assert text.startswith("<?xml")
    assert "<!DOCTYPE svg" in text
    assert "<title>load (data.py:7) (3 samples, 27.27%)</title><rect " in text
    assert 'id="frames"' in text and 'total_samples="11"' in text


def test_it_needs_nothing_from_elsewhere(written):
    text = written("basic", "flamegraph").read_text()
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= namespaces
    assert "@import" not in text and "url(" not in text


def test_hostile_names_come_back_unchanged(written):
    labels = {label for label, *_ in boxes(written("hostile", "flamegraph"))}
    assert "</script><script>alert(1)</script> (x;y␊.py:1)" in labels
    assert "]]><script>alert(2)</script>" in labels
    assert "&lt;b&gt; &amp; &#x1;" in labels
    assert "tab␉here␊new line␍␁␛[31m red" in labels
    assert "функция 函数 💩" in labels
    assert "<unknown>" in labels


def test_secrets_of_command_lines_are_not_in_the_title(written):
    text = written("basic", "flamegraph").read_text()
    assert "scry · python3 app.py and 1 more · 11 samples over 0.1 s at 100 Hz" in text
    assert "secret" not in text


@pytest.mark.parametrize(
    ("case", "advice"),
    [("empty", "--idle"), ("gil", "without --gil"), ("idle", "No thread had a Python frame")],
)
def test_nothing_recorded_is_explained(written, case, advice):
    path = written(case, "flamegraph")
    ElementTree.parse(path)
    assert "No samples" in path.read_text() and advice in path.read_text()


@pytest.mark.parametrize("case", ["deep", "huge"])
def test_size_is_bounded(written, case):
    path = written(case, "flamegraph")
    assert path.stat().st_size < 4_000_000
    assert re.search(r"frames narrower than 0.02% folded", path.read_text())


def test_what_is_too_narrow_is_folded_not_lost(written):
    """Below every box either the rest is the box's own, or it stands in one box of narrow ones."""
    found = boxes(written("huge", "flamegraph"))
    folded = [
        width for label, width, *_ in found if re.fullmatch(r"\([\d,]+ narrower frames?\)", label)
    ]
    assert sum(folded) == 40_000


def test_what_went_wrong_is_said(written):
    assert "1 torn · 2 missed · 3 late" in written("basic", "flamegraph").read_text()


def test_same_input_same_bytes(written):
    assert written("web", "flamegraph").read_bytes() == written("web", "flamegraph").read_bytes()
