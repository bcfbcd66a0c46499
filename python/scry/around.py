"""A `with` block around each call of a function: what all of scry's decorators are."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Block = Callable[[], AbstractContextManager[Any]]

Function = TypeVar("Function", bound="Callable[..., Any]")


def each_call(block: Block, function: Function) -> Function:
    """The function, with block() entered before each call and left after it.

    A coroutine is awaited in the block and a generator runs to its end in it, so that the block is as long as the work is. An
    asynchronous generator may be left without a word, and the block with it: TypeError.
    """
    if inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} is an asynchronous generator: put a with block around the loop that uses it"
        )
    return functools.wraps(function)(_wrapper(block, function))  # type: ignore[return-value]


def _wrapper(block: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(function):

        async def run_async(*arguments: Any, **options: Any) -> Any:
            with block():
                return await function(*arguments, **options)

        return run_async

    if inspect.isgeneratorfunction(function):

        def run_steps(*arguments: Any, **options: Any) -> Any:
            with block():
                return (yield from function(*arguments, **options))

        return run_steps

    def run(*arguments: Any, **options: Any) -> Any:
        with block():
            return function(*arguments, **options)

    return run
