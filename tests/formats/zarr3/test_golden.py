"""Every array and group that zarr-python, tensorstore and zarrs wrote in format 3 reads as it was written."""

from __future__ import annotations

import zipfile

import pytest

from golden import FOLDER, arrays, check, plain, read_all, truth
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, NodeNotFound, Unsupported
from hyperslab.formats.zarr3 import FORMAT
from hyperslab.model.spec import GroupSpec
from hyperslab.stores.location import Location, Probe

NAME = "zarr3/zarr3.4.2_v3.zip"
PLACE = FOLDER / NAME
PART = {
    "chunk_long": "wrong (length|size)",
    "chunk_short": "wrong (length|size)",
    "chunk_zero": "chunk_shape",
    "codec_unknown": "example.no_such",
    "crc_bad": "checksum",
    "dims_count": "dimension_names",
    "dtype_unknown": "example.no_such",
    "endian_missing": "endian",
    "ext_key_default": "my-ext",
    "ext_key_must_understand": "my-ext",
    "ext_key_plain": "my-ext",
    "fill_null": "fill_value",
    "fill_range": "2147483648",
    "fill_string": "'7'",
    "format_4": "zarr_format is 4",
    "grid_unknown": "example.no_such",
    "gzip_bad": "gzip",
    "keys_unknown": "example.no_such",
    "ndim_mismatch": "chunk_shape",
    "no_codecs": "no codec",
    "no_fill": "fill_value is missing",
    "node_type": "node_type",
    "order_wrong": "order",
    "rectilinear_short": "do not reach",
    "shape_negative": "shape",
    "shard_index_crc": "checksum",
    "shard_index_range": "outside",
    "shard_no_division": "does not divide",
    "shard_short": "size",
    "storage_transformer": "example.no_such",
    "transpose_bad": "permutation",
    "two_array_bytes": "make bytes",
    "zstd_short": "zstd",
}


@pytest.fixture(scope="module")
def reader():
    opened = FORMAT.open(Location.of(PLACE), "r")
    yield opened
    opened.close()


def test_all_are_there():
    assert len(arrays(NAME)) == 513


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", arrays(NAME))
def test_array(reader, path):
    said = truth(NAME)[path]
    spec = reader.node(path)
    assert spec.problem is None
    if "dimension_names" in said:
        assert list(spec.dims) == said["dimension_names"]
    if "attributes" in said:
        assert {name: plain(value) for name, value in spec.attrs.items()} == said["attributes"]
    check(read_all(reader, path), said)


@pytest.mark.parametrize(("path", "said"), truth(NAME)["_groups"].items())
def test_group(reader, path, said):
    spec = reader.node(path)
    assert isinstance(spec, GroupSpec)
    assert {name: plain(value) for name, value in spec.attrs.items()} == said["attributes"]


@pytest.mark.parametrize("path", truth(NAME)["_refuse"])
def test_refused_with_its_cause(reader, path):
    with pytest.raises(HyperslabError, match=PART[path.partition("/")[2]]) as caught:
        read_all(reader, path)
    assert isinstance(caught.value, FormatError | CorruptChunk | Unsupported)
    assert path in caught.value.place


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("implicit", ["x"]),
        ("implicit/x", ["y", "z"]),
        ("partial", ["m", "q"]),
        ("partial/m/n", ["arr", "g"]),
        ("consolidated_empty", []),
        ("consolidated_null", ["a"]),
        ("consolidated_stale", ["gone", "old"]),
        ("consolidated_sub", ["b", "in"]),
        ("consolidated_sub/in", ["a"]),
    ],
)
def test_children(reader, group, names):
    assert list(reader.children(group)) == names


def test_stale_consolidated_metadata(tmp_path):
    """What it does not list is looked up; what it lists but is gone is missed when its cells are asked for."""
    with zipfile.ZipFile(PLACE) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("consolidated_stale/")])
    stale = FORMAT.open(Location.of(tmp_path / "consolidated_stale"), "r")
    assert list(stale.children("")) == ["gone", "old"]
    assert stale.node("new").shape == (5,)
    check(read_all(stale, "new"), truth(NAME)["consolidated_stale/new"])
    with pytest.raises(NodeNotFound, match="only consolidated metadata"):
        stale.chunks("gone")
    with pytest.raises(NodeNotFound):
        stale.node("gone")


def test_implicit_root_is_recognised():
    assert FORMAT.sniff(Probe(Location.of(PLACE)))
