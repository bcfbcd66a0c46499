"""Coroutines stepped by hand, two families in turn."""
# since: 3.5
import sys


class Pause:
    def __await__(self):
        yield


async def sleep_a():
    await Pause()  #> __await__


async def wait_a():
    await sleep_a()  #> sleep_a


async def job_a():
    await wait_a()  #> wait_a
    await wait_a()  #> wait_a


async def wait_b():
    await Pause()  #> __await__


async def job_b():
    await wait_b()  #> wait_b


def step(job):
    try:
        while True:
            job.send(None)  #> job_a job_b
    except StopIteration:
        pass


def main():
    while True:
        step(job_a())  #> step job_a
        step(job_b())  #> step job_b


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
