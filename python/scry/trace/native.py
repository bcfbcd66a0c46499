"""Finds the tracer's compiled part: installed with the package, or built for this interpreter earlier."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path

HINT = (
    "the tracer's compiled part is not there for Python {version} ({executable}): install the package for it "
    "(pip install scry), or, with a C compiler and Python's headers, run: {executable} -m scry.trace.build"
)


class NotBuilt(ImportError):
    """There is no compiled tracer for this interpreter."""


def load() -> types.ModuleType:
    """The module scry._tracer; NotBuilt says what to do when there is none."""
    loaded = sys.modules.get("scry._tracer")
    if loaded is not None:
        return loaded
    try:
        return importlib.import_module("scry._tracer")
    except ModuleNotFoundError:
        pass
    for path in _places():
        if path.exists():
            return _load_file(path)
    version = ".".join(map(str, sys.version_info[:3]))
    raise NotBuilt(HINT.format(version=version, executable=sys.executable))


def _places() -> list[Path]:
    chosen = os.environ.get("SCRY_TRACER")
    if chosen:
        return [Path(chosen)]
    from scry.trace import build

    return [build.cached()] if build.SOURCES.is_dir() else []


def _load_file(path: Path) -> types.ModuleType:
    loader = importlib.machinery.ExtensionFileLoader("scry._tracer", str(path))
    spec = importlib.util.spec_from_loader("scry._tracer", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules["scry._tracer"] = module
    return module
