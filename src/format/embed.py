"""Turn files into C strings at build time: embed.py OUTPUT.h NAME=FILE..."""

import sys


def literal(text: str) -> str:
    lines = []
    for line in text.splitlines():
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        lines.append(f'    "{escaped}\\n"')
    return "\n".join(lines) or '    ""'


def main() -> None:
    out, *files = sys.argv[1:]
    parts = ["/* Generated. */"]
    for item in files:
        name, path = item.split("=", 1)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if "]]>" in text:
            sys.exit(f"{path}: ']]>' would end the CDATA section it is put into")
        parts.append(f"static const char {name}[] =\n{literal(text)};")
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(parts) + "\n")


main()
