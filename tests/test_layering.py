"""scripts/layering.py finds what it is there to find."""

import subprocess
import sys

import pytest
import pythons

CHECK = pythons.PROJECT / "scripts" / "layering.py"


@pytest.fixture
def tree(tmp_path):
    """A small tree that is in order; returns a function that writes a file into it."""

    def write(path, text):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    write("src/access/mem.h", "#pragma once\n#include <stddef.h>\nsize_t mem_size(void);\n")
    write("src/util/types.h", "#pragma once\n")
    write("src/engine/sampler.c", '#include "access/mem.h"\n#include "util/types.h"\n')
    write("include/scry/scry.h", "#pragma once\n#include <stddef.h>\n")
    return write


def findings(root):
    result = subprocess.run([sys.executable, CHECK, "--root", root], capture_output=True, text=True)
    assert result.returncode == (1 if result.stdout else 0), result.stderr
    return result.stdout


def test_a_tree_in_order_has_no_findings(tree, tmp_path):
    assert findings(tmp_path) == ""


def test_a_folder_may_not_include_a_later_one(tree, tmp_path):
    tree("src/engine/target.h", "#pragma once\n")
    tree("src/access/mem.c", '#include "engine/target.h"\n')
    assert "src/access/mem.c includes engine/target.h" in findings(tmp_path)


def test_util_includes_only_util(tree, tmp_path):
    tree("src/util/buf.c", '#include "access/mem.h"\n')
    assert "src/util/buf.c includes access/mem.h" in findings(tmp_path)


def test_headers_that_include_each_other(tree, tmp_path):
    tree("src/access/a.h", '#pragma once\n#include "access/b.h"\n')
    tree("src/access/b.h", '#pragma once\n#include "a.h"\n')
    assert "headers include each other" in findings(tmp_path)


def test_a_header_that_needs_another_before_it(tree, tmp_path):
    tree("src/access/maps.h", "#pragma once\nsize_t maps_count(void);\n")
    assert "src/access/maps.h does not compile alone" in findings(tmp_path)


def test_the_public_header_stands_alone(tree, tmp_path):
    tree("include/scry/scry.h", '#pragma once\n#include "access/mem.h"\n')
    assert "include/scry/scry.h includes src/access/mem.h" in findings(tmp_path)
