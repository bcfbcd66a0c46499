"""Generators inside generators, two kinds in turn."""
import sys


def inner_a():
    for i in range(3):
        yield i


def outer_a():
    for x in inner_a():  #> inner_a
        yield x


def inner_b():
    for i in range(3):
        yield double(i)  #> double


def double(n):
    return n + n


def outer_b():
    for x in inner_b():  #> inner_b
        yield x


def main():
    while True:
        for _ in outer_a():  #> outer_a
            pass
        for _ in outer_b():  #> outer_b
            pass


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
