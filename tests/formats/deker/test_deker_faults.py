"""What the system refuses in the middle of anything (a failing disk, too many files) is an error of the house."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, AttributeSchema, Client, Collection, DimensionSchema, VArraySchema
from hyperslab.errors import HyperslabError

X = [DimensionSchema("x", 4)]
KEYS = [AttributeSchema("k", int, True), AttributeSchema("c", int, False)]
CALLS = (
    *("open", "stat", "lstat", "fstat", "scandir", "listdir", "readlink", "pread", "preadv", "readv", "write"),
    *("replace", "rename", "unlink", "rmdir", "mkdir", "symlink", "link", "fsync", "utime"),
)
KINDS = (errno.EIO, errno.EMFILE, errno.EROFS)
LOOKS = 5
"""Calls of each piece of work that fail in turn, evenly among all that it makes."""


class Medium:
    """The calls of the system that the house makes, of which one fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.doomed: tuple[int, int] | None = None
        for name in CALLS:
            if hasattr(os, name):
                patch.setattr(os, name, self._guard(getattr(os, name)))

    def _guard(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.doomed is not None and self.count == self.doomed[0]:
                raise OSError(self.doomed[1], os.strerror(self.doomed[1]))
            return real(*args, **options)

        return call


def _each(collections: list[Collection], work: Callable[[Collection], object]) -> None:
    for collection in collections:
        work(collection)


WORK: dict[str, Callable[[list[Collection]], object]] = {
    "create": lambda found: _each(found, lambda each: each.create_many([{"k": 7}, {"k": 8}])),
    "update": lambda found: _each(found, lambda each: each.first()[1:3].update([8, 9])),
    "clear cells": lambda found: _each(found, lambda each: each.first()[:3].clear()),
    "attributes": lambda found: _each(found, lambda each: each.first().update_custom_attributes({"c": 5})),
    "delete": lambda found: _each(found, lambda each: each.first().delete()),
    "clear": lambda found: _each(found, lambda each: each.clear()),
    "read": lambda found: _each(found, lambda each: [array[:].read() for array in each]),
    "query": lambda found: _each(found, lambda each: [*each.query(c=None), *each.filter({"k": 1})]),
    "tiles": lambda found: [tile.v_position for tile in found[1].arrays],
}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    with Client(tmp_path / "made") as client:
        made = [
            client.create_collection("a", ArraySchema(X, int, KEYS, -1), layout="deker"),
            client.create_collection("v", VArraySchema(X, int, KEYS, -1, vgrid=(2,)), layout="deker"),
        ]
        for collection in made:
            for k in range(2):
                collection.create({"k": k})[:].update([1, 2, 3, 4])
    yield tmp_path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WORK)
def test_a_database(root: Path, name: str) -> None:
    def work(place: Path, medium: Medium) -> None:
        with Client(place, write_lock_timeout=1) as client:
            found = [client.get_collection("a"), client.get_collection("v")]
            medium.count = 0
            WORK[name](found)

    _fail_each(root, work)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["tree", "check", "repair", "write"])
def test_a_dataset(root: Path, name: str) -> None:
    def work(place: Path, medium: Medium) -> None:
        medium.count = 0
        if name == "write":
            with hs.open(place, mode="r+", lock_timeout=1) as opened:
                for group in opened.values():
                    for array in group.values():
                        array[1:] = 5
        elif name == "tree":
            hs.open(place).tree()
        else:
            (hs.check if name == "check" else hs.repair)(place)

    _fail_each(root, work)


def _fail_each(root: Path, work: Callable[[Path, Medium], None]) -> None:
    total = _run(root, work, None)
    for at in range(1, total, max(1, total // LOOKS)):
        for kind in KINDS:
            _run(root, work, (at, kind))


def _run(root: Path, work: Callable[[Path, Medium], None], doomed: tuple[int, int] | None) -> int:
    place = root / "now"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root / "made", place, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        medium = Medium(patch)
        medium.doomed = doomed
        try:
            work(place, medium)
        except HyperslabError as error:
            assert doomed is not None
            assert error.url, error
    return medium.count
