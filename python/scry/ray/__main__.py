"""python -m scry.ray COMMAND"""

from __future__ import annotations

import argparse
import sys
import threading
from typing import Any

from scry import ray as scry_ray


def _add_choice(parser: argparse.ArgumentParser) -> None:
    for name, what in (
        ("tasks", "tasks of this name"),
        ("actors", "actors of this name or class"),
        ("replicas", "replicas of this Serve deployment"),
    ):
        parser.add_argument(
            f"--{name}", metavar="NAME", action="append", help=f"{what}; * and ? match any letters"
        )
    parser.add_argument(
        "--job", metavar="ID", help="only of this job: its id, or the id it was submitted under"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scry.ray", description="scry on a Ray cluster")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in (("link", "make scry the py-spy of this node"), ("unlink", "undo that")):
        commands.add_parser(name, help=what).add_argument(
            "--folder", help="beside python if not given"
        )
    commands.add_parser("doctor", help="what the Ray dashboard finds on each node")
    deploy = commands.add_parser("deploy", help="scry serve on each node, until Control-C")
    deploy.add_argument("--port", type=int, default=8266)
    _add_choice(
        commands.add_parser("stuck", help="workers grouped by identical stack, the oddest first")
    )
    dump = commands.add_parser("dump", help="the stacks of workers")
    record = commands.add_parser("record", help="one profile of many workers")
    for one in (dump, record):
        _add_choice(one)
        one.add_argument("--native", action="store_true")
        one.add_argument("--subprocesses", action="store_true")
    record.add_argument("--idle", action="store_true")
    record.add_argument("--gil", action="store_true")
    record.add_argument("-d", "--duration", type=float, default=5)
    record.add_argument("-r", "--rate", type=int, default=100)
    record.add_argument("-f", "--format")
    record.add_argument("-o", "--output", default="ray.svg")
    return parser


def _serve(port: int) -> int:
    with scry_ray.deploy(port=port) as servers:
        for url in servers.urls.values():
            print(f"{url}/?token={servers.token}")
        for node, why in servers.failures.items():
            print(f"node {node[:8]}: {why}", file=sys.stderr)
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0


def _record(words: dict[str, Any]) -> int:
    output, form = words.pop("output"), words.pop("format")
    profile = scry_ray.record(**words)
    for failure in profile.failures:
        print(failure, file=sys.stderr)
    if not profile.found:
        print("nothing was recorded: no worker runs what was asked for", file=sys.stderr)
        return 1
    profile.save(output, form)
    print(f"{len(profile.found)} workers are in {output}")
    return 0


def main(argv: list[str] | None = None) -> int:
    words = vars(_parser().parse_args(argv))
    command = words.pop("command")
    if command == "link":
        print(f"{scry_ray.link(**words)} is scry now")
    elif command == "unlink":
        scry_ray.unlink(**words)
    elif command == "doctor":
        report = scry_ray.doctor()
        print(report)
        return 0 if report.ok else 1
    elif command == "deploy":
        return _serve(words["port"])
    elif command == "record":
        return _record(words)
    else:
        result = scry_ray.stuck(**words) if command == "stuck" else scry_ray.dump(**words)
        print(result)
        return 1 if result.failures else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
