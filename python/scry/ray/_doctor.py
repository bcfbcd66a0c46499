"""What the Ray dashboard will find when somebody clicks "Stack Trace": on each node, and at its own gate."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from scry.ray._workers import OWN, connected

GATE = "RAY_DASHBOARD_ENABLE_PROFILING"


@dataclasses.dataclass(frozen=True)
class Finding:
    where: str
    ok: bool
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n      {self.remedy}" if self.remedy else ""
        return f"{'ok  ' if self.ok else 'FAIL'}  {self.where}: {self.what}{remedy}"


@dataclasses.dataclass(frozen=True, repr=False)
class Report:
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))

    def __repr__(self) -> str:
        return str(self)


def _is_our_agent(entry: Path) -> bool:
    """A child of the raylet whose child we are: a host may have several clusters."""
    if b"ray::DashboardAgent" not in (entry / "cmdline").read_bytes():
        return False
    return int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getppid()


def _agents_path() -> str:
    """The PATH of this node's dashboard agent, who looks for py-spy; ours if its environment cannot be read."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and _is_our_agent(entry):
                for word in (entry / "environ").read_bytes().split(b"\0"):
                    if word.startswith(b"PATH="):
                        return os.fsdecode(word[5:])
    return os.environ.get("PATH", "")


def _run(*words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=20,
        )
        return done.returncode, done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)


def _look_here() -> dict[str, Any]:
    """On a node: which py-spy Ray runs, and whether it can look into a worker, this one."""
    path = shutil.which("py-spy", path=_agents_path())
    facts: dict[str, Any] = {"py_spy": path}
    if path:
        status, text = _run(path, "--version")
        facts["version"] = text.splitlines()[0] if status == 0 and text else None
        prefix = ["sudo", "-n"] if _run("sudo", "-n", "true")[0] == 0 else []
        facts["sudo"] = bool(prefix)
        # A child looks at its parent: without rights of its own that is what the kernel refuses first.
        status, text = _run(*prefix, path, "dump", "-p", str(os.getpid()))
        facts["dump"], facts["said"] = status == 0, text[-1500:]
    return facts


def _judge_node(where: str, facts: dict[str, Any]) -> list[Finding]:
    if not facts["py_spy"]:
        return [
            Finding(
                where,
                False,
                "there is no py-spy on the PATH of its dashboard agent",
                "on the node: python -m scry.ray link",
            )
        ]
    version = facts["version"] or "of an unknown version"
    ours = "scry" in version
    found = [
        Finding(
            where,
            ours,
            f"Ray finds {facts['py_spy']}, {version}",
            "" if ours else "to have scry answer, on the node: python -m scry.ray link",
        )
    ]
    how = "through sudo" if facts["sudo"] else "without sudo"
    if facts["dump"]:
        found.append(Finding(where, True, f"it can look into a worker, {how}"))
    else:
        remedy = "run Ray as root or with passwordless sudo, add SYS_PTRACE to the container, or set kernel.yama.ptrace_scope=0"
        found.append(
            Finding(where, False, f"it cannot look into a worker, {how}: {facts['said']}", remedy)
        )
    return found


def _gate(url: str) -> Finding:
    where = f"dashboard {url}"
    try:
        with urllib.request.urlopen(f"{url}/api/profiling_enabled", timeout=10) as response:
            on = json.load(response)["data"]["profilingEnabled"]
    except urllib.error.HTTPError as error:
        if error.code == 404:  # before 2.56
            return Finding(where, True, "this version of Ray has no gate before its profiling")
        return Finding(where, False, f"it answers {error.code}")
    except (OSError, ValueError, KeyError) as error:
        return Finding(
            where, False, f"it does not answer: {error}", "is ray[default] installed on the head?"
        )
    if on:
        return Finding(where, True, "profiling is enabled")
    return Finding(
        where,
        False,
        "profiling is disabled: every request is answered with 403",
        f"set {GATE}=1 for `ray start --head`, or use scry.ray.deploy(), which needs no such thing",
    )


def dashboard_url() -> str:
    """Of the cluster we are connected to; "" if it has none."""
    connected()
    from ray._private import worker

    address = worker.get_dashboard_url()
    return f"http://{address}" if address else ""


def doctor() -> Report:
    """Ask every node of the cluster, and the dashboard."""
    ray = connected()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    url = dashboard_url()
    findings = [_gate(url) if url else Finding("dashboard", False, "this cluster has none")]
    task = ray.remote(num_cpus=0, max_retries=0)(_look_here)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    asked = [
        task.options(
            name=OWN,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False),
        ).remote()
        for node in nodes
    ]
    ray.wait(asked, num_returns=len(asked), timeout=90)
    for node, answer in zip(nodes, asked):
        where = f"node {node['NodeManagerAddress']} {node['NodeID'][:8]}"
        try:
            findings += _judge_node(where, ray.get(answer, timeout=0))
        except Exception as error:  # one node's trouble is a finding
            text = str(error).strip().splitlines() or [repr(error)]
            findings.append(Finding(where, False, f"it could not be asked: {text[-1]}"))
    return Report(findings)
