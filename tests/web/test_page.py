"""The page of a real `scry serve`, driven in a real Chromium, looking at real programs. The tests are written in
JavaScript, run in one go by Node, and counted one by one here, like those in tests/browser."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NODE = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
HOSTILE = (
    '</span><img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'
)


def names() -> list[str]:
    """The names of the tests, read from the files, so that they are known even where Node is missing."""
    files = (HERE / name for name in ("access.mjs", "cluster.mjs", "profiles.mjs"))
    return [
        name for file in files for name in re.findall(r"^  async '(.*?)'", file.read_text(), re.M)
    ]


class World:
    """Programs to look at, and servers that do."""

    def __init__(self, scry: str, folder: Path):
        self.scry, self.folder = scry, folder
        self.started: list[subprocess.Popen] = []

    def start(self, *command: object, **more: object) -> tuple[subprocess.Popen, str]:
        """Starts a program and waits for its first line."""
        process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, text=True, **more
        )
        self.started.append(process)
        assert process.stdout
        line = process.stdout.readline()
        assert line, f"{command} ended before it was ready"
        return process, line

    def worker(self, title: str, *words: str) -> int:
        """A program whose command line begins with its title, as Ray has it."""
        command = [title, HERE / "targets" / "worker.py", *words]
        return self.start(*command, executable=sys.executable)[0].pid

    def serve(self, name: str, *words: object) -> str:
        data = ["--data-dir", self.folder / name, "--node-name", name]
        _, line = self.start(self.scry, "serve", "--port", "0", *data, *words)
        found = re.search(r"https?://\S+", line)
        assert found, line
        return found[0].rstrip("/") + "/"

    def gone(self) -> int:
        """A pid that nobody has any more."""
        process = subprocess.Popen(["true"])
        process.wait()
        return process.pid

    def end(self) -> None:
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def build_world(world: World) -> dict[str, object]:
    tag = f"tag-{os.getpid()}"  # other tests on this machine may have programs of the same title
    facts: dict[str, object] = {
        "tag": tag,
        "worker": world.worker("ray::train_step", "orders", tag),
        "second": world.worker("ray::train_step", "orders", tag),
        "hostile": world.worker("<b>bold<script>", HOSTILE),
        "gone": world.gone(),
    }
    beta = world.serve("beta")
    facts["url"] = world.serve("alpha", "--peer", re.sub(r"^https?://|/$", "", beta))
    token = world.folder / "token"
    facts["guarded"] = world.serve("guarded", "--token-file", token)
    facts["token"] = token.read_text().strip()
    return facts


@pytest.fixture(scope="session")
def results(scry, tmp_path_factory):
    assert NODE, "node is not installed: run ./dev setup"
    assert CHROMIUM, "chromium is not installed: run ./dev setup"
    assert (HERE.parent / "node_modules" / "axe-core").exists(), "run ./dev setup"
    folder = tmp_path_factory.mktemp("page")
    world = World(scry, folder)
    try:
        (folder / "world.json").write_text(json.dumps(build_world(world)))
        only = os.environ.get("PAGE_TESTS", "").split(",") if "PAGE_TESTS" in os.environ else []
        run = subprocess.run(
            [NODE, HERE / "run.mjs", CHROMIUM, folder / "world.json", folder, *only],
            capture_output=True,
            text=True,
        )
    finally:
        world.end()
    found = {r["name"]: r for r in map(json.loads, run.stdout.splitlines())}
    found["the whole run"] = {"error": run.stderr if run.returncode else ""}
    return found


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("page")  # one run for all of them
@pytest.mark.parametrize("name", [*names(), "the whole run"])
def test_page(results, name):
    assert name in results, "it was not run: " + results["the whole run"]["error"]
    assert not results[name]["error"], results[name]["error"]
