"""Batches of many new arrays: the last costs no more than the first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs


@pytest.mark.parametrize(
    ("name", "options"), [("zarr2", {}), ("zarr3", {}), ("nczarr", {}), ("nczarr", {"dialect": "draft"})]
)
def test_an_array_costs_as_many_calls_whatever_waits_in_the_batch(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    root = hs.create(tmp_path / "x", name, durable=False, **options)

    def calls(number: int) -> int:
        count = 0

        def note(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            root.create_array(f"v{number}", shape=(4,), dtype="f4", dims=("x",))
        finally:
            sys.setprofile(None)
        return count

    with root.batch():
        counts = [calls(number) for number in range(60)]
    assert min(counts[-20:]) == min(counts[5:25])  # the least of some: the garbage collector calls things, too
    assert len(list(hs.open(tmp_path / "x"))) == 60
