"""References, text and rows of them through json2, reference_pickle, reference_text and record_text."""

from __future__ import annotations

import json
from typing import Any

import numcodecs
import numpy as np
import pytest
from chains import objects
from hypothesis import given
from hypothesis import strategies as st
from pickles import loaded, stock, theirs

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.pickled import fill_of_pickle
from hyperslab.codecs.references import reference_of, references_of, spelled
from hyperslab.codecs.registry import build_chain
from hyperslab.codecs.vlen import JSON_ZERO, fill_of_json
from hyperslab.errors import CorruptChunk, FormatError, Invalid, UnsafePickle, Unsupported
from hyperslab.formats.zarr2.document import write_codecs
from hyperslab.formats.zarr3.codecs import write_codecs as write_codecs3
from hyperslab.model.cells import same_cells
from hyperslab.model.dtypes import DataType, ObjectRef, RegionRef, VlenBytes, VlenString, tagged
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.regions import Everything, Points, Product, Steps
from hyperslab.model.spec import ArraySpec, Codec

STRING = np.dtypes.StringDType()
OBJECT = np.dtype(object)
ROOT = "11111111-0000-4000-8000-000000000000"
INNER = ObjectReference("/g1/i2", source_object_id=ROOT)
OUTER = ObjectReference("/g1/é", "../other.zarr", "11111111-0000-4000-8000-000000000002", ROOT)
REGION = RegionReference("/g1/i2", Product((Steps(1, 4), (1, 5)), (5, 8)), source_object_id=ROOT)
POINTS = RegionReference("/g1/i2", Points(((0, 1), (0, 1)), (5, 8)), "../other.zarr")
ROW = np.dtype(
    [
        ("id", "<i4"),
        ("weight", "<f4"),
        ("label", tagged(OBJECT, VlenString())),
        ("ref", tagged(OBJECT, ObjectRef())),
    ]
)
ROWS = [(1, 0.5, "zero", INNER), (-7, np.nan, "", None), (2**31 - 1, 3.25, "h\u00e9\u65e5\U0001f600", OUTER)]


def rows(*cells: Any, dtype: np.dtype[Any] = ROW) -> np.ndarray[Any, Any]:
    return np.array(list(cells), dtype)


def made(dtype: DataType, shape: tuple[int, ...], name: str, *more: str, **config: Any) -> Chain:
    return build_chain([Codec(name, config), *map(Codec, more)], ChunkLayout(dtype, shape))


BLOCKS: dict[str, tuple[DataType, np.ndarray[Any, Any]]] = {
    "text": (VlenString(), np.array([["a", "h\u00e9"], ["", "\u65e5\0"]], STRING)),
    "references": (ObjectRef(), objects(INNER, OUTER, None, INNER)),
    "references 2-D": (ObjectRef(), objects(INNER, OUTER, None, INNER, None, OUTER).reshape(2, 3)),
    "rows": (ROW, rows(*ROWS)),
    "rows 2-D": (ROW, rows(*ROWS, ROWS[0]).reshape(2, 2)),
}


def _numcodecs(block: np.ndarray[Any, Any]) -> bytes:
    """The same cells as numcodecs.JSON writes them."""
    if block.dtype.kind == "T":
        return bytes(numcodecs.JSON().encode(block.astype(object)))
    out = np.empty(block.shape, block.dtype)
    for place, cell in enumerate(block.reshape(-1).tolist()):
        cell = tuple(map(_plain, cell)) if isinstance(cell, tuple) else _plain(cell)
        out.reshape(-1)[place] = cell
    return bytes(numcodecs.JSON().encode(out))


def _plain(cell: Any) -> Any:
    return spelled(cell) if isinstance(cell, ObjectReference | RegionReference) else 0 if cell is None else cell


@pytest.mark.parametrize("name", BLOCKS)
def test_json2_writes_and_reads_the_bytes_of_numcodecs(name: str) -> None:
    dtype, block = BLOCKS[name]
    codec = made(dtype, block.shape, "json2", **{k: v for k, v in numcodecs.JSON().get_config().items() if k != "id"})
    data = bytes(codec.encode(block))
    assert data == _numcodecs(block)
    assert same_cells(codec.decode(data), block)


def test_json2_writes_regions() -> None:
    codec = made(RegionRef(), (3,), "json2")
    block = objects(REGION, None, POINTS)
    data = bytes(codec.encode(block))
    assert data == _numcodecs(block)
    assert json.loads(data)[0]["region"]["type"] == "orthogonal"
    assert codec.decode(data).tolist() == block.tolist()


@pytest.mark.parametrize(
    "config", [{"indent": 2}, {"sort_keys": False, "ensure_ascii": False}, {"separators": [", ", ":"]}]
)
def test_json2_writes_as_it_is_configured(config: dict[str, Any]) -> None:
    peer = numcodecs.JSON(**config)
    words = np.array(["b\u00e9", "a"], object)
    codec = made(VlenString(), (2,), "json2", **{k: v for k, v in peer.get_config().items() if k != "id"})
    assert bytes(codec.encode(words.astype(STRING))) == bytes(peer.encode(words))


def test_json2_without_axes_is_one_cell() -> None:
    codec = made(ObjectRef(), (), "json2")
    cell = np.empty((), object)
    cell[()] = INNER
    data = bytes(codec.encode(cell))
    assert json.loads(data)[1:] == ["|O", [1]]
    assert codec.decode(data)[()] == INNER
    assert made(VlenString(), (), "json2").decode(b'["a","|O",[1]]')[()] == "a"


def test_what_was_never_written_is_zero_in_chunks() -> None:
    assert made(ObjectRef(), (3,), "json2").decode(b'[0,null,"","|O",[3]]').tolist() == [None] * 3
    assert made(VlenString(), (2,), "json2").decode(b'[0,null,"|O",[2]]').tolist() == ["", ""]
    found = made(ROW, (3,), "json2").decode(b'[0,[0,0,0,0],[1,null,null,null],"|V24",[3]]')
    assert found.tolist() == [(0, 0, "", None), (0, 0, "", None), (1, 0, "", None)]
    data = stock(np.array([(0, 0, 0, 0)], ROW))
    assert made(ROW, (1,), "reference_pickle").decode(data).tolist() == [(0, 0, "", None)]


@pytest.mark.parametrize(
    "data",
    [
        b'["/g1/i2","|O",[1]]',
        b'[{"source":"."},"|O",[1]]',
        b'[{"path":3},"|O",[1]]',
        b'[{"path":""},"|O",[1]]',
        b'[{"path":"/a","source":1},"|O",[1]]',
        b'[{"path":"/a","source":".","object_id":[],"source_object_id":null},"|O",[1]]',
        b'[{"path":"/a","region":{"type":"all"}},"|O",[1]]',
        b'[{"path":"/a","region":{"type":"some"}},"|O",[1]]',
        b'[[1],"|O",[1]]',
        b'[1,"|O",[1]]',
        b'[false,"|O",[1]]',
    ],
)
def test_json_that_is_no_reference(data: bytes) -> None:
    with pytest.raises(CorruptChunk, match="json2"):
        made(ObjectRef(), (1,), "json2").decode(data)


@pytest.mark.parametrize(
    "row",
    ["[1,2,3]", '["1",0.5,"a",0]', "[1,true,0,0]", "[99999999999,0,0,0]", "[1,0,5,0]", '[1,0,"a","b"]', "5", '"a"'],
)
def test_json_that_is_no_row(row: str) -> None:
    with pytest.raises(CorruptChunk, match="json2"):
        made(ROW, (1,), "json2").decode(f'[{row},"|V24",[1]]'.encode())


def test_cells_that_json_has_no_value_for() -> None:
    with pytest.raises(Invalid, match="bytes"):
        made(VlenBytes(), (1,), "json2")
    for cell in ("/g1", REGION, {"path": "/g1"}):
        with pytest.raises(Invalid, match="object reference"):
            made(ObjectRef(), (1,), "json2").encode(objects(cell))
    with pytest.raises(Invalid, match=r"string"):
        made(ROW, (1,), "json2").encode(rows((1, 0, 5, None)))


def test_references_keep_what_they_know() -> None:
    for reference in (INNER, OUTER, REGION, POINTS):
        found = reference_of(json.loads(json.dumps(spelled(reference))) | {"more": 1})
        assert spelled(found) == spelled(reference)
    assert reference_of({"path": "g1"}) == ObjectReference("/g1")
    assert references_of([{"path": "g1", "source": "", "object_id": None, "source_object_id": None}]) == [
        ObjectReference("/g1")
    ]
    assert references_of([spelled(INNER), spelled(REGION)]) == [INNER, REGION]
    for nonsense in (None, 5, "x", [], {}, {"path": "/a", "object_id": 5}):
        with pytest.raises(FormatError):
            reference_of(nonsense)


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("protocol", [4, 5])
def test_pickles_are_those_of_peers(name: str, protocol: int) -> None:
    dtype, block = BLOCKS[name]
    codec = made(dtype, block.shape, "reference_pickle", protocol=protocol)
    plain = block.astype(object) if block.dtype.kind == "T" else block
    assert same_cells(codec.decode(stock(plain, protocol)), block)
    data = bytes(codec.encode(block))
    assert same_cells(codec.decode(data), block)
    found = loaded(data)
    assert found.dtype == plain.dtype
    assert found.shape == block.shape
    assert str(found.tolist()) == str(_each(block, theirs))


def _each(block: np.ndarray[Any, Any], change: Any) -> Any:
    out = np.empty(block.shape, object)
    for place, cell in enumerate(block.reshape(-1).tolist()):
        out.reshape(-1)[place] = change(cell)
    return out.tolist()


def test_pickles_of_an_old_protocol() -> None:
    _, block = BLOCKS["rows"]
    assert same_cells(made(ROW, (3,), "reference_pickle").decode(stock(block, 3)), block)
    with pytest.raises(UnsafePickle, match=r"_codecs\.encode"):  # how protocol 2 spells bytes
        made(ROW, (3,), "reference_pickle").decode(stock(block, 2))


FIXED = np.dtype([("b", "?"), ("i", "<i8"), ("u", ">u2"), ("f", "<f8"), ("t", "<U3"), ("s", "S2"), ("r", ROW["ref"])])


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.integers(0, 2**16 - 1),
            st.floats(),
            st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=3),
            st.binary(max_size=2).filter(lambda cell: not cell.endswith(b"\0")),
            st.none() | st.builds(ObjectReference, st.text(min_size=1).map("/{}".format), st.text(min_size=1)),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_rows_of_all_kinds_through_pickles(cells: list[Any]) -> None:
    block = rows(*cells, dtype=FIXED)
    codec = made(FIXED, block.shape, "reference_pickle")
    data = bytes(codec.encode(block))
    assert str(loaded(data).tolist()) == str([theirs(cell) for cell in block.tolist()])
    assert str(codec.decode(data).tolist()) == str(block.tolist())
    assert str(codec.decode(stock(block)).tolist()) == str(block.tolist())


def test_pickles_of_other_arrays() -> None:
    data = stock(objects(INNER, OUTER))
    with pytest.raises(CorruptChunk, match="shape"):
        made(ObjectRef(), (3,), "reference_pickle").decode(data)
    with pytest.raises(CorruptChunk, match="fields"):
        made(ROW, (2,), "reference_pickle").decode(data)
    with pytest.raises(CorruptChunk, match="ObjectReference"):
        made(VlenString(), (2,), "reference_pickle").decode(data)
    with pytest.raises(Invalid, match="region"):
        made(RegionRef(), (2,), "reference_pickle")
    with pytest.raises(Invalid, match="int32"):
        made(np.dtype("i4"), (2,), "reference_pickle")


def test_fill_values_of_rows() -> None:
    assert fill_of_json(JSON_ZERO) == 0
    assert fill_of_json(bytes(numcodecs.JSON().encode(np.array(0)))) == 0
    assert fill_of_pickle(bytes(numcodecs.Pickle(protocol=5).encode(0))) == 0
    for data in (b"", b"{}", b"[]", b'[{"a":1}]', b"[" * 100_000):
        with pytest.raises(FormatError):
            fill_of_json(data)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, ""),
        (INNER, "/g1/i2"),
        (OUTER, '{"path":"/g1/\\u00e9","source":"../other.zarr"}'),
    ],
)
def test_references_as_text(cell: Any, text: str) -> None:
    codec = made(ObjectRef(), (1,), "reference_text", "vlen-utf8")
    data = bytes(codec.encode(objects(cell)))
    assert data[8:].decode() == text
    assert codec.decode(data).tolist() == [cell]


def test_references_as_peers_of_zarr_v3_write_them() -> None:
    golden = b"\x03\0\0\0\x06\0\0\0/g1/i2\x03\0\0\0/g1\x06\0\0\0/g1/i2"
    codec = made(ObjectRef(), (3,), "reference_text", "vlen-utf8")
    block = codec.decode(golden)
    assert block.tolist() == [ObjectReference(path) for path in ("/g1/i2", "/g1", "/g1/i2")]
    assert bytes(codec.encode(block)) == golden


def test_regions_as_text() -> None:
    codec = made(RegionRef(), (3,), "reference_text", "vlen-utf8")
    block = objects(REGION, None, RegionReference("/a", Everything((5, 8))))
    data = bytes(codec.encode(block))
    assert codec.decode(data).tolist() == block.tolist()
    assert b'{"path":"/a","region":{"shape":[5,8],"type":"all"},"source":"."}' in data


@pytest.mark.parametrize("text", ["{", "{}", '{"path":1}', '{"path":"/a","region":{"type":"all"}}', "{" * 100_000])
def test_text_that_is_no_reference(text: str) -> None:
    data = bytes(made(VlenString(), (1,), "vlen-utf8").encode(np.array([text], STRING)))
    with pytest.raises(CorruptChunk, match="reference_text"):
        made(ObjectRef(), (1,), "reference_text", "vlen-utf8").decode(data)
    with pytest.raises(CorruptChunk, match="reference_text"):
        plain = bytes(made(VlenString(), (1,), "vlen-utf8").encode(np.array(["/a"], STRING)))
        made(RegionRef(), (1,), "reference_text", "vlen-utf8").decode(plain)


def test_rows_as_packed_text() -> None:
    codec = build_chain(
        [Codec("record_text", {"widths": {"label": 512, "ref": 600}}), Codec("bytes", {"endian": "little"})],
        ChunkLayout(ROW, (3,)),
    )
    data = bytes(codec.encode(rows(*ROWS)))
    stored = np.frombuffer(data, [("id", "<i4"), ("weight", "<f4"), ("label", "<U512"), ("ref", "<U600")])
    assert stored["label"].tolist() == [row[2] for row in ROWS]
    assert stored["ref"].tolist()[:2] == ["/g1/i2", ""]
    assert same_cells(codec.decode(data), rows(*ROWS))


def test_rows_are_never_cut() -> None:
    chain = [Codec("record_text", {"widths": {"label": 3, "ref": 40}}), Codec("bytes", {"endian": "little"})]
    codec = build_chain(chain, ChunkLayout(ROW, (1,)))
    for label, said in (("four", "4 characters.*'label'"), ("a\0", "NUL")):
        with pytest.raises(Invalid, match=said):
            codec.encode(rows((1, 0, label, None)))
    with pytest.raises(Invalid, match="'ref'"):
        codec.encode(rows((1, 0, "a", OUTER)))
    for widths in (None, {}, {"label": 3}, {"label": 3, "ref": 0}, {"label": 3, "ref": 4, "id": 4}):
        with pytest.raises(Invalid, match="widths"):
            made(ROW, (1,), "record_text", "bytes", widths=widths)


def test_rows_in_shards() -> None:
    inner = {"chunk_shape": [2], "codecs": [Codec("bytes", {"endian": "little"})]}
    chain = [Codec("record_text", {"widths": {"label": 512, "ref": 512}}), Codec("sharding_indexed", inner)]
    codec = build_chain(chain, ChunkLayout(ROW, (4,)))
    block = rows(*ROWS[:1], ROWS[2], (0, 0, "", None), (0, 0, "", None))
    assert same_cells(codec.decode(codec.encode(block)), block)


def test_unwritten_rows_are_empty() -> None:
    spec = ArraySpec(shape=(2,), dtype=ROW, chunks=(2,))
    assert spec.fill_cell()[()].tolist() == (0, 0, "", None)
    assert ArraySpec(shape=(2,), dtype=ObjectRef(), chunks=(2,)).fill_cell()[()] is None


@pytest.mark.parametrize("name", ["reference_pickle", "reference_text", "record_text"])
def test_plain_zarr_does_not_write_them(name: str) -> None:
    with pytest.raises(Unsupported, match=name):
        write_codecs([Codec(name)], 1)
    with pytest.raises(Unsupported, match=name):
        write_codecs3([Codec(name)])
