"""Python called from C called from Python."""
import sys

DATA = list(range(6))


def key_a(n):
    return -n


def sort_a():
    return sorted(DATA, key=key_a)  #> key_a


def change_b(n):
    return plus_b(n)  #> plus_b


def plus_b(n):
    return n + 1


def map_b():
    return list(map(change_b, DATA))  #> change_b


class Number(object):
    def __init__(self, n):
        self.n = note(n)  #> note

    def __lt__(self, other):
        return less(self.n, other.n)  #> less


def note(n):
    return n


def less(a, b):
    return a < b


def build():
    return Number(3)  #> __init__


def compare():
    return max(build(), build())  #> build __lt__ __gt__


def main():
    while True:
        sort_a()  #> sort_a
        map_b()  #> map_b
        build()  #> build


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
