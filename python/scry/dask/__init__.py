"""scry on a Dask cluster, through its Client: no other connection, no other service.

    from scry.dask import record, trace, dump

    with record("profile.json"):                        # scheduler and workers, as one speedscope file
        df.set_index("id").mean().compute()

    async with record("out/", workers=[address], scheduler=False, separate=True): ...

    with trace("trace.json", trace_sparse="distributed.Scheduler.update_graph"): ...

    dump()                                              # what every process of the cluster does right now

The package must be installed wherever the cluster runs. Whatever happens, the cluster is left as it was.
"""

from scry.dask.block import Block, Part, PartialResult
from scry.dask.kinds import record, trace
from scry.dask.plugins import AlwaysOnScheduler, AlwaysOnWorker, always_on
from scry.dask.stacks import dump

__all__ = [
    "AlwaysOnScheduler",
    "AlwaysOnWorker",
    "Block",
    "Part",
    "PartialResult",
    "always_on",
    "dump",
    "record",
    "trace",
]
