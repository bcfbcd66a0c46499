"""Stacks that come down by exceptions."""
import sys


def fail_a():
    raise ValueError


def below_a():
    fail_a()  #> fail_a


def catch_a():
    try:
        below_a()  #> below_a
    except ValueError:
        comfort()  #> comfort


def comfort():
    return None


def fail_b():
    raise KeyError


def catch_b():
    try:
        fail_b()  #> fail_b
    except KeyError:
        pass
    finally:
        comfort()  #> comfort


def main():
    while True:
        catch_a()  #> catch_a
        catch_b()  #> catch_b


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
