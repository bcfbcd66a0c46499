"""Imported by a Python that was started by a traced program: begins to trace, and steps aside.

The folder stands first in PYTHONPATH. Whatever happens here, the program must run as if it were not there.
"""

import os
import sys


def _step_aside(here):
    """Out of sys.path, and let another sitecustomize have its turn."""
    sys.path[:] = [path for path in sys.path if path != here]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if own is not None:
            sys.modules["sitecustomize"] = own


def _begin():
    import json

    facts = json.loads(os.environ["SCRY_TRACE_FAMILY"])
    sys.path.insert(0, facts["package"])
    try:
        from scry.trace import child
    finally:
        sys.path.remove(facts["package"])
    child.begin(facts)


try:
    _step_aside(os.path.dirname(os.path.abspath(__file__)))
finally:
    if sys.version_info >= (3, 8) and os.environ.get("SCRY_TRACE_FAMILY"):
        try:
            _begin()
        except Exception as error:
            print(f"scry: this process is not traced: {error}", file=sys.stderr)
