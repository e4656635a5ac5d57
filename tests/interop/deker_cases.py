"""Random schemas, slices and updates, each with what must come of it: by seed, the same at every run.

What a key means is known when it is made: :class:`Item` names the positions. Where ``agreed`` both sides must say the
same, else hyperslab alone is asked, by the corrected rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

import numpy as np
from deker_sides import Dim, Plan

START = datetime(2023, 1, 1, tzinfo=UTC)
WRONG = "wrong"
"""The meaning of an item that is refused."""
DTYPES = (np.int8, np.int32, np.int64, np.uint16, np.uint64, np.float32, np.float64, np.complex128)
STEPS = (timedelta(hours=1), timedelta(days=1), timedelta(minutes=15), timedelta(hours=-6), timedelta(seconds=2))
SCALES = ((90.0, -0.25, "lat"), (0.0, 0.5, None), (-180.0, 1.0, "lon"), (10.0, 2.0, None), (-1.5, -0.125, None))
CUTS = (1, 1, 2, 3)


@dataclass(frozen=True)
class Item:
    """One part of a key: the positions that it means, or :data:`WRONG`."""

    value: Any
    means: Any
    agreed: bool = True


@dataclass(frozen=True)
class Ask:
    """A key, what NumPy is asked for in its place (None: refused), and whether both sides agree on it."""

    key: Any
    means: Any
    agreed: bool


@dataclass(frozen=True)
class Write:
    """An update with ``data`` at a key, or with ``data`` None a clearing; ``valid`` when it must be done."""

    ask: Ask
    data: Any
    valid: bool
    agreed: bool = True


@dataclass(frozen=True)
class Case:
    """An array of a plan: what is written to it, and what is asked of it after each."""

    plan: Plan
    custom: dict[str, Any]
    steps: tuple[tuple[Write, tuple[Ask, ...]], ...]


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many of them."""
    for number in range(count):
        yield case(Random(seed * 1_000_003 + number))


def case(random: Random) -> Case:
    """One of them."""
    plan = _plan(random)
    cells, fill = model(plan), model(plan).flat[0]
    steps = []
    for _ in range(random.randint(1, 2)):
        write = _write(random, plan)
        if write.valid:
            cells[write.ask.means] = write.data
        asks = tuple(_ask(random, plan) for _ in range(random.randint(1, 3)))
        steps.append((write, asks))
    written = [ask for ask in (_ask(random, plan, valid=True) for _ in range(8)) if not is_any(cells[ask.means], fill)]
    at = written[0] if written else _ask(random, plan, valid=True)
    cleared = Write(at, None, True, bool(written))  # of cells that were not written it loses count, and then others
    steps.append((cleared, (_ask(random, plan), Ask(np.s_[:], (), True))))
    return Case(plan, {"st": START}, tuple(steps))


def is_any(cells: Any, fill: Any) -> bool:
    """Whether a cell is the fill value."""
    return bool(np.any(np.isnan(cells) if np.isnan(fill) else cells == fill))


# -- schemas ---------------------------------------------------------------------------------------------------------


def _plan(random: Random) -> Plan:
    grid = [(random.choice(CUTS), random.choice((1, 2, 3, 4))) for _ in range(random.randint(1, 3))]
    kinds = random.sample(("plain", "labels", "floats", "scale", "time", "time", "own time"), len(grid))
    dims = tuple(_dim(random, kind, cut * tile) for kind, (cut, tile) in zip(kinds, grid, strict=True))
    dtype = random.choice(DTYPES)
    words = random.choice((None, {"vgrid": 0}, {"arrays_shape": 1}))
    cut = words and {name: tuple(each[part] for each in grid) for name, part in words.items()}
    fill = random.choice((None, None, dtype(7)))
    chunks = random.choice((None, None, True, "manual"))
    if chunks == "manual":
        sizes = [tile for _, tile in grid] if cut else [each.size for each in dims]
        chunks = tuple(random.randint(1, size) for size in sizes)
    packed = random.choice((None, ("gzip", 1), ("lzf", None))) if chunks else None
    return Plan(dims, dtype, (("st", datetime, False),), fill, cut, chunks, packed)


def _dim(random: Random, kind: str, size: int) -> Dim:
    """A dimension of a kind; of those with a start of their own deker takes one in a VArray."""
    name = f"{kind} {random.randrange(1 << 30)}"
    match kind:
        case "labels":
            return Dim(name, size, labels=[f"{name} {number}" for number in range(size)])
        case "floats":
            return Dim(name, size, labels=[number * 1.5 - 2 for number in range(size)])
        case "scale":
            return Dim(name, size, scale=random.choice(SCALES))
        case "time":
            return Dim(name, size, start=START, step=random.choice(STEPS))
        case "own time":
            return Dim(name, size, start="$st", step=random.choice(STEPS))
    return Dim(name, size)


# -- keys ------------------------------------------------------------------------------------------------------------


def _ask(random: Random, plan: Plan, valid: bool = False) -> Ask:
    """A key of some of the dimensions; with ``valid`` one that both sides take, and that is not empty."""
    makers = (_agreed,) if valid else (_good, _good, _good, _good, _corrected, _bad)
    count = len(plan.dims)
    front = random.randint(0, count)
    back = random.randint(0, count - front) if random.random() < 0.2 else None
    dims = plan.dims[:front] + plan.dims[count - (back or 0) :]
    items = [random.choice(makers)(random, each) for each in dims]
    if back is not None:
        items.insert(front, Item(..., ..., not back or front + back + 1 == count))
    if not valid and random.random() < 0.03:
        items = [Item(np.s_[:], WRONG)] * (count + 1)
    if valid and not _is_agreed(items, count):
        items = []
    means = None if any(each.means is WRONG for each in items) else tuple(each.means for each in items)
    key = tuple(each.value for each in items)
    bare = len(key) == 1 and random.random() < 0.5
    return Ask(key[0] if bare else key, means, _is_agreed(items, count))


def _is_agreed(items: list[Item], count: int) -> bool:
    """Whether both sides say the same: deker's dots are one dimension."""
    needless = len(items) == count + 1 and any(each.value is ... for each in items)
    return all(each.agreed for each in items) and not needless


def _agreed(random: Random, dim: Dim) -> Item:
    """One that both sides take."""
    return next(found for found in iter(lambda: _good(random, dim), None) if found.agreed)


def _good(random: Random, dim: Dim) -> Item:
    """One that both sides take, but for labels that are floats."""
    start = random.randrange(dim.size)
    stop = random.randint(start + 1, dim.size)
    make = random.choice((_position, _positions, _label, _labels))
    return make(random, dim, start, stop)


def _position(random: Random, dim: Dim, start: int, stop: int) -> Item:
    value = start - random.choice((0, dim.size))
    return Item(value, value)


def _positions(random: Random, dim: Dim, start: int, stop: int) -> Item:
    low: Any = random.choice((start, start - dim.size, *([None] * (start == 0))))
    high: Any = random.choice((stop, *([stop - dim.size] * (stop < dim.size)), *([None] * (stop == dim.size))))
    return Item(slice(low, high), slice(start, stop))


def _label(random: Random, dim: Dim, start: int, stop: int) -> Item:
    label = _labeller(random, dim)
    if label is None:
        return _position(random, dim, start, stop)
    return Item(label(start), start, _is_indexed_there(dim))


def _labels(random: Random, dim: Dim, start: int, stop: int) -> Item:
    label = _labeller(random, dim)
    if label is None:
        return _positions(random, dim, start, stop)
    low = None if start == 0 and random.random() < 0.5 else label(start)
    high = None if stop == dim.size and (dim.step is None or random.random() < 0.5) else label(stop)
    open_ended = low is None and high is None
    return Item(slice(low, high), slice(start, stop), open_ended or _is_indexed_there(dim))


def _is_indexed_there(dim: Dim) -> bool:
    """Whether deker finds the labels of the dimension: not where they are floats."""
    return dim.labels is None or isinstance(dim.labels[0], str)


def _labeller(random: Random, dim: Dim) -> Callable[[int], Any] | None:
    """What spells the label of a position, in one of the ways that there are."""
    if dim.step is not None:
        step = dim.step
        spell = random.choice((_aware, _naive, _zoned, _iso, _zulu, _timestamp))
        return lambda number: spell(START + number * step)
    if dim.scale is not None:
        low, width, _ = dim.scale
        return lambda number: low + number * width
    labels = dim.labels
    return None if labels is None else labels.__getitem__


def _aware(when: datetime) -> Any:
    return when


def _naive(when: datetime) -> Any:
    return when.replace(tzinfo=None)


def _zoned(when: datetime) -> Any:
    return when.astimezone(timezone(timedelta(hours=5, minutes=30)))


def _iso(when: datetime) -> Any:
    return when.isoformat()


def _zulu(when: datetime) -> Any:
    return when.replace(tzinfo=None).isoformat() + "Z"


def _timestamp(when: datetime) -> Any:
    return when.timestamp()


def _bad(random: Random, dim: Dim) -> Item:
    """One that both sides refuse."""
    wrong: list[Any] = [True, None, [0], "nothing like it", slice("nothing", None), 0.33 if dim.step is None else 1.5]
    if dim.step is not None:
        wrong += [START + dim.step / 2, START - dim.step, START + (dim.size + 1) * dim.step, slice(0, START)]
    elif dim.scale is not None:
        low, width, _ = dim.scale
        wrong += [low + width / 2, low - width, low + dim.size * width, slice(low - width, low), slice(0, low)]
    elif dim.labels is not None and isinstance(dim.labels[0], str):
        wrong += [slice(0, dim.labels[0]), 1.0]
    return Item(random.choice(wrong), WRONG)


def _corrected(random: Random, dim: Dim) -> Item:
    """One that hyperslab alone takes, or refuses at once."""
    size = dim.size
    start, stop = random.randint(-2 * size, 2 * size), random.randint(-2 * size, 2 * size)
    found: list[Any] = [slice(start, stop), slice(start, stop, random.choice((1, 2, 3, -1, -2)))]
    found += [np.int64(size - 1), np.uint8(0)]
    items = [Item(each, each, False) for each in found]
    items += [Item(size, WRONG, False), Item(-size - 1, WRONG, False)]
    if dim.step is not None:
        last = START + (size - 1) * dim.step
        items += [Item(np.datetime64(last.replace(tzinfo=None)), size - 1, False)]
        items += [Item(slice(START, last.isoformat()), slice(0, size - 1), False)]
        items += [Item(last + timedelta(milliseconds=1), WRONG, False), Item(START + size * dim.step, WRONG, False)]
    elif dim.scale is not None:
        low, width, _ = dim.scale
        items += [Item(np.float32(low + width * (size - 1)), size - 1, False)]
        items += [Item(low + width * (size - 1 + 1e-8), size - 1, False)]
        items += [Item(slice(low, low + size * width), slice(0, size), False)]
    return random.choice(items)


# -- updates ---------------------------------------------------------------------------------------------------------


def _write(random: Random, plan: Plan) -> Write:
    """An update that both sides take or refuse, or that hyperslab alone takes."""
    ask = _ask(random, plan, valid=True)
    shape = np.empty(plan.shape, np.int8)[ask.means].shape
    dtype = np.dtype(plan.dtype)
    numbers = np.random.default_rng(random.randrange(1 << 30)).integers(10, 100, shape)
    data: Any = numbers.astype(dtype)
    kind = random.random()
    if kind < 0.6:
        return Write(ask, data[()] if shape else dtype.type(data), True)
    if kind < 0.7:
        return Write(ask, numbers.astype(np.float16 if dtype.kind in "iu" else np.clongdouble), False)
    if kind < 0.8:
        return Write(ask, np.zeros((*shape, 2), dtype), False)
    if kind < 0.9 and dtype in (np.int64, np.float64):
        return Write(ask, data.tolist(), True)
    return Write(ask, dtype.type(11), True, not plan.cut or not shape)


def model(plan: Plan) -> np.ndarray[Any, Any]:
    """The cells of a new array of a plan."""
    dtype = np.dtype(plan.dtype)
    if plan.fill is not None:
        return np.full(plan.shape, plan.fill, dtype)
    return np.full(plan.shape, np.iinfo(dtype).min if dtype.kind in "iu" else np.nan, dtype)
