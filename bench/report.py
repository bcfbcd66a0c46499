"""The tables and plots made of raw records: medians, with the lowest and the highest repetition in brackets."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import plot
import workload

Records = list[dict[str, Any]]
ALONE, ALONE_AGAIN = "alone", "alone again"


def good(records: Iterable[dict[str, Any]]) -> Records:
    return [record for record in records if not record.get("failure")]


def spread(values: list[float], form: Callable[[float], str]) -> str:
    """Median, and the range where there is one."""
    if not values:
        return "–"
    middle = form(statistics.median(values))
    if len(values) < 2:
        return middle
    return f"{middle} ({form(min(values))}–{form(max(values))})"


def number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    return f"{100 * value:.2f} %" if abs(value) < 0.1 else f"{100 * value:.0f} %"


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def grouped(records: Records, *keys: str) -> dict[tuple[Any, ...], Records]:
    groups: dict[tuple[Any, ...], Records] = defaultdict(list)
    for record in records:
        groups[tuple(record.get(key) for key in keys)].append(record)
    return groups


def names(records: Records, key: str) -> list[Any]:
    return list(dict.fromkeys(record[key] for record in records))


def matrix(
    records: Records,
    columns: str,
    value: Callable[[dict[str, Any]], float],
    form: Callable[[float], str],
) -> list[str]:
    """Targets down, tools across (or the other way), one cell for each with its spread."""
    rows = "target" if columns == "tool" else "tool"
    across = names(records, columns)
    cells = grouped(good(records), rows, columns)
    body = []
    for row in names(records, rows):
        line = [str(row)]
        for column in across:
            line.append(spread([value(r) for r in cells.get((row, column), [])], form))
        body.append(line)
    return table([rows, *map(str, across)], body)


def rate_of(record: dict[str, Any]) -> float:
    return record["samples"] / record["seconds"] if record["seconds"] else 0.0


def missed_of(record: dict[str, Any]) -> float:
    return max(0.0, 1 - rate_of(record) / record["rate"])


def best_rates(records: Records) -> dict[tuple[str, str], tuple[float, int, Records]]:
    """For each target and tool the highest median over the rates asked, and where it was."""
    best: dict[tuple[str, str], tuple[float, int, Records]] = {}
    for (target, tool, asked), runs in grouped(good(records), "target", "tool", "rate").items():
        middle = statistics.median(map(rate_of, runs))
        if middle > best.get((target, tool), (0.0, 0, []))[0]:
            best[target, tool] = (middle, asked, runs)
    return best


def report_rate(records: Records, out: Path) -> list[str]:
    tools, targets = names(records, "tool"), names(records, "target")
    best = best_rates(records)
    body = []
    for target in targets:
        line = [target]
        for tool in tools:
            middle, asked, runs = best.get((target, tool), (0.0, 0, []))
            cell = spread([rate_of(r) for r in runs], number)
            line.append(f"{cell}, asked {plot.short(asked)}" if runs else "–")
        body.append(line)
    lines = [
        "Highest rate that reached the file, samples per second, and the rate asked for it:",
        "",
    ]
    lines += table(["target", *tools], body)
    chosen = targets[0]
    here = [r for r in records if r["target"] == chosen]
    lines += [
        f"Share of the samples asked for that are not in the file, `{chosen}`, by the rate asked for:",
        "",
    ]
    lines += matrix(here, "rate", missed_of, percent)
    if all("stolen" in r for r in here):
        lines += [
            "Of the CPU time that was wanted meanwhile the host of this virtual machine gave to others; a slot that falls into it is",
            "missed, whatever the profiler does:",
            "",
        ]
        lines += matrix(here, "rate", lambda r: r["stolen"], percent)
    stopped = [r for r in records if r["tool"] == "scry" and r["rate"] == 1000]
    body = []
    for target in names(stopped, "target"):
        runs = [r for r in good(stopped) if r["target"] == target]
        shares = [r["stops"] / max(1, r["samples"]) for r in runs]
        body.append(
            [
                target,
                spread(shares, percent),
                spread([r["median_stop_us"] for r in runs if r["stops"]], number),
            ]
        )
    lines += ["Stops of scry with default options, 1000 Hz asked, as it counts them itself:", ""]
    lines += table(["target", "stops per sample", "median stop, µs"], body)
    lines += [
        "The profiler's CPU time per sample at those rates, start included, microseconds:",
        "",
    ]
    lines += matrix(here, "rate", lambda r: 1e6 * r["cpu"] / max(1, r["samples"]), number)
    series = {}
    for tool in tools:
        cells = grouped(good(r for r in here if r["tool"] == tool), "rate")
        series[tool] = [
            (asked, statistics.median(map(rate_of, runs))) for (asked,), runs in cells.items()
        ]
    title = f"Samples that reach the file ({workload.KINDS[chosen].what})"
    (out / "results-rate.svg").write_text(
        plot.lines(title, "samples per second asked for", "in the file", series)
    )
    return [*lines, "![rates](results-rate.svg)", ""]


def report_floor(records: Records, out: Path) -> list[str]:
    rows = [
        ("slots of 50 µs that scry --nonblocking misses at 20 kHz, depth 20", "missed", percent),
        ("those without a moment for a program that only reads the clock", "missed_alone", percent),
        ("µs of CPU time of a sleep, 100 times a second", "wake_us_100", number),
        ("the same, 1,000 times a second", "wake_us_1000", number),
    ]
    body = [[what, spread([r[key] for r in good(records)], form)] for what, key, form in rows]
    lines = [
        "What the machine takes away from a program that does next to nothing, in turns with scry, beside the same target:",
        "",
    ]
    return lines + table(["what", "measured"], body)


def report_cpu(records: Records, out: Path) -> list[str]:
    lines = [
        "Microseconds of the profiler's own CPU time per sample in the file. At low rates most of it is waking up:",
        "",
    ]
    for asked in names(records, "rate"):
        here = [r for r in records if r["rate"] == asked]
        lines += [
            f"{asked} Hz asked{', that is as fast as it can' if asked >= 1_000_000 else ''}:",
            "",
        ]
        lines += matrix(here, "tool", lambda r: r["us_per_sample"], number)
    return lines


def slowdowns(records: Records) -> dict[tuple[str, str, int], dict[str, list[float]]]:
    """By target, tool and rate: the share of work lost in each repetition, against the target alone in the same one."""
    base = grouped(
        good(r for r in records if r["tool"] == ALONE), "target", "python", "rate", "rep"
    )
    again = grouped(
        good(r for r in records if r["tool"] == ALONE_AGAIN), "target", "python", "rate", "rep"
    )
    result: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for record in good(records):
        where = (record["target"], record["python"], record["rate"], record["rep"])
        others = base.get(where, [])
        if record["tool"] not in (ALONE, ALONE_AGAIN):
            others = others + again.get(where, [])
        if record["tool"] == ALONE or not others:
            continue
        entry = result.setdefault(
            (record["target"], record["tool"], record["rate"]), {"per_cpu": [], "per_wall": []}
        )
        for key, values in entry.items():
            before = statistics.mean(r[key] for r in others)
            values.append(1 - record[key] / before if before else 0.0)
    return result


def report_slowdown(records: Records, out: Path) -> list[str]:
    lost = slowdowns(records)
    tools = [ALONE_AGAIN, *(t for t in names(records, "tool") if t not in (ALONE, ALONE_AGAIN))]
    lines = [
        "Share of the target's work that is lost, against the same target alone just before or after. The column",
        f"“{ALONE_AGAIN}” is the target alone against itself: the noise floor.",
        "",
    ]
    for key, what in (
        ("per_wall", "per second of wall time"),
        ("per_cpu", "per second of its own CPU time"),
    ):
        for asked in names(records, "rate"):
            body = []
            for target in names(records, "target"):
                cells = [lost.get((target, tool, asked), {}).get(key, []) for tool in tools]
                body.append([target, *(spread(cell, percent) for cell in cells)])
            lines += [f"Work {what}, {asked} Hz asked:", ""]
            lines += table(["target", *tools], body)
    asked = names(records, "rate")[-1]
    groups = {}
    for target in names(records, "target"):
        cells = {
            tool: lost.get((target, tool, asked), {}).get("per_wall", []) for tool in tools[1:]
        }
        groups[target] = {tool: 100 * statistics.median(v) for tool, v in cells.items() if v}
    title = f"Work lost per second of wall time, {asked} Hz asked"
    (out / "results-slowdown.svg").write_text(plot.bars(title, groups, "%", 0.1))
    return [*lines, "![slowdown](results-slowdown.svg)", ""]


def interval(each: list[float]) -> tuple[float, float, float]:
    """The median, and between what it lies with 95 %: by drawing from what was seen, always in the same way."""
    draw = random.Random(1)
    many = sorted(statistics.median(draw.choices(each, k=len(each))) for _ in range(2000))
    return statistics.median(each), many[50], many[-51]


def paired(records: Records) -> dict[tuple[str, str, int, str], tuple[list[float], list[float]]]:
    """By target, tool, rate and what is measured: the share of work lost in each pair, and the same of the target alone."""
    found = {}
    for (target, tool, rate, what), group in grouped(
        good(records), "target", "tool", "rate", "what"
    ).items():
        found[target, tool, rate, what] = (
            [r["lost"] for r in group],
            [r["lost_alone"] for r in group],
        )
    return found


def report_paired(records: Records, out: Path) -> list[str]:
    lines = [
        "Share of the target's work that is lost in a window of one second with the profiler, against the windows without it just",
        "before and after; “alone” is one of these against the one before it. Medians, with the interval that holds them with 95 %.",
        "",
    ]
    body = []
    for (target, tool, rate, what), (lost, alone) in paired(records).items():
        cells = []
        for each in (lost, alone):
            figure, low, high = interval(each)
            cells.append(f"{percent(figure)} ({percent(low)} to {percent(high)})")
        unit = {"per_wall": "wall", "per_cpu": "its own CPU time"}[what]
        body.append([target, number(rate), unit, tool, str(len(lost)), *cells])
    head = ["target", "Hz asked", "per second of", "profiler", "pairs", "lost", "alone"]
    stolen = statistics.mean(r["stolen"] for r in records)
    return [*lines, *table(head, body), f"The host took {percent(stolen)} of the CPU time.", ""]


def report_native(records: Records, out: Path) -> list[str]:
    lost = slowdowns(records)
    lines = [
        "Samples a second in the file, the share of the target's work that is lost per second of wall time, samples that failed,",
        "and those without all their native frames. 100,000 Hz asked: as fast as it can.",
        "",
    ]
    body = []
    for (target, asked, tool), here in grouped(good(records), "target", "rate", "tool").items():
        if tool in (ALONE, ALONE_AGAIN):
            continue
        loss = lost.get((target, tool, asked), {}).get("per_wall", [])
        body.append(
            [
                target,
                f"{asked:,}",
                tool,
                spread([rate_of(r) for r in here], number),
                spread(loss, percent),
                percent(
                    sum(r["errors"] for r in here)
                    / max(1, sum(r["samples"] + r["errors"] for r in here))
                ),
                percent(sum(r["unmerged"] for r in here) / max(1, sum(r["samples"] for r in here))),
            ]
        )
    head = [
        "target",
        "Hz asked",
        "profiler",
        "samples/s",
        "work lost",
        "errors",
        "without native frames",
    ]
    return lines + table(head, body)


def report_trees(records: Records, out: Path) -> list[str]:
    lines = ["Share of a CPU that the profiler uses at 100 Hz, without its start:", ""]
    lines += matrix(records, "tool", lambda r: r["share"], percent)
    lines += ["Samples a second in the file (idle processes have none):", ""]
    lines += matrix(records, "tool", lambda r: r["samples"] / max(0.1, r["seconds"]), number)
    told = [r for r in records if r["ticks"]]
    lines += ["Looks that were left out, start included, where the profiler says so:", ""]
    return lines + matrix(told, "tool", lambda r: r["missed"] / (r["ticks"] + r["missed"]), percent)


def report_pauses(records: Records, out: Path) -> list[str]:
    lines = [
        "Gaps over 20 µs that a thread sees which reads the clock without end, microseconds:",
        "",
    ]
    for asked in names(records, "rate"):
        body = []
        for tool in names(records, "tool"):
            runs = [r for r in good(records) if r["tool"] == tool and r["rate"] == asked]
            keys = ("per_second", "median_us", "p99_us", "longest_us")
            body.append([tool, *(spread([r[key] for r in runs], number) for key in keys)])
        lines += [f"{asked} Hz asked:", ""]
        lines += table(["tool", "gaps a second", "median", "99 of 100", "longest"], body)
    return lines


def report_memory(records: Records, out: Path) -> list[str]:
    body = []
    for r in records:
        if r["failure"]:
            body.append([r["tool"], "failed: " + " ".join(r["failure"].split())[:80], "", "", ""])
            continue
        course = [kb for _, kb in r.get("course", []) if kb]
        shown = (
            [course[int(share * (len(course) - 1))] / 1024 for share in (0.1, 0.5, 1)]
            if course
            else []
        )
        samples = f"{r['samples']:,}" if "samples" in r else "the same"
        seconds = r.get("seconds") or r["wall"]
        body.append(
            [
                r["tool"],
                samples,
                f"{seconds:.1f}",
                f"{r['peak_kb'] / 1024:.1f}",
                " → ".join(f"{mb:.1f}" for mb in shown),
            ]
        )
    lines = [
        "Resident memory of the profiler, MB; as many samples as it makes in the seconds given:",
        "",
    ]
    return lines + table(
        ["tool", "samples", "seconds", "peak", "after 10, 50 and 100 % of the time"], body
    )


def report_stream(records: Records, out: Path) -> list[str]:
    lines = [
        "Bytes in the file per sample (py-spy: speedscope, the only format of it that keeps every sample):",
        "",
    ]
    return lines + matrix(records, "tool", lambda r: r["bytes"] / max(1, r["samples"]), number)


def report_first(records: Records, out: Path) -> list[str]:
    runs = grouped(good(records), "tool")
    body = [
        [tool, spread([r["milliseconds"] for r in group], number)]
        for (tool,), group in runs.items()
    ]
    lines = [
        "Milliseconds from the start of the profiler to its first sample (to half a millisecond), 1000 Hz asked:",
        "",
    ]
    return lines + table(["tool", "ms"], body)


def report_dump(records: Records, out: Path) -> list[str]:
    lines = ["Milliseconds from the start to the end of a dump of all threads:", ""]
    return lines + matrix(records, "tool", lambda r: r["milliseconds"], number)


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}"


def report_calls(records: Records, out: Path) -> list[str]:
    lines = [
        "System calls per sample, seen by strace, at 1000 Hz asked (py-spy 100); the start is not counted. scry also counts its",
        "reads of memory itself, without strace, which makes each of them so slow that more threads have to be stopped:",
        "",
    ]
    columns = ["reads", "counted", "writes", "stops", "proc", "all"]
    for target in names(records, "target"):
        here = [r for r in good(records) if r["target"] == target]
        lines += [f"`{target}`:", ""]
        head = [
            "tool",
            "memory reads",
            "by its own count",
            "writes into the target",
            "stops of a thread",
            "reads of /proc",
            "all",
        ]
        lines += table(head, [[r["tool"], *(cell(r.get(c)) for c in columns)] for r in here])
    return lines


def report_size(records: Records, out: Path) -> list[str]:
    body = [[r["tool"], f"{r['bytes']:,}" if r["bytes"] else "a part of Python"] for r in records]
    return ["Bytes of the program file:", "", *table(["tool", "bytes"], body)]


def report_kill(records: Records, out: Path) -> list[str]:
    lines = []
    for r in records:
        written = r["times"] - r["empty"]
        lines += [
            f"`kill -9` of {r['tool']} at a random moment, {r['times']} times: {r['empty']} times before anything was",
            f"written; {r['converted']} of the other {written} files convert; the target stayed stopped {r['stopped']} times.",
            "",
        ]
    return lines


def report_trace(records: Records, out: Path) -> list[str]:
    import tracing  # which makes its tables with what is here

    return tracing.write(records, out)


def failures(results: dict[str, Any]) -> list[str]:
    lines = []
    for section, entry in results["sections"].items():
        for r in entry["records"]:
            if r.get("failure"):
                where = " ".join(str(r[k]) for k in ("tool", "target", "rate") if k in r)
                lines.append(f"- {section}: {where}: {' '.join(r['failure'].split())[:200]}")
    return sorted(set(lines))


TITLES = {
    "rate": ("Rate", report_rate),
    "floor": ("What the machine takes away", report_floor),
    "cpu": ("CPU time of the profiler", report_cpu),
    "slowdown": ("Slowdown of the target", report_slowdown),
    "paired": ("Slowdown, in pairs", report_paired),
    "native": ("Native frames", report_native),
    "trees": ("Process trees", report_trees),
    "pauses": ("Pauses of the target", report_pauses),
    "calls": ("System calls", report_calls),
    "memory": ("Memory of the profiler", report_memory),
    "stream": ("Size of recordings", report_stream),
    "first": ("First sample", report_first),
    "dump": ("Dump", report_dump),
    "size": ("Size of the program", report_size),
    "kill": ("Killed while recording", report_kill),
    "trace": ("The tracer", report_trace),
}


def head(results: dict[str, Any]) -> list[str]:
    facts = results["machine"]
    lines = [
        "# scry beside its peers",
        "",
        "Made by `./dev bench`; not written by hand. Cells are medians, with the lowest and highest repetition in",
        "brackets. All profilers take turns on the same targets in the same run; bench/README.md says how.",
        "",
        f"Machine: {facts['processor']}, {facts['cores']} cores, {facts['memory_mb']} MB, Linux {facts['kernel']}.",
        "",
    ]
    rows = [[t["name"], t["version"], t["python"], f"`{t['command']}`"] for t in results["tools"]]
    lines += table(
        ["profiler", "version", "its targets run under", "command at 1000 Hz for 2 s"], rows
    )
    rows = [[k.name, k.what] for k in workload.KINDS.values()]
    return lines + table(["target", "what it does"], rows)


def write(results: dict[str, Any], out: Path, goals: list[str]) -> None:
    lines = head(results) + goals
    for section, (title, make) in TITLES.items():
        entry = results["sections"].get(section)
        if not entry or not entry["records"]:
            continue
        how = ", quick mode: too short to be trusted" if entry["quick"] else ""
        lines += [f"## {title}", ""]
        lines += make(entry["records"], out)
        lines += [
            f"*{entry['date']}, {entry['seconds']} s, load {entry['load_before']} before{how}.*",
            "",
        ]
    if failed := failures(results):
        lines += ["## What failed", "", *failed, ""]
    (out / "RESULTS.md").write_text("\n".join(lines).rstrip() + "\n")
