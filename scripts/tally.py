#!/usr/bin/env python3
"""Sums what the parts of `./dev test` found and closes the run with one line: N passed, N failed[, N skipped].

Reads out/test: parts.tsv (a line per part: name, ok or failed, what to look at), *.json (Meson's test logs,
whose C tests are counted one by one from what cmocka printed) and *.xml (pytest's).
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: list[str] = dataclasses.field(default_factory=list)

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
        for case in xml.parse(file).getroot().iter("testcase"):
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
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
        tally.add_pytest(file)
    for head, lines in (("skipped", tally.skipped), ("failed", tally.failed)):
        if lines:
            print(f"\n{head}:")
            print("\n".join(f"  {line}" for line in lines))
    print(f"\n{tally.closing_line()}")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
