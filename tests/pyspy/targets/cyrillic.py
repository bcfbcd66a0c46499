import time

def кириллица(ждать):
    time.sleep(ждать)


кириллица(100000)
