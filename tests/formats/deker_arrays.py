"""Collections in DEKER's layout, made and used right at the holding: what the tests of its rooms share."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hyperslab.chunks import execute
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, NodeNotFound
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.deker.folder import Kind, data_path
from hyperslab.formats.collections.deker.store import LAYOUT, DekerCollectionStore
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5Options,
    Record,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.model.schemas.arrays import check_new, new_id, update_record
from hyperslab.selection.region import Range, Region
from hyperslab.stores.location import Location

QUICK = Settings(durable=False, lock_timeout=2)
START = datetime(2023, 1, 1, tzinfo=UTC)
KEY = AttributeSchema("k", int, True)
NOTE = AttributeSchema("note", str, False)
PLAIN = ArraySchema([DimensionSchema("y", 4), DimensionSchema("x", 5)], np.float64, [KEY, NOTE])
TIMED = [
    TimeDimensionSchema("hour", 8, "$dt", timedelta(hours=1)),
    DimensionSchema("x", 6),
]
TILED = VArraySchema(TIMED, np.int32, [AttributeSchema("dt", datetime, True), NOTE], fill_value=-1, vgrid=(4, 2))


def make(
    root: Path,
    schema: ArraySchema = PLAIN,
    name: str = "c",
    options: HDF5Options | None = None,
    settings: Settings = QUICK,
    extra: Mapping[str, Any] | None = None,
) -> DekerCollectionStore:
    """A new collection."""
    document = CollectionDocument(name, schema, options, layout="deker", extra=extra or {})
    return LAYOUT.create(Location.of(root), document, settings)


def reopen(root: Path, name: str = "c", *, writable: bool = True, settings: Settings = QUICK) -> DekerCollectionStore:
    """A collection that is there."""
    holding = LAYOUT.open(Location.of(root), name, settings, writable=writable)
    assert holding is not None
    return holding


def new(holding: DekerCollectionStore, primary: Mapping[str, Any], custom: Mapping[str, Any] | None = None) -> str:
    """A new array; its id."""
    record = Record(new_id(), *check_new(holding.document.schema, primary, custom))
    holding.create([record])
    return record.id


def _region(shape: tuple[int, ...], key: tuple[slice, ...]) -> Region:
    full = (*key, *[slice(None)] * (len(shape) - len(key)))
    parts = [range(length)[part] for length, part in zip(shape, full, strict=True)]
    return Region(tuple(Range(part.start, len(part), part.step) for part in parts))


def read(holding: DekerCollectionStore, id: str, *key: slice) -> np.ndarray[Any, Any]:
    """Cells of an array, all without a key."""
    spec = holding.spec(id)
    source = holding.chunks(id, spec)
    plan = make_plan(_region(spec.shape, key), source.grid)
    out = np.empty(plan.shape, spec.numpy_dtype)
    execute.read(source, plan, out, spec.fill_cell(), holding.folder.settings)
    return out


def write(holding: DekerCollectionStore, id: str, values: Any, *key: slice) -> None:
    """Put values into cells of an array, into all without a key."""
    spec = holding.spec(id)
    source = holding.chunks(id, spec)
    plan = make_plan(_region(spec.shape, key), source.grid)
    cells = np.ascontiguousarray(np.broadcast_to(np.asarray(values, spec.numpy_dtype), plan.shape))
    execute.write(source, plan, cells, spec.fill_cell(), holding.folder.settings)


def file_of(holding: DekerCollectionStore, id: str, kind: Kind = "array") -> Path:
    """The file of an array or tile."""
    return Path(holding.folder.path, data_path(kind, id))


def count_of(path: Path) -> int:
    """The count of empty cells that a file tells."""
    with h5py.File(path, "r", locking=False) as file:
        return int(file["empty_cells"][()])


def kinds(holding: DekerCollectionStore, *, deep: bool = False) -> list[str]:
    """What is wrong with a collection, without mere notes."""
    return [remedy.problem.kind for remedy in holding.find_damage(deep=deep) if not remedy.is_note]


def repair(holding: DekerCollectionStore) -> None:
    """Mend all that can be mended."""
    for remedy in list(holding.find_damage(deep=True)):
        if remedy.act is not None:
            remedy.act()


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Cells that are no fill."""
    return np.random.default_rng(seed).integers(1, 100, shape).astype(dtype)


# -- what processes do that are killed, or race -----------------------------------------------------------------------


def changed_forever(root: Path, id: str) -> None:
    """Count on in the attribute ``note`` of an array."""
    holding = reopen(root)
    schema = holding.document.schema
    print("ready", flush=True)
    while True:
        holding.update(id, lambda record: update_record(schema, record, {"note": str(int(record.custom["note"]) + 1)}))


def written_forever(root: Path, id: str) -> None:
    """Write all cells of an array again and again."""
    holding = reopen(root)
    print("ready", flush=True)
    for turn in count(1):
        write(holding, id, turn % 50)


def created_keys(root: Path, most: int) -> None:
    """Create the keys up to ``most``; tell which."""
    holding = reopen(root)
    won = []
    for key in range(most):
        with suppress(AlreadyExists):
            new(holding, key_at(holding, key))
            won.append(key)
    print(json.dumps(won))


def anything(root: str, name: str, seed: int, turns: int) -> None:
    """Do whatever can be done with the arrays of few keys; raises what nobody should meet."""
    holding = reopen(Path(root), name, settings=Settings(durable=False, lock_timeout=60))
    schema = holding.document.schema
    chosen = random.Random(seed)
    for _ in range(turns):
        key = key_at(holding, chosen.randrange(4))
        what = chosen.choice(["create", "write", "read", "update", "remove", "list", "clear"])
        id = holding.id_of(tuple(key.values()))
        if what == "list":
            list(holding.filter_committed(holding.records(holding.list_part(""))))
        elif what == "create" or id is None:
            with suppress(AlreadyExists):
                new(holding, key)
        else:
            with suppress(NodeNotFound):
                match what:
                    case "write":
                        write(holding, id, chosen.randrange(1, 50), slice(0, 4), slice(1, 5))
                    case "clear":
                        write(holding, id, schema.fill_value, slice(0, 2))
                    case "read":
                        read(holding, id)
                    case "update":
                        note = str(chosen.random())
                        holding.update(id, lambda record, note=note: update_record(schema, record, {"note": note}))
                    case "remove":
                        holding.remove(id)


def key_at(holding: DekerCollectionStore, place: int) -> dict[str, Any]:
    """One of the keys of a collection."""
    return {"dt": START + timedelta(place)} if isinstance(holding.document.schema, VArraySchema) else {"k": place}
