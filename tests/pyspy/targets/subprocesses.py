import multiprocessing
import time


def nap(_):
    time.sleep(100000)


if __name__ == "__main__":
    pool = multiprocessing.Pool(2)
    pool.map(nap, range(2), chunksize=1)
