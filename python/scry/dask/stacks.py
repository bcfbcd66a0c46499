"""dump(): what the processes of a cluster do right now."""

from __future__ import annotations

import inspect
from typing import Any

from scry.dask import agent
from scry.dask.block import client_of
from scry.stacks import Dump

__all__ = ["ClusterDump", "dump"]


class ClusterDump(dict):  # type: ignore[type-arg]
    """A Dump for each process, by its address; what could not be had is in `errors`."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__({k: v for k, v in found.items() if isinstance(v, Dump)})
        self.errors = {k: v for k, v in found.items() if not isinstance(v, Dump)}

    def __repr__(self) -> str:
        parts = [f"== {address} ==\n{stacks!r}" for address, stacks in self.items()]
        parts += [f"== {address} ==\n{error}" for address, error in self.errors.items()]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        import html

        parts = [f"<h4>{html.escape(a)}</h4>{d._repr_html_()}" for a, d in self.items()]
        parts += [f"<h4>{html.escape(a)}</h4>{html.escape(str(e))}" for a, e in self.errors.items()]
        return "".join(parts)

    def grouped(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """Stacks of active threads with the processes they were seen in, the rarest first: what is odd stands out."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for address, stacks in self.items():
            for thread in stacks:
                key = tuple(str(frame) for frame in thread.frames)
                groups.setdefault(key, []).append(address)
        return sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))


def dump(*, scheduler: bool = True, workers: Any = True, client: Any = None, **options: Any) -> Any:
    """Of the scheduler and the workers; awaitable with an asynchronous client. Options as for scry.dump()."""
    client = client_of(client)

    async def gather() -> ClusterDump:
        found: dict[str, Any] = {}
        if scheduler:
            try:
                result = client.run_on_scheduler(agent.dump, "scheduler", options)
                found["scheduler"] = await result if inspect.isawaitable(result) else result
            except Exception as error:
                found["scheduler"] = error
        if workers:
            chosen = None if workers is True else list(workers)
            result = client.run(agent.dump, "own", options, workers=chosen, on_error="return")
            found.update(await result if inspect.isawaitable(result) else result)
        return ClusterDump(found)

    return client.sync(gather)
