"""Every file that bloscpack, its older releases, its development version and Blaze wrote: equal to what they put in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blp_files import golden, manifest, truth, write
from numpy.testing import assert_array_equal

import hyperslab as hs
from hyperslab.formats.bloscpack import document, preamble
from hyperslab.formats.bloscpack.dataset import BloscpackReader
from hyperslab.formats.bloscpack.file import LocalFile

NAMES = sorted(manifest())


def same_cells(found: Any, expected: Any) -> None:
    """Equal cells; structures field by field, for ours have no padding."""
    if expected.dtype.names is None:
        assert found.dtype == expected.dtype
        assert_array_equal(found, expected)
        return
    assert found.dtype.names == expected.dtype.names
    for name in expected.dtype.names:
        assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("name", NAMES)
def test_cells(name: str, tmp_path: Path) -> None:
    array = hs.open(write(tmp_path, golden(name)))
    expected = truth(name)
    assert isinstance(array, hs.Array)
    assert array.name == "data"
    if manifest()[name]["kind"] == "bytes":
        assert array[...].tobytes() == expected.tobytes()
    else:
        assert array.shape == expected.shape
        same_cells(array[...], expected)
    for cached in (0, 64 << 20):
        array = hs.open(write(tmp_path, golden(name)), cache_bytes=cached)
        whole = array[...]
        for key in [np.s_[..., 3:17], np.s_[..., ::7], np.s_[1:, ...], np.s_[..., -1:]] if array.ndim else [()]:
            assert_array_equal(array[key], whole[key])
    assert not hs.check(write(tmp_path, golden(name)), deep=True)


@pytest.mark.parametrize("name", NAMES)
def test_metadata(name: str, tmp_path: Path) -> None:
    said = manifest()[name]
    array: Any = hs.open(write(tmp_path, golden(name)))
    expected = said.get("metadata")
    if expected is None:
        assert dict(array.attrs) == {}
    elif len(truth(name).tobytes()) == 8 * expected["shape"][0]:
        assert (array.dtype, list(array.shape)) == (np.dtype(expected["dtype"]), expected["shape"])
    else:  # a user's own words: the bytes are not such an array
        assert (array.dtype, dict(array.attrs)) == (np.dtype("u1"), expected)


@pytest.mark.parametrize("name", NAMES)
def test_what_stands_before_the_chunks_is_written_as_it_was(name: str, tmp_path: Path) -> None:
    data = golden(name)
    file = LocalFile(write(tmp_path, data), name)
    found = preamble.read_preamble(file)
    assert preamble.render_header(found.header) == data[: found.header.size]
    assert found.header.layout in manifest()[name]["layout"].split("|")
    if found.section is not None:
        section = found.section
        text = document.write_text(found.doc or {})
        codec = int("nocodec" not in name)
        again = preamble.render_section(
            text, checksum=section.checksum, codec=codec, level=section.level, room=section.room
        )
        assert again == data[32 : 32 + section.size]
    elif found.doc is not None:
        assert document.write_text(found.doc, spaced=True) == data[32 : 32 + found.header.meta_size]
    if "container" in (found.doc or {}):
        content = BloscpackReader(file).content
        assert document.write_text(document.render_document(content)) == text


def test_padding_is_no_field(tmp_path: Path) -> None:
    array = hs.open(write(tmp_path, golden("struct_aligned_pad.blp")))
    assert array.dtype == np.dtype([("a", "i1"), ("b", "<f8")])
    assert_array_equal(array["b"], truth("struct_aligned_pad.blp")["b"])


def test_version_2_of_the_specification(tmp_path: Path) -> None:
    """The version byte that the specification's layout is written with; the file is otherwise the same."""
    for name in NAMES:
        if name.startswith("old/spec") and not name.endswith("nometa.blp"):
            data = bytearray(golden(name))
            data[4] = 2
            assert_array_equal(hs.open(write(tmp_path, bytes(data)))[...], truth(name))


@pytest.mark.parametrize("name", ["f4_2d_C.blp", "f4_2d_F.blp"])
def test_order(name: str, tmp_path: Path) -> None:
    array: Any = hs.open(write(tmp_path, golden(name)))
    assert array.spec.layout == {}
    assert_array_equal(array[3:5, 7], truth(name)[3:5, 7])
    assert_array_equal(array[[3, 1, 2], ::-2], truth(name)[[3, 1, 2], ::-2])


def test_how_it_is_compressed(tmp_path: Path) -> None:
    for name, cname, shuffle in [
        ("f8_codec_lz4.blp", "lz4", "shuffle"),
        ("f8_codec_zlib.blp", "zlib", "shuffle"),
        ("f8_noshuffle.blp", "blosclz", "noshuffle"),
    ]:
        (codec,) = hs.open(write(tmp_path, golden(name))).codec
        assert (codec.config["cname"], codec.config["shuffle"], codec.config["typesize"]) == (cname, shuffle, 8)
