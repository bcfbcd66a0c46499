"""The scheduler of a Dask cluster, sampled and traced at once: python examples/dask_scheduler.py

Writes sampled.json (speedscope) and traced.json (Perfetto).
"""

import distributed
from scheduler_profiling import pyspy_on_scheduler, viztrace_scheduler


def main() -> None:
    with distributed.Client(n_workers=2, threads_per_worker=1) as client:
        with pyspy_on_scheduler("sampled.json"):
            with viztrace_scheduler(
                "traced.json", trace_sparse="distributed.Scheduler.handle_task_finished"
            ):
                client.gather(client.map(abs, range(2000)))


if __name__ == "__main__":
    main()
