"""A trace as one page that any browser opens, without a server and without the network.

The page holds Perfetto's protobuf, compressed, and a small viewer (viewer.html) that reads it.
"""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

VIEWER = Path(__file__).resolve().parent / "viewer.html"
PLACE = "<!-- the trace -->"
LARGE = 400 << 20  # bytes of protobuf from which on a browser has trouble


def write_page(source: Path, target: Path) -> None:
    data = source.read_bytes()
    if len(data) > LARGE:
        raise ValueError(
            f"the trace is too large for a page ({len(data) >> 20} MB): save it as .pftrace, or keep less"
        )
    packed = base64.b64encode(gzip.compress(data, 6)).decode()
    before, after = VIEWER.read_text(encoding="utf-8").split(PLACE)
    script = f'<script id="trace" type="application/octet-stream">{packed}</script>'
    target.write_text(before + script + after, encoding="utf-8")
