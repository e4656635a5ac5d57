"""The table of codecs: each has one kind and its spellings, and works in the formats that spell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from chains import Case, cases
from test_round_trip import same

import hyperslab as hs
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, BytesToBytes
from hyperslab.codecs.registry import (
    CODECS,
    MAKERS,
    NUMCODECS,
    PARAMETERS,
    REFUSED,
    ZARR2_NAMES,
    ZARR3_NAMES,
    CodecEntry,
)
from hyperslab.errors import Unsupported

CASES = cases()
SPELLED = {"zarr2": ZARR2_NAMES, "zarr3": ZARR3_NAMES}
# Zarr v2 says these otherwise: by its dtype and its order
UNSAID = {"zarr2": {"bytes", "transpose"}, "zarr3": {"vlen-array"}}
INTERNAL = {name for name, entry in CODECS.items() if not (entry.zarr2 or entry.zarr3 or entry.refused)}


@pytest.mark.parametrize("name", CODECS)
def test_every_codec_has_one_kind_and_one_spelling(name: str) -> None:
    entry = CODECS[name]
    assert (entry.make is None) == bool(entry.refused) == (name in REFUSED)
    if entry.make is None:
        return
    kinds = (ArrayToArray, ArrayToBytes, BytesToBytes)
    assert entry.kind in kinds
    made: Any = entry.made or entry.make
    assert sum(issubclass(made, kind) for kind in kinds) == 1
    for spellings in SPELLED.values():
        assert list(spellings.values()).count(spellings.get(name)) == (name in spellings)


def test_an_entry_must_tell_the_kind() -> None:
    with pytest.raises(TypeError, match="no kind"):
        _ = CodecEntry(make=lambda config, cells: MAKERS["lz4"](config, cells)).kind


@pytest.mark.parametrize("name", [name for name, entry in CODECS.items() if entry.zarr3 == NUMCODECS])
def test_numcodecs_has_what_is_spelled_as_its_own(name: str) -> None:
    assert name in numcodecs.registry.codec_registry or name in numcodecs.registry.entries


def test_codecs_that_no_document_names_are_refused(tmp_path: Path) -> None:
    assert INTERNAL
    for format in SPELLED:
        with hs.create(tmp_path / format, format=format) as root:
            for name in INTERNAL:
                with pytest.raises(Unsupported, match=name):
                    root.create_array(name, (2,), "f4", codec={"name": name})


def test_every_codec_has_a_case() -> None:
    used = {codec.name for case in CASES.values() for codec in case.codecs}
    # json2 has lists of lists, which its own tests know
    assert set(MAKERS) - used - INTERNAL == {"json2"}
    assert all(made_class(case) for case in CASES.values())


def made_class(case: Case) -> bool:
    """Whether the makers of a case give what the table says they do."""
    from hyperslab.codecs.base import ChunkLayout

    codec = case.codecs[0]
    made = MAKERS[codec.name](codec.config, ChunkLayout(case.dtype, case.block.shape))
    return isinstance(made, CODECS[codec.name].kind or ())


def written(place: Path, format: str, data: Any, dtype: Any, codec: Any) -> Any:
    """The cells of a new array, opened again."""
    with hs.create(place, format=format) as root:
        root.create_array("a", data=data, dtype=dtype, chunks=data.shape, codec=codec)
    with hs.open(place) as root:
        return root["a"][...]


@pytest.mark.parametrize("format", SPELLED)
@pytest.mark.parametrize("name", CASES)
def test_every_chain_in_a_dataset(tmp_path: Path, name: str, format: str) -> None:
    case = CASES[name]
    names = {codec.name for codec in case.codecs}
    if lacks := names - set(SPELLED[format]) - UNSAID[format]:
        with pytest.raises(Unsupported, match="|".join(lacks)):
            written(tmp_path, format, case.block, case.dtype, list(case.codecs))
        return
    if format == "zarr3" and name == "viewed delta":
        with pytest.raises(hs.HyperslabError, match="order"):  # only Zarr v2 lets filters stand behind compressors
            written(tmp_path, format, case.block, case.dtype, list(case.codecs))
        return
    assert same(written(tmp_path, format, case.block, case.dtype, list(case.codecs)), case.block)


@pytest.mark.parametrize("format", SPELLED)
@pytest.mark.parametrize("word", PARAMETERS)
def test_every_word_in_a_dataset(tmp_path: Path, word: str, format: str) -> None:
    data = np.arange(24, dtype="f4").reshape(4, 6)
    assert same(written(tmp_path, format, data, "f4", f"{word}:{'9' if word == 'bitround' else ''}".rstrip(":")), data)
