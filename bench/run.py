"""scry beside its peers: the same targets, the same run, the profilers taking turns.

    python bench/run.py                 everything, about two hours on an idle machine
    python bench/run.py --quick         everything in a few minutes, to see that it works
    python bench/run.py rate slowdown   only these sections; the others keep their last figures

Raw figures go to bench/results.json, the tables to bench/RESULTS.md, the plots to bench/results-*.svg.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import goals
import report
import sections
import tools
import workload


def machine() -> dict[str, Any]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
    }


def describe(chosen: list[tools.Tool], folder: Path) -> list[dict[str, str]]:
    result = []
    for tool in chosen:
        words = " ".join(tool.command(tools.Ask(4242, 1000, 2, folder / "FILE")))
        words = words.replace(str(tools.PROJECT) + "/", "").replace(str(folder) + "/", "")
        words = words[words.find(" -- ") + 4 :] if " -- " in words else words
        words = words.replace(str(tools.VENV / "bin") + "/", "").replace("4242", "PID")
        version = ".".join(map(str, tool.python.version))
        result.append(
            {"name": tool.name, "version": tool.version(), "command": words, "python": version}
        )
    return result


def load(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {"sections": {}}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="SECTION",
        help=f"of {', '.join(sections.ALL)}; all if not given",
    )
    parser.add_argument(
        "--quick", action="store_true", help="shorter and coarser, a few minutes in all"
    )
    parser.add_argument("--reps", type=int, default=0, help="repetitions (3; 1 with --quick)")
    parser.add_argument(
        "--tries", type=int, default=5, help="how often to wait for a quiet host at most (5)"
    )
    parser.add_argument(
        "--targets", default="", help=f"only these, with commas: {', '.join(workload.KINDS)}"
    )
    parser.add_argument(
        "--tools", default="", help="only profilers whose names begin so, with commas"
    )
    parser.add_argument(
        "--pythons",
        default="",
        help="for the tracer: only interpreters whose names begin so, with commas; the others keep their last figures",
    )
    parser.add_argument("--out", type=Path, default=workload.FOLDER, help="where the results go")
    parser.add_argument("--report", action="store_true", help="only write the report again")
    parser.add_argument("--no-install", action="store_true", help="take the peers as they are")
    options = parser.parse_args()
    for name in options.sections:
        if name not in sections.ALL:
            parser.error(f"there is no section {name!r}")
    for name in filter(None, options.targets.split(",")):
        if name not in workload.KINDS:
            parser.error(f"there is no target {name!r}")
    return options


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    results_path = options.out / "results.json"
    results = load(results_path)
    if options.report:
        report.write(results, options.out, goals.lines(results))
        return 0
    if not options.no_install:
        tools.install_peers()
    chosen = tools.all_tools()
    if options.tools:
        prefixes = tuple(options.tools.split(","))
        chosen = [tool for tool in chosen if tool.name.startswith(prefixes)]
    if not chosen:
        raise SystemExit("bench: no profiler of that name can run here")
    with tempfile.TemporaryDirectory(prefix="scry-bench-") as name:
        session = sections.Session(
            folder=Path(name),
            tools=chosen,
            targets=[t for t in options.targets.split(",") if t],
            quick=options.quick,
            reps=options.reps or (1 if options.quick else 3),
            pythons=tuple(filter(None, options.pythons.split(","))),
            tries=options.tries,
        )
        for section in options.sections or sections.ALL:
            print(f"{section}: {sections.ALL[section].__doc__.splitlines()[0]}", flush=True)
            run_section(session, section, results)
            results["machine"] = machine()
            described = {tool["name"]: tool for tool in results.get("tools", [])}
            described |= {tool["name"]: tool for tool in describe(chosen, session.folder)}
            results["tools"] = list(described.values())
            results_path.write_text(json.dumps(results, indent=1))
    report.write(results, options.out, goals.lines(results))
    print(f"wrote {options.out / 'RESULTS.md'}")
    return 0


def run_section(session: sections.Session, section: str, results: dict[str, Any]) -> None:
    session.section = section
    before = results["sections"].get(section, {}).get("records", [])
    session.records[section] = [
        r
        for r in before
        if session.pythons
        and "interpreter" in r
        and not r["interpreter"].startswith(session.pythons)
    ]
    started = time.monotonic()
    load_before = os.getloadavg()[0]
    sections.ALL[section](session)
    results["sections"][section] = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="minutes"),
        "seconds": round(time.monotonic() - started),
        "load_before": round(load_before, 2),
        "quick": session.quick,
        "reps": session.reps,
        "records": session.records[section],
    }


if __name__ == "__main__":
    sys.exit(main())
