"""Threads born and dying by the thousand."""
import sys
import threading


def leaf_a():
    return sum(range(20))


def work_a():
    for _ in range(50):
        leaf_a()  #> leaf_a


def leaf_b():
    return sum(range(30))


def work_b():
    for _ in range(50):
        leaf_b()  #> leaf_b


def spawn(work):
    threads = [threading.Thread(target=work) for _ in range(4)]  #> <listcomp> *
    for thread in threads:
        thread.start()  #> *
    for thread in threads:
        thread.join()  #> *


def main():
    while True:
        spawn(work_a)  #> spawn *
        spawn(work_b)  #> spawn *


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
