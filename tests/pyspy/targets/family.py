import os
import threading
import time


def nap():
    time.sleep(100000)


def main():
    for _ in range(3):
        thread = threading.Thread(target=nap)
        thread.daemon = True
        thread.start()
        if os.fork() == 0:
            nap()
    nap()


main()
