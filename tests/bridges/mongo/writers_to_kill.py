"""Changes of objects, each made by a process that is killed (SIGKILL) before one of its commands to the server."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from pymongo.monitoring import CommandListener, register

import hyperslab as hs
from hyperslab.formats.mongo.server import get_client
from hyperslab.mongo import XarrayMongoDB

CHANGING = frozenset({"insert", "update", "delete", "findAndModify", "commitTransaction"})
State = Mapping[str, str]
"""What each name gives: the label of one of the datasets."""


@dataclass(frozen=True)
class Where:
    """A server, a database, a collection, and how objects are laid out; ``size``: bytes of cells in a document."""

    uri: str
    database: str
    collection: str
    layout: Any
    size: int

    @property
    def objects(self) -> XarrayMongoDB:
        """Of the one client of this process."""
        database = get_client(self.uri, {"directConnection": True})[self.database]
        return XarrayMongoDB(database, self.collection, layout=self.layout, **self.options)

    @property
    def options(self) -> dict[str, Any]:
        """The options of both faces; the server lives on, so that its journal need not be waited for."""
        return {"chunk_size_bytes": self.size, "embed_threshold_bytes": 40, "durable": False}

    def url(self, name: str) -> str:
        """Of an object under the one face."""
        return f"{self.uri}/{self.database}?collection={self.collection}&directConnection=true#{name}"


def days(start: int, count: int, *, scale: int = 1) -> xr.Dataset:
    """Chunks of several documents, one in one piece, and some that stand in the document of the object."""
    time = np.arange(start, start + count)
    t = np.add.outer(time * 10.0, np.arange(6)) * scale
    ds = xr.Dataset({"t": (("time", "x"), t), "p": ("x", np.arange(6) * scale)}, {"time": time})
    return ds.chunk({"time": 3, "x": 6})


DATASETS: Mapping[str, xr.Dataset] = {
    "five": days(0, 5),
    "eight": days(0, 8),
    "three": days(0, 3),
    "other": days(0, 5, scale=7),
    "mended": days(0, 5).assign(t=lambda ds: ds.t * xr.where(ds.time < 3, 7, 1)),
}


def put(where: Where, name: str, label: str) -> Any:
    """Store one of the datasets; its id."""
    key, future = where.objects.put(DATASETS[label], name=name)
    future.compute(scheduler="sync")
    return key


def save(where: Where, name: str, label: str, **options: Any) -> None:
    """The same through the one face."""
    hs.save(where.url(name), DATASETS[label], **where.options, **options)


# -- changes ----------------------------------------------------------------------------------------------------------


def _replace(where: Where) -> None:
    where.objects.replace("a", DATASETS["other"])[1].compute(scheduler="sync")


def _replace_by_id(where: Where) -> None:
    objects = where.objects
    key = next(info.id for info in objects.find(name="a"))
    objects.replace(key, DATASETS["other"])[1].compute(scheduler="sync")


def _replace_keeping(where: Where) -> None:
    objects = where.objects
    keeping = XarrayMongoDB(
        objects.meta.database, where.collection, layout=where.layout, keep_versions=3600, **where.options
    )
    keeping.replace("a", DATASETS["other"])[1].compute(scheduler="sync")


def _compact(where: Where) -> None:
    where.objects.compact("a")


def _open(where: Where) -> hs.Group:
    return hs.open_group(where.url("a"), mode="r+", **where.options)


def _resize(where: Where) -> None:
    with _open(where) as root, root.batch():
        root["t"].resize((3, 6))
        root["time"].resize((3,))


def _overwrite(where: Where) -> None:
    save(where, "a", "other", mode="w")


@dataclass(frozen=True)
class Change:
    """``act`` makes ``after`` of what was stored first; ``between``: what else may be met after a kill, ``?`` stands
    for an object that is said to be incomplete. ``face``: the object is stored through the one face."""

    act: Callable[[Where], Any]
    after: State
    before: State
    between: tuple[State, ...] = ()
    face: bool = False


FIVE: State = {"a": "five"}
TWO: State = {"a": "five", "b": "eight"}
CHANGES: Mapping[str, Change] = {
    "put": Change(lambda where: put(where, "b", "eight"), TWO, FIVE, ({"a": "five", "b": "?"},)),
    "replace-keeping": Change(_replace_keeping, {"a": "other"}, FIVE),
    "compact": Change(_compact, FIVE, FIVE),
    "replace": Change(_replace, {"a": "other"}, FIVE),
    "replace_by_id": Change(_replace_by_id, {"a": "other"}, FIVE),
    "rename": Change(lambda where: where.objects.rename("a", "c"), {"c": "five"}, FIVE),
    "rename_over": Change(lambda where: where.objects.rename("a", "b", replace=True), {"b": "five"}, TWO),
    "copy": Change(lambda where: where.objects.copy("a", name="c"), {"a": "five", "c": "five"}, FIVE),
    "delete": Change(lambda where: where.objects.delete("a"), {"b": "eight"}, TWO),
    "expire": Change(lambda where: where.objects.expire(name="a", until="2100-01-01"), {"b": "eight"}, TWO),
    "append": Change(lambda where: where.objects.append("a", days(5, 3), "time"), {"a": "eight"}, FIVE),
    "update": Change(
        lambda where: where.objects.update("a", days(0, 3, scale=7)[["t"]], {"time": slice(0, 3)}),
        {"a": "mended"},
        FIVE,
    ),
    "save": Change(lambda where: save(where, "b", "eight"), TWO, FIVE, face=True),
    "save_over": Change(_overwrite, {"a": "other"}, FIVE, face=True),
    "save_over_others": Change(_overwrite, {"a": "other"}, FIVE),
    "save_rows": Change(
        lambda where: hs.save(where.url("a"), days(5, 3)[["t"]], append_dim="time", **where.options),
        {"a": "eight"},
        FIVE,
        face=True,
    ),
    "save_rows_of_others": Change(
        lambda where: hs.save(where.url("a"), days(5, 3)[["t"]], append_dim="time", **where.options),
        {"a": "eight"},
        FIVE,
    ),
    "shrink": Change(_resize, {"a": "three"}, FIVE, face=True),
}


# -- the process that is killed ---------------------------------------------------------------------------------------


class _Killer(CommandListener):
    """Ends this process before the command of this number, of those that change something or of all."""

    def __init__(self, number: int, *, reads: bool) -> None:
        self.left = number
        self.reads = reads

    def started(self, event: Any) -> None:
        """Called before the command is sent."""
        if not self.reads and event.command_name not in CHANGING:
            return
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1

    def succeeded(self, event: Any) -> None:
        """Does not matter."""

    def failed(self, event: Any) -> None:
        """Does not matter."""


def change_until_killed(name: str, where: Where, number: int, reads: bool) -> None:
    """Make the change; the process is killed before its ``number``-th command, counted from 0."""
    register(_Killer(number, reads=reads))
    CHANGES[name].act(where)
