"""The tables of offsets, against the headers of every interpreter found."""

import sys
from pathlib import Path

import pytest
import pythons

sys.path.insert(0, str(pythons.PROJECT / "src" / "cpython"))

import layouts


def test_tables_agree_with_the_headers(python):
    if not (Path(python.include) / "Python.h").exists():
        pytest.skip(f"{python.id} came without headers: its row is not checked")
    for build in layouts.builds_of(Path(python.include)):
        assert layouts.differences(build) == []


def test_a_wrong_offset_is_noticed(monkeypatch, tmp_path):
    """The check itself: the first interpreter with headers, and a table with one number changed."""
    with_headers = [p for p in pythons.found() if (Path(p.include) / "Python.h").exists()]
    assert with_headers, "no interpreter here has headers: install a python3-dev package"
    build = layouts.builds_of(Path(with_headers[0].include))[0]
    text = layouts.LAYOUTS.read_text()
    changed = tmp_path / layouts.LAYOUTS.name
    changed.write_text(text.replace(".func_name = ", ".func_name = 7"))
    monkeypatch.setattr(layouts, "LAYOUTS", changed)
    assert any("func_name" in line for line in layouts.differences(build))


def test_rows_are_written_as_they_are_read():
    for path, head in (
        (layouts.LAYOUTS, layouts.LAYOUT_HEAD),
        (layouts.SHAPES, layouts.SHAPE_HEAD),
    ):
        assert layouts.render(head, layouts.parse(path)) == path.read_text()


def test_every_field_has_a_value_in_every_row():
    for label, row in layouts.parse(layouts.LAYOUTS).items():
        assert set(layouts.fields()) <= row.keys(), label
