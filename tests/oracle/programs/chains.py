"""Two chains of calls that take turns as fast as they can."""
import sys


def leaf_a():
    return 1


def middle_a():
    return leaf_a()  #> leaf_a


def leaf_b():
    return 2


def middle_b():
    return leaf_b()  #> leaf_b


def main():
    while True:
        middle_a()  #> middle_a
        middle_b()  #> middle_b


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
