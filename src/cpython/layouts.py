#!/usr/bin/env python3
"""Make, or check, the tables of offsets from the headers of installed Pythons.

    layouts.py PYTHON...            write layout_tables.inc and debug_offsets_tables.inc
    layouts.py --check PYTHON...    compare the tables with the headers of these Pythons

PYTHON is an interpreter, or a folder that holds its Python.h (for interpreters that cannot be run here).
Writing keeps the rows of versions that were not named. Nothing is executed but a stub compiled against the
headers; `cc` can be set with $CC.

Each field has an expression per range of versions. A version whose headers renamed something fails to
compile, which is the sign to look at what changed. Structures that CPython does not install a header for are
written down here by hand, in HAND_MADE.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
LAYOUTS = HERE / "layout_tables.inc"
SHAPES = HERE / "debug_offsets_tables.inc"

Version = tuple[int, int]
FIRST_PUBLISHING = (3, 13)  # from here on _Py_DebugOffsets

# field: expressions by version, "FIRST-LAST EXPRESSION" (either end may be missing), first match counts.
# ".member" is short for offsetof(the structure named at the head of the block, member).
EXPRESSIONS = """
[_PyRuntimeState]
rt_size                 3.7-     sizeof(_PyRuntimeState)
rt_interpreters_head    3.7-     .interpreters.head
rt_tstate_current       3.7-3.11 .gilstate.tstate_current
rt_finalizing           3.7-3.8  .finalizing
rt_finalizing           3.9-     ._finalizing
rt_gc_collecting        3.7-3.8  .gc.collecting

[PyInterpreterState]
is_size                 -        sizeof(PyInterpreterState)
is_next                 -        .next
is_id                   3.7-     .id
is_threads_head         -3.10    .tstate_head
is_threads_head         3.11-    .threads.head
is_modules              -3.11    .modules
is_modules              3.12-    .imports.modules
is_ceval_gil            3.12-    .ceval.gil
is_gc_collecting        3.9-     .gc.collecting
is_code_object_generation 3.13-3.13 .func_state.next_version
is_code_object_generation 3.14-  ._code_object_generation
is_tlbc_generation      3.14t-   .tlbc_indices.tlbc_generation

[struct _gil_runtime_state]
gil_last_holder         3.12-    .last_holder
gil_locked              3.12-    .locked

[PyThreadState]
ts_size                 -        sizeof(PyThreadState)
ts_next                 -        .next
ts_interp               -        .interp
ts_frame                -3.10    .frame
ts_cframe               3.11-3.12 .cframe
ts_current_frame        3.13-    .current_frame
ts_base_frame           3.15-    .base_frame
ts_status               3.12-    ._status
ts_state                3.13-    .state
ts_holds_gil            3.14-    .holds_gil
ts_thread_id            -        .thread_id
ts_native_thread_id     3.11-    .native_thread_id
ts_datastack_chunk      3.11-    .datastack_chunk
ts_datastack_top        3.11-    .datastack_top
ts_datastack_limit      3.11-    .datastack_limit
ts_raised               -3.11    .curexc_type
ts_raised               3.12-    .current_exception
ts_handled              3.7-     .exc_info

[_PyErr_StackItem]
handled_value           3.7-3.10 .exc_type
handled_value           3.11-    .exc_value
handled_previous        3.7-     .previous_item

[_PyCFrame]
cframe_current_frame    3.11-3.12 .current_frame

[PyFrameObject]
fr_f_back               -3.10    .f_back
fr_f_code               -3.10    .f_code
fr_f_lasti              -3.10    .f_lasti
fr_f_localsplus         -3.10    .f_localsplus

[_PyInterpreterFrame]
if_size                 3.11-    sizeof(_PyInterpreterFrame)
if_code                 3.11-3.12 .f_code
if_code                 3.13-    .f_executable
if_previous             3.11-    .previous
if_instr                3.11-3.12 .prev_instr
if_instr                3.13-    .instr_ptr
if_owner                3.11-    .owner
if_is_entry             3.11-3.11 .is_entry
if_localsplus           3.11-    .localsplus
if_stacktop             3.11-3.13 .stacktop
if_stackpointer         3.14-    .stackpointer
if_return_offset        3.12-    .return_offset
if_tlbc_index           3.14t-   .tlbc_index

[PyCodeObject]
co_size                 -        sizeof(PyCodeObject)
co_argcount             -        .co_argcount
co_posonlyargcount      3.8-     .co_posonlyargcount
co_kwonlyargcount       3.0-     .co_kwonlyargcount
co_nlocals              -        .co_nlocals
co_flags                -        .co_flags
co_firstlineno          -        .co_firstlineno
co_code                 -3.10    .co_code
co_varnames             -3.10    .co_varnames
co_cellvars             -3.10    .co_cellvars
co_freevars             -3.10    .co_freevars
co_filename             -        .co_filename
co_name                 -        .co_name
co_qualname             3.11-    .co_qualname
co_linetable            -3.9     .co_lnotab
co_linetable            3.10-    .co_linetable
co_localsplusnames      3.11-    .co_localsplusnames
co_localspluskinds      3.11-    .co_localspluskinds
co_nlocalsplus          3.11-    .co_nlocalsplus
co_code_adaptive        3.11-    .co_code_adaptive
co_version              3.12-    .co_version
co_tlbc                 3.14t-   .co_tlbc

[PyObject]
ob_size                 -        sizeof(PyObject)
ob_type                 -        .ob_type
[PyVarObject]
var_size                -        .ob_size

[PyTypeObject]
tp_name                 -        .tp_name
tp_basicsize            -        .tp_basicsize
tp_itemsize             -        .tp_itemsize
tp_flags                -        .tp_flags
tp_dictoffset           -        .tp_dictoffset
tp_dict                 -        .tp_dict
[PyHeapTypeObject]
ht_cached_keys          3.3-     .ht_cached_keys
ht_name                 -        .ht_name
ht_qualname             3.3-     .ht_qualname

[PyTupleObject]
tuple_item              -        .ob_item
[PyListObject]
list_item               -        .ob_item

[PyDictObject]
dict_size               -        sizeof(PyDictObject)
dict_used               -        .ma_used
dict_keys               3.3-     .ma_keys
dict_values             3.3-     .ma_values
dict_mask               -2.7     .ma_mask
dict_table              -2.7     .ma_table
[struct hand_made_dict_keys]
dk_size                 3.3-3.10 .dk_size
dk_nentries             3.6-3.10 .dk_nentries
dk_indices              3.6-3.10 .dk_indices
[PyDictKeysObject]
dk_log2_size            3.11-    .dk_log2_size
dk_log2_index_bytes     3.11-    .dk_log2_index_bytes
dk_kind                 3.11-    .dk_kind
dk_nentries             3.11-    .dk_nentries
dk_indices              3.11-    .dk_indices
[PyDictValues]
dv_values               3.11-    .values

[PySetObject]
set_used                -        .used
set_mask                -        .mask
set_table               -        .table

[PyFloatObject]
float_value             -        .ob_fval

[PyLongObject]
long_digit              -3.11    .ob_digit
long_digit              3.12-    .long_value.ob_digit
long_tag                3.12-    .long_value.lv_tag

[PyBytesObject]
bytes_data              -        .ob_sval
[PyByteArrayObject]
bytearray_start         -2.7     .ob_bytes
bytearray_start         3.4-     .ob_start

[PyFunctionObject]
func_name               -        .func_name
func_qualname           3.3-     .func_qualname
[PyMethodObject]
method_func             -        .im_func
method_self             -        .im_self
[PyCFunctionObject]
cfunc_ml                -        .m_ml
cfunc_self              -        .m_self
[PyGenObject]
gen_name                3.5-     .gi_name
gen_qualname            3.5-     .gi_qualname
gen_code                -2.7     .gi_code
[struct hand_made_module]
mod_dict                -3.10    .md_dict
[PyModuleObject]
mod_dict                3.11-    .md_dict
[PyCellObject]
cell_ref                -        .ob_ref
[PyBaseExceptionObject]
exc_args                -        .args

[PyASCIIObject]
ascii_size              3.3-     sizeof(PyASCIIObject)
ascii_length            3.3-     .length
ascii_state             3.3-     .state
[PyCompactUnicodeObject]
compact_size            3.3-     sizeof(PyCompactUnicodeObject)
[PyUnicodeObject]
unicode_data            3.3-     .data
unicode2_length         -2.7     .length
unicode2_data           -2.7     .str
[PyStringObject]
str2_data               -2.7     .ob_sval
[PyIntObject]
int2_value              -2.7     .ob_ival
"""

# Not in any installed header of the versions that need them.
HAND_MADE = """
struct hand_made_dict_keys { /* 3.6-3.10: Objects/dict-common.h */
    Py_ssize_t dk_refcnt, dk_size;
    void *dk_lookup;
    Py_ssize_t dk_usable, dk_nentries;
    char dk_indices[8];
};
struct hand_made_module { /* up to 3.10: Objects/moduleobject.c */
    PyObject_HEAD
    PyObject *md_dict;
};
"""

# Headers beside Python.h, "FIRST-LAST NAME".
HEADERS = """
-3.10    frameobject.h
-3.10    longintrepr.h
2.7-2.7  structmember.h
3.7-3.7  internal/pystate.h
3.8-3.8  internal/pycore_pystate.h
3.9-     internal/pycore_runtime.h
3.9-     internal/pycore_interp.h
3.11-    internal/pycore_dict.h
3.11-    internal/pycore_moduleobject.h
3.11-3.13 internal/pycore_frame.h
3.14-    internal/pycore_interpframe.h
3.12-    internal/pycore_gil.h
3.14-    internal/pycore_debug_offsets.h
"""

MICRO_ROWS = {
    (3, 7): (0, 4)
}  # minor versions with more than one row: the first patch release of each

# Rows for releases whose headers are hard to come by: how they differ from the next row of their minor
# version, read in CPython's history.
HAND_MADE_ROWS = {
    "3.7.3": {
        "first_micro": "0",
        "rt_size": "1424",
        "rt_tstate_current": "1392",
        "rt_gc_collecting": "544",
    },
}


@dataclass(frozen=True)
class Build:
    """One set of headers, compiled in one way."""

    include: pathlib.Path
    version: str  # 3.13.1, 3.15.0b2
    debug: bool
    free_threaded: bool

    @property
    def minor(self) -> Version:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def micro(self) -> int:
        match = re.match(r"\d+", self.version.split(".")[2])
        return int(match[0]) if match else 0

    @property
    def first_micro(self) -> int:
        return max(m for m in MICRO_ROWS.get(self.minor, (0,)) if m <= self.micro)

    @property
    def own_row(self) -> bool:
        """Whether this build needs a row: since 3.8 debug builds agree with release builds in all that
        scry reads."""
        return not self.debug or self.minor < (3, 8)

    @property
    def key(self) -> tuple[Version, int, bool, bool]:
        return self.minor, self.first_micro, self.free_threaded, self.debug and self.own_row

    @property
    def label(self) -> str:
        return self.version + "t" * self.free_threaded + "d" * self.debug


Row = dict[str, str]


def fields() -> list[str]:
    """The names in layout_fields.def, in order."""
    return re.findall(r"^F\((\w+)\)", (HERE / "layout_fields.def").read_text(), re.M)


def published() -> list[tuple[str, str]]:
    """(group, member) of _Py_DebugOffsets, as debug_offsets_fields.def lists them."""
    found = []
    for line in (HERE / "debug_offsets_fields.def").read_text().splitlines():
        if match := re.match(r"([SDOX])\((\w+)(?:, (\w+))?", line):
            found.append((match[2], "size" if match[1] == "S" else match[3]))
    return found


def in_range(text: str, minor: Version, free_threaded: bool) -> bool:
    """Whether "3.7-3.11", "-3.10", "3.14t-" or "-" covers this build; t: free-threaded builds only."""
    first, last = text.split("-")
    if first.endswith("t") and not free_threaded:
        return False
    number = lambda v: tuple(map(int, v.rstrip("t").split(".")))  # noqa: E731
    return (not first or minor >= number(first)) and (not last or minor <= number(last))


def expressions(build: Build) -> dict[str, str]:
    """field -> C expression, for the fields this build has."""
    struct, found = "", {}
    for line in EXPRESSIONS.strip().splitlines():
        if not line:
            continue
        if line.startswith("["):
            struct = line.strip("[]")
            continue
        name, versions, expression = line.split(None, 2)
        if in_range(versions, build.minor, build.free_threaded) and name not in found:
            member = expression.startswith(".")
            found[name] = f"offsetof({struct}, {expression[1:]})" if member else expression
    unknown = set(found) - set(fields())
    if unknown:
        raise SystemExit(f"not in layout_fields.def: {', '.join(sorted(unknown))}")
    return found


def stub(build: Build) -> str:
    """A C program that prints `name value` lines."""
    lines = ["#include <Python.h>", "#include <stddef.h>", "#include <stdio.h>"]
    for line in HEADERS.strip().splitlines():
        versions, name = line.split()
        if in_range(versions, build.minor, build.free_threaded):
            lines.append(f'#include "{name}"')
    lines += [HAND_MADE, "int main(void)", "{"]
    for name, expression in expressions(build).items():
        lines.append(f'    printf("{name} %zu\\n", (size_t)({expression}));')
    if build.minor >= FIRST_PUBLISHING:
        lines.append('    printf("shape.size %zu\\n", sizeof(struct _Py_DebugOffsets));')
    return "\n".join([*lines, "    return 0;", "}", ""])


def compiler() -> str:
    return os.environ.get("CC", "cc")


def include_flags(include: pathlib.Path) -> list[str]:
    folders = (include, include / "internal", include / "internal/mimalloc")
    # The parent: Debian's pyconfig.h includes <x86_64-linux-gnu/python3.x/pyconfig.h>. Last, because in a
    # Debian tree it also holds another C library's headers.
    return [*(f"-I{folder}" for folder in folders), "-idirafter", str(include.parent)]


def compile_and_run(build: Build, source: str) -> dict[str, int]:
    include = build.include
    flags = ["-DPy_BUILD_CORE", "-w", "-O0", *include_flags(include)]
    # The headers of the release build serve for its other builds too: pyconfig.h is all that differs.
    flags += ["-DPy_DEBUG=1"] * build.debug + ["-DPy_GIL_DISABLED=1"] * build.free_threaded
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "stub")
        program.with_suffix(".c").write_text(source)
        command = [compiler(), *flags, str(program.with_suffix(".c")), "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{build.label}: the headers in {include} do not fit:\n{done.stderr}")
        output = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


def behaviour(build: Build) -> Row:
    """What is known about a version that is not an offset."""
    minor, lines = build.minor, "LINES_LOCATIONS"
    if minor < (3, 0):
        lines = "LINES_LNOTAB_UNSIGNED"
    elif minor < (3, 10):
        lines = "LINES_LNOTAB"
    elif minor == (3, 10):
        lines = "LINES_LINETABLE"
    managed = 0 if minor < (3, 11) else min(minor[1], 13)
    return {
        "major": str(minor[0]),
        "minor": str(minor[1]),
        "first_micro": str(build.first_micro),
        "free_threaded": str(build.free_threaded).lower(),
        "debug": str(build.debug).lower(),
        "lines": lines,
        "instr_unit": "1" if minor < (3, 10) else "2",
        "instr_is_previous": str(minor in ((3, 11), (3, 12))).lower(),
        "tagged_refs": str(minor >= (3, 14)).lower(),
        "str_kind_shift": "8" if build.free_threaded and minor >= (3, 14) else "2",
        "managed_dict": str(managed),
        "counts_births": str(minor == (3, 13)).lower(),
    }


def layout_row(build: Build) -> Row:
    values = compile_and_run(build, stub(build))
    row = behaviour(build)
    for name in fields():
        row[name] = str(values.get(name, "LAYOUT_NONE"))
    return row


def shape_row(build: Build) -> Row:
    """The byte positions of the members of _Py_DebugOffsets, for those that this version has."""
    header = "pycore_runtime.h" if build.minor == (3, 13) else "pycore_debug_offsets.h"
    text = (build.include / "internal" / header).read_text()
    body = text[text.index("struct _Py_DebugOffsets {") :]
    groups: dict[str, list[str]] = {}
    for match in re.finditer(r"struct\s*\w*\s*\{([^{}]*)\}\s*(\w+);", body):
        groups[match[2]] = re.findall(r"\buint64_t (\w+);", match[1])
    members = [(group, member) for group, member in published() if member in groups.get(group, [])]
    if not members:
        raise SystemExit(f"{build.label}: no _Py_DebugOffsets found in {header}")
    source = stub(build)
    prints = "".join(
        f'    printf("{g}.{m} %zu\\n", offsetof(struct _Py_DebugOffsets, {g}.{m}));\n'
        for g, m in members
    )
    values = compile_and_run(build, source.replace("    return 0;\n", prints + "    return 0;\n"))
    row = {"minor": str(build.minor[1]), "size": str(values["shape.size"])}
    for group, member in members:
        row[f"at[POS_{group}_{member}]"] = str(values[f"{group}.{member}"])
    return row


# Reading and writing the .inc files.

LAYOUT_HEAD = """\
/* Made by layouts.py from each version's headers; do not edit. One row per layout, oldest first; each
 * says which release it was made from (t: free-threaded, d: Py_DEBUG). */
/* clang-format off */
"""
SHAPE_HEAD = """\
/* Made by layouts.py from each version's headers; do not edit. Byte positions inside
 * _Py_DebugOffsets; a member that a version does not have stays 0, the place of the cookie. */
/* clang-format off */
"""


def parse(path: pathlib.Path) -> dict[str, Row]:
    """label -> row"""
    if not path.exists():
        return {}
    rows = re.findall(r"\{ /\* (\S+) \*/\n(.*?)\n\},", path.read_text(), re.S)
    return {label: dict(re.findall(r"\.([\w\[\]]+) = (\w+),", body)) for label, body in rows}


def render(head: str, rows: dict[str, Row]) -> str:
    out = [head.rstrip("\n")]
    for label, row in rows.items():
        out.append(f"{{ /* {label} */")
        line = "   "
        for name, value in row.items():
            item = f" .{name} = {value},"
            if len(line) + len(item) > 100:
                out.append(line)
                line = "   "
            line += item
        out += [line, "},"]
    return "\n".join(out) + "\n"


def layout_key(row: Row) -> tuple[Version, int, bool, bool]:
    return (
        (int(row["major"]), int(row["minor"])),
        int(row["first_micro"]),
        row["free_threaded"] == "true",
        row["debug"] == "true",
    )


# Where the headers are.


def include_of(target: str) -> pathlib.Path | None:
    """The folder with Python.h, or None when this interpreter came without."""
    path = pathlib.Path(target)
    if not path.is_dir():
        script = "import sysconfig; print(sysconfig.get_path('include'))"
        done = subprocess.run([target, "-c", script], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{target} cannot be run: {done.stderr.strip()}")
        path = pathlib.Path(done.stdout.strip())
    return path if (path / "Python.h").exists() else None


def configured(include: pathlib.Path) -> set[str]:
    """The macros that pyconfig.h sets to 1."""
    command = [
        compiler(),
        *include_flags(include),
        "-dM",
        "-E",
        "-include",
        "pyconfig.h",
        "-xc",
        os.devnull,
    ]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"#define (\w+) 1$", output, re.M))


def builds_of(include: pathlib.Path) -> list[Build]:
    """Every kind of build that these headers can describe."""
    text = (include / "patchlevel.h").read_text()
    match = re.search(r'#define PY_VERSION\s+"([^"+]+)', text)
    if not match:
        raise SystemExit(f"{include} names no version")
    macros = configured(include)
    debug, free_threaded = "Py_DEBUG" in macros, "Py_GIL_DISABLED" in macros
    here = Build(include, match[1], debug, free_threaded)
    if here.minor >= FIRST_PUBLISHING:
        # Debug builds have no rows here: they publish how they differ.
        kinds = (
            [] if debug else [(False, True)] if free_threaded else [(False, False), (False, True)]
        )
    else:
        kinds = [(True, False)] if debug else [(False, False), (True, False)]
    return [Build(include, match[1], *kind) for kind in kinds]


def write(targets: list[str]) -> None:
    layouts = {layout_key(row): (label, row) for label, row in parse(LAYOUTS).items()}
    shapes = {int(row["minor"]): (label, row) for label, row in parse(SHAPES).items()}
    for target in targets:
        include = include_of(target)
        if not include:
            raise SystemExit(f"{target} has no headers")
        for build in filter(lambda build: build.own_row, builds_of(include)):
            layouts[build.key] = (build.label, layout_row(build))
            if build.minor >= FIRST_PUBLISHING and not build.free_threaded:
                shapes[build.minor[1]] = (build.label, shape_row(build))
    for label, changes in HAND_MADE_ROWS.items():
        major, minor, _ = map(int, label.split("."))
        later = min(
            key for key in layouts if key[0] == (major, minor) and key[1:] > (0, False, False)
        )
        row = layouts[later][1] | changes
        layouts[layout_key(row)] = (label, row)
    LAYOUTS.write_text(render(LAYOUT_HEAD, dict(layouts[key] for key in sorted(layouts))))
    SHAPES.write_text(render(SHAPE_HEAD, dict(shapes[key] for key in sorted(shapes))))


def need_not_agree(build: Build) -> set[str]:
    """Fields whose value in the table is not relied on."""
    # Sizes grow in patch releases without moving anything that scry reads.
    names = {"rt_size", "is_size", "ts_size"}
    if not build.own_row:
        names.add("debug")
    if build.minor < FIRST_PUBLISHING:
        return names
    shapes = {row["minor"]: row for row in parse(SHAPES).values()}
    shape = shapes.get(str(build.minor[1]), {})
    for line in (HERE / "debug_offsets_fields.def").read_text().splitlines():
        if match := re.match(r"[DO]\((\w+), (\w+), (\w+)\)", line):
            if f"at[POS_{match[1]}_{match[2]}]" in shape:
                names.add(match[3])
    # What debug_offsets.c derives from published values.
    derived = ("gil_locked", "gil_last_holder", "is_gc_collecting", "if_size", "co_size", "ob_size")
    return names | set(derived) | {"ts_datastack_top", "ts_datastack_limit"}


def differences(build: Build) -> list[str]:
    """How the checked-in tables differ from this build's headers; empty when they agree."""
    rows = {layout_key(row): row for row in parse(LAYOUTS).values()}
    if build.key not in rows:
        return [f"{build.label}: no row in {LAYOUTS.name}"]
    compared = [(rows[build.key], layout_row(build))]
    if build.minor >= FIRST_PUBLISHING and not build.free_threaded:
        shapes = {row["minor"]: row for row in parse(SHAPES).values()}
        compared.append((shapes.get(str(build.minor[1]), {}), shape_row(build)))
    found = []
    for have, want in compared:
        for name in sorted((have.keys() | want.keys()) - need_not_agree(build)):
            if have.get(name) != want.get(name):
                found.append(
                    f"{build.label}: {name} is {want.get(name)}, the table has {have.get(name)}"
                )
    return found


def check(targets: list[str]) -> int:
    failed = False
    for target in targets:
        include = include_of(target)
        if not include:
            print(f"{target}: no headers, not checked")
            continue
        for build in builds_of(include):
            found = differences(build)
            failed = failed or bool(found)
            print("\n".join(found) if found else f"{build.label}: agrees ({include})")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("python", nargs="+", help="an interpreter, or the folder of its Python.h")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.python)
    write(arguments.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
