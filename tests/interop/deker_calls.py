"""Calls of the public face: what is done, and the error or the value that deker and hyperslab answer with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from deker_sides import Dim, Plan, Side, lattice

ID = "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe"
START = datetime(2023, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NUMBERED = Plan(lattice(4), np.float64, (("k", int, True), ("s", str, False), ("tp", tuple, False)))
TIMED = Plan((Dim("t", 4, start="$d", step=HOUR),), np.int64, (("d", datetime, True), ("n", int, False)))
STARTED = Plan(
    tuple(Dim(name, 4, start="$d", step=HOUR) for name in "ab"),
    np.int64,
    (("d", datetime, True),),
    cut={"vgrid": (2, 2)},
)
Deed = Callable[[Side, Any, Path], Any]


@dataclass(frozen=True)
class Call:
    """``theirs``, ``ours``: the name of an error or of a base of it, or the value in a list."""

    what: str
    deed: Deed
    theirs: Any
    ours: Any


def on_client(deed: Callable[[Any], Any]) -> Deed:
    """With a client of an empty store."""
    return lambda side, client, root: deed(client)


def on_array(deed: Callable[[Any], Any], plan: Plan = NUMBERED) -> Deed:
    """With an array of a collection, whose key is 1."""

    def on(side: Side, client: Any, root: Path) -> Any:
        key = {"k": 1} if plan is NUMBERED else {"d": START}
        return deed(side.collection(client, "c", plan).create(key, None, ID))

    return on


def on_collection(deed: Callable[[Any], Any], plan: Plan = NUMBERED) -> Deed:
    """With a collection that has one array."""
    return lambda side, client, root: on_array(lambda array: deed(client.get_collection("c")), plan)(side, client, root)


def opening(uri: Any, **options: Any) -> Deed:
    """A client of some place."""
    return lambda side, client, root: side.api.Client(uri.format(root=root) if isinstance(uri, str) else uri, **options)


def schema(plan: Plan) -> Deed:
    """A schema that is declared."""
    return lambda side, client, root: plan.schema(side.api).shape


def removed(collection: Any) -> Any:
    """A collection that was deleted, twice."""
    collection.delete()
    collection.delete()
    return collection


def gone(array: Any) -> Any:
    """An array that was deleted, twice."""
    array.delete()
    array.delete()
    return array


BAD, EXISTS, GONE = "DekerValidationError", "DekerCollectionAlreadyExistsError", "DekerInstanceNotExistsError"
CLIENT = "DekerClientError"
CALLS = (
    Call("no URI", opening(""), CLIENT, "ClientError"),
    Call("a scheme that nobody knows", opening("nothing://x"), CLIENT, "ClientError"),
    Call("workers of text", opening("file://{root}", workers="a"), CLIENT, "ClientError"),
    Call("no workers", opening("file://{root}", workers=0), CLIENT, "ClientError"),
    Call("half a second", opening("file://{root}", write_lock_timeout=1.5), CLIENT, "ClientError"),
    Call("a level that nobody knows", opening("file://{root}", loglevel="LOUD"), CLIENT, "ClientError"),
    Call("memory without a number", opening("file://{root}", memory_limit="4X"), CLIENT, "ClientError"),
    Call("a file", lambda side, client, root: _of_a_file(side, root), CLIENT, "ClientError"),
    Call("any keyword", lambda s, c, root: s.client(root, colour="red").kwargs["colour"], ["red"], ["red"]),
    Call("version", on_client(lambda client: client.meta_version), ["0.2"], ["0.2"]),
    Call("no collection", on_client(lambda client: client.get_collection("none")), [None], [None]),
    Call("blank name", lambda s, c, r: s.collection(c, " ", NUMBERED), BAD, "SchemaError"),
    Call(
        "two of one name", lambda s, c, r: [s.collection(c, "c", NUMBERED) for _ in range(2)], EXISTS, "AlreadyExists"
    ),
    Call("a schema that is none", lambda s, c, r: c.create_collection("c", 1), BAD, "SchemaError"),
    Call(
        "an integrity check of none",
        on_client(lambda client: client.check_integrity(1, collection="none")),
        "DekerCollectionNotExistsError",
        "CollectionNotFound",
    ),
    Call("tiles of two starts", lambda s, c, r: s.collection(c, "c", STARTED), BAD, "SchemaError"),
    # collections
    Call("two of one key", on_collection(lambda c: c.create({"k": 1})), BAD, "AlreadyExists"),
    Call("two of one id", on_collection(lambda c: c.create({"k": 2}, None, ID)), "DekerArrayError", "AlreadyExists"),
    Call("an id that is none", on_collection(lambda c: c.create({"k": 2}, None, "x")), BAD, "SchemaError"),
    Call("no key", on_collection(lambda c: c.create()), BAD, "SchemaError"),
    Call("a key of None", on_collection(lambda c: c.create({"k": None})), BAD, "SchemaError"),
    Call("a key of another type", on_collection(lambda c: c.create({"k": "2"})), BAD, "SchemaError"),
    Call("an unknown attribute", on_collection(lambda c: c.create({"k": 2, "z": 1})), BAD, "SchemaError"),
    Call("custom of another type", on_collection(lambda c: c.create({"k": 2}, {"s": 1})), BAD, "SchemaError"),
    Call("a list in a tuple", on_collection(lambda c: c.create({"k": 2}, {"tp": (1, [2])})), BAD, "SchemaError"),
    Call("by key", on_collection(lambda c: c.filter({"k": 1}).first().id), [ID], [ID]),
    Call("by key, last", on_collection(lambda c: c.filter({"k": 1}).last().id), [ID], [ID]),
    Call("by a key of nobody", on_collection(lambda c: c.filter({"k": 2}).first()), [None], [None]),
    Call("by id", on_collection(lambda c: c.filter({"id": ID}).last().id), [ID], [ID]),
    Call("by an id of nobody", on_collection(lambda c: c.filter({"id": ID.replace("3", "4")}).first()), [None], [None]),
    Call(
        "by more than the key",
        on_collection(lambda c: c.filter({"k": 1, "z": 1}).first()),
        "DekerFilterError",
        "SchemaError",
    ),
    Call("by time", on_collection(lambda c: c.filter({"d": START}).first().id, TIMED), [ID], [ID]),
    Call(
        "by time as text",
        on_collection(lambda c: c.filter({"d": "2023-01-01T00:00:00+00:00"}).first().id, TIMED),
        [ID],
        [ID],
    ),
    Call("manager of none", on_collection(lambda c: [*c.varrays]), "DekerInvalidManagerCallError", "Invalid"),
    Call("manager", on_collection(lambda c: [each.id for each in c.arrays]), [[ID]], [[ID]]),
    Call("name", on_collection(lambda c: [c.name, str(c)]), [["c", "c"]], [["c", "c"]]),
    Call("cleared", on_collection(lambda c: (c.clear(), [*c])[1]), [[]], [[]]),
    Call("removed, create", on_collection(lambda c: removed(c).create({"k": 2})), GONE, "CollectionNotFound"),
    Call("removed, clear", on_collection(lambda c: removed(c).clear()), GONE, "CollectionNotFound"),
    Call("removed, iterate", on_collection(lambda c: [*removed(c)]), GONE, "CollectionNotFound"),
    # arrays
    Call("shape", on_array(lambda a: [a.shape, a.named_shape]), [[(4,), (("x", 4),)]], [[(4,), (("x", 4),)]]),
    Call("update of nothing", on_array(lambda a: a.update_custom_attributes({})), BAD, "SchemaError"),
    Call("update of the key", on_array(lambda a: a.update_custom_attributes({"k": 2})), BAD, "SchemaError"),
    Call("update of unknown", on_array(lambda a: a.update_custom_attributes({"z": 2})), BAD, "SchemaError"),
    Call("update of another type", on_array(lambda a: a.update_custom_attributes({"s": 2})), BAD, "SchemaError"),
    Call(
        "update to None",
        on_array(lambda a: (a.update_custom_attributes({"s": None}), dict(a.custom_attributes)["s"])[1]),
        [None],
        [None],
    ),
    Call("removed, read", on_array(lambda a: gone(a)[:].read()), GONE, "NodeNotFound"),
    Call("removed, update", on_array(lambda a: gone(a)[:].update(np.ones(4))), GONE, "NodeNotFound"),
    Call("record", on_array(lambda a: dict(a.read_meta())["id"]), [ID], [ID]),
    # subsets
    Call("None", on_array(lambda a: a[:].update(None)), "DekerArrayError", "Invalid"),
    Call("another type", on_array(lambda a: a[:].update(np.ones(4, complex))), "DekerArrayTypeError", "TypeError"),
    Call("another shape", on_array(lambda a: a[:].update(np.ones(3))), "IndexError", "IndexError"),
    Call("a row for all", on_array(lambda a: a[:].update(np.ones(1))), "IndexError", "IndexError"),
    Call("text", on_array(lambda a: a[:].update(["a"] * 4)), "DekerArrayTypeError", "TypeError"),
    Call("a list", on_array(lambda a: (a[1:3].update([1.5, 2.5]), a[1].read())[1]), [1.5], [1.5]),
    Call("a scalar", on_array(lambda a: (a[1].update(3), a[1].read())[1]), [3.0], [3.0]),
    Call(
        "texts",
        on_array(lambda a: [repr(a[0:2]), str(a[0:2])]),
        [[f"Subset(bounds=[0:2], shape=(2,), array={ID})", f"Array({ID})[0:2]"]],
        [[f"Subset(bounds=[0:2], shape=(2,), array={ID})", f"Array({ID})[0:2]"]],
    ),
    Call(
        "described",
        on_array(lambda a: dict(a[1:3].describe()), TIMED),
        [{"t": [START + HOUR, START + 2 * HOUR]}],
        [{"t": [START + HOUR, START + 2 * HOUR]}],
    ),
    # schemas
    Call("no start", schema(Plan((Dim("t", 4, start="", step=HOUR),), np.int64)), BAD, "SchemaError"),
    Call("a start of nobody's", schema(Plan((Dim("t", 4, start="$z", step=HOUR),), np.int64)), BAD, "SchemaError"),
    Call(
        "a start that is no time",
        schema(Plan((Dim("t", 4, start="$z", step=HOUR),), np.int64, (("z", int, True),))),
        BAD,
        "SchemaError",
    ),
    Call("no step", schema(Plan((Dim("t", 4, start=START, step=timedelta(0)),), np.int64)), BAD, "SchemaError"),
    Call("no size", schema(Plan((Dim("x", 0),), np.int64)), BAD, "SchemaError"),
    Call("a size of truth", schema(Plan((Dim("x", True),), np.int64)), BAD, "SchemaError"),
    Call("a size of halves", schema(Plan((Dim("x", 1.0),), np.int64)), BAD, "SchemaError"),
    Call("a blank dimension", schema(Plan((Dim(" ", 1),), np.int64)), BAD, "SchemaError"),
    Call("two of a name", schema(Plan((Dim("x", 1), Dim("x", 1)), np.int64)), BAD, "SchemaError"),
    Call("no dimensions", schema(Plan((), np.int64)), BAD, "SchemaError"),
    Call("a scale of integers", schema(Plan((Dim("x", 3, scale=(0, 1, None)),), np.int64)), BAD, "SchemaError"),
    Call("labels of integers", schema(Plan((Dim("x", 2, labels=[1, 2]),), np.int64)), [(2,)], "SchemaError"),
    Call("labels of two kinds", schema(Plan((Dim("x", 2, labels=["a", 1.0]),), np.int64)), [(2,)], "SchemaError"),
    Call("labels twice", schema(Plan((Dim("x", 2, labels=["a", "a"]),), np.int64)), [(2,)], "SchemaError"),
    Call("labels and scale", schema(Plan((Dim("x", 1, ["a"], (0.0, 1.0, None)),), np.int64)), BAD, "SchemaError"),
    Call("cells of text", schema(Plan(lattice(3), str)), BAD, "SchemaError"),
    Call("cells of truth", schema(Plan(lattice(3), bool)), BAD, "SchemaError"),
    Call("a fill of text", schema(Plan(lattice(3), np.int64, fill="a")), BAD, "SchemaError"),
    Call("an attribute of lists", schema(Plan(lattice(3), np.int64, (("a", list, True),))), BAD, "SchemaError"),
    Call(
        "two attributes of a name",
        schema(Plan(lattice(3), np.int64, (("a", int, True), ("a", int, False)))),
        BAD,
        "SchemaError",
    ),
    Call("a grid of less", schema(Plan(lattice(4, 4), np.int64, cut={"vgrid": (2,)})), BAD, "SchemaError"),
    Call("a grid that leaves some", schema(Plan(lattice(4), np.int64, cut={"vgrid": (3,)})), BAD, "SchemaError"),
    Call("a grid of nothing", schema(Plan(lattice(4), np.int64, cut={"vgrid": (0,)})), BAD, "SchemaError"),
    Call(
        "both grids", schema(Plan(lattice(4), np.int64, cut={"vgrid": (2,), "arrays_shape": (2,)})), BAD, "SchemaError"
    ),
    Call("a fill of a grid", schema(Plan(lattice(4), np.int64, cut={"arrays_shape": (2,)})), [(4,)], [(4,)]),
)


def _of_a_file(side: Side, root: Path) -> Any:
    (root.parent / "file").write_text("x")
    return side.client(root.parent / "file")
