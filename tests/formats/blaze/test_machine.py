"""A directory is changed step by step as a NumPy array is; in between it is opened anew, and read by others."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import booleans, data, integers, lists, sampled_from
from spec_reader import read

import hyperslab as hs
from examples import at_most

NESTED = np.dtype([("a", "<i2"), ("b", [("c", "<f4", (2,)), ("d", "S3")])])
_MOST = 60


def cells(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Any cells of a type."""
    size = int(np.prod(shape))
    raw = np.random.default_rng(seed).integers(1, 60, size * dtype.itemsize, "u1")
    return raw.view(dtype).reshape(shape) if size else np.empty(shape, dtype)


class Directory(RuleBasedStateMachine):
    """One array of rows."""

    layout = "blaze"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.place = self.folder / "a.blaze"
        self.root: Any = None

    def teardown(self) -> None:
        """Remove everything."""
        if self.root is not None:
            self.root.close()
        shutil.rmtree(self.folder)

    @property
    def array(self) -> Any:
        """The array as it is open."""
        return self.root["v"]

    @initialize(
        dtype=sampled_from([np.dtype("<f8"), np.dtype(">i2"), NESTED]),
        rest=sampled_from([(), (3,), (2, 2)]),
        rows=integers(0, 20),
        chunk=integers(1, 7),
        superchunk=integers(1, 4),
        checksum=sampled_from(["none", "adler32", "sha1"]),
    )
    def make(self, dtype: Any, rest: Any, rows: int, chunk: int, superchunk: int, checksum: str) -> None:
        """A new one; nothing is written to it."""
        bcolz = self.layout == "bcolz"
        self.dtype = np.dtype("<f8") if bcolz and dtype.names else dtype
        options = {} if bcolz else {"superchunk": superchunk, "checksum": checksum}
        self.fill = cells(self.dtype, (1,), 99)[0]
        self.root = hs.create(self.place, layout=self.layout, durable=False, **options)
        shape = (rows, *rest)
        self.root.create_array("v", shape=shape, dtype=self.dtype, chunks=(chunk, *rest), fill_value=self.fill)
        self.model = np.full(shape, self.fill, self.dtype)

    @rule(data=data(), seed=integers(0, 99))
    def modify(self, data: Any, seed: int) -> None:
        """Some rows, with a step."""
        start, stop = sorted((data.draw(integers(0, len(self.model))), data.draw(integers(0, len(self.model)))))
        key = slice(start, stop, data.draw(integers(1, 3)))
        values = cells(self.dtype, self.model[key].shape, seed)
        self.array[key] = values
        self.model[key] = values

    @rule(seed=integers(0, 99), place=integers(0, 99))
    def modify_a_field(self, seed: int, place: int) -> None:
        """One row of one field, where there are fields."""
        if self.dtype.names is None or not len(self.model):
            return
        values = cells(np.dtype("<i2"), self.model.shape[1:], seed)
        self.array["a", place % len(self.model)] = values
        self.model["a"][place % len(self.model)] = values

    @rule(count=integers(0, 15), seed=integers(0, 99))
    def append(self, count: int, seed: int) -> None:
        """Rows at the end."""
        if len(self.model) + count <= _MOST:
            values = cells(self.dtype, (count, *self.model.shape[1:]), seed)
            self.array.append(values)
            self.model = np.concatenate([self.model, values]).astype(self.dtype)

    @rule(rows=integers(0, _MOST))
    def resize(self, rows: int) -> None:
        """Longer or shorter."""
        self.array.resize((rows, *self.model.shape[1:]))
        grown = np.full((rows, *self.model.shape[1:]), self.fill, self.dtype)
        common = min(rows, len(self.model))
        grown[:common] = self.model[:common]
        self.model = grown

    @rule(data=data())
    def remove(self, data: Any) -> None:
        """A range of rows."""
        start, stop = sorted((data.draw(integers(0, len(self.model))), data.draw(integers(0, len(self.model)))))
        self.array.remove(slice(start, stop))
        self.model = np.delete(self.model, slice(start, stop), axis=0)

    @rule(how=sampled_from(["r+", "read"]))
    def reopen(self, how: str) -> None:
        """Closed, it is whole: every reader reads it."""
        self.root.close()
        if how == "read":
            assert read(self.place).tobytes() == self.model.tobytes()
            assert not hs.check(self.place, deep=True)
        self.root = hs.open_group(self.place, "r+", durable=False)

    @rule(value=integers())
    def attribute(self, value: int) -> None:
        """Documents change beside the cells."""
        self.array.attrs["n"] = value
        assert self.array.attrs["n"] == value

    @rule(picks=lists(integers(0, 10**6), max_size=5), backwards=booleans())
    def look(self, picks: list[int], backwards: bool) -> None:
        """Some rows, in any order; by another who reads while this one writes."""
        if len(self.model):
            rows = [pick % len(self.model) for pick in picks]
            for array in (self.array, hs.open_array(self.place)):
                assert array[rows].tobytes() == self.model[rows].tobytes()
                assert array[:: -1 if backwards else 2].tobytes() == self.model[:: -1 if backwards else 2].tobytes()

    @invariant()
    def same(self) -> None:
        """The array is the model."""
        if self.root is not None:
            assert self.array.shape == self.model.shape
            assert self.array[...].tobytes() == self.model.tobytes()


class BcolzDirectory(Directory):
    """The same for bcolz."""

    layout = "bcolz"


@pytest.mark.sampled(0)
@pytest.mark.parametrize("machine", [Directory, BcolzDirectory])
def test_machine(machine: type) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=at_most(12, 40), stateful_step_count=25))
