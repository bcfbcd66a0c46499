"""Code made at run time and thrown away: the same addresses with other names. Each function calls its partner
of the same number, and each piece of code is named after its number too."""
import sys

SOURCE = """
def partner_%d(n):
    return n + 1
def made_%d(n):
    for _ in range(10):
        n = partner_%d(n)
    return n
made_%d(1)
"""


def main():
    number = 0
    while True:
        number = (number + 1) % 97
        text = SOURCE % (number, number, number, number)
        code = compile(text, "<made %d>" % number, "exec")
        exec(code, {})  #> <module>


sys.stdout.write("ready\n")
sys.stdout.flush()
main()  #> main
