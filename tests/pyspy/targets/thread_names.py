import threading
import time


def nap():
    time.sleep(100000)


for number in range(10):
    threading.Thread(target=nap, name="CustomThreadName-%d" % number).start()
nap()
