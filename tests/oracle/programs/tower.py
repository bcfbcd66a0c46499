"""Calls on top of a tower of calls that lies over several chunks of the data stack; its height moves. They take long
enough for a stack to be read without a stop."""
import sys


def climb(n):
    if n:
        return climb(n - 1)  #> climb
    for _ in range(10):
        left()  #> left
        right()  #> right
    return n


def left():
    return low()  #> low


def right():
    return high()  #> high


def low():
    for _ in range(6000):
        pass


def high():
    for _ in range(6000):
        pass


def main():
    height = 60
    while True:
        height = 60 + (height + 7) % 240
        climb(height)  #> climb


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
