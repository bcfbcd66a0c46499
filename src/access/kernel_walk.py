#!/usr/bin/env python3
"""Compile kernel_walk.bpf.c for the kernel's own machine and write it as an array of C.

kernel_walk.py SOURCE OUTPUT.c CLANG HEADERS...
"""

import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    source, output, clang, *headers = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "program.o"
        subprocess.run(
            [
                clang,
                "-target",
                "bpf",
                "-mcpu=v3",
                "-O2",
                "-g",
                "-Wall",
                "-Werror",
                *(f"-I{h}" for h in headers),
                "-c",
                source,
            ]
            + ["-o", str(compiled)],
            check=True,
        )
        data = compiled.read_bytes()
    lines = [",".join(str(b) for b in data[i : i + 32]) for i in range(0, len(data), 32)]
    text = "#include <stddef.h>\n"
    text += "extern const unsigned char kernel_walk_program[];\nextern const size_t kernel_walk_program_size;\n"
    text += (
        "const unsigned char kernel_walk_program[] __attribute__((aligned(8))) = {\n"
        + ",\n".join(lines)
        + "};\n"
    )
    text += "const size_t kernel_walk_program_size = sizeof(kernel_walk_program);\n"
    Path(output).write_text(text)


main()
