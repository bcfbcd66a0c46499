"""What is measured. Each section is a function that takes a Session and leaves records in it; the report makes tables
of them. Profilers take turns within each repetition, so that a change of the machine meets all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import tools
import tracing
import workload
from tools import Ask, Tool
from workload import Figures, Gaps, Target

Result = TypeVar("Result")
ALONE = "alone"
ALONE_AGAIN = "alone again"


@dataclasses.dataclass
class Session:
    folder: Path
    tools: list[Tool]
    targets: list[str]  # only these; empty for each section's own choice
    quick: bool
    reps: int
    pythons: tuple[
        str, ...
    ] = ()  # beginnings of the names of those that the tracer is measured on; empty for all
    records: dict[str, list[dict[str, Any]]] = dataclasses.field(default_factory=dict)
    section: str = ""
    tries: int = 5

    @property
    def quiet(self) -> Quiet:
        return Quiet(tries=1) if self.quick else Quiet(tries=self.tries)

    def note(self, **record: Any) -> None:
        self.records.setdefault(self.section, []).append(record)
        words = [f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}" for k, v in record.items()]
        print(f"  {self.section}: {' '.join(words)}"[:240], flush=True)

    def choose(self, full: list[str], quick: list[str]) -> list[workload.Kind]:
        names = self.targets or (quick if self.quick else full)
        return [workload.KINDS[name] for name in names]

    def able(self, rate: int) -> list[Tool]:
        """Those that may be asked for so many samples a second."""
        return [tool for tool in self.tools if rate <= tool.fastest]

    def by_name(self, *names: str) -> list[Tool]:
        return [tool for tool in self.tools if tool.name in names]

    def turns(self, rep: int, things: list[Any]) -> list[Any]:
        """The same things, another one first at each repetition."""
        at = rep % max(1, len(things))
        return things[at:] + things[:at]

    @contextlib.contextmanager
    def targets_of(self, kind: workload.Kind, chosen: list[Tool]) -> Iterator[Stable]:
        """One target for each interpreter that these tools need; all stand still but the one in use."""
        stable = Stable()
        try:
            for python in {tool.python.id: tool.python for tool in chosen}.values():
                target = Target(kind, python, self.folder)
                target.hold()
                stable.targets[python.id] = target
            yield stable
        finally:
            for target in stable.targets.values():
                target.end()

    def output(self, tool: Tool) -> Path:
        return self.folder / ("profile-" + re.sub(r"\W+", "-", tool.name))


@dataclasses.dataclass
class Quiet:
    """Measures again what fell into a moment in which the host of the virtual machine gave much of the CPU time to others,
    and keeps the quietest try. Nothing else decides: what was measured is not looked at."""

    limit: float = 0.01
    tries: int = 5

    def measure(self, once: Callable[[], Result]) -> tuple[Result, float]:
        found: list[tuple[float, Result]] = []
        while len(found) < self.tries and (not found or found[-1][0] > self.limit):
            before = workload.Stolen.now()
            result = once()
            found.append((workload.Stolen.now().since(before), result))
        stolen, result = min(found, key=lambda one: one[0])
        return result, stolen


class Stable:
    def __init__(self) -> None:
        self.targets: dict[str, Target] = {}

    @contextlib.contextmanager
    def use(self, python_id: str) -> Iterator[Target]:
        target = self.targets[python_id]
        target.go()
        time.sleep(0.05)  # the caches are its own again
        try:
            yield target
        finally:
            target.hold()


def ask_of(
    session: Session, tool: Tool, target: Target, rate: int, seconds: float, **more: Any
) -> Ask:
    kind = target.kind
    return Ask(
        target.pid,
        rate,
        seconds,
        session.output(tool),
        threads=kind.threads,
        tree=kind.tree,
        **more,
    )


def note_outcome(
    session: Session, tool: Tool, target: str, outcome: tools.Outcome, **more: Any
) -> None:
    session.note(target=target, tool=tool.name, **more, **dataclasses.asdict(outcome))


def rate(session: Session) -> None:
    """How many samples a second reach the file, for rising rates asked."""
    everything = [1_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000]
    few = [1_000, 10_000, 100_000, 1_000_000]
    seconds = 1 if session.quick else 2
    kinds = session.choose(
        ["deep20", "busy", "deep200", "deep900", "chains", "idle100", "mmap"], ["deep20"]
    )
    for kind in kinds:
        asked = everything if kind.name == "deep20" and not session.quick else few
        with session.targets_of(kind, session.tools) as stable:
            for rep in range(session.reps):
                for hertz in asked:
                    for tool in session.turns(rep, session.able(hertz)):
                        with stable.use(tool.python.id) as target:
                            ask = ask_of(session, tool, target, hertz, seconds)
                            outcome, stolen = session.quiet.measure(
                                partial(tools.profile, tool, ask)
                            )
                        note_outcome(
                            session,
                            tool,
                            kind.name,
                            outcome,
                            rate=hertz,
                            rep=rep,
                            stolen=stolen,
                        )


def cpu(session: Session) -> None:
    """The profiler's CPU time per sample: what a longer recording costs more than a short one, so that the
    start does not count."""
    short, long = (1, 2) if session.quick else (1, 5)
    asked = [1_000, 1_000_000] if session.quick else [100, 1_000, 10_000, 1_000_000]
    for kind in session.choose(["busy", "deep20", "deep200", "idle100", "native160"], ["deep20"]):
        with session.targets_of(kind, session.tools) as stable:
            for rep in range(session.reps):
                for hertz in asked:
                    for tool in session.turns(rep, session.able(hertz)):
                        runs = []
                        for seconds in (short, long):
                            with stable.use(tool.python.id) as target:
                                ask = ask_of(session, tool, target, hertz, seconds)
                                outcome, _ = session.quiet.measure(
                                    partial(tools.profile, tool, ask)
                                )
                                runs.append(outcome)
                        first, second = runs
                        samples = second.samples - first.samples
                        strange = "" if samples > 0 else "the longer run has no more samples"
                        session.note(
                            target=kind.name,
                            tool=tool.name,
                            rate=hertz,
                            rep=rep,
                            samples=samples,
                            cpu=second.cpu - first.cpu,
                            us_per_sample=1e6 * (second.cpu - first.cpu) / max(1, samples),
                            share_of_core=(second.cpu - first.cpu)
                            / (second.seconds - first.seconds),
                            failure=first.failure or second.failure or strange,
                        )


def floor(session: Session) -> None:
    """What the machine takes away from a program that only reads the clock, or only sleeps, beside scry in turns."""
    program = session.folder / "floor"
    subprocess.run(["cc", "-O2", "-o", program, workload.FOLDER / "floor.c"], check=True)
    (tool,) = session.by_name("scry --nonblocking") or [None]
    if not tool:
        return
    hertz, seconds = 20_000, 2
    with session.targets_of(workload.KINDS["deep20"], [tool]) as stable:
        for rep in range(2 if session.quick else 8):
            with stable.use(tool.python.id) as target:
                outcome = tools.profile(tool, ask_of(session, tool, target, hertz, seconds))
                alone = _floor(program, "slots", hertz, seconds)
                wake = {rate: _floor(program, "wake", rate, 1) / 1000 for rate in (100, 1_000)}
            session.note(
                rep=rep,
                tool=tool.name,
                missed=max(0.0, 1 - outcome.samples / (hertz * outcome.seconds)),
                missed_alone=alone,
                wake_us_100=wake[100],
                wake_us_1000=wake[1_000],
                failure=outcome.failure,
            )


def _floor(program: Path, what: str, rate: int, seconds: int) -> float:
    words = [program, what, str(rate), str(seconds)]
    return float(subprocess.run(words, capture_output=True, check=True).stdout)


def measure_window(target: Target, seconds: float) -> Figures:
    before = target.figures()
    time.sleep(seconds)
    return target.figures() - before


def with_tool(
    session: Session, tool: Tool, target: Target, hertz: int, seconds: float
) -> tuple[Any, Any]:
    """What `measure_window` says in the middle of a recording, and how the recording went."""
    ask = ask_of(session, tool, target, hertz, round(seconds + tool.warm + 1.5))
    run = tools.Run(tool, ask)
    until = time.monotonic() + tool.warm
    while time.monotonic() < until or run.sampling is None:
        if run.poll():
            break
        time.sleep(0.02)
    before = target.counters.gaps()
    figures = measure_window(target, seconds)
    gaps = Gaps.between(before, target.counters.gaps())
    still_there = not run.poll()
    run.interrupt()
    outcome = run.wait()
    if not still_there and not outcome.failure:
        outcome.failure = "ended before the measurement did"
    elif outcome.seconds < seconds and not outcome.failure:
        outcome.failure = "began after the measurement did"
    return (figures, gaps), outcome


def slowdown(session: Session) -> None:
    """Work per second of the target's own CPU time and of wall time, with a profiler and without."""
    seconds = 1 if session.quick else 2
    asked = [100, 1_000] if session.quick else [100, 1_000, 10_000]
    full = [k for k in workload.KINDS if k not in ("pauses", "slots", "tree200")]
    for kind in session.choose(full, ["busy", "native160"]):
        reps = session.reps + (2 if kind.name in ("busy", "native160") and not session.quick else 0)
        with session.targets_of(kind, session.tools) as stable:
            for rep in range(reps):
                for hertz in asked:
                    _slowdown_round(session, stable, kind.name, rep, hertz, seconds)


# target, Hz asked, how many pairs for each profiler that is wanted
PAIRED = [
    ("native160", 100, {"scry": 20, "scry --reader memory": 20, "py-spy": 3}),
    ("busy", 1_000, {"scry": 40, "scry --reader memory": 40, "py-spy": 3}),
]


def paired(session: Session) -> None:
    """The same where a hundredth counts: short windows, each with a profiler between two without."""
    seconds = 1
    for name, hertz, counts in PAIRED:
        if session.targets and name not in session.targets:
            continue
        chosen = session.by_name(*counts)
        if not chosen:
            continue
        with session.targets_of(workload.KINDS[name], chosen) as stable:
            for rep in range(max(counts.values())):
                for tool in chosen:
                    if rep < counts[tool.name] and not (session.quick and rep >= 4):
                        with stable.use(tool.python.id) as target:
                            _paired_round(session, tool, target, hertz, seconds)


def _paired_round(session: Session, tool: Tool, target: Target, hertz: int, seconds: float) -> None:
    """alone, alone, with the profiler, alone: the third against the mean of its neighbours is what is lost, the second
    against the first the noise."""

    def once() -> tuple[list[Figures], tools.Outcome]:
        alone = [measure_window(target, seconds) for _ in range(2)]
        (figures, _), outcome = with_tool(session, tool, target, hertz, seconds)
        time.sleep(0.1)
        return [*alone, figures, measure_window(target, seconds)], outcome

    (windows, outcome), stolen = session.quiet.measure(once)
    for key in ("per_wall", "per_cpu"):
        first, again, with_it, last = (getattr(window, key) for window in windows)
        session.note(
            target=target.kind.name,
            tool=tool.name,
            rate=hertz,
            what=key,
            lost=1 - 2 * with_it / (again + last),
            lost_alone=1 - again / first,
            stolen=stolen,
            failure=outcome.failure,
        )


def trees(session: Session) -> None:
    """Whole process trees at 100 Hz: looks that were left out, and what it costs."""
    short, long = (1, 3) if session.quick else (2, 10)
    for kind in session.choose(["tree8", "tree200"], ["tree200"]):
        if not kind.tree:
            continue
        with session.targets_of(kind, session.tools) as stable:
            for rep in range(session.reps):
                for tool in session.turns(rep, session.tools):
                    with stable.use(tool.python.id) as target:
                        first, second = (
                            tools.profile(tool, ask_of(session, tool, target, 100, seconds))
                            for seconds in (short, long)
                        )
                    spent = (second.cpu - first.cpu) / max(0.1, second.seconds - first.seconds)
                    note_outcome(session, tool, kind.name, second, rate=100, rep=rep, share=spent)


def native(session: Session) -> None:
    """With --native: how many samples a second reach the file, what the target loses, what goes wrong."""
    seconds = 2 if session.quick else 4
    python = tools.choose_python((3, 14))
    if python is None:
        return
    chosen = [tools.ScryNative(python), tools.PySpyNative(python)]
    for kind in session.choose(["natives", "busy", "deep20", "deep200"], ["natives"]):
        with session.targets_of(kind, chosen) as stable:
            for rep in range(session.reps):
                for hertz in (100, 1_000, 100_000):
                    _slowdown_round(session, stable, kind.name, rep, hertz, seconds, chosen)


def _slowdown_round(
    session: Session,
    stable: Stable,
    name: str,
    rep: int,
    hertz: int,
    seconds: float,
    chosen: list[Tool] | None = None,
) -> None:
    turns: list[tuple[str, Any, str]] = []
    for python_id in stable.targets:
        turns += [(ALONE, None, python_id), (ALONE_AGAIN, None, python_id)]
    turns += [(tool.name, tool, tool.python.id) for tool in chosen or session.tools]
    for label, tool, python_id in session.turns(3 * rep, turns):
        with stable.use(python_id) as target:
            outcome = tools.Outcome()
            if tool is None:
                time.sleep(0.2)
                figures = measure_window(target, seconds)
            else:
                (figures, _), outcome = with_tool(session, tool, target, hertz, seconds)
        session.note(
            target=name,
            tool=label,
            python=python_id,
            rate=hertz,
            rep=rep,
            per_cpu=figures.per_cpu,
            per_wall=figures.per_wall,
            samples=outcome.samples,
            seconds=outcome.seconds,
            errors=outcome.errors,
            unmerged=outcome.unmerged,
            failure=outcome.failure,
        )


def pauses(session: Session) -> None:
    """How often and how long a thread that reads the clock without end does not run."""
    seconds = 1 if session.quick else 3
    asked = [1_000] if session.quick else [100, 1_000, 10_000]
    chosen = [*session.tools, tools.ScryAlways(session.tools[0].python)]
    kind = workload.KINDS["pauses"]
    with session.targets_of(kind, chosen) as stable:
        for rep in range(session.reps):
            for hertz in asked:
                for tool in session.turns(rep, [None, *chosen]):
                    python_id = tool.python.id if tool else chosen[0].python.id
                    with stable.use(python_id) as target:
                        outcome = tools.Outcome()
                        if tool is None:
                            before = target.counters.gaps()
                            measure_window(target, seconds)
                            gaps = Gaps.between(before, target.counters.gaps())
                        else:
                            (_, gaps), outcome = with_tool(session, tool, target, hertz, seconds)
                    session.note(
                        tool=tool.name if tool else ALONE,
                        rate=hertz,
                        rep=rep,
                        per_second=gaps.count / seconds,
                        median_us=gaps.median_us,
                        p99_us=gaps.p99_us,
                        longest_us=gaps.longest_us,
                        samples=outcome.samples,
                        failure=outcome.failure,
                    )


def memory(session: Session) -> None:
    """Resident memory of the profiler over ten million samples, or as many as it makes in the time given."""
    wanted, limit = (200_000, 5) if session.quick else (10_000_000, 150)
    for kind in session.choose(["deep20"], ["deep20"]):
        for tool in session.able(200_000):
            with workload.running(kind, tool.python, session.folder) as target:
                probe = tools.profile(tool, ask_of(session, tool, target, 200_000, 1))
                speed = probe.samples / probe.seconds if probe.seconds else 0
                seconds = min(limit, max(2, round(1.05 * wanted / speed))) if speed else limit
                run = tools.Run(tool, ask_of(session, tool, target, 200_000, seconds))
                course = []
                while not run.poll():
                    resident = run.note_memory()
                    if not course or time.monotonic() - run.started > course[-1][0] + seconds / 20:
                        course.append((round(time.monotonic() - run.started, 2), resident))
                    time.sleep(0.02)
                outcome = run.wait()
            note_outcome(session, tool, kind.name, outcome, course=course)
            if isinstance(tool, tools.Scry):
                _memory_of_convert(session, tool)


def _memory_of_convert(session: Session, tool: tools.Scry) -> None:
    """The same recording made into a flame graph."""
    words = [
        tool.program,
        "convert",
        str(session.output(tool)),
        "-f",
        "flamegraph",
        "-o",
        "/dev/null",
    ]
    started = time.monotonic()
    peak = 0
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process.pid}/status").read_text()
            found = re.search(r"VmHWM:\s+(\d+)", text)  # one that has just ended has none
            peak = max(peak, int(found[1]) if found else 0)
        time.sleep(0.005)
    wall = time.monotonic() - started
    session.note(target="deep20", tool=f"{tool.name}, convert", peak_kb=peak, wall=wall, failure="")


def stream(session: Session) -> None:
    """Bytes per sample of a file that keeps every sample in the order of time."""
    seconds = 2 if session.quick else 5
    kinds = session.choose(["busy", "deep20", "deep200", "chains", "idle100"], ["busy", "chains"])
    for kind in kinds:
        with session.targets_of(kind, session.tools) as stable:
            for tool in session.tools:
                with stable.use(tool.python.id) as target:
                    outcome = tools.profile(tool, ask_of(session, tool, target, 10_000, seconds))
                note_outcome(session, tool, kind.name, outcome, rate=10_000, rep=0)


def first(session: Session) -> None:
    """From the start of the profiler to its first sample, on a target that is a clock; and the shortest recording
    from end to end."""
    entering = {tool.name: _entering(tool) for tool in session.tools}
    for rep in range(max(3, 2 * session.reps)):
        for tool in session.turns(rep, session.tools):
            with workload.running(workload.KINDS["slots"], tool.python, session.folder) as target:
                clock_start = int(target.said[1]) / 1e9
                run = tools.Run(tool, ask_of(session, tool, target, 1_000, 2, timeline=False))
                outcome = run.wait()
                text = "" if outcome.failure else tool.text(run.ask)
            slots = [int(number) for number in re.findall(r"slot_(\d+)", text)]
            if not slots:
                session.note(tool=tool.name, rep=rep, failure=outcome.failure or "no sample")
                continue
            first_sample = clock_start + min(slots) * 0.0005 + 0.00025
            milliseconds = 1000 * (first_sample - run.started - entering[tool.name])
            session.note(tool=tool.name, rep=rep, milliseconds=milliseconds, failure="")
    _shortest(session)


def dump(session: Session) -> None:
    """From the start of a dump of every thread to its end."""
    for kind in session.choose(["busy", "deep200", "idle100"], ["busy"]):
        with session.targets_of(kind, session.tools) as stable:
            entering = {tool.name: _entering(tool) for tool in session.tools}
            for rep in range(5 * session.reps):
                for tool in session.turns(rep, session.tools):
                    if tool.name == "scry --nonblocking":
                        continue
                    with stable.use(tool.python.id) as target:
                        started = time.monotonic()
                        words = tool.dump_command(target.pid)
                        run = subprocess.run(words, capture_output=True, text=True)
                        seconds = time.monotonic() - started - entering[tool.name]
                    failure = run.stderr[-200:] if run.returncode or not run.stdout else ""
                    session.note(
                        target=kind.name,
                        tool=tool.name,
                        rep=rep,
                        milliseconds=1000 * seconds,
                        failure=failure,
                    )


def _entering(tool: Tool) -> float:
    """Seconds that it takes to enter the Debian tree before the tool itself is started, if it is in one."""
    if tool.command(Ask(1, 1, 1, Path("/dev/null")))[0] != str(tools.pythons.ENTER_ROOT):
        return 0.0

    def once(words: list[str]) -> float:
        started = time.monotonic()
        subprocess.run(words, check=True)
        return time.monotonic() - started

    entered = statistics.median(once(tools.inside(tool.python, ["/bin/true"])) for _ in range(7))
    return entered - statistics.median(once(["/bin/true"]) for _ in range(7))


def _shortest(session: Session) -> None:
    for tool in session.by_name("scry"):
        with workload.running(workload.KINDS["busy"], tool.python, session.folder) as target:
            for rep in range(max(3, 2 * session.reps)):
                ask = ask_of(session, tool, target, 1_000, 0.001)
                outcome = tools.Run(tool, ask).wait(step=0.0005)
                session.note(
                    tool="scry, shortest recording from start to end",
                    rep=rep,
                    milliseconds=1000 * outcome.wall,
                    failure=outcome.failure,
                )


def calls(session: Session) -> None:
    """System calls per sample, by kind, from strace: a long run's minus a short one's."""
    if not shutil.which("strace"):
        session.note(tool="", target="", failure="strace is not installed")
        return
    kinds = session.choose(
        ["busy", "deep20", "deep200", "deep900", "chains", "idle100", "native160"],
        ["deep20", "idle100"],
    )
    for kind in kinds:
        with session.targets_of(kind, session.tools) as stable:
            for tool in session.tools:
                # py-spy makes thousands of calls per sample on deep stacks; strace takes its time for each
                hertz = 100 if isinstance(tool, tools.PySpy) else 1_000
                short, long = (1, 2) if session.quick else (1, 4)
                runs = []
                for seconds in (short, long):
                    with stable.use(tool.python.id) as target:
                        _put_apart(target.pid)
                        ask = ask_of(session, tool, target, hertz, seconds, by_itself=True)
                        runs.append(_traced(session, tool, ask))
                counted = _counted_reads(session, tool, stable, (short, long))
                _note_calls(session, tool, kind.name, hertz, runs, counted)


def _counted_reads(
    session: Session, tool: Tool, stable: Stable, lengths: tuple[int, int]
) -> float | None:
    """The reads per sample that scry counts itself. strace makes each last so much longer that it must look otherwise."""
    if not isinstance(tool, tools.Scry):
        return None
    runs = []
    for seconds in lengths:
        with stable.use(tool.python.id) as target:
            runs.append(tools.profile(tool, ask_of(session, tool, target, 1_000, seconds)))
    return (runs[1].memory_reads - runs[0].memory_reads) / max(1, runs[1].samples - runs[0].samples)


def _cpus() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _put_apart(pid: int) -> None:
    """strace takes turns with what it traces, but not with the target: that gets the last CPU for itself."""
    if len(_cpus()) > 1:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), {_cpus()[-1]})


def _traced(session: Session, tool: Tool, ask: Ask) -> tuple[tools.Outcome, dict[str, int]]:
    counts = session.folder / "calls.json"
    counts.unlink(missing_ok=True)
    counter = Path(__file__).with_name("count_calls.py")
    pipe = f"|exec {sys.executable} {counter} {counts}"
    others = ",".join(map(str, _cpus()[:-1] or _cpus()))
    strace = ("taskset", "-c", others, "strace", "-f", "-y", "-qq", "-o", pipe)
    outcome = tools.Run(tool, ask, strace).wait(patience=300)
    until = time.monotonic() + 30
    while not counts.exists() and time.monotonic() < until:
        time.sleep(0.05)  # the counter ends after strace
    try:
        return outcome, json.loads(counts.read_text())
    except (OSError, ValueError) as error:
        outcome.failure = outcome.failure or f"no counts: {error}"
        return outcome, {}


def _note_calls(
    session: Session,
    tool: Tool,
    target: str,
    hertz: int,
    runs: list[tuple[tools.Outcome, dict[str, int]]],
    counted: float | None,
) -> None:
    (one, fewer), (two, more) = runs
    samples = two.samples - one.samples
    failure = one.failure or two.failure or ("" if samples > 0 else "no samples")
    extra = {k: more.get(k, 0) - fewer.get(k, 0) for k in more.keys() | fewer.keys()}
    per = {k: v / max(1, samples) for k, v in extra.items()}

    def total(*words: str) -> float:
        return sum(v for k, v in per.items() if k in words)

    session.note(
        target=target,
        tool=tool.name,
        rate=hertz,
        samples=samples,
        reads=total("process_vm_readv", "pread64 mem", "read mem", "preadv mem"),
        counted=counted,
        writes=total("process_vm_writev", "PTRACE_POKEDATA", "pwrite64 mem"),
        stops=total("PTRACE_INTERRUPT", "PTRACE_ATTACH"),
        proc=sum(v for k, v in per.items() if " " in k and not k.endswith(" mem")),
        all=sum(per.values()),
        by_kind={
            k: round(v, 3) for k, v in sorted(per.items(), key=lambda kv: -kv[1]) if v >= 0.01
        },
        failure=failure,
    )


def size(session: Session) -> None:
    """The program files."""
    seen = set()
    for tool in session.tools:
        name = tool.name.split()[0]
        if name not in seen:
            seen.add(name)
            session.note(tool=name, bytes=tool.binary_bytes(), failure="")


def kill(session: Session) -> None:
    """kill -9 at a random moment: does the file still convert, and does the target go on?"""
    times = 10 if session.quick else 100
    moment = random.Random(1)
    for tool in session.by_name("scry"):
        assert isinstance(tool, tools.Scry)
        converted = stopped = empty = 0
        with workload.running(workload.KINDS["chains"], tool.python, session.folder) as target:
            for _ in range(times):
                for path in _left_behind(session.output(tool)):
                    path.unlink()
                ask = ask_of(session, tool, target, 10_000, 10)
                process = subprocess.Popen(tool.command(ask), stderr=subprocess.DEVNULL)
                time.sleep(moment.uniform(0.005, 1.5))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                stopped += _stays_stopped(target)
                left = _left_behind(session.output(tool))
                if not left or left[0].stat().st_size == 0:
                    empty += 1  # killed before the recording began
                    continue
                words = [tool.program, "convert", str(left[0]), "-f", "raw", "-o", "/dev/null"]
                converted += subprocess.run(words, capture_output=True).returncode == 0
        session.note(
            tool=tool.name,
            times=times,
            empty=empty,
            converted=converted,
            stopped=stopped,
            failure="",
        )


def _left_behind(output: Path) -> list[Path]:
    """A recording has a name of its own until it is complete."""
    return [*output.parent.glob(output.name + ".*.part"), *([output] if output.exists() else [])]


def _stays_stopped(target: Target) -> bool:
    """Whether the target does no work any more."""
    before = target.counters.work()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if target.counters.work() != before:
            return False
        time.sleep(0.01)
    return True


def trace(session: Session) -> None:
    """The tracer beside viztracer and cProfile: cost per call, of what is left out, of turning it off and on, of saving."""
    processes, rounds = (2, 4) if session.quick else (max(5, session.reps), 30)
    for python in tracing.interpreters():
        if session.pythons and not python.id.startswith(session.pythons):
            continue
        for record in tracing.measure(python, processes, rounds):
            session.records.setdefault(session.section, []).append(record)
        print(f"  trace: {python.id} is done", flush=True)


ALL = {
    f.__name__: f
    for f in (
        size,
        first,
        dump,
        rate,
        floor,
        cpu,
        slowdown,
        paired,
        native,
        trees,
        pauses,
        stream,
        calls,
        memory,
        kill,
        trace,
    )
}
