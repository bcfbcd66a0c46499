"""Compare what make_profile writes with the golden file; with --record, make that the golden file.

    check.py MAKE_PROFILE GOLDEN CASE FORMAT [OPTION...] [--record]

What may change without a change of format is left out: the version, and the flame graph's style and script.
Record all anew with: meson test -C build --suite golden --test-args=--record
"""

from __future__ import annotations

import difflib
import gzip
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROTO = Path(__file__).parents[2] / "src" / "format" / "profile.proto"


def schema() -> dict[str, dict[int, tuple[str, str]]]:
    """{message: {field number: (name, type)}}"""
    messages: dict[str, dict[int, tuple[str, str]]] = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", PROTO.read_text(), re.S):
        fields = re.findall(r"(?:repeated )?(\w+) (\w+) = (\d+);", body)
        messages[name] = {int(number): (field, kind) for kind, field, number in fields}
    return messages


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            return value, at


def text_of(data: bytes, message: str, messages: dict, indent: str = "") -> list[str]:
    """A message as text, one field per line."""
    lines, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        field, kind = messages[message][tag >> 3]
        value, at = varint(data, at)
        if tag & 7 == 0:
            lines.append(f"{indent}{field}: {value}")
            continue
        content, at = data[at : at + value], at + value
        if kind == "string":
            lines.append(f"{indent}{field}: {content.decode()!r}")
        elif kind in messages:
            lines.append(f"{indent}{field}:")
            lines += text_of(content, kind, messages, indent + "  ")
        else:
            numbers, place = [], 0
            while place < len(content):
                number, place = varint(content, place)
                numbers.append(number)
            lines.append(f"{indent}{field}: {numbers}")
    return lines


def readable(format_name: str, data: bytes) -> str:
    if format_name == "pprof":
        text = "\n".join(text_of(gzip.decompress(data), "Profile", schema())) + "\n"
    else:
        text = data.decode()
    text = re.sub(r"(scry[ @])\d+\.\d+\.\d+", r"\1VERSION", text)
    return re.sub(r"<(style|script)><!\[CDATA\[\n.*?\]\]>", r"<\1><![CDATA[]]>", text, flags=re.S)


def main() -> int:
    record = "--record" in sys.argv
    maker, golden, case, format_name, *options = (a for a in sys.argv[1:] if a != "--record")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "profile"
        subprocess.run([maker, case, format_name, output, *options], check=True)
        found = readable(format_name, output.read_bytes())
    if record:
        Path(golden).write_text(found)
        return 0
    expected = Path(golden).read_text()
    diff = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), golden, "what was written", lineterm=""
    )
    print("\n".join(diff))
    return 0 if found == expected else 1


sys.exit(main())
