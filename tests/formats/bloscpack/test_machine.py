"""Any sequence of changes to a bloscpack file against a NumPy array and a dict."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import hyperslab as hs

DTYPES = ("f8", ">i2", "u1", "S3", "c8", [("a", "i1"), ("b", ">f4", (2,))])
CHECKSUMS = ("adler32", "none", "crc32", "sha256")


class Files(RuleBasedStateMachine):
    """One file, opened for writing, and what should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "x.blp")
        self.random = np.random.default_rng(0)
        self.depth = 0

    def values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        dtype = self.expected.dtype
        if dtype.names:
            raw = self.random.integers(0, 3, (*shape, dtype.itemsize), np.uint8)
            return np.ascontiguousarray(raw).view(dtype).reshape(shape)
        return self.random.integers(0, 5, shape).astype(dtype)

    @initialize(
        rows=st.integers(0, 9),
        columns=st.integers(1, 4),
        cut=st.integers(1, 4),
        dtype=st.sampled_from(DTYPES),
        layout=st.sampled_from(["v3", "blaze"]),
        checksum=st.sampled_from(CHECKSUMS),
        offsets=st.booleans(),
        slack=st.sampled_from([0, 7, 0.5, "full"]),
        order=st.sampled_from(["C", "F"]),
        seed=st.integers(0, 99),
    )
    def make(self, rows: int, columns: int, cut: int, dtype: Any, order: str, seed: int, **options: Any) -> None:
        self.random = np.random.default_rng(seed)
        shape = (rows, columns) if order == "C" else (columns, rows)
        self.expected: np.ndarray[Any, Any] = np.zeros(shape, dtype)
        self.expected = self.values(shape)
        self.axis = 0 if order == "C" else 1
        chunks = (cut, columns) if order == "C" else (columns, cut)
        self.slack = options["slack"]
        self.attrs: dict[str, Any] = {}
        with hs.create(self.path, order=order, durable=False, **options) as root:
            root.create_array("x", data=self.expected, chunks=chunks, dims=("r", "c"))
        self.open()

    def open(self) -> None:
        self.root: Any = hs.open_group(self.path, "r+", durable=False, slack=self.slack)
        self.array: Any = self.root["x"]

    def apply(self, change: Any) -> None:
        change()
        self.array.refresh()

    @rule(data=st.data())
    def modify(self, data: st.DataObject) -> None:
        key = tuple(
            slice(*sorted(data.draw(st.tuples(*[st.integers(0, length)] * 2)))) for length in self.expected.shape
        )
        values = self.values(self.expected[key].shape)
        self.expected[key] = values
        self.array[key] = values

    @rule(rows=st.integers(0, 6))
    def append(self, rows: int) -> None:
        shape = list(self.expected.shape)
        shape[self.axis] = rows
        values = self.values(tuple(shape))
        self.expected = np.concatenate([self.expected, values], self.axis, dtype=values.dtype)
        self.array.append(values, self.axis)

    @rule(rows=st.integers(0, 12), columns=st.integers(1, 5), both=st.booleans())
    def resize(self, rows: int, columns: int, both: bool) -> None:
        shape = list(self.expected.shape)
        shape[self.axis] = rows
        if both:
            shape[1 - self.axis] = columns
        found = np.zeros(shape, self.expected.dtype)
        kept = tuple(slice(0, min(pair)) for pair in zip(shape, self.expected.shape, strict=True))
        found[kept] = self.expected[kept]
        self.expected = found
        self.array.resize(tuple(shape))

    @rule(name=st.sampled_from("abc"), value=st.one_of(st.integers(), st.text(max_size=200), st.just(np.float32(1.5))))
    def note(self, name: str, value: Any) -> None:
        self.attrs[name] = value
        self.array.attrs[name] = value

    @rule(rows=st.integers(1, 3), key=st.integers(0, 20), fails=st.booleans())
    def batch(self, rows: int, key: int, fails: bool) -> None:
        with self.root.batch():
            self.append(rows)
            self.modify_row(key % self.expected.shape[self.axis])
            if fails:
                with suppress(hs.errors.Invalid):
                    self.array.append(np.zeros((1, 99)))
            self.note("batch", key)
            self.array.refresh()
            assert self.array[...].tobytes() == self.expected.tobytes()

    def modify_row(self, row: int) -> None:
        key = (row,) if self.axis == 0 else (slice(None), row)
        values = self.values(self.expected[key].shape)
        self.expected[key] = values
        self.array[key] = values

    @rule()
    def reopen(self) -> None:
        self.root.close()
        self.open()

    @invariant()
    def is_what_it_should_be(self) -> None:
        if not hasattr(self, "array"):
            return
        for array in (self.array, hs.open(self.path)):
            assert array.shape == self.expected.shape
            assert array.dtype == self.expected.dtype
            assert array[...].tobytes() == self.expected.tobytes()
            assert dict(array.attrs) == self.attrs
        assert os.listdir(self.folder) == ["x.blp"]

    def teardown(self) -> None:
        if Path(self.path).exists():
            assert not hs.check(self.path, deep=True)
        shutil.rmtree(self.folder)


TestFiles = Files.TestCase
TestFiles.settings = settings(
    max_examples=min(settings.default.max_examples, 60),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
