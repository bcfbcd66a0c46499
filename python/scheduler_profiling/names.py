"""Names of Dask's functions that later versions changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Old name -> new name; the table is asked only where the old name does not exist.
RENAMED = {
    "distributed.Scheduler.update_graph_hlg": "distributed.Scheduler.update_graph",
    "distributed.Scheduler.handle_missing_data": "distributed.Scheduler.handle_request_refresh_who_has",
    "distributed.Scheduler.reschedule": "distributed.Scheduler._reschedule",
    "dask.highlevelgraph.HighLevelGraph.__dask_distributed_unpack__": "distributed.scheduler._materialize_graph",
    "dask.highlevelgraph.Layer.__dask_distributed_unpack__": "distributed.scheduler._materialize_graph",
}
_LONG = "distributed.scheduler.Scheduler."
_SHORT = "distributed.Scheduler."


def _exists(name: str) -> str | None:
    """None if it can be traced, else why not."""
    from scry.trace.sparse import NotTraceable, resolve

    try:
        resolve(name)
    except NotTraceable as error:
        return str(error)
    return None


def current_names(names: Sequence[str]) -> dict[str, Any]:
    """Runs on the scheduler: what the names are in the version that runs there."""
    result: dict[str, list[str]] = {"names": [], "warnings": [], "unknown": []}
    for name in names:
        why = _exists(name)
        short = _SHORT + name[len(_LONG) :] if name.startswith(_LONG) else name
        new = RENAMED.get(short)
        if why is None:
            result["names"].append(name)
        elif new is not None and _exists(new) is None:
            result["names"].append(new)
            result["warnings"].append(
                f"this version of Dask has no '{name}': tracing '{new}', which took its place"
            )
        else:
            result["unknown"].append(why)
    result["names"] = list(dict.fromkeys(result["names"]))
    return result
