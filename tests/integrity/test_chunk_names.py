"""Names in an array's folder, read backwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import DEFAULTS
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr3.codecs import chunk_keys
from hyperslab.integrity.stored_chunks import ChunkNames, looks_like_chunks
from hyperslab.stores.memory import MemoryStore

RULES = [("default", "/"), ("default", "."), ("v2", "."), ("v2", "/")]


@given(rule=st.sampled_from(RULES), coords=st.lists(st.integers(0, 10**6), max_size=4).map(tuple))
def test_every_key_is_read_back(rule: tuple[str, str], coords: tuple[int, ...]) -> None:
    key_of = chunk_keys(*rule, len(coords))
    names = ChunkNames(key_of, Grid.of((5,) * len(coords), (1,) * len(coords)))
    assert names.coords(key_of(coords)) == coords
    assert names.within(coords) == all(index < 5 for index in coords)


@pytest.mark.parametrize("rule", RULES)
def test_other_spellings_are_told_from_strangers(rule: tuple[str, str]) -> None:
    key_of = chunk_keys(*rule, 2)
    names = ChunkNames(key_of, Grid.of((8, 8), (2, 2)))
    for spelled in ("c/1/2", "c.1.2", "1.2", "1/2", "01.2", "c/1.2"):
        assert names.meant(spelled) == (1, 2)
        assert (names.coords(spelled) is not None) == (spelled == key_of((1, 2)))
    for strange in ("1", "1.2.3", "a", "1.2.txt", "-1.2", "c", "1..2", "1" * 5000, "٣.٤"):
        assert names.meant(strange) is None
        assert names.coords(strange) is None


SPELLINGS = ["c/1/2", "c.1.2", "1.2", "1/2", "01.2", "c/1.2", "c/0/1.2", "1.2.3", "1", "c", "1..2", "9" * 19 + ".0"]
STRANGE = ["tile_1_2", "tile_01_2", "xtile_1_2", "tile_1_2.part", "1" * 20 + ".2", "1" * 5000, "٣.٤", "-1.2"]


@pytest.mark.parametrize("rule", [*RULES, None])
def test_check_and_listing_read_the_same_keys(rule: tuple[str, str] | None) -> None:
    """Which keys are chunks is one question, whoever's the key rule is."""
    key_of = "tile_%d_%d".__mod__ if rule is None else chunk_keys(*rule, 2)
    store = MemoryStore()
    for spelled in (*SPELLINGS, *STRANGE):
        store.put(f"a/{spelled}", b"")
    names = ChunkNames(key_of, Grid.of((8, 8), (2, 2)))
    by_name = [names.coords(spelled) for spelled in (*SPELLINGS, *STRANGE)]
    listed = set(ChunkKeys(store, "a", key_of, DEFAULTS).stored(2))
    assert listed == {coords for coords in by_name if coords is not None}
    assert (1, 2) in listed


def test_folders() -> None:
    names = ChunkNames(chunk_keys("default", "/", 2), Grid.of((8, 8), (2, 2)))
    assert [names.leads_to_keys(folder) for folder in ("c", "c/0", "0", "c/0/0", "old", "c/x")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert looks_like_chunks(["0.0"], []) and looks_like_chunks([], ["c"])
    assert not looks_like_chunks(["notes.txt"], ["pictures"])
