import time


def longsleep():
    time.sleep(100000)


if __name__ == "__main__":
    longsleep()
