"""scry on a Ray cluster.

    python -m scry.ray link            scry becomes the py-spy of the Ray dashboard on this node
    python -m scry.ray doctor          what the dashboard will find on each node, and what to do about it
    python -m scry.ray stuck           the workers of a job by what they do, the oddest first

    import ray, scry.ray

    ray.init("auto")
    print(scry.ray.stuck(job="03000000"))
    scry.ray.record(actors="Trainer", duration=10).save("trainers.svg")
    with scry.ray.deploy() as servers:         # one `scry serve` on each node
        print(servers.url, servers.token)

Whatever is done on a node is done by Ray's own scheduling, as a task without a CPU to itself; scry must be installed
there, as Ray is.
"""

from scry.ray._deploy import Deployment, deploy
from scry.ray._doctor import Report, doctor
from scry.ray._link import link, unlink
from scry.ray._look import Dumps, Profile, dump, record
from scry.ray._stuck import Summary, stuck
from scry.ray._workers import Failure, Worker, workers

__all__ = [
    "Deployment",
    "Dumps",
    "Failure",
    "Profile",
    "Report",
    "Summary",
    "Worker",
    "deploy",
    "doctor",
    "dump",
    "link",
    "record",
    "stuck",
    "unlink",
    "workers",
]
