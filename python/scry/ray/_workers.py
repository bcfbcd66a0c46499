"""Which processes are meant: Ray's tasks, actors, Serve replicas and jobs, by name; and how to do something on their nodes."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable
from typing import Any, Callable

LIMIT = 10_000  # Ray's own
SECONDS = 60.0
OWN = "scry.ray"  # the name of tasks that look at others


@dataclasses.dataclass(frozen=True)
class Worker:
    """A process of the cluster, by what it does."""

    node: str  # Ray's id of the node
    pid: int
    kind: str  # "task", "actor", "driver"
    name: str
    job: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid} on {self.node[:8]})"


@dataclasses.dataclass(frozen=True)
class Failure:
    """What could not be done, where, and why; the rest was."""

    worker: Worker
    why: str

    def __str__(self) -> str:
        return f"{self.worker}: {self.why}"


def connected() -> Any:
    """The module ray, connected to a cluster."""
    import ray

    if not ray.is_initialized():
        ray.init("auto", log_to_driver=False, logging_level="ERROR")
    return ray


def _matches(pattern: str | Iterable[str] | None, *names: str | None) -> bool:
    patterns = [pattern] if isinstance(pattern, str) else list(pattern or ())
    return any(fnmatch.fnmatchcase(name, p) for p in patterns for name in names if name)


def _replica_names(class_name: str) -> list[str]:
    """ "ServeReplica:app:Deployment": by the whole, by the deployment, by app:Deployment."""
    if not class_name.startswith("ServeReplica:"):
        return []
    parts = class_name.split(":")[1:]
    return [":".join(parts), parts[-1]]


def _job_id(state: Any, job: str | None) -> str | None:
    """Ray's id of a job, also from the id it was submitted under."""
    for row in state.list_jobs(limit=LIMIT) if job else ():
        if job in (row.job_id, row.submission_id):
            return row.job_id
    return job


def _drivers(ray: Any, state: Any, job: str | None) -> list[Worker]:
    nodes = {row["NodeManagerAddress"]: row["NodeID"] for row in ray.nodes() if row["Alive"]}
    found = []
    for row in state.list_jobs(limit=LIMIT):
        info, running = row.driver_info, str(row.status).endswith("RUNNING")
        if not info or not running or not str(info.pid).isdigit():
            continue
        node = row.driver_node_id or nodes.get(info.node_ip_address)
        if node and (job is None or row.job_id == job):
            found.append(
                Worker(node, int(info.pid), "driver", f"driver of {row.job_id}", row.job_id)
            )
    return found


def workers(
    tasks: str | Iterable[str] | None = None,
    actors: str | Iterable[str] | None = None,
    replicas: str | Iterable[str] | None = None,
    job: str | None = None,
    drivers: bool | None = None,
) -> list[Worker]:
    """The processes that run these: names, or patterns with * and ?.

    Tasks by their name; actors by their name or class; Serve replicas by deployment or app:deployment; `job`, an id or a
    submission id, narrows down. With neither of the first three: all that runs something, and the job's driver.
    """
    ray = connected()
    from ray.util import state

    all_of_it = tasks is None and actors is None and replicas is None
    job = _job_id(state, job)
    found: dict[tuple[str, int], Worker] = {}

    def add(worker: Worker) -> None:
        if worker.pid and worker.node and (job is None or worker.job == job):
            found.setdefault((worker.node, worker.pid), worker)

    alive = state.list_actors(filters=[("state", "=", "ALIVE")], detail=True, limit=LIMIT)
    names = {row.actor_id: row.name for row in alive}
    for row in state.list_tasks(filters=[("state", "=", "RUNNING")], detail=True, limit=LIMIT):
        if row.name == OWN:  # of a moment ago: Ray reports the end of a task a second late
            continue
        if row.worker_pid and (all_of_it or _matches(tasks, row.name, row.task_id)):
            actor = names.get(row.actor_id)
            name = f"{row.name} of {actor}" if actor else row.name
            add(Worker(row.node_id, row.worker_pid, "task", name, row.job_id))
    for row in alive:
        named = _matches(actors, row.name, row.class_name, row.actor_id)
        named = named or _matches(replicas, *_replica_names(row.class_name))
        if row.pid and (all_of_it or named):
            name = f"{row.class_name} {row.name}" if row.name else row.class_name
            add(Worker(row.node_id, row.pid, "actor", name, row.job_id))
    if all_of_it if drivers is None else drivers:
        for worker in _drivers(ray, state, job):
            add(worker)
    return sorted(found.values(), key=lambda w: (w.node, w.name, w.pid))


def on_their_nodes(
    chosen: list[Worker], function: Callable[..., list[Any]], *args: Any, seconds: float
) -> tuple[list[tuple[Worker, Any]], list[Failure]]:
    """function(pids, *args) on each node, at once; it returns for each pid a value or, as RuntimeError, why not."""
    ray = connected()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(function)
    by_node: dict[str, list[Worker]] = {}
    for worker in chosen:
        by_node.setdefault(worker.node, []).append(worker)
    asked = {}
    for node, mine in by_node.items():
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        asked[node] = task.options(name=OWN, scheduling_strategy=where).remote(
            [worker.pid for worker in mine], *args
        )
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds + SECONDS)
    results: list[tuple[Worker, Any]] = []
    failures: list[Failure] = []
    for node, mine in by_node.items():
        try:
            answers = ray.get(asked[node], timeout=0)
        except Exception as error:  # whatever befell that node, the others' answers stay
            ray.cancel(asked[node], force=True)
            answers = [RuntimeError(f"its node did not answer: {str(error).strip()[:300]}")] * len(
                mine
            )
        for worker, answer in zip(mine, answers):
            if isinstance(answer, RuntimeError):
                failures.append(Failure(worker, str(answer)))
            else:
                results.append((worker, answer))
    return results, failures
