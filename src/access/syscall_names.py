"""Writes a line NAME(read) for each system call of the machine compiled for: syscall_names.py OUT CC ARG..."""

import re
import subprocess
import sys

out, *compiler = sys.argv[1:]
macros = subprocess.run(
    [*compiler, "-E", "-dM", "-x", "c", "-"],
    input="#include <asm/unistd.h>\n",
    capture_output=True,
    text=True,
    check=True,
).stdout
names = set(re.findall(r"^#define __NR_([a-z0-9_]+) ", macros, re.M))
# These two count and mark, and name no call.
names -= {"syscalls", "arch_specific_syscall"}
if "read" not in names:
    sys.exit("no system calls found in <asm/unistd.h>")
with open(out, "w") as f:
    f.write("".join(f"NAME({name})\n" for name in sorted(names)))
