"""Profile the scheduler of a Dask cluster: the interface of the package of this name, on top of scry.

    with (
        pyspy_on_scheduler("pyspy.json"),
        viztrace_scheduler("viztracer.json", trace_sparse="distributed.Scheduler.update_graph"),
    ):
        df.set_index("id").mean().compute()

Neither py-spy nor viztracer is needed; scry must be installed where the scheduler runs. scry.dask has more: workers,
nannies, dumps, asynchronous clients.
"""

import sys

from scheduler_profiling.sampling import pyspy, pyspy_on_scheduler
from scheduler_profiling.tracing import viztrace_scheduler

__all__ = ["pyspy", "pyspy_on_scheduler", "viztrace_scheduler"]


def _forget_stdin() -> None:
    """Of a program fed to `python -` the interpreter says that its file is "<stdin>". Processes that multiprocessing
    spawns, as Dask does for its workers, would look for that file, and die; without a name they do not."""
    main = sys.modules.get("__main__")
    if getattr(main, "__file__", None) == "<stdin>":
        del main.__file__  # type: ignore[union-attr]


_forget_stdin()
