"""Rows that ``blpk append`` put behind an array, whose shape stays as it was: the old are read, repair takes all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blp_files import blp, chunk, section, text_of, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.errors import FormatError

ROWS = np.round(np.random.default_rng(8).normal(size=(90, 4)), 2)
OLD = ROWS[:50]


def appended(folder: Path, array: np.ndarray[Any, Any], more: bytes, **words: Any) -> str:
    """What bloscpack's own append leaves: the last chunk refilled, more chunks behind, the metadata as they were."""
    stream = array.tobytes("A") + more
    parts = [chunk(stream[at : at + 320]) for at in range(0, len(stream), 320)]
    return write(folder, blp(parts, section(text_of(array, **words)), spare=20))


@pytest.mark.parametrize("count", [51, 60, 90])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_old_rows_are_read_and_all_after_a_repair(tmp_path: Path, count: int, order: str) -> None:
    old, whole = (OLD, ROWS[:count]) if order == "C" else (OLD.T, ROWS[:count].T)
    path = appended(tmp_path, old, ROWS[50:count].tobytes())
    assert_array_equal(hs.open(path)[...], old)
    assert_array_equal(hs.open(path)[..., -3:], old[..., -3:])
    (problem,) = hs.check(path, deep=True)
    assert problem.kind == "longer-than-said" and f"{count - 50} rows that blpk append" in problem.message
    hs.convert(path, tmp_path / "old.zarr", verify=True)
    (mend,) = hs.repair(path)
    assert not mend.done and mend.action == f"make the array {count - 50} rows longer"
    (mend,) = hs.repair(path, dry_run=False)
    assert mend.done
    assert_array_equal(hs.open(path)[...], whole)
    assert not hs.check(path, deep=True)


def test_a_change_before_that_is_refused(tmp_path: Path) -> None:
    path = appended(tmp_path, OLD, ROWS[50:60].tobytes())
    before = Path(path).read_bytes()
    for change in (lambda a: a.append(ROWS[:1]), lambda a: a.attrs.update(b=1), lambda a: a.__setitem__(0, 1)):
        with pytest.raises(FormatError, match="repair it first"):
            change(hs.open(path, "r+"))
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize("labels", [False, True])
def test_what_is_no_row_of_the_array_stays(tmp_path: Path, labels: bool) -> None:
    """Bytes that make no whole row, and rows whose labels nobody knows."""
    coords = {"time": {"dtype": "<i4", "shape": [50], "dims": ["time"], "cells": list(range(50))}}
    words: dict[str, Any] = {"dims": ["time", None], "coords": coords} if labels else {}
    path = appended(tmp_path, OLD, ROWS[50:60].tobytes() if labels else b"12345", **words)
    before = Path(path).read_bytes()
    (mend,) = hs.repair(path, dry_run=False)
    assert (mend.kind, mend.action, mend.done) == ("longer-than-said", None, False)
    assert Path(path).read_bytes() == before
    assert_array_equal(hs.open(path)[...], OLD)


def test_fewer_bytes_than_cells_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, blp([chunk(OLD.tobytes())], section(text_of(OLD).replace(b"[50", b"[51"))))
    assert hs.check(path)
    with pytest.raises(FormatError, match="hold 1600 bytes"):
        hs.open(path)
