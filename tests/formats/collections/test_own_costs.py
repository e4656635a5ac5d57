"""What a creation asks of the system: names, files and flushes, counted."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from own_store import made, opened, record

from hyperslab.stores.location import Location

CALLS = ("open", "mkdir", "link", "unlink", "replace", "rename", "fsync", "write")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A block whose calls of the system are counted by their names."""

    def counting(name: str, real: Callable[..., Any], count: Counter[str]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            count[name] += 1
            return real(*arguments, **options)

        return call

    @contextmanager
    def block() -> Iterator[Counter[str]]:
        count: Counter[str] = Counter()
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, counting(name, getattr(os, name), count))
            yield count

    return block


@pytest.mark.skipif(sys.platform != "linux", reason="a new name is given by one call of Linux")
def test_one_creation(tmp_path: Path, counted: Callable[[], Any]) -> None:
    """Two files and a folder; to be durable, each of these and what leads to it is flushed once, at one time."""
    where = Location.of(tmp_path)
    made(where)
    for durable in (False, True):
        holding = opened(where, durable=durable)
        holding.create([record(1 + durable, id=f"aa{durable:06d}-0000-4000-8000-000000000000")])
        with counted() as count:
            holding.create([record(3 + durable, id=f"aa{durable:06d}-0000-4000-8000-000000000001")])
        assert count["mkdir"] == 1
        assert count["write"] == 3
        assert count["link"] == count["unlink"] == count["replace"] == count["rename"] == 0
        assert count["fsync"] == 7 * durable
        assert count["open"] <= (11 if durable else 4)


@pytest.mark.skipif(sys.platform != "linux", reason="all is flushed by one call of Linux")
def test_many_creations_are_flushed_together(tmp_path: Path, counted: Callable[[], Any]) -> None:
    """By one flush of all before the key entries, and one of their folder after it (and of those above, once)."""
    where = Location.of(tmp_path)
    made(where)
    holding = opened(where, durable=True)
    with counted() as count:
        holding.create([record(number) for number in range(200)])
    parts = len(holding.generations())
    assert count["fsync"] <= 8
    assert count["write"] <= 400 + parts + 2  # of what says that it goes on, and that all of it counts
    assert count["link"] + count["unlink"] + count["replace"] + count["rename"] <= 2
    assert count["open"] <= 600 + parts + 16
