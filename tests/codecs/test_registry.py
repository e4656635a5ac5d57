"""The table of codecs: each has one kind and its spellings, and works in the formats that spell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from chains import TAILS, Case, as_list, cases, same

import hyperslab as hs
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, BytesToBytes
from hyperslab.codecs.registry import (
    ALIASES,
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
from hyperslab.formats.zarr3.codecs import COMMON

CASES = cases()
SPELLED = {"zarr2": ZARR2_NAMES, "zarr3": ZARR3_NAMES}
NEEDED = {"bitround": "9"}
"""Words that need a value."""
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


@pytest.mark.parametrize("name", sorted(ALIASES.keys() - {"endian", "vlen_utf8"}))
def test_numcodecs_has_what_is_read_as_its_own(name: str) -> None:
    known = numcodecs.registry.codec_registry.keys() | numcodecs.registry.entries.keys()
    assert name.startswith("numcodecs.") and ALIASES[name] == name.removeprefix("numcodecs.")
    assert ALIASES[name] in known, f"{name}: Zarr v2 and NUMCODECS have names of numcodecs alone"


def test_codecs_on_bytes_that_each_reader_of_zarr3_knows_are_zarr_pythons_own() -> None:
    registry = pytest.importorskip("zarr.registry")
    for name in COMMON:
        assert CODECS[name].kind is BytesToBytes and ZARR3_NAMES[name] == name
        assert registry.get_codec_class(name).__module__.startswith("zarr.codecs.")


@pytest.mark.parametrize("name", TAILS)
def test_the_table_tells_which_codecs_notice_damage(name: str) -> None:
    """``check`` goes by it where a chunk does not decode. Zstandard and LZMA notice it in some of their forms alone."""
    codecs, sound = TAILS[name]
    is_checked = any(CODECS[codec.name].is_checked for codec in as_list(codecs))
    assert is_checked == sound or name in {"zstd checksum", "lzma alone", "lzma raw"}


def test_the_table_tells_what_each_compressor_notices() -> None:
    compressors = {name: entry for name, entry in CODECS.items() if entry.is_compressor}
    assert not {name for name, entry in compressors.items() if not (entry.is_checked or entry.is_measured)}
    # LZ4 has a length alone before it
    assert {name for name, entry in compressors.items() if not entry.is_self_describing} == {"lz4"}


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
    codec = f"{word}:{NEEDED.get(word, '')}".rstrip(":")
    if word not in SPELLED[format]:
        with pytest.raises(Unsupported, match=word):
            written(tmp_path, format, data, "f4", codec)
        return
    assert same(written(tmp_path, format, data, "f4", codec), data)
