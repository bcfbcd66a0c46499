"""Which stacks a program of programs/ can have, read from the program itself.

A comment `#> f g` at the end of a line says that f or g may be running, called from that line; `*` stands for
functions of other files. `# anywhere: f` names functions that may be called from any line of the program. A stack
is legal if it begins at the module's frame (or where a thread begins), if each caller stands at a line that may
call its callee, and if the innermost frame stands inside its own function.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
FRAME = re.compile(r"(?P<name>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)")
MADE = re.compile(r"<made (\d+)>")
# Where a thread's stack begins, in the standard library.
LIBRARY_ROOT = re.compile(r"(_bootstrap|_bootstrap_inner|__bootstrap|__bootstrap_inner|run)$")


@dataclasses.dataclass(frozen=True)
class Frame:
    name: str  # without the qualification that only 3.11+ has
    file: str
    line: int

    @classmethod
    def parse(cls, text: str) -> Frame:
        match = FRAME.fullmatch(text)
        assert match, f"not a frame: {text!r}"
        return cls(match["name"].rsplit(".", 1)[-1], match["file"], int(match["line"] or 0))


class Program:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        source = path.read_text()
        self.calls: dict[int, set[str]] = {}
        self.anywhere: set[str] = set()
        self.since = (2, 7)
        for number, line in enumerate(source.splitlines(), 1):
            if "#>" in line:
                self.calls[number] = set(line.split("#>")[1].split())
            if match := re.match(r"# anywhere: (.*)", line):
                self.anywhere = set(match[1].split())
            if match := re.match(r"# since: (\d)\.(\d+)", line):
                self.since = (int(match[1]), int(match[2]))
        self.spans: dict[str, list[tuple[int, int]]] = {"<module>": [(1, len(source.splitlines()))]}
        kinds = {ast.Lambda: "<lambda>", ast.ListComp: "<listcomp>", ast.DictComp: "<dictcomp>"}
        for node in ast.walk(ast.parse(source)):
            name = getattr(node, "name", None) or kinds.get(type(node))
            if name and not isinstance(node, (ast.ClassDef, ast.alias)):
                self.spans.setdefault(name, []).append((node.lineno, node.end_lineno))

    def illegal(self, stack: list[Frame]) -> str | None:
        """Why this stack (root first) cannot be, or None if it can."""
        own = [f for f in stack if Path(f.file).name == self.path.name]
        if self.name == "executed":
            return self._illegal_made(stack)
        if not own:
            # A thread that has not come to the program's own code yet, or has left it.
            return None if self._is_library(stack) else "no frame of the program"
        first = stack.index(own[0])
        if first == 0 and own[0].name != "<module>":
            return f"{own[0].name} has no caller"
        if first and not all(LIBRARY_ROOT.match(f.name) for f in stack[:first]):
            return f"{own[0].name} called from {stack[first - 1].name}"
        for caller, callee in zip(stack[first:], stack[first + 1 :]):
            why = self._illegal_call(caller, callee)
            if why:
                return why
        return self._illegal_place(stack[-1])

    def _is_library(self, stack: list[Frame]) -> bool:
        return bool(stack) and all(f.file != self.path.name for f in stack)

    def _illegal_call(self, caller: Frame, callee: Frame) -> str | None:
        if Path(caller.file).name != self.path.name:
            # Inside a library function that the program called: it may call what it likes.
            return None
        allowed = self.calls.get(caller.line, set()) | self.anywhere
        library = Path(callee.file).name != self.path.name
        if callee.name in allowed or (library and "*" in allowed):
            return None
        return f"{caller.name}:{caller.line} does not call {callee.name}"

    def _illegal_place(self, leaf: Frame) -> str | None:
        if Path(leaf.file).name != self.path.name:
            return None
        spans = self.spans.get(leaf.name, [])
        if any(start <= leaf.line <= end for start, end in spans):
            return None
        return f"{leaf.name} has no line {leaf.line}"

    def _illegal_made(self, stack: list[Frame]) -> str | None:
        """Code made at run time: every made frame bears the same number, callers call their partners."""
        numbers = set()
        for frame in stack:
            if match := MADE.fullmatch(Path(frame.file).name):
                numbers.add(match[1])
                if frame.name != "<module>":
                    numbers.add(frame.name.rsplit("_", 1)[1])
        names = [re.sub(r"_\d+$", "", f.name) for f in stack]
        if len(numbers) > 1:
            return f"frames of different pieces of code: {sorted(numbers)}"
        legal = ["<module>", "main", "<module>", "made", "partner"]
        return None if names == legal[: len(names)] else f"impossible order {names}"


def programs() -> list[Program]:
    return [Program(path) for path in sorted(PROGRAMS.glob("*.py"))]


@dataclasses.dataclass
class Verdict:
    samples: int = 0
    torn: int = 0
    impossible: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)
    shares: dict[tuple[str, ...], int] = dataclasses.field(default_factory=dict)


def judge(program: Program, folded: str) -> Verdict:
    """Check folded stacks (made with --mark-torn) against the grammar; torn ones are only counted."""
    verdict = Verdict()
    for line in folded.splitlines():
        text, _, number = line.rpartition(" ")
        count = int(number)
        words = text.split(";")
        verdict.samples += count
        if words[-1] == "[torn]":
            verdict.torn += count
            continue
        stack = [Frame.parse(word) for word in words]
        why = program.illegal(stack)
        if why:
            verdict.impossible += count
            verdict.examples.append(f"{count}x {why}: {text}")
        key = tuple(re.sub(r"_?\d+$", "", f.name) for f in stack)
        verdict.shares[key] = verdict.shares.get(key, 0) + count
    return verdict


def distance(a: dict[tuple[str, ...], int], b: dict[tuple[str, ...], int]) -> float:
    """Total variation: the share of samples that would have to move to make one out of the other."""
    total_a, total_b = sum(a.values()) or 1, sum(b.values()) or 1
    return sum(abs(a.get(k, 0) / total_a - b.get(k, 0) / total_b) for k in a.keys() | b.keys()) / 2
