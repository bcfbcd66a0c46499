"""What a Ray job does, and where its time goes: run it beside a cluster, `python examples/ray_job.py [JOB]`.

Without a running cluster it starts one, with something to see in it.
"""

import sys
import time

import ray
import scry.ray


@ray.remote
def train(step):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        sum(i * i for i in range(100_000))
    return step


def connect():
    try:
        ray.init("auto", log_to_driver=False)
    except ConnectionError:
        ray.init(num_cpus=2, log_to_driver=False)
        for step in range(2):
            train.remote(step)
        time.sleep(5)  # Ray reports a task a second or two late


def main():
    connect()
    which = {"job": sys.argv[1]} if len(sys.argv) > 1 else {}
    print(scry.ray.stuck(**which))
    profile = scry.ray.record(duration=5, idle=True, **which)
    print(f"{len(profile.found)} processes are in {profile.save('ray_job.svg')}")


main()
