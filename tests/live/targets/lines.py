"""Line tables at their limits, one thread per table: every one compiled here from generated source."""
import os

from report import HOLD, OUT, Thread, here


def park(arrived):
    arrived(), os.read(HOLD, 1)


def run(source, filename, arrived, flag=1):
    scope = {"park": park, "arrived": arrived, "flag": flag}
    exec(compile(source, filename, "exec"), scope)


def huge_function(arrived):
    """More than 64 KiB of bytecode and of line table in one function, and the call near its end."""
    body = ["def huge(x):"]
    body += ["    x = x + %d if x else (x, %d)" % (i % 200, i) for i in range(9000)]
    body += ["    park(arrived)", "    return x", "huge(1)"]
    run("\n".join(body), "<huge>", arrived)


def huge_expression(arrived):
    """One statement over 3000 lines: the call in the middle of it."""
    body = ["value = ["]
    body += ["    flag + %d," % i for i in range(1500)]
    body += ["    park(arrived),"]
    body += ["    flag + %d," % i for i in range(1500)]
    body += ["]"]
    run("\n".join(body), "<expression>", arrived)


def far_line(arrived):
    """The code stands beyond line 32767, 65535 and 1000000, and each step to it is one long jump."""
    body = "def far():\n" + "\n" * 40000 + "    x = 1\n" + "\n" * 70000
    body += "    near(x)\n" + "def near(x):\n" + "\n" * 1000000 + "    park(arrived)\n" + "far()\n"
    run(body, "<far>", arrived)


def far_column(arrived):
    """The call stands thousands of columns to the right."""
    run("x = (" + "flag or " * 3 + " " * 5000 + "1), park(arrived)\n", "<column>", arrived)


def backwards(arrived):
    """Every step to the call goes to an earlier line: the arguments first, the function after."""
    body = ["value = park("]
    body += ["(lambda x: x)("] * 30
    body += ["arrived"]
    body += [")"] * 30
    body += [")"]
    run("\n".join(body), "<backwards>", arrived)


def steps_of_every_size(arrived):
    """Gaps of 1, 2, 4 ... 16384 lines, and the way back up in one expression."""
    body = ["def steps():", "    x = ["]
    for power in range(15):
        body += ["flag,"] + [""] * (2**power)
    body += ["park(arrived),"]
    for power in range(15):
        body += ["flag,"] + [""] * (2**power - 1)
    body += ["]", "steps()"]
    run("\n".join(body), "<steps>", arrived)


def many_on_one_line(arrived):
    """A line whose code is longer than any table entry can cover at once."""
    run("\n\n" + "flag; " * 1 + "x = flag + 1; " * 3000 + "park(arrived)\n", "<wide line>", arrived)


def long_jump_inside(arrived):
    """A loop body that needs extended arguments to jump back; the call in its second round."""
    body = ["def loop():", "    for i in range(2):"]
    body += ["        x%d = flag" % (i % 50) for i in range(5000)]
    body += ["        if i: park(arrived)", "loop()"]
    run("\n".join(body), "<loop>", arrived)


TABLES = [
    huge_function,
    huge_expression,
    far_line,
    far_column,
    backwards,
    steps_of_every_size,
    many_on_one_line,
    long_jump_inside,
]

for table in TABLES:
    Thread(table.__name__, table, name=table.__name__).wait_until_parked()
os.write(OUT, here()), os.read(HOLD, 1)
os._exit(0)
