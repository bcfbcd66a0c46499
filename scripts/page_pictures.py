"""The pictures of the page in the README and the guide: a real server, looking at real programs.

    sudo unshare --fork --pid --mount-proc --kill-child .venv/bin/python scripts/page_pictures.py [FOLDER]

needs build/scry, chromium and what ./dev setup installs (and a font with Chinese characters for one of them), and writes
docs/images/page-*.png. In a pid namespace of its own it shows only what it started."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parent.parent
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
PROGRAMS = [
    ("python3", "examples/monthly_report.py"),
    ("ray::train_step", "tests/web/targets/worker.py"),
    ("ray::train_step", "tests/web/targets/worker.py"),
    ("ray::long_running_task", "examples/long_running_task.py"),
    ("dask-worker", "tests/web/targets/worker.py"),
]


def main() -> None:
    images = Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "docs" / "images"
    started = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for title, file in PROGRAMS:
                # A title of its own, as Ray and Dask give their workers, leaves no room for a file's name.
                whole = title != "python3"
                with open(PROJECT / file) as source:
                    program = subprocess.Popen(
                        [title] if whole else [title, file],
                        executable=sys.executable,
                        cwd=PROJECT,
                        stdin=source if whole else subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                    )
                started.append(program)
            command = [PROJECT / "build" / "scry", "serve", "--port", "0", "--data-dir", folder]
            server = subprocess.Popen(
                [*command, "--node-name", "worker-1"], stdout=subprocess.PIPE, text=True
            )
            started.append(server)
            url = re.search(r"http://\S+", server.stdout.readline())[0]
            chromium = shutil.which("chromium") or shutil.which("google-chrome")
            script = PROJECT / "scripts" / "page_pictures.mjs"
            subprocess.run([NODE, script, chromium, url, str(started[0].pid), images], check=True)
        finally:
            for process in started:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
