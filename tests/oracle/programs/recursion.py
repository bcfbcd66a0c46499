"""Up and down a tower of calls, two functions in turn."""
import sys


def even(n):
    if n:
        return odd(n - 1)  #> odd
    return 0


def odd(n):
    if n:
        return even(n - 1)  #> even
    return 1


def main():
    depth = 0
    while True:
        depth = (depth + 1) % 40
        even(depth)  #> even


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
