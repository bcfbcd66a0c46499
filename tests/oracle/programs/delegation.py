"""`yield from`, three generators deep, two kinds in turn."""
# since: 3.3
import sys


def ground_a():
    for i in range(4):
        yield i


def floor_a():
    yield from ground_a()  #> ground_a


def roof_a():
    yield from floor_a()  #> floor_a


def ground_b():
    yield 1


def roof_b():
    yield from ground_b()  #> ground_b


def main():
    while True:
        for _ in roof_a():  #> roof_a
            pass
        for _ in roof_b():  #> roof_b
            pass


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
