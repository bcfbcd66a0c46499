"""The files of the package's modules, for the wheel: a name per line, seen from this folder."""

from pathlib import Path

HERE = Path(__file__).parent

for folder in ("scry", "scheduler_profiling"):
    for path in sorted((HERE / folder).rglob("*")):
        if path.suffix in (".py", ".pyi", ".html") or path.name == "py.typed":
            print(path.relative_to(HERE))
