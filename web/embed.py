"""Turn the built page into C at build time: embed.py FOLDER OUTPUT.c

Every file of the folder becomes a row of page_files[] (src/http/page_files.h), compressed. Without the folder, the page says
how to get it: the rest of scry does not need Node.
"""

import gzip
import hashlib
import sys
from pathlib import Path

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    "": "text/plain; charset=utf-8",
}

MISSING = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>scry</title>
<p>This scry was built without its page. <code>./dev build</code> makes one with it. The API is there:
<a href="api/v1/processes">api/v1/processes</a>, <a href="api/v1/openapi.json">api/v1/openapi.json</a>.
"""


def page(folder: Path) -> dict[str, bytes]:
    found = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    return found if "index.html" in found else {"index.html": MISSING}


def numbers(data: bytes) -> str:
    lines = (",".join(map(str, data[i : i + 32])) for i in range(0, len(data), 32))
    return ",\n".join(lines)


def source(files: dict[str, bytes]) -> str:
    arrays, rows = [], []
    for n, (path, data) in enumerate(sorted(files.items())):
        packed = gzip.compress(data, 9, mtime=0)
        arrays.append(f"static const unsigned char file_{n}[] = {{\n{numbers(packed)}}};")
        kind = TYPES.get(Path(path).suffix, "application/octet-stream")
        tag = hashlib.sha256(data).hexdigest()[:16]
        rows.append(f'    {{"{path}", "{kind}", "{tag}", file_{n}, {len(packed)}, {len(data)}}},')
    table = "const struct page_file page_files[] = {\n" + "\n".join(rows) + "\n    {0},\n};"
    return "\n".join(['#include "http/page_files.h"', *arrays, table]) + "\n"


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    text = source(page(folder))
    # An unchanged file keeps its time, so that nothing is compiled again.
    if not out.exists() or out.read_text() != text:
        out.write_text(text)


main()
