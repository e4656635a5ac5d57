"""Pickles that are no references: nothing in them is run, whatever they hold, in bounded memory."""

from __future__ import annotations

import builtins
import pickle
import resource
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pickles import stock

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.pickled import PickleLimits, fill_of_pickle, read_pickled
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import CorruptChunk, FormatError, UnsafePickle
from hyperslab.model.dtypes import ObjectRef, VlenString, tagged
from hyperslab.model.refs import ObjectReference
from hyperslab.model.spec import Codec

OBJECT = np.dtype(object)
ROW = np.dtype([("id", "<i4"), ("label", tagged(OBJECT, VlenString())), ("ref", tagged(OBJECT, ObjectRef()))])
CELLS = np.fromiter([ObjectReference(f"/g1/i{i}", ".", None, "1111") for i in range(3)], object, 3)
ROWS = np.array([(i, f"label {i}", cell) for i, cell in enumerate(CELLS)], ROW)


class Evil:
    """Sets the canary when it is unpickled as usual."""

    def __reduce__(self) -> Any:
        return exec, ("import builtins; builtins.HDMF_PWNED = 1",)


def _array(*cells: Any) -> bytes:
    return pickle.dumps(np.fromiter(cells, object, len(cells)), 5)


def _text(word: bytes) -> bytes:
    return b"\x8c" + bytes([len(word)]) + word


def _name(module: bytes, name: bytes) -> bytes:
    return _text(module) + _text(name) + b"\x93"


def _state(state: bytes) -> bytes:
    """A whole pickle of an array whose state is made by these operations."""
    head = b"\x80\x05" + _name(b"numpy.core.multiarray", b"_reconstruct") + NDARRAY
    return head + b"K\x00\x85B\x01\0\0\0b\x87R" + state + b"b."


NDARRAY = _name(b"numpy", b"ndarray")
DTYPE = _name(b"numpy", b"dtype")
REFERENCE = _name(b"hdmf_zarr.utils", b"ZarrReference")
O8 = DTYPE + _text(b"O8") + b"\x89\x88\x87R"
SLOTS = b"N}" + _text(b"path") + _text(b"x") + b"s\x86b."
ONE = b"(K\x01K\x01\x85" + O8 + b"\x89](%se" + b"t"
REFUSED: dict[str, bytes] = {
    "runs code": pickle.dumps(Evil(), 5),
    "runs code in an element": _array(Evil(), "a"),
    "runs code in protocol 0": b"cbuiltins\neval\n.",
    "array of numbers": pickle.dumps(np.arange(3), 5),
    "array of numbers, old": pickle.dumps(np.arange(3), 2),
    "state for the dtype class": b"\x80\x05cnumpy\ndtype\n}\x8c\x04code\x8c\x01xsb.",
    "slots for the dtype class": b"\x80\x05\x8c\x05numpy\x8c\x05dtype\x93N}\x8c\x04code\x8c\x01xs\x86b.",
    "slots for the array class": b"\x80\x05" + NDARRAY + SLOTS,
    "slots for the reference class": b"\x80\x05" + REFERENCE + SLOTS,
    "state for the reference class": b"\x80\x05" + REFERENCE + b"}b.",
    "slots for a reference": b"\x80\x05" + REFERENCE + b")\x81" + SLOTS,
    "a class": pickle.dumps(dict, 5),
    "a class of the table": b"\x80\x05" + REFERENCE + b".",
    "lists": pickle.dumps([[]], 5),
    "extension": b"\x80\x05\x82\x01.",
    "persistent": b"\x80\x05NQ.",
    "persistent, old": b"P1\n.",
    "instance": b"(ibuiltins\neval\n.",
    "object": b"(cnumpy\nndarray\no.",
    "set": b"\x80\x05\x8f.",
    "dotted name": b"\x80\x05" + _name(b"hdmf_zarr.utils", b"ZarrReference.__init__") + b".",
    "dotted module": b"\x80\x05" + _name(b"hdmf_zarr", b"utils.ZarrReference") + b".",
    "other class of the peer": b"\x80\x05" + _name(b"hdmf_zarr.utils", b"ZarrIO") + b")\x81.",
    "reference with arguments": b"\x80\x05" + REFERENCE + b"]\x85\x81.",
    "called reference": b"\x80\x05" + REFERENCE + b")R.",
    "called array": b"\x80\x05" + NDARRAY + b")R.",
    "array without state": b"\x80\x05" + NDARRAY + b")\x81.",
    "array of another class": b"\x80\x05" + _name(b"numpy.core.multiarray", b"_reconstruct") + DTYPE + b"\x85R.",
    "reference that changes its class": b"\x80\x05" + REFERENCE + b")\x81" + _text(b"__class__") + NDARRAY + b"s.",
    "reference with other keys": b"\x80\x05" + REFERENCE + b")\x81" + _text(b"x") + b"Ns.",
    "reference in a reference": _state(ONE % (REFERENCE + b")\x81\x94" + _text(b"path") + b"h\x00s")),
    "reference without path": _state(ONE % (REFERENCE + b")\x81")),
    "reference with a number": _state(ONE % (REFERENCE + b")\x81" + _text(b"path") + b"K\x01s")),
    "reference with a region": _state(ONE % (b"}(" + _text(b"path") + _text(b"/a") + _text(b"region") + b"K\x01u")),
    "key that is a tuple": _state(ONE % (REFERENCE + b")\x81K\x01\x85Ns")),
    "dictionary with a key that is a tuple": _state(ONE % b"}K\x01\x85Ns"),
    "element that is a class": _state(ONE % REFERENCE),
    "element that is bytes that grow": _state(ONE % b"\x96\x01\0\0\0\0\0\0\0a"),
    "list within itself": b"\x80\x05]\x94h\x00a.",
    "too few elements": _state(b"(K\x01K\x02\x85" + O8 + b"\x89](K\x01et"),
    "negative length": _state(b"(K\x01J\xff\xff\xff\xff\x85" + O8 + b"\x89]t"),
    "shape of text": _state(b"(K\x01" + _text(b"a") + b"\x85" + O8 + b"\x89]t"),
    "Fortran order": _state(b"(K\x01K\x01\x85" + O8 + b"\x88](K\x01et"),
    "four parts": _state(b"(K\x01K\x00\x85" + O8 + b"\x89t"),
    "no dtype": _state(b"(K\x01K\x00\x85N\x89]t"),
    "dtype of numbers": _state(b"(K\x01K\x00\x85" + DTYPE + _text(b"i4") + b"\x85R\x89]t"),
    "place far away": b"\x80\x05Nr\xff\xff\xff\x7f.",
    "place far away, old": b"Np2000000000\n.",
    "empty": b"",
    "cut off": b"\x80\x05",
    "bytes behind": b"\x80\x05N.N",
    "frame beyond the end": b"\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "bytes beyond the end": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "nothing on the stack": b"\x80\x05R.",
    "nothing in the memory": b"\x80\x05h\x05.",
    "unknown protocol": b"\x80\x09N.\x00",
    "cut off line": b"I5",
}


@pytest.fixture(autouse=True)
def canary() -> Any:
    yield
    assert not hasattr(builtins, "HDMF_PWNED")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    data = REFUSED[name]
    with pytest.raises(UnsafePickle):
        read_pickled(data, 10)
    with pytest.raises(UnsafePickle):
        fill_of_pickle(data)
    with pytest.raises(UnsafePickle) as caught:
        build_chain([Codec("reference_pickle")], ChunkLayout(ObjectRef(), (1,))).decode(data)
    assert isinstance(caught.value, FormatError)
    assert caught.value.remedy


def test_a_reader_that_can_import_the_peer_runs_nothing_either() -> None:
    script = (
        "import builtins, sys, pickles\n"
        "from hyperslab.codecs.pickled import read_pickled\n"
        "with pickles.peer():\n"
        "    for data in eval(sys.stdin.read()):\n"
        "        try: read_pickled(data, 10)\n"
        "        except Exception as error: assert type(error).__name__ == 'UnsafePickle', error\n"
        "        else: raise SystemExit('read')\n"
        "assert not hasattr(builtins, 'HDMF_PWNED')"
    )
    path = [*sys.path]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}\n{script}"],
        input=repr(list(REFUSED.values())),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.sampled(0)
def test_nested_keys_do_not_overflow_the_stack() -> None:
    deep = b"N" + b"\x85" * 1_000_000
    for head in (b"}", REFERENCE + b")\x81"):
        with pytest.raises(UnsafePickle, match=r"key that is tuple|attribute name must be string"):
            read_pickled(b"\x80\x05" + head + deep + b"Ns.", 1, PickleLimits(operations=10**7))
        with pytest.raises(UnsafePickle, match="operations"):
            read_pickled(b"\x80\x05" + head + deep + b"Ns.", 1)


def test_operations_are_bounded_by_the_cells() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for part in (b"}", b"]", b"N\x85", b")", b"(", b"\x80\x05", b"}0", b"2"):
        with pytest.raises(UnsafePickle, match="operations"):
            read_pickled(b"\x80\x05N" + part * 10_000_000 + b".", 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10


def test_limits() -> None:
    data = stock(CELLS)
    assert read_pickled(data, 3, PickleLimits(len(data), 3)).columns[0] == CELLS.tolist()
    for limits in (PickleLimits(len(data) - 1), PickleLimits(cells=2)):
        with pytest.raises(UnsafePickle, match="are read"):
            read_pickled(data, 3, limits)


def test_what_is_read() -> None:
    found = read_pickled(stock(ROWS), 9)
    assert (found.fields, found.shape) == (("id", "label", "ref"), (3,))
    assert [list(column) for column in found.columns] == [ROWS[name].tolist() for name in ROWS.dtype.names or ()]
    dicts = pickle.dumps(np.array([{"path": "/a", "source": "."}, {"path": "b"}], object), 5)
    assert read_pickled(dicts, 2).columns[0] == [ObjectReference("/a"), ObjectReference("/b")]
    assert all(type(cell) is ObjectReference and cell.home is None for cell in found.columns[2])


def test_references_of_hdmf_zarr_0_3_have_no_ids() -> None:
    for keys in ((b"path",), (b"source", b"path")):
        items = b"".join(_text(key) + _text(b"/a" if key == b"path" else b".") for key in keys)
        data = _state(ONE % (REFERENCE + b")\x81(" + items + b"u"))
        assert read_pickled(data, 1).columns[0] == [ObjectReference("/a")]


def test_one_reference_in_many_cells() -> None:
    cell = REFERENCE + b")\x81\x94(" + _text(b"path") + _text(b"a") + b"u"
    data = _state(b"(K\x01K\x03\x85" + O8 + b"\x89](" + cell + b"h\x00h\x00e" + b"t")
    assert read_pickled(data, 3).columns[0] == [ObjectReference("/a")] * 3


@pytest.mark.parametrize("value", [0, 1, -70_000, 2**40, 0.5, True, False, None, "", "\u00e9" * 300])
@pytest.mark.parametrize("protocol", range(6))
def test_fill_values(value: Any, protocol: int) -> None:
    found = fill_of_pickle(pickle.dumps(value, protocol))
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("value", [b"bytes", (1,), [], {}, 1j, {"a": 1}])
def test_fill_values_that_are_not_plain(value: Any) -> None:
    with pytest.raises(UnsafePickle):
        fill_of_pickle(pickle.dumps(value, 5))


SEEDS = [stock(CELLS), stock(ROWS), stock(CELLS, 3), *REFUSED.values()]
DECODERS = [
    build_chain([Codec("reference_pickle")], ChunkLayout(dtype, (3,))) for dtype in (ObjectRef(), VlenString(), ROW)
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A pickle with some of its bytes changed, doubled, left out or taken from another."""
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(data) - 1)))
        stop = min(len(data), start + draw(st.integers(0, 12)))
        other = draw(st.sampled_from(SEEDS))
        at = draw(st.integers(0, max(0, len(other) - 1)))
        piece = draw(st.binary(max_size=4) | st.just(other[at : at + draw(st.integers(1, 60))]))
        data[start:stop] = piece
    return bytes(data)


@given(mutated())
@example(stock(CELLS))
@example(stock(ROWS))
def test_mutated_pickles(data: bytes) -> None:
    for decoder in DECODERS:
        try:
            found = decoder.decode(data)
        except (UnsafePickle, CorruptChunk) as error:
            assert str(error)
            continue
        assert found.shape == (3,)
        for cell in found.tolist():
            parts = cell if isinstance(cell, tuple) else (cell,)
            assert {type(part) for part in parts} <= {int, str, ObjectReference, type(None)}
    assert not hasattr(builtins, "HDMF_PWNED")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_one_byte_changed_gives_an_error_or_what_stands_there(place: int, byte: int) -> None:
    data = bytearray(stock(CELLS))
    data[place % len(data)] = byte
    try:
        found = DECODERS[0].decode(bytes(data)).tolist()
    except (UnsafePickle, CorruptChunk):
        return
    for cell in found:
        assert cell is None or cell.path.removeprefix("/").encode() in data
        assert cell is None or (cell.source_object_id or "").encode() in data
