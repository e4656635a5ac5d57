"""The pickled form of an open dataset: its place, its options, and the state that was known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal
from uuid import uuid4

from hyperslab.chunks.settings import Settings
from hyperslab.errors import Invalid, Unsupported
from hyperslab.stores.credentials import HIDDEN, function_option, plain_options
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.location import Location


class _ThisProcess:
    """This process among all others, and the order of what happens in it. A forked child is another one."""

    name: str
    state_numbers: count[int]

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Take a name that no other process has, as a forked child does."""
        self.name = uuid4().hex
        self.state_numbers = count()


_process = _ThisProcess()


def this_process() -> str:
    """Return a name that no other process has."""
    return _process.name


DatasetState = tuple[str, int]
"""A state of a dataset, as one process knew it: the name of the process, and which of its states it was."""


class DatasetVersion:
    """Which state of a dataset an open one knows at least: ``now``, and by process what it has ``seen`` of others."""

    def __init__(self, seen: Mapping[str, int] | None = None) -> None:
        self.seen = dict(seen or {})
        self.now = (_process.name, next(_process.state_numbers))

    def renew(self) -> None:
        """Note that the dataset was changed or read again: what is pickled from now on is newer."""
        self.now = (_process.name, next(_process.state_numbers))

    def knows(self, state: DatasetState) -> bool:
        """Return True if that state, or a later one, is known."""
        process, number = state
        return self.seen.get(process, -1) >= number


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """How a dataset was opened: enough to open it again, in this process or another one. Secrets are not pickled."""

    where: Location
    format: str
    mode: Literal["r", "r+"]
    settings: Settings
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    process: str = field(default_factory=this_process, compare=False)

    @property
    def lives_here(self) -> bool:
        """Return True if it is in the memory of this process."""
        return self.where.scheme in ("memory", "store")

    def __reduce__(self) -> tuple[object, ...]:
        where = self.where
        options = {name: value for name, value in where.options.items() if name not in function_option(where.options)}
        secret = sorted(name for name in options if plain_options({name: options[name]}) != {name: options[name]})
        if (secret or HIDDEN in where.url) and not function_option(where.options):
            raise Invalid(
                f"secrets ({', '.join(secret) or 'in the URL'}) are not sent to other processes",
                url=where.url,
                remedy="leave them out and set them in the environment of every process, or give "
                "storage_options={'credentials': 'module:function'}, which each process calls for itself",
            )
        return DatasetRef, (where, self.format, self.mode, self.settings, dict(self.options), self.process)

    def check_process(self) -> None:
        """Raise Unsupported for a dataset in the memory of another process."""
        if self.where.scheme == "memory" and self.process != _process.name:
            remedy = "save it under a path or URL that every process reaches"
            raise Unsupported("a dataset in memory is in that of another process", url=self.where.url, remedy=remedy)


call_after_fork(_process.begin)
