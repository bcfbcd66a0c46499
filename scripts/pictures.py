"""The pictures of the README: a real dump, top and flame graph of examples/monthly_report.py.

    python3 scripts/pictures.py

needs build/scry, chromium and tmux, and writes dump.png, top.png and flamegraph.png in docs/images."""

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
COLOURS = ["#1d1f27", "#e06c75", "#7fc97f", "#f2c55c", "#7aa2f7", "#c594c5", "#6cc7d0", "#d9dbe3"]
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


def style_of(state: dict[str, int]) -> str:
    front, back = COLOURS[state["front"]], COLOURS[state["back"]]
    if state["reverse"]:
        front, back = back, front
    weight = ";font-weight:bold" if state["bold"] else ""
    return f"color:{front};background:{back}{weight}" + ";opacity:.65" * state["dim"]


def apply(state: dict[str, int], code: int) -> None:
    """One number of a terminal's SGR sequence."""
    switches = {1: ("bold", 1), 2: ("dim", 1), 7: ("reverse", 1), 27: ("reverse", 0)}
    if code == 0:
        state.update(front=7, back=0, bold=0, dim=0, reverse=0)
    elif code == 22:
        state.update(bold=0, dim=0)
    elif code in switches:
        state[switches[code][0]] = switches[code][1]
    elif 30 <= code <= 39:
        state["front"] = code - 30 if code < 38 else 7
    elif 40 <= code <= 49:
        state["back"] = code - 40 if code < 48 else 0


def to_html(text: str) -> str:
    state: dict[str, int] = {}
    apply(state, 0)
    pieces = []
    for i, piece in enumerate(re.split(r"\x1b(?:\[([\d;]*)m|\(B|\x0f)", text)):
        if i % 2:
            for code in (piece or "").split(";") if piece is not None else []:
                apply(state, int(code or 0))
        elif piece:
            pieces.append(
                f'<span style="{style_of(state)}">{html.escape(piece, quote=False)}</span>'
            )
    return PAGE.format("".join(pieces))


def terminal(text: str, to: Path, folder: Path, columns: int = 0) -> None:
    page = folder / "terminal.html"
    page.write_text(to_html(text))
    plain = re.sub(r"\x1b(\[[\d;]*m|\(B)|\x0f", "", text).splitlines()
    width = int((columns or max(map(len, plain))) * 9.05) + 44
    screenshot(page, to, width, int(len(plain) * 21.75) + 36)


def top_screen(pid: int, folder: Path) -> str:
    """What a person sees after some seconds."""
    tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
    command = f"{PROJECT}/build/scry top -p {pid}"
    env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR")}
    env |= {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
    start = [*tmux, "new-session", "-d", "-x", "110", "-y", "20", command]
    subprocess.run(start, env=env, check=True)
    try:
        time.sleep(6)
        shown = subprocess.run(
            [*tmux, "capture-pane", "-p", "-e"], capture_output=True, text=True, check=True
        )
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
    return shown.stdout


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
            place = Path(folder)
            text = f"$ scry dump -p {program.pid}\n" + good_dump(program.pid)
            terminal(text, IMAGES / "dump.png", place)
            text = top_screen(program.pid, place)
            terminal(text.rstrip() + "\n", IMAGES / "top.png", place, 110)

            graph = Path(folder, "profile.svg")
            scry("record", "-d", "10", "-o", graph, "-p", program.pid)
            height = int(re.search(r'height="(\d+)"', graph.read_text())[1])
            screenshot(graph, IMAGES / "flamegraph.png", 1200, height)
    finally:
        program.kill()
        program.wait()


if __name__ == "__main__":
    main()
