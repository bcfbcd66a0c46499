"""Two chains of short calls that take turns: the stack changes as fast as Python code can change it."""

from work import begin, ready

counters = begin()


def left_leaf(x):
    return x * x + 1


def left(x):
    return left_leaf(x) + left_leaf(x + 1)


def right_leaf(x):
    return x * x - 1


def right(x):
    return right_leaf(x) - right_leaf(x + 1)


def both(rounds):
    for number in range(rounds):
        left(number)
        right(number)


ready()
work = 0
while True:
    both(100)
    work += 1
    counters.set(0, work)
