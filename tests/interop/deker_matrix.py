"""Collections of every kind, what is done with each, and what each must hold then: the deeds of both sides in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from deker_sides import Dim, Plan, Side, lattice, same

START = datetime(2023, 1, 1, tzinfo=UTC)
SHAPE, TILES = (8, 6), {"vgrid": (2, 3)}  # tiles of (4, 2)
PIECE, LINE, WINDOW = np.s_[1:6, 1:4], np.s_[3], np.s_[2:5, 3:]
DTYPES: tuple[Any, ...] = (
    *(np.int8, np.int16, np.int32, np.int64, np.longlong, np.uint8, np.uint16, np.uint32, np.uint64, np.ulonglong),
    *(np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble),
)
SZIP = ((4, 2), ("szip", ("nn", 8)))
OPTIONS: tuple[tuple[Any, Any], ...] = (
    (None, None),
    (True, None),
    ((4, 2), None),
    (None, ("gzip", 4)),
    (True, ("gzip", None)),
    ((4, 2), ("gzip", 9)),
    ((4, 2), ("lzf", None)),
    SZIP,
    ((4, 2), (32015, (3,))),
    ((4, 2), (32004, (0,))),
    ((4, 2), (32001, (0, 0, 0, 0, 5, 1, 1))),
)
KINDS = {"i": int, "f": float, "c": complex, "s": str, "tp": tuple, "d": datetime}
ATTRIBUTES = (
    *((name, dtype, True) for name, dtype in KINDS.items()),
    *((f"c{name}", dtype, False) for name, dtype in KINDS.items()),
    ("never", int, False),
)


@dataclass
class Held:
    """What one array holds."""

    id: str
    primary: dict[str, Any]
    custom: dict[str, Any]
    cells: Any


@dataclass
class Kept:
    """A collection, and what its arrays hold by the number of their key."""

    name: str
    plan: Plan
    arrays: dict[int, Held] = field(default_factory=dict)

    @property
    def is_tiled(self) -> bool:
        """Whether it has VArrays."""
        return bool(self.plan.cut)


def plans() -> Iterator[Plan]:
    """Every type with one of the options, every option with two of the types; both flavours of each."""
    some = [(dtype, OPTIONS[number % 7]) for number, dtype in enumerate(DTYPES)]
    others = (np.complex128, np.int64)  # in turn, for the library packs no complex numbers with szip
    some += [(dtype, each) for n, each in enumerate(OPTIONS) for dtype in (np.float32, others[n % 2])]
    for dtype, (chunks, packed) in some:
        for cut in (None, TILES):
            fill = np.dtype(dtype).type(7) if chunks else None
            yield Plan(lattice(*SHAPE), dtype, ATTRIBUTES, fill, cut, chunks, packed)
    dims = (Dim("t", 8, start="$d", step=timedelta(hours=6)), Dim("lat", 6, scale=(90.0, -0.25, "lat")))
    for cut in (None, TILES):
        yield Plan(dims, np.float32, ATTRIBUTES, None, cut)
        yield Plan((replace(dims[0], start=START), Dim("l", 6, labels=list("abcdef"))), np.int16, ATTRIBUTES, None, cut)


def values(plan: Plan, key: Any, seed: int) -> Any:
    """Cells of a type for a key."""
    random = np.random.default_rng(seed)
    shape = np.empty(plan.shape, np.int8)[key].shape
    cells = random.integers(10, 100, shape).astype(plan.dtype)
    return (
        cells + cells.dtype.type(1j) * random.integers(1, 9, shape).astype(np.int8)
        if cells.dtype.kind == "c"
        else cells
    )


def attributes(number: int) -> dict[str, Any]:
    """Values of every kind."""
    found = {"i": number, "f": number + 1e-9, "c": complex(number, -1), "s": f"é {number}", "tp": (number, "a", (2.5,))}
    return found | {"d": START + timedelta(days=number, microseconds=5 * number)}


def empty(plan: Plan) -> Any:
    """The cells of a new array."""
    dtype = np.dtype(plan.dtype)
    if plan.fill is not None:
        return np.full(plan.shape, plan.fill)
    return np.full(plan.shape, np.iinfo(dtype).min if dtype.kind in "iu" else np.nan, dtype)


def create(collection: Any, kept: Kept, number: int) -> Any:
    """A new array; returns it."""
    primary = attributes(number)
    custom = {f"c{name}": value for name, value in attributes(number + 100).items()}
    array = collection.create(primary, custom)
    kept.arrays[number] = Held(array.id, primary, custom | {"never": None}, empty(kept.plan))
    return array


def update(array: Any, kept: Kept, number: int, key: Any = np.s_[:]) -> None:
    """New cells at a key."""
    data = values(kept.plan, key, number)
    array[key].update(data)
    kept.arrays[number].cells[key] = data


def clear(array: Any, kept: Kept, number: int, key: Any = np.s_[:]) -> None:
    """Fill values at a key."""
    array[key].clear()
    kept.arrays[number].cells[key] = empty(kept.plan)[key]


def custom(array: Any, kept: Kept, number: int, **values: Any) -> None:
    """New values of custom attributes."""
    array.update_custom_attributes(values)
    kept.arrays[number].custom.update(values)


def found(collection: Any, kept: Kept, number: int) -> Any:
    """An array by its key."""
    return collection.filter(kept.arrays[number].primary).first()


def write(side: Side, client: Any, kept: Kept) -> None:
    """Make the collection: arrays that are full, written in part, empty, removed."""
    collection = side.collection(client, kept.name, kept.plan)
    for number, key in enumerate((np.s_[:], PIECE, None, LINE)):
        array = create(collection, kept, number)
        if key is not None:
            update(array, kept, number, key)
    custom(found(collection, kept, 2), kept, 2, cs="updated", cd=START, ci=None, ctp=(1, ("n", 2.0)))
    found(collection, kept, 3).delete()
    del kept.arrays[3]


def change(client: Any, kept: Kept) -> None:
    """What the other side does: with each array something."""
    collection = client.get_collection(kept.name)
    full, part, bare = (found(collection, kept, number) for number in range(3))
    update(full, kept, 0, WINDOW)
    clear(full, kept, 0, LINE)
    custom(full, kept, 0, cd=START + timedelta(hours=1), never=5, cf=1e-9, cc=2j)
    update(bare, kept, 2, PIECE)
    part.delete()
    del kept.arrays[1]
    update(create(collection, kept, 4), kept, 4)


def change_again(client: Any, kept: Kept) -> None:
    """What the first side does then."""
    collection = client.get_collection(kept.name)
    full, bare, new = (found(collection, kept, number) for number in (0, 2, 4))
    update(full, kept, 0)
    clear(bare, kept, 2)
    custom(bare, kept, 2, cs=None, never=-1)
    clear(new, kept, 4, PIECE)


def differences(client: Any, kept: Kept) -> Iterator[str]:
    """Where what a side finds is not what must be there."""
    collection = client.get_collection(kept.name)
    if {array.id for array in collection} != {held.id for held in kept.arrays.values()}:
        yield f"{kept.name}: ids"
    for number, held in kept.arrays.items():
        where = f"{kept.name} {kept.plan.dtype.__name__} {kept.plan.chunks} {kept.plan.compression} {number}"
        by_key, by_id = found(collection, kept, number), collection.filter({"id": held.id}).first()
        if by_key is None or by_id is None or by_key.id != held.id or by_id.id != held.id:
            yield f"{where}: found"
            continue
        if by_id.primary_attributes != held.primary or dict(by_key.custom_attributes) != held.custom:
            yield f"{where}: attributes {by_id.primary_attributes} {by_key.custom_attributes} {held}"
        for key in (np.s_[:], WINDOW, np.s_[-1, -1]):
            if not same(cells := by_key[key].read(), held.cells[key]):
                yield f"{where}: cells {key} {cells} {held.cells[key]}"
    for number in {1, 3, 4} - kept.arrays.keys():
        if collection.filter(attributes(number)).first() is not None:
            yield f"{kept.name}: {number} is still there"
