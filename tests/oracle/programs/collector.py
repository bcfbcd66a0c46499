"""The garbage collector runs Python wherever something is allocated: finalizers and its own callbacks."""
# anywhere: __del__ on_collection
import gc
import sys


class Ring(object):
    def __init__(self):
        self.me = self

    def __del__(self):
        farewell()  #> farewell


def farewell():
    return None


def on_collection(phase, info):
    count(phase)  #> count


def count(phase):
    return phase


def make():
    return [Ring() for _ in range(5)]  #> <listcomp> __init__


def main():
    while True:
        make()  #> make


if hasattr(gc, "callbacks"):
    gc.callbacks.append(on_collection)
gc.set_threshold(20)
sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
