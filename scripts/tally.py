#!/usr/bin/env python3
"""Sums what the parts of `./dev test` found and closes the run with one line: N passed, N failed[, N skipped].

Reads out/test: parts.tsv (a line per part: name, ok or failed, what to look at), *.json (Meson's test logs,
whose C tests are counted one by one from what cmocka printed) and *.xml (pytest's;
NAME.again.xml is a second run of what failed in NAME.xml).
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


def has_failed(case: xml.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def passed_in(file: Path) -> set[str]:
    """The tests that passed in a second run, if there was one."""
    if not file.exists():
        return set()
    cases = list(xml.parse(file).getroot().iter("testcase"))
    names = [f"{case.get('classname', '')}::{case.get('name', '')}" for case in cases]
    failed = {name for name, case in zip(names, cases) if has_failed(case)}
    return {name for name, case in zip(names, cases) if case.find("skipped") is None} - failed


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)
    unsteady: list[str] = dataclasses.field(
        default_factory=list
    )  # failed beside others, passed alone

    def add_parts(self, file: Path) -> None:
        """Parts that have no finer count are one test each; of the others only a failure counts."""
        for line in file.read_text().splitlines():
            name, state, where = line.split("\t")
            if state == "failed":
                self.failed.append(f"{name} ({where})")
            elif state == "ok":
                self.passed += 1

    def add_meson(self, file: Path) -> None:
        for line in file.read_text().splitlines():
            test = json.loads(line)
            name = f"{file.stem}: {test['name'].split(' / ')[-1]}"
            text = test.get("stdout", "") + test.get("stderr", "")
            passed = re.findall(r"^\[ +OK \] ", text, re.MULTILINE)
            failed = set(
                re.findall(r"^\[  FAILED  \] (?!\d+ test)(?:\w+: )?(\w+)", text, re.MULTILINE)
            )
            skipped = set(
                re.findall(r"^\[  SKIPPED \] (?!\d+ test)(?:\w+: )?(\w+)", text, re.MULTILINE)
            )
            self.passed += len(passed)
            self.failed += [f"{name}: {each}" for each in sorted(failed)]
            self.skipped += [f"{name}: {each}" for each in sorted(skipped)]
            if test["result"] == "SKIP":
                self.skipped.append(name)
            elif test["result"] not in ("OK", "EXPECTEDFAIL"):
                # A crash or a sanitizer's finding ends the program after tests that passed.
                self.failed += [] if failed else [f"{name}: {test['result']}"]
            elif not passed:
                self.passed += 1

    def add_pytest(self, file: Path) -> None:
        again = passed_in(file.with_suffix(".again.xml"))
        for case in xml.parse(file).getroot().iter("testcase"):
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            skip = case.find("skipped")
            if has_failed(case) and name in again:
                self.unsteady.append(f"{file.stem}: {name}")
                self.passed += 1
            elif has_failed(case):
                self.failed.append(f"{file.stem}: {name}")
            elif skip is not None:
                self.skipped.append(
                    f"{file.stem}: {name}: {skip.get('message', 'no reason given')}"
                )
            else:
                self.passed += 1

    def closing_line(self) -> str:
        line = f"{self.passed} passed, {len(self.failed)} failed"
        return line + (f", {len(self.skipped)} skipped" if self.skipped else "")


def main() -> int:
    folder = Path(sys.argv[1])
    tally = Tally()
    tally.add_parts(folder / "parts.tsv")
    for file in sorted(folder.glob("*.json")):
        tally.add_meson(file)
    for file in sorted(folder.glob("*.xml")):
        if not file.name.endswith(".again.xml"):
            tally.add_pytest(file)
    unsteady = "failed beside other tests, passed alone"
    for head, lines in (
        ("skipped", tally.skipped),
        (unsteady, tally.unsteady),
        ("failed", tally.failed),
    ):
        if lines:
            print(f"\n{head}:")
            print("\n".join(f"  {line}" for line in lines))
    print(f"\n{tally.closing_line()}")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
