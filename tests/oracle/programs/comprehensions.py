"""Comprehensions (frames of their own up to 3.11) and lambdas."""
import sys

DATA = list(range(5))


def square(n):
    return n * n


def cube(n):
    return n * square(n)  #> square


def comprehend():
    return [square(n) for n in DATA]  #> <listcomp> square


def collect():
    return {n: cube(n) for n in DATA}  #> <dictcomp> cube


add = lambda n: square(n) + 1  #> square


def apply():
    return add(2)  #> <lambda>


def main():
    while True:
        comprehend()  #> comprehend
        collect()  #> collect
        apply()  #> apply


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
