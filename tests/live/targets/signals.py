"""Works, and answers every SIGUSR1 with one line on OUT, until HOLD is closed."""
import os
import select
import signal

from report import HOLD, OUT, here


def answer(number, frame):
    os.write(OUT, b"got it\n")


def work():
    n = 0
    while True:
        n += 1
        if n % 1000 == 0:
            try:
                if select.select([HOLD], [], [], 0)[0]:
                    return
            except (OSError, select.error):
                pass  # Python 2 does not go on after a signal


signal.signal(signal.SIGUSR1, answer)
os.write(OUT, here())
work()
os._exit(0)
