#!/usr/bin/env python3
"""Pack the built page (web/dist) into an assembler-included blob and a table of it.

    embed_web.py DIST FALLBACK OPENAPI TABLE.c BLOB

Without DIST/index.html the page is FALLBACK alone. Outputs are touched only when they change, so that the program is
not linked anew for nothing.
"""

import gzip
import hashlib
import mimetypes
import re
import sys
from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".map": "application/json",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}
PACKED = (".html", ".js", ".mjs", ".css", ".json", ".svg", ".txt", ".map", ".wasm", ".webmanifest")


def page_files(dist: Path, fallback: Path) -> dict[str, bytes]:
    if not (dist / "index.html").is_file():
        return {"index.html": fallback.read_bytes()}
    return {
        str(path.relative_to(dist)): path.read_bytes()
        for path in sorted(dist.rglob("*"))
        if path.is_file()
    }


def kind(name: str) -> str:
    suffix = Path(name).suffix
    return TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def write_if_changed(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> None:
    dist, fallback, openapi, table, blob = map(Path, sys.argv[1:])
    files = page_files(dist, fallback)
    files["api/v1/openapi.json"] = openapi.read_bytes()
    data, rows = bytearray(), []
    for name, content in sorted(files.items()):
        etag = '"' + hashlib.sha256(content).hexdigest()[:20] + '"'
        packed = Path(name).suffix in PACKED and len(content) > 512
        body = gzip.compress(content, 9, mtime=0) if packed else content
        hashed = bool(re.match(r"assets/.*[-.][0-9A-Za-z_-]{8,}\.\w+$", name))
        fields = [
            c_string(name),
            c_string(kind(name)),
            c_string(etag),
            "true" if packed else "false",
            "true" if hashed else "false",
            str(len(data)),
            str(len(body)),
            str(len(content)),
        ]
        rows.append("    {" + ", ".join(fields) + "},\n")
        data += body + b"\0" * (-len(body) % 16)
    text = (
        '#include "http/assets.h"\n\n'
        '__asm__(".section .rodata\\n.globl asset_data\\n.hidden asset_data\\n.balign 16\\n"\n'
        f'        "asset_data:\\n.incbin \\"{blob.resolve()}\\"\\n.byte 0\\n.previous\\n");\n\n'
        f"/* {hashlib.sha256(data).hexdigest()} */\n"
        "const struct asset assets[] = {\n" + "".join(rows) + "    {0},\n};\n"
    )
    write_if_changed(blob, bytes(data))
    write_if_changed(table, text.encode())


main()
