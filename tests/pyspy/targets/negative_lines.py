import time


def nap():
    values = [
        str(
            time.sleep(100000)
        )
        for _ in range(1)
    ]
    return values

nap()
