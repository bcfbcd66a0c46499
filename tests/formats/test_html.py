"""The html report as a file: what it holds, and whose files it reads. tests/browser opens it."""

import json
import re
import subprocess
import sys

import pytest


def data_of(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


def test_totals_are_those_of_the_recording(written):
    data = data_of(written("basic", "html").read_text())
    rows = [data["totals"][i : i + 4] for i in range(0, len(data["totals"]), 4)]
    assert sum(samples for _, _, samples, _ in rows) == 11
    assert len(data["tracks"]) == 3


def test_hostile_names_end_no_script(written):
    text = written("hostile", "html").read_text()
    assert text.count("<script") == text.count("</script>") == 2
    data_of(text)


@pytest.fixture(scope="module")
def recording(scry, tmp_path_factory):
    """Of a program one of whose files is a link to what is not for everybody."""
    folder = tmp_path_factory.mktemp("html")
    (folder / "secret.txt").write_text("TOP = 'SECRET'\n")
    (folder / "linked.py").symlink_to(folder / "secret.txt")
    program = folder / "program.py"
    program.write_text(
        "import time\n"
        f"code = compile('def spin(until):\\n  while time.monotonic() < until: pass\\n', {str(folder / 'linked.py')!r}, 'exec')\n"
        "exec(code)\n"
        "def visible_source():\n"
        "    spin(time.monotonic() + 0.7)\n"
        "visible_source()\n"
    )
    command = [
        scry,
        "record",
        "-f",
        "scry",
        "-o",
        folder / "run.scry",
        "--",
        sys.executable,
        program,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "run.scry"


def report(scry, recording, *options):
    command = [scry, "convert", "-f", "html", "-o", "-", *options, recording]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_source_of_regular_files_only(scry, recording):
    text = report(scry, recording)
    files = dict(data_of(text)["files"])
    assert "def visible_source" in files[str(recording.parent / "program.py")]
    assert files[str(recording.parent / "linked.py")] is None
    assert "SECRET" not in text


def test_no_source(scry, recording):
    text = report(scry, recording, "--no-source")
    assert "visible_source" in text and "def visible_source" not in text
    assert not any(source for _, source in data_of(text)["files"])
