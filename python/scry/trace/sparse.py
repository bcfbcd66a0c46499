"""Sparse tracing: from names, as unittest.mock.patch takes them, to the code objects behind them."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections.abc import Iterator, Sequence
from typing import Any


class NotTraceable(LookupError):
    """A name for sparse tracing that leads to nothing that can be traced."""


def resolve(name: str) -> types.CodeType:
    """The code of a function named like "package.module.Class.method"; modules are imported."""
    return code_of(find(name), name)


def find(name: str) -> Any:
    parts = name.split(".")
    if not all(parts):
        raise NotTraceable(f"trace_sparse: '{name}' is not a name like package.module.function")
    for cut in range(len(parts), 0, -1):
        module_name = ".".join(parts[:cut])
        try:
            found: Any = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # The module itself or a package on the way to it; not something that it imports.
            if error.name is None or not (module_name + ".").startswith(error.name + "."):
                raise NotTraceable(
                    f"trace_sparse: importing '{module_name}' failed: {error}"
                ) from error
            continue
        except ImportError as error:
            raise NotTraceable(
                f"trace_sparse: importing '{module_name}' failed: {error}"
            ) from error
        return _attributes(found, parts[cut:], name)
    raise NotTraceable(f"trace_sparse: there is no module '{parts[0]}' for '{name}'")


def _attributes(found: Any, parts: Sequence[str], name: str) -> Any:
    for part in parts:
        try:
            # Without running properties and the like.
            found = inspect.getattr_static(found, part)
        except AttributeError:
            try:
                found = getattr(found, part)
            except AttributeError:
                raise NotTraceable(
                    f"trace_sparse: '{name}' was not found: {_describe(found)} has no '{part}'"
                ) from None
    return found


def code_of(found: Any, name: str) -> types.CodeType:
    """The code behind a function, method, static or class method, partial or decorated function."""
    for _ in range(100):
        if isinstance(found, types.FunctionType):
            wrapped = found.__dict__.get("__wrapped__")
            if wrapped is None:
                return found.__code__
            found = wrapped  # a decorator's own code is shared by all that it decorates
        elif isinstance(found, types.CodeType):
            return found
        elif isinstance(found, (staticmethod, classmethod, types.MethodType)):
            found = found.__func__
        elif isinstance(found, (functools.partial, functools.partialmethod)):
            found = found.func
        elif isinstance(found, property):
            found = found.fget
        elif isinstance(found, functools.cached_property):
            found = found.func
        elif isinstance(found, functools.singledispatchmethod):
            found = found.func
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            break
    raise NotTraceable(f"trace_sparse: '{name}' cannot be traced: {_why(found)}")


def _why(found: Any) -> str:
    if isinstance(
        found, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
    ):
        return "it is written in C, and only functions in Python can be waited for"
    if isinstance(found, type):
        return f"it is a class; name a method, for example {found.__name__}.__init__"
    if callable(found):
        return f"it is {_describe(found)}; name the function in Python behind it"
    return f"it is {_describe(found)}, which is not callable"


def _describe(found: Any) -> str:
    if isinstance(found, types.ModuleType):
        return f"module '{found.__name__}'"
    if isinstance(found, type):
        return f"class '{found.__qualname__}'"
    return f"an object of type '{type(found).__qualname__}'"


# ---- names of modules that are not loaded yet, for programs that are launched ----


class Pending:
    """Waits for modules to be run, and finds the named functions in their code before it is."""

    def __init__(self, names: Sequence[str], main_file: str | None, found: Any) -> None:
        self.names = list(names)
        self.main_file = main_file
        self._found = found  # called with the name and each code object

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """For sys.addaudithook(): every module's code passes here before it is run."""
        if event != "exec" or not self.names or not arguments:
            return
        code = arguments[0]
        if isinstance(code, types.CodeType) and code.co_name == "<module>":
            for name in list(self.names):
                for inner in self._matching(name, code):
                    self.names.remove(name)
                    self._found(name, inner)
                    break

    def _matching(self, name: str, code: types.CodeType) -> Iterator[types.CodeType]:
        parts = name.split(".")
        for cut in range(1, len(parts)):
            if _is_module(code.co_filename, parts[:cut], self.main_file):
                yield from _inside(code, parts[cut:])


def _is_module(file: str, parts: Sequence[str], main_file: str | None) -> bool:
    if list(parts) == ["__main__"]:
        return main_file is None or file == main_file or file.endswith("/__main__.py")
    path = "/" + file
    return path.endswith(("/" + "/".join(parts) + ".py", "/" + "/".join(parts) + "/__init__.py"))


def _inside(code: types.CodeType, names: Sequence[str]) -> Iterator[types.CodeType]:
    if not names:
        yield code
        return
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == names[0]:
                yield from _inside(constant, names[1:])
