"""scry as the `py-spy` that Ray looks for on the PATH of each node."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

from scry import program

KEPT = "py-spy.before-scry"


def _place(folder: str | os.PathLike[str] | None) -> Path:
    return Path(folder or sysconfig.get_path("scripts")) / "py-spy"


def _is_link(path: Path) -> bool:
    return path.is_symlink() and os.path.basename(os.path.realpath(path)).startswith("scry")


def link(folder: str | os.PathLike[str] | None = None) -> Path:
    """Make FOLDER/py-spy (beside the python that runs this, if not given) a link to scry.

    A py-spy that is there already is kept beside it, and comes back with unlink(). Ray looks for it at every
    request: nothing needs to be restarted.
    """
    place, target = _place(folder), os.path.realpath(program.find())
    if place.exists() and not _is_link(place):
        place.rename(place.with_name(KEPT))
    fresh = place.with_name(f".py-spy.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)  # at no moment is there none
    return place


def unlink(folder: str | os.PathLike[str] | None = None) -> None:
    """Undo link()."""
    place = _place(folder)
    kept = place.with_name(KEPT)
    if _is_link(place):
        place.unlink()
    if kept.exists() and not place.exists():
        kept.rename(place)
