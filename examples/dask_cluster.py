"""A Dask cluster looked into: python examples/dask_cluster.py [SCHEDULER-ADDRESS]

Without an address a small cluster is started here. Writes cluster.json (scheduler and workers, for speedscope),
update_graph.json (calls inside one function of the scheduler, for Perfetto), and prints where the time went.
"""

import sys

import distributed
from scry.dask import dump, record, trace


def squares(n: int) -> int:
    return sum(i * i for i in range(n))


def main() -> None:
    if len(sys.argv) > 1:
        client = distributed.Client(sys.argv[1])
    else:
        client = distributed.Client(n_workers=2, threads_per_worker=1)
    with client:
        with record("cluster.json") as block:
            client.gather(client.map(squares, range(400_000, 400_040)))
        print(block.profile)
        with trace("update_graph.json", trace_sparse="distributed.Scheduler.update_graph"):
            client.gather(client.map(squares, range(1000, 1100)))
        print(f"\n{len(dump())} processes can be looked into")


if __name__ == "__main__":
    main()
