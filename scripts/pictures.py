"""The pictures of the README: a real dump and a real flame graph of examples/monthly_report.py.

    python3 scripts/pictures.py

needs build/scry and chromium, and writes docs/images/dump.png and docs/images/flamegraph.png."""

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).parent.parent
IMAGES = PROJECT / "docs" / "images"
STYLES = {
    "1;33": "color:#f2c55c;font-weight:bold",
    "32": "color:#7fc97f",
    "36": "color:#6cc7d0",
    "2": "opacity:.65",
    "1": "font-weight:bold",
}
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #1d1f27; color: #d9dbe3; font: 15px/1.45 "DejaVu Sans Mono", monospace }}
pre {{ margin: 0; padding: 18px 22px; font: inherit }}
</style><pre>{}</pre>"""


def scry(*args: object) -> str:
    env = os.environ | {"CLICOLOR_FORCE": "1", "NO_COLOR": ""}
    command = [PROJECT / "build" / "scry", *map(str, args)]
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout


def until_ready(pid: int) -> None:
    """A moment in which all threads are there and the busy one is deep in its work."""
    for _ in range(200):
        text = subprocess.run(
            [PROJECT / "build" / "scry", "dump", "-p", str(pid)], capture_output=True, text=True
        ).stdout
        if "listener" in text:
            return
        time.sleep(0.05)
    sys.exit("the example does not come up")


def good_dump(pid: int) -> str:
    """One in which the main thread is several calls deep: more telling than any other."""
    best = ""
    for _ in range(50):
        text = scry("dump", "-p", pid)
        depth = text.partition("deliveries")[0].count("\n")
        if 12 <= depth <= 16 and text.count("[") > best.count("["):
            best = text
    return best or scry("dump", "-p", pid)


def to_html(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(
        r"\x1b\[([\d;]*)m",
        lambda m: "</span>" if m[1] in ("", "0") else f'<span style="{STYLES[m[1]]}">',
        text,
    )
    return PAGE.format(text)


def screenshot(page: Path, to: Path, width: int, height: int) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("chromium is needed")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--window-size={width},{height}", "--force-device-scale-factor=1.5"]
    subprocess.run(
        [*command, f"--screenshot={to}", page.as_uri()], check=True, stderr=subprocess.DEVNULL
    )


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    program = subprocess.Popen(
        ["python3", "examples/monthly_report.py"],
        executable="/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable,
        cwd=PROJECT,
    )
    try:
        until_ready(program.pid)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "dump.html")
            text = f"$ scry dump -p {program.pid}\n" + good_dump(program.pid)
            page.write_text(to_html(text))
            plain = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
            width = int(max(map(len, plain)) * 9.05) + 44
            screenshot(page, IMAGES / "dump.png", width, int(len(plain) * 21.75) + 36)

            graph = Path(folder, "profile.svg")
            scry("record", "-d", "10", "-o", graph, "-p", program.pid)
            height = int(re.search(r'height="(\d+)"', graph.read_text())[1])
            screenshot(graph, IMAGES / "flamegraph.png", 1200, height)
    finally:
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
