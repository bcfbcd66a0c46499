"""A parent and its workers, of every kind that programs have, started by the method argv[1]: fork, spawn, forkserver.

Each kind computes in a function of its own until HOLD is closed. The parent's report has the pid of each kind.
"""

import concurrent.futures
import json
import multiprocessing
import os
import subprocess
import sys
import threading

OUT, HOLD = int(os.environ["SCRY_TEST_OUT"]), int(os.environ["SCRY_TEST_HOLD"])


def burn():
    return sum(range(2000))


def process_worker(up, stop):
    up.put(("process", os.getpid()))
    while not stop.is_set():
        burn()


def init_pool(up, stop):
    global UP, STOP
    UP, STOP = up, stop


def pool_worker(kind):
    UP.put((kind, os.getpid()))
    while not STOP.is_set():
        burn()


def executor_worker():
    pool_worker("executor")


def loader_worker(indexes, batches, up):
    """As data loaders have them: waits for an index, makes a batch of it, hands it over."""
    up.put(("loader", os.getpid()))
    for index in iter(indexes.get, None):
        batches.put((index, loader_fetch(index)))


def loader_fetch(index):
    return sum(burn() for _ in range(300)) + index


def subprocess_worker():
    print(os.getpid(), flush=True)
    done = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
    while not done.is_set():
        burn()


def feed(indexes, batches, stop):
    indexes.put(0)
    while not stop.is_set():
        index, _ = batches.get()
        indexes.put(index + 1)
    indexes.put(None)


def main(method):
    context = multiprocessing.get_context(method)
    up, stop = context.Queue(), context.Event()
    process = context.Process(target=process_worker, args=(up, stop))
    process.start()
    pool = context.Pool(1, init_pool, (up, stop))
    pooled = pool.apply_async(pool_worker, ("pool",))
    executor = concurrent.futures.ProcessPoolExecutor(
        max_workers=1, mp_context=context, initializer=init_pool, initargs=(up, stop)
    )
    executed = executor.submit(executor_worker)
    indexes, batches = context.Queue(), context.Queue()
    loader = context.Process(target=loader_worker, args=(indexes, batches, up), daemon=True)
    loader.start()
    feeder = threading.Thread(target=feed, args=(indexes, batches, stop))
    feeder.start()
    other = subprocess.Popen(
        [sys.executable, __file__, "subprocess"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    pids = {"subprocess": int(other.stdout.readline())}
    while len(pids) < 5:
        kind, pid = up.get()
        pids[kind] = pid
    os.write(OUT, json.dumps({"pid": os.getpid(), "pids": pids, "threads": []}).encode() + b"\n")
    os.read(HOLD, 1)
    stop.set()
    other.stdin.close()
    other.wait()
    pooled.get()
    executed.result()
    pool.close()
    pool.join()
    executor.shutdown()
    process.join()
    feeder.join()
    loader.join()


if __name__ == "__main__":
    if sys.argv[1] == "subprocess":
        subprocess_worker()
    else:
        main(sys.argv[1])
