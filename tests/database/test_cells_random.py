"""Random changes of the cells of a collection's arrays, step by step beside arrays of NumPy, by keys of every kind."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from hypothesis.strategies import DataObject, booleans, data, integers, lists, sampled_from

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)

START, STEP = datetime(2023, 1, 1, tzinfo=UTC), timedelta(hours=6)
KINDS = ("plain", "scale", "down", "labels", "numbers", "time", "time by array")
LONGEST = 14
KEYS = 2


def schema_of(kind: str, name: str, size: int | None) -> DimensionSchema | TimeDimensionSchema:
    """Return a dimension whose positions are called by one kind of label."""
    match kind:
        case "scale":
            return DimensionSchema(name, size, scale=Scale(10.0, 0.5))
        case "down":
            return DimensionSchema(name, size, scale=Scale(90.0, -0.25))
        case "labels":
            return DimensionSchema(name, size, labels=[f"l{i}" for i in range(size or LONGEST)])
        case "numbers":
            return DimensionSchema(name, size, labels=[i * i + 0.5 for i in range(size or LONGEST)])
        case "time":
            return TimeDimensionSchema(name, size, START, STEP)
        case "time by array":
            return TimeDimensionSchema(name, size, "$start", STEP)
    return DimensionSchema(name, size)


def label(kind: str, slot: int, position: int) -> Any:
    """Return the label of a position, by its definition; one past the end is the end of a scale or of time."""
    match kind:
        case "scale":
            return 10.0 + 0.5 * position
        case "down":
            return 90.0 - 0.25 * position
        case "labels":
            return f"l{position}"
        case "numbers":
            return position * position + 0.5
        case "time":
            return START + position * STEP
        case "time by array":
            return START + timedelta(days=slot) + position * STEP
    return position


class Cells(RuleBasedStateMachine):
    """A collection of two arrays, changed by one client and read by another."""

    layout = "hyperslab"
    tiled = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clients: list[Client] = []

    def teardown(self) -> None:
        """Close all, and find nothing wrong."""
        for client in self.clients:
            client.close()
        if self.clients:
            assert not hs.check(self.folder, deep=True)
        shutil.rmtree(self.folder)

    @initialize(
        kinds=lists(sampled_from(KINDS), min_size=1, max_size=3),
        dtype=sampled_from(["<i4", "<f8", "<f4", "|u1", "<c16", "<i8"]),
        fill=sampled_from([None, 7]),
        grows=booleans(),
        draw=data(),
    )
    def make(self, kinds: list[str], dtype: str, fill: int | None, grows: bool, draw: DataObject) -> None:
        """A collection and its arrays, without cells."""
        self.dtype = np.dtype(dtype)
        self.kinds = kinds = [  # DEKER's tiles start one axis with an attribute, not more
            "time" if kind == "time by array" and kind in kinds[:axis] else kind for axis, kind in enumerate(kinds)
        ]
        self.grows = grows and self.layout == "hyperslab" and kinds[0] not in ("labels", "numbers")
        sizes = [draw.draw(integers(1, 6)) for _ in kinds]
        lengths = [None if self.grows and not axis else size for axis, size in enumerate(sizes)]
        dimensions = [
            schema_of(kind, f"d{axis}", size) for axis, (kind, size) in enumerate(zip(kinds, lengths, strict=True))
        ]
        attributes = [AttributeSchema("slot", int, True), AttributeSchema("start", datetime, False)]
        cut: dict[str, Any] = {}
        if self.tiled and self.layout == "hyperslab":
            cut["arrays_shape"] = tuple(draw.draw(integers(1, size)) for size in sizes)
        elif self.tiled:
            cut["vgrid"] = tuple(
                draw.draw(sampled_from([n for n in range(1, size + 1) if not size % n])) for size in sizes
            )
        schema = (VArraySchema if self.tiled else ArraySchema)(
            dimensions, self.dtype, attributes, fill_value=fill, **cut
        )
        self.fill = schema.fill_value
        self.clients = [Client(self.folder, durable=False, workers=2) for _ in range(2)]
        self.clients[0].create_collection("c", schema, layout=self.layout)
        shape = [0 if size is None else size for size in lengths]
        self.models = [np.full(shape, self.fill, self.dtype) for _ in range(KEYS)]
        for slot in range(KEYS):
            self.create(slot)

    def create(self, slot: int) -> None:
        """One array anew."""
        self.array(0, missing=True).create({"slot": slot}, {"start": START + timedelta(days=slot)})

    def array(self, client: int, slot: int = 0, *, missing: bool = False) -> Any:
        """Return an array as a client sees it; the collection if it is ``missing``."""
        collection = self.clients[client].get_collection("c")
        assert collection is not None
        return collection if missing else collection.get(slot=slot)

    def values(self, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
        """Return any cells of the type."""
        return np.random.default_rng(seed).integers(0, 100, shape).astype(self.dtype)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def item(self, draw: DataObject, axis: int, slot: int) -> tuple[Any, Any]:
        """Return one item of a key, and NumPy's for the same cells."""
        size, kind = self.models[slot].shape[axis], self.kinds[axis]
        how = draw.draw(sampled_from(["all", "int", "slice", "label", "labels", "stride"]))
        if how == "all" or not size:
            return slice(None), slice(None)
        if how == "int":
            place = draw.draw(integers(-size, size - 1))
            return place, place
        place = draw.draw(integers(0, size - 1))
        if how == "label":
            return label(kind, slot, place), place
        step = draw.draw(sampled_from([None, 1, 2, 3, -1, -2]))
        if how == "labels" and kind != "plain":
            stop = draw.draw(integers(0, size - 1))
            ends: list[Any] = [place, stop]
            left_out = draw.draw(sampled_from([None, 0, 1]))
            if left_out is not None:
                ends[left_out] = None
            if ends == [None, None]:
                return slice(None, None, step), slice(None, None, step)
            named = [None if end is None else label(kind, slot, end) for end in ends]
            return slice(*named, step), slice(*ends, step)
        if how == "stride" and step is not None:
            wide: Any = {"scale": 0.5 * step, "down": -0.25 * step, "time": STEP * step, "time by array": STEP * step}
            return slice(None, None, wide.get(kind, step)), slice(None, None, step)
        bounds = [draw.draw(sampled_from([None, *range(-size - 1, size + 2)])) for _ in range(2)]
        return slice(*bounds, step), slice(*bounds, step)

    def key(self, draw: DataObject, slot: int) -> tuple[Any, Any]:
        """Return a key, and NumPy's for the same cells; dimensions may be left out at the end or in the middle."""
        items = [self.item(draw, axis, slot) for axis in range(len(self.kinds))]
        ours, theirs = (list(side) for side in zip(*items, strict=True))
        match draw.draw(sampled_from(["whole", "dots", "short"])):
            case "dots":
                place = draw.draw(integers(0, len(ours) - 1))
                ours[place], theirs[place] = ..., slice(None)
            case "short":
                del ours[1:], theirs[1:]
        return (ours[0] if len(ours) == 1 and draw.draw(booleans()) else tuple(ours)), tuple(theirs)

    # -- what is done -------------------------------------------------------------------------------------------------

    @rule(
        draw=data(),
        slot=integers(0, KEYS - 1),
        seed=integers(0, 99),
        how=sampled_from(["cells", "one", "masked", "list"]),
    )
    def update(self, draw: DataObject, slot: int, seed: int, how: str) -> None:
        """Cells of any key, given in any way."""
        key, places = self.key(draw, slot)
        model = self.models[slot]
        given: Any = self.values(model[places].shape, seed)
        wanted = given
        if how == "one":
            given = wanted = self.dtype.type(seed)
        elif how == "masked" and given.ndim:
            mask = np.random.default_rng(seed).random(given.shape) < 0.3
            given, wanted = np.ma.MaskedArray(given, mask), np.where(mask, self.fill, given)
        elif how == "list" and given.size:
            given = given.tolist()
        self.array(0, slot)[key].update(given)
        model[places] = wanted

    @rule(draw=data(), slot=integers(0, KEYS - 1))
    def clear(self, draw: DataObject, slot: int) -> None:
        """Cells of any key become the fill value."""
        key, places = self.key(draw, slot)
        self.array(0, slot)[key].clear()
        self.models[slot][places] = self.fill

    @rule(slot=integers(0, KEYS - 1), count=integers(0, 4), seed=integers(0, 99))
    def append(self, slot: int, count: int, seed: int) -> None:
        """Rows at the end of a dimension that grows."""
        model = self.models[slot]
        if self.grows and len(model) + count <= LONGEST:
            rows = self.values((count, *model.shape[1:]), seed)
            self.array(0, slot).append(rows)
            self.models[slot] = np.concatenate([model, rows])

    @rule(slot=integers(0, KEYS - 1), seed=integers(0, 99), draw=data())
    def assign(self, slot: int, seed: int, draw: DataObject) -> None:
        """Cells of the array that a record holds, by lists of positions and by masks."""
        model = self.models[slot]
        if not model.size:
            return
        places: Any = draw.draw(
            lists(integers(-len(model), len(model) - 1), min_size=1, max_size=4, unique_by=lambda n: n % len(model))
        )
        if draw.draw(booleans()):
            places = np.random.default_rng(seed).random(model.shape) < 0.5
        new = self.values(model[places].shape, seed)
        self.array(0, slot).array[places] = new
        model[places] = new

    @rule(slot=integers(0, KEYS - 1))
    def renew(self, slot: int) -> None:
        """Another array in the place of one: it has none of its cells."""
        self.array(0, slot).delete()
        self.create(slot)
        self.models[slot] = np.full(
            (0, *self.models[slot].shape[1:]) if self.grows else self.models[slot].shape, self.fill, self.dtype
        )

    @rule(which=integers(0, 1))
    def reopen(self, which: int) -> None:
        """A client that is closed and opened."""
        self.clients[which].close()
        self.clients[which] = Client(self.folder, mode="r" if which else "a", durable=False)

    @rule(draw=data(), slot=integers(0, KEYS - 1), client=integers(0, 1))
    def look(self, draw: DataObject, slot: int, client: int) -> None:
        """Cells of any key, and what they are called."""
        key, places = self.key(draw, slot)
        model = self.models[slot]
        part = self.array(client, slot)[key]
        wanted = model[places]
        assert part.shape == wanted.shape
        np.testing.assert_array_equal(part.read(), wanted)
        named = part.describe()
        for axis, kind in enumerate(self.kinds):
            item = places[axis] if axis < len(places) else slice(None)
            along = np.atleast_1d(np.arange(model.shape[axis])[item]).tolist()
            assert list(named[f"d{axis}"]) == [label(kind, slot, place) for place in along]
        if part.shape:
            np.testing.assert_array_equal(part.read_xarray().to_numpy().reshape(wanted.shape), wanted)

    @invariant()
    def same(self) -> None:
        """Both arrays are their models, for a client that changed nothing."""
        for slot, model in enumerate(self.models if self.clients else ()):
            found = self.array(1, slot)[...]
            assert (found.shape, found.dtype) == (model.shape, model.dtype)
            np.testing.assert_array_equal(found.read(), model)


MACHINES = [
    type(f"{layout}{flavour}", (Cells,), {"layout": layout, "tiled": flavour == "VArray"})
    for layout in ("hyperslab", "deker")
    for flavour in ("Array", "VArray")
]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
@pytest.mark.parametrize("count", [3, pytest.param(400, marks=pytest.mark.soak)])
def test_random_cells(machine: type[Cells], count: int) -> None:
    run_state_machine_as_test(
        machine, settings=settings(max_examples=count, stateful_step_count=20, phases=[Phase.generate])
    )
