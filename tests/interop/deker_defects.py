"""What deker does wrong, by the numbers of the reference: what is done, what comes of it there, and what does here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from deker_sides import Dim, Plan, Side, data_of, inside, lattice, meta, outcome

ID = "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe"
START = datetime(2023, 1, 1, tzinfo=UTC)
TEN = Plan(lattice(10), np.float64)
KEYED = Plan(lattice(3), np.int64, (("i", int, True), ("f", float, True)))
TEXT = Plan(lattice(3), np.int64, (("s", str, True),))
NOTED = Plan(lattice(3), np.int64, (("a", int, False), ("b", int, False)))
TILED = Plan(lattice(10), np.float64, cut={"vgrid": (5,)})


@dataclass(frozen=True)
class Defect:
    """``deed`` is done with a client of an empty store: what it gives there, and what it gives here."""

    number: str
    deed: Callable[[Side, Any, Path], Any]
    theirs: Any
    ours: Any


def seen(deed: Callable[[], Any]) -> Any:
    """What a deed gives; of an error its name, that of a base where hyperslab has its own."""
    found = outcome(deed)
    return found if not isinstance(found, tuple) or not hasattr(found, "said") else "error"


def clear_twice(side: Side, client: Any, root: Path) -> Any:
    array = side.collection(client, "c", TEN).create()
    array[:].update(np.arange(10.0))
    for _ in range(2):
        array[0:5].clear()
    return np.isnan(array[5:].read()).tolist()


def count_fills(side: Side, client: Any, root: Path) -> Any:
    array = side.collection(client, "c", TEN).create(id_=ID)
    counts = []
    for values in ([1.0, np.nan, 3.0], [1.0, 2.0, 3.0]):
        array[:3].update(np.array(values))
        counts.append(inside(data_of(root, "c", ID))["empty_cells"])
    return counts


def collection_above(side: Side, client: Any, root: Path) -> Any:
    outcome(lambda: side.collection(client, "../../x", TEN))
    return (root.parent / "x").exists()


def key_above(side: Side, client: Any, root: Path) -> Any:
    kept = side.collection(client, "c", TEXT)
    found = []
    for number, key in enumerate(("../../../../y", "a/b", "..", "."), 1):
        found.append(seen(lambda key=key: kept.create({"s": key}) and "made"))
        shutil.rmtree(root.parent / "y", ignore_errors=bool(number))
    return found


def key_inside_a_key(side: Side, client: Any, root: Path) -> Any:
    kept = side.collection(client, "c", TEXT)
    kept.create({"s": "a"})
    return [seen(lambda key=key: kept.create({"s": key}) and "made") for key in ("", "é" * 200)]


def kinds_of_keys(side: Side, client: Any, root: Path) -> Any:
    kept = side.collection(client, "c", KEYED)
    kept.create({"i": 1, "f": 1.0})
    asked = ({"i": "1", "f": 1.0}, {"i": True, "f": 1.0}, {"i": np.int64(1), "f": 1.0}, {"i": 1, "f": 1})
    made = ({"i": True, "f": 5.0}, {"i": np.int64(6), "f": 1.0}, {"i": 7, "f": 1})
    found = [seen(lambda key=key: kept.filter(key).first() is not None) for key in asked]
    return [*found, *(seen(lambda values=values: kept.create(values) and "made") for values in made)]


def start_of_tiles(side: Side, client: Any, root: Path) -> Any:
    dims = (Dim("t", 6, start="$st", step=timedelta(hours=1)),)
    plan = Plan(dims, np.int64, (("st", datetime, False),), cut={"arrays_shape": (2,)})
    side.collection(client, "c", plan).create(None, {"st": START})[:].update(np.arange(6))
    tiles = [meta(each) for each in (root / "collections/c/array_data").rglob("*.hdf5")]
    starts = {each["primary_attributes"]["v_position"][0]: each["custom_attributes"]["parent.st"] for each in tiles}
    return [starts[each][11:13] for each in sorted(starts)]


def tiles_outside(side: Side, client: Any, root: Path) -> Any:
    array = side.collection(client, "c", TILED).create()
    outcome(lambda: array[10].update(1.0))
    outcome(lambda: array[-11].update(1.0))
    return len([*(root / "collections/c").rglob("array_data/**/*.hdf5")])


def scales_described(side: Side, client: Any, root: Path) -> Any:
    counts = []
    for number, (size, scale) in enumerate(
        ((255, (0.0, 0.01, None)), (100, (0.0, 0.1, None)), (1801, (90.0, -0.1, None)))
    ):
        array = side.collection(client, f"c{number}", Plan((Dim("x", size, scale=scale),), np.int64)).create()
        values = array[:].describe()["x"]
        counts.append(sum(seen(lambda v=v, array=array: array[v].shape == ()) is True for v in values))
    return counts


def labels_of_floats(side: Side, client: Any, root: Path) -> Any:
    array = side.collection(client, "c", Plan((Dim("x", 3, labels=[1.5, 2.5, 4.0]),), np.int64)).create()
    return [array[:].describe()["x"], seen(lambda: array[2.5].bounds), seen(lambda: array[1.5:4.0].shape)]


def stale_instances(side: Side, client: Any, root: Path) -> Any:
    kept = side.collection(client, "c", NOTED)
    first = kept.create(None, {"a": 1, "b": 1})
    second = kept.filter({"id": first.id}).first()
    first.update_custom_attributes({"a": 2})
    second.update_custom_attributes({"b": 2})
    found = kept.filter({"id": first.id}).first().custom_attributes
    return [found["a"], found["b"]]


def all_times(side: Side, client: Any, root: Path) -> Any:
    dims = (Dim("t", 6, start="$st", step=timedelta(hours=1)),)
    plan = Plan(dims, np.int64, (("st", datetime, False), ("a", int, False)))
    array = side.collection(client, "c", plan).create(None, {"st": START, "a": 1})
    array.update_custom_attributes({"st": START + timedelta(hours=1)})
    return array.custom_attributes["a"]


def scalars_in_tiles(side: Side, client: Any, root: Path) -> Any:
    array = side.collection(client, "c", TILED).create()
    return seen(lambda: array[3:5].update(2.0) or array[3:5].read().tolist())


def lossless_values(side: Side, client: Any, root: Path) -> Any:
    doubles, singles = (
        side.collection(client, f"c{size}", Plan(lattice(3), each)).create()
        for size, each in ((8, np.float64), (4, np.float32))
    )
    return [
        seen(lambda: doubles[2].update(float("nan"))),
        seen(lambda: doubles[:].update([1, 2, 3])),
        seen(lambda: singles[1].update(0.1)),
    ]


def invalid_schemas(side: Side, client: Any, root: Path) -> Any:
    wrong = (
        Plan((Dim("x", -3),), np.int64),
        Plan((Dim("x", 3, scale=(0.0, 0.0, None)),), np.int64),
        Plan((Dim("x", 3, scale=(float("nan"), 1.0, None)),), np.int64),
        Plan((Dim("x", 3, labels=["a", "b"]),), np.int64),
        Plan(lattice(3), np.int8, fill=300),
        Plan(lattice(3), np.int8, fill=1.5),
    )
    return [seen(lambda plan=plan: plan.schema(side.api) and "accepted") for plan in wrong]


def lost_link(side: Side, client: Any, root: Path) -> Any:
    side.collection(client, "c", TILED).create(id_=ID)[:].update(np.arange(10.0))
    (link,) = (root / "collections/c/array_symlinks" / ID / "1").iterdir()
    link.unlink()
    again = side.client(root)
    array = again.get_collection("c").filter({"id": ID}).first()
    found = [np.isnan(array[2:4].read()).all().item()]
    array[2:4].update(np.array([7.0, 8.0]))
    return [*found, len([*(root / "collections/c/array_data").rglob("*.hdf5")]), array[2:4].read().tolist()]


def an_alien(side: Side, client: Any, root: Path) -> Any:
    side.collection(client, "c", TEN)
    (root / "collections/alien").mkdir()
    return seen(lambda: [str(each) for each in client])


def leak(side: Side, client: Any, root: Path) -> Any:
    plan = Plan(lattice(3), np.int64, (("a", str, False),))
    array = side.collection(client, "c", plan).create(None, {"a": "x"}, ID)
    before = data_of(root, "c", ID).stat().st_size
    for number in range(60):
        array.update_custom_attributes({"a": "x" * (number * 7 % 50)})
    return data_of(root, "c", ID).stat().st_size > 2 * before


def errors_of_their_own(side: Side, client: Any, root: Path) -> Any:
    kept = side.collection(client, "c", TEN)
    wrong = outcome(lambda: kept.filter({"id": "nonsense"}).first())
    array = kept.create()
    array.delete()
    deleted = outcome(lambda: array.read_meta())
    client.close()
    closed = outcome(lambda: client.get_collection("c"))
    return ["nothing" if each is None else each[0] for each in (wrong, deleted, closed)]


KEYS_OF_OURS = ("error", "error", True, True, "error", "made", "made")
DEFECTS = (
    Defect("1 clear", clear_twice, [True] * 5, [False] * 5),
    Defect("1 count", count_fills, [8, 5], [8, 7]),
    Defect("6 collection", collection_above, True, False),
    Defect("6 key", key_above, ["made", "made", "error", "error"], ["error"] * 4),
    Defect("6 nested", key_inside_a_key, ["error", "error"], ["error", "error"]),
    Defect("7", kinds_of_keys, [True, False, True, False, "made", "error", "error"], [*KEYS_OF_OURS]),
    Defect("9", start_of_tiles, ["00", "01", "02"], ["00", "02", "04"]),
    Defect("10", tiles_outside, 2, 0),
    Defect("12", scales_described, [9, 8, 3], [255, 100, 1801]),
    Defect("13", labels_of_floats, [[1.5, 2.5, 4.0], "error", "error"], [[1.5, 2.5, 4.0], (1,), (2,)]),
    Defect("17 stale", stale_instances, [1, 2], [2, 2]),
    Defect("17 times", all_times, None, 1),
    Defect("18", scalars_in_tiles, "error", [2.0, 2.0]),
    Defect("19", lossless_values, ["error"] * 3, [None] * 3),
    Defect("20", invalid_schemas, ["accepted"] * 6, ["error"] * 6),
    Defect("21", lost_link, [True, 6, [7.0, 8.0]], [False, 5, [7.0, 8.0]]),
    Defect("22", an_alien, "error", ["c"]),
    Defect("24", leak, True, False),
    Defect(
        "25",
        errors_of_their_own,
        ["ValueError", "FileNotFoundError", "AttributeError"],
        ["SchemaError", "NodeNotFound", "ClientError"],
    ),
)
