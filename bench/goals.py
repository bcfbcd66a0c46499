"""What scry wants to reach, each goal beside what was measured in the same run."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import report
import tracing
from report import Records

Goal = tuple[str, str, bool | None]  # what, how much, reached; None: the noise is too great to say
LOW = "scry"
NEVER = "scry --nonblocking"
MEMORY = "scry --reader memory"


def middle(
    records: Records, value: Callable[[dict[str, Any]], float], **where: Any
) -> float | None:
    chosen = [r for r in report.good(records) if all(r.get(k) == v for k, v in where.items())]
    return statistics.median(map(value, chosen)) if chosen else None


def ratio_goal(name: str, a: float | None, b: float | None, least: float) -> list[Goal]:
    if not a or not b:
        return []
    return [
        (
            f"{name}: at least {least:g} x",
            f"{a / b:.3g} x ({report.number(a)} to {report.number(b)})",
            a / b >= least,
        )
    ]


def limit_goal(
    name: str, value: float | None, limit: float, form: Callable[[float], str]
) -> list[Goal]:
    if value is None:
        return []
    return [(f"{name}: at most {form(limit)}", form(value), value <= limit)]


def rate_goals(records: Records) -> list[Goal]:
    best = report.best_rates(records)

    def top(tool: str) -> float | None:
        return best[("deep20", tool)][0] if ("deep20", tool) in best else None

    goals = ratio_goal(
        "highest rate, depth 20, --nonblocking, against profiling.sampling",
        top(NEVER),
        top("profiling.sampling"),
        4,
    )
    goals += ratio_goal(
        "highest rate, depth 20, default, against py-spy", top(LOW), top("py-spy"), 50
    )
    missed = middle(records, report.missed_of, target="deep20", tool=NEVER, rate=20_000)
    goals += stop_goals(records, LOW) + stop_goals(records, MEMORY)
    goals += limit_goal(
        "missed at 20 kHz asked, depth 20, --nonblocking", missed, 0.01, report.percent
    )
    missed = middle(records, report.missed_of, target="deep20", tool=MEMORY, rate=20_000)
    return goals + limit_goal("the same with --reader memory", missed, 0.01, report.percent)


def floor_goals(records: Records) -> list[Goal]:
    beyond = middle(records, lambda r: r["missed"] - r["missed_alone"])
    return limit_goal(
        "the same, beyond the slots in which a program that only reads the clock has no moment",
        beyond,
        0.01,
        report.percent,
    )


def stop_goals(records: Records, tool: str) -> list[Goal]:
    plain = ("busy", "deep20", "deep200", "deep900")
    runs = [
        r
        for r in report.good(records)
        if r["tool"] == tool and r["rate"] == 1000 and r["target"] in plain
    ]
    if not runs:
        return []
    by_target = report.grouped(runs, "target").values()
    share = max(
        statistics.median(r["stops"] / max(1, r["samples"]) for r in group) for group in by_target
    )
    goals = limit_goal(
        f"samples of ordinary targets that stop a thread, {tool}", share, 0.05, report.percent
    )
    times = [r["median_stop_us"] for r in runs if r["stops"]]
    if times:
        goals += limit_goal(
            f"such a stop, by scry's clock, at the median, {tool}",
            statistics.median(times),
            100,
            lambda v: f"{v:.3g} µs",
        )
    return goals


def verdict(value: float, limit: float, noise: float) -> bool | None:
    """Beside a noise floor. One far above the limit would excuse anything."""
    if noise > 4 * limit:
        return None
    return value <= limit + noise


def paired_goals(records: Records) -> list[Goal]:
    """The noise floor is half the interval that holds the median of the pairs without a profiler."""
    limits = {"native160": 0.01, "busy": 0.005}
    goals: list[Goal] = []
    for (target, tool, rate, what), (lost, alone) in report.paired(records).items():
        if tool not in (LOW, MEMORY):
            continue
        value, low, high = report.interval(lost)
        _, quiet_low, quiet_high = report.interval(alone)
        noise, limit = (quiet_high - quiet_low) / 2, limits[target]
        unit = {"per_wall": "wall", "per_cpu": "CPU"}[what]
        shown = f"{report.percent(value)} ({report.percent(low)} to {report.percent(high)}); noise floor ±{report.percent(noise)}"
        name = f"work lost per {unit} second, {target} at {rate} Hz, {tool}: at most {report.percent(limit)}"
        goals.append((name, shown, verdict(value, limit, noise)))
    return goals


def native_goals(records: Records) -> list[Goal]:
    """Ten times py-spy's rate, and at the rate that py-spy does reach, less work lost."""
    goals: list[Goal] = []
    lost = report.slowdowns(records)
    for target in report.names(records, "target"):
        fast = {
            tool: middle(records, report.rate_of, target=target, tool=tool, rate=100_000)
            for tool in ("scry --native", "py-spy --native")
        }
        goals += ratio_goal(
            f"highest rate with --native, {target}, against py-spy", *fast.values(), 10
        )
        ours, theirs = (
            lost.get((target, tool, 1_000), {}).get("per_wall")
            for tool in ("scry --native", "py-spy --native")
        )
        if ours and theirs:
            a, b = statistics.median(ours), statistics.median(theirs)
            name = f"work lost with --native at 1 kHz, {target}: less than py-spy's"
            goals.append((name, f"{report.percent(a)} to {report.percent(b)}", a < b))
    return goals


def cpu_goals(records: Records) -> list[Goal]:
    goals: list[Goal] = []
    for rate, what in ((1000, "1 kHz"), (1_000_000, "as fast as it can")):
        cost = {
            tool: middle(
                records, lambda r: r["us_per_sample"], target="deep20", tool=tool, rate=rate
            )
            for tool in (LOW, MEMORY, "py-spy", "profiling.sampling")
        }
        name = f"CPU per sample, depth 20, {what}"
        for tool in (LOW, MEMORY):
            goals += ratio_goal(f"{name}, py-spy against {tool}", cost["py-spy"], cost[tool], 10)
            goals += ratio_goal(
                f"{name}, profiling.sampling against {tool}",
                cost["profiling.sampling"],
                cost[tool],
                3,
            )
    return goals


def memory_goals(records: Records) -> list[Goal]:
    peak = [r["peak_kb"] / 1024 for r in report.good(records) if r["tool"] in (LOW, NEVER)]
    samples = [r["samples"] for r in report.good(records) if r["tool"] in (LOW, NEVER)]
    if not peak:
        return []
    name = f"peak memory over {min(samples):,} to {max(samples):,} samples"
    return limit_goal(name, max(peak), 20, lambda v: f"{v:.3g} MB")


def calls_goals(records: Records) -> list[Goal]:
    goals: list[Goal] = []
    ours = [r for r in report.good(records) if r["tool"] in (LOW, NEVER)]
    plain = [r for r in ours if r["target"] in ("busy", "deep20", "deep200", "deep900")]
    if plain:
        goals += limit_goal(
            "memory reads per sample, one busy thread, to 900 deep, as scry counts them",
            max(r.get("counted") or r["reads"] for r in plain),
            1.5,
            report.number,
        )
        goals += limit_goal(
            "writes into the target per sample", max(r["writes"] for r in ours), 0, report.number
        )
    idle = [r["reads"] for r in ours if r["target"] == "idle100"]
    if idle:
        goals += limit_goal(
            "memory reads per sample beside 100 idle threads", max(idle), 1.5, report.number
        )
    return goals


def pauses_goals(records: Records) -> list[Goal]:
    value = middle(records, lambda r: r["median_us"], tool="scry --blocking always", rate=1000)
    return limit_goal(
        "a stop, as the target sees it, at the median", value, 100, lambda v: f"{v:.3g} µs"
    )


def trees_goals(records: Records) -> list[Goal]:
    value = middle(
        records, lambda r: r["missed"] / (r["ticks"] + r["missed"]), target="tree200", tool=LOW
    )
    return limit_goal("looks left out in a tree of 200 at 100 Hz", value, 0.01, report.percent)


def other_goals(sections: dict[str, Any]) -> list[Goal]:
    goals: list[Goal] = []
    if "stream" in sections:
        value = middle(
            sections["stream"]["records"],
            lambda r: r["bytes"] / max(1, r["samples"]),
            target="busy",
            tool=LOW,
        )
        goals += limit_goal("bytes per sample, busy loop", value, 4, report.number)
    if "first" in sections:
        value = middle(sections["first"]["records"], lambda r: r["milliseconds"], tool=LOW)
        goals += limit_goal("start to first sample", value, 15, lambda v: f"{v:.3g} ms")
    if "kill" in sections:
        for r in sections["kill"]["records"]:
            bad = r["times"] - r["empty"] - r["converted"] + r["stopped"]
            goals.append(
                (
                    "killed at a random moment: every file converts, the target goes on",
                    f"{bad} of {r['times']} bad",
                    bad == 0,
                )
            )
    return goals


def collect(results: dict[str, Any]) -> list[Goal]:
    sections = results["sections"]
    goals: list[Goal] = []
    for name, make in {
        "rate": rate_goals,
        "floor": floor_goals,
        "calls": calls_goals,
        "pauses": pauses_goals,
        "paired": paired_goals,
        "native": native_goals,
        "cpu": cpu_goals,
        "trees": trees_goals,
        "memory": memory_goals,
        "trace": tracing.goals,
    }.items():
        if name in sections:
            goals += make(sections[name]["records"])
    return goals + other_goals(sections)


def lines(results: dict[str, Any]) -> list[str]:
    words = {True: "yes", False: "**no**", None: "too much noise to say"}
    rows = [[name, value, words[reached]] for name, value, reached in collect(results)]
    return ["## Goals", "", *report.table(["goal", "measured", "reached"], rows)]
