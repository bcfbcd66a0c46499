"""Sparse tracing: from names, as unittest.mock.patch takes them, to the code objects behind them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
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
    """Waits for modules to be run: finds the named functions in their code before it is, and what has another name there than
    where it was defined (`from .api import get`) once it was."""

    def __init__(self, names: Sequence[str], found: Callable[[str, types.CodeType], None]) -> None:
        self.names = list(names)
        self.reasons: dict[str, str] = {}  # why a name is not found, where that is known
        self._found = found
        for name, module in list(sys.modules.items()):
            self._loaded(name, module)
        # A main program that has not begun has nothing in it yet.
        self.reasons = {k: v for k, v in self.reasons.items() if _has_begun(k)}

    def wait(self) -> None:
        if self.names:
            sys.addaudithook(self._audit)
            sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def give_up(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        self.names.clear()

    def _meet(self, name: str, codes: Sequence[types.CodeType]) -> None:
        self.names.remove(name)
        self.reasons.pop(name, None)
        for code in codes:
            self._found(name, code)
        if not self.names:
            self.give_up()

    # ---- before a module is run ----

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Every module's code passes here. An exception would be the program's end."""
        if event == "exec" and self.names and arguments:
            with contextlib.suppress(Exception):
                self._about_to_run(arguments[0], _is_main(sys._getframe().f_back))

    def _about_to_run(self, code: Any, main: bool) -> None:
        if isinstance(code, types.CodeType) and code.co_name == "<module>":
            for name in list(self.names):
                # There may be several: alternatives, or those that typing.overload() wants.
                codes = list(_matching(name, code, main))
                if codes:
                    self._meet(name, codes)

    # ---- after it ----

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """As the first of sys.meta_path: whoever finds it otherwise, here it is heard when it has been run."""
        if not any(wanted.startswith(name + ".") for wanted in self.names):
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    self._hear(spec.loader)
                    return spec
        return None

    def _hear(self, loader: Any) -> None:
        """Its exec_module() is another one for this one time. Loaders that are classes are shared by many modules."""
        if isinstance(loader, type) or not hasattr(loader, "exec_module"):
            return

        def exec_module(module: types.ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            loader.exec_module(module)
            self._loaded(module.__name__, module)

        with contextlib.suppress(AttributeError):
            loader.exec_module = exec_module

    def _loaded(self, own: str, module: Any) -> None:
        for name in list(self.names):
            if name.startswith(own + "."):
                try:
                    found = _attributes(module, name[len(own) + 1 :].split("."), name)
                    self._meet(name, [code_of(found, name)])
                except NotTraceable as error:
                    self.reasons[name] = str(error)
                except Exception as error:  # of the module's own __getattr__()
                    self.reasons[name] = f"trace_sparse: '{name}' cannot be looked up: {error!r}"


def _has_begun(name: str) -> bool:
    return not name.startswith("__main__.") or hasattr(sys.modules.get("__main__"), "__file__")


MAIN = ("__main__", "__mp_main__")  # the latter in processes that multiprocessing has started


def _is_main(caller: types.FrameType | None) -> bool:
    """Of code that is about to be run: by the interpreter itself, or in its place by runpy, a profiler, a debugger, who have
    the namespace of the main program at hand for that."""
    if caller is None:
        return True
    for value in caller.f_locals.values():
        space = vars(value) if isinstance(value, types.ModuleType) else value
        if isinstance(space, dict) and space.get("__name__") in MAIN:
            return True
    return False


def _matching(name: str, code: types.CodeType, main: bool) -> Iterator[types.CodeType]:
    parts = name.split(".")
    for cut in range(1, len(parts)):
        if parts[:cut] == ["__main__"] if main else _is_module(code.co_filename, parts[:cut]):
            yield from _inside(code, parts[cut:])


def _is_module(file: str, parts: Sequence[str]) -> bool:
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
