"""HDMF datasets that are written by the plain face: no hdmf is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenBytes, VlenString, tagged
from hyperslab.model.refs import ObjectReference

CELLS = np.dtype(object)
ROW = np.dtype([("id", "i4"), ("label", tagged(CELLS, VlenString())), ("ref", tagged(CELLS, ObjectRef()))])
NUMBERS = ("i1", "i2", "<i4", ">i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?")
Options = Mapping[str, Any]


def said(kind: str, number: int) -> dict[str, str]:
    """What a node with a type says of itself."""
    named = f"22222222-0000-4000-8000-{number:012}"
    return {"namespace": "hdmf-common", "neurodata_type": kind, "object_id": named}


def write(path: Path, outside: Path, options: Options) -> None:
    """A dataset with all kinds of cells, links, also to the dataset ``outside``, and references."""
    with hs.create(outside, format="hdmf", durable=False, **options) as other:
        other.attrs.update(said("Root", 9))
        other.create_array("x", data=np.arange(5.0), dims=["t"], attrs=said("VectorData", 8))
    with hs.create(path, format="hdmf", durable=False, **options) as root, root.batch():
        root.attrs.update(said("Root", 0))
        numbers(root.create_group("numbers"))
        others(root.create_group("others"))
        group = root.create_group("g", attrs=said("Group", 1) | {"list": [1, 2], "é": "ß", "n": np.float32(0.5)})
        array = group.create_array(
            "i2", data=np.arange(12, dtype="i2").reshape(3, 4), dims=["a", "b"], attrs=said("VectorData", 2)
        )
        deep = group.create_group("d/e", attrs=said("Deep", 3))
        refs = root.create_group("refs", attrs={"table": group.ref})
        refs.create_link("to_array", "/g/i2")
        refs.create_link("to_group", group)
        refs.create_link("deep", deep)
        refs.create_link("outside", "/x", f"../{outside.name}")
        references(refs, [group.ref, array.ref, deep.ref])


def numbers(group: hs.Group) -> None:
    """Arrays of numbers in several chunks; unwritten, empty and odd ones."""
    cells = np.arange(35).reshape(7, 5) % 3
    for kind in NUMBERS:
        name = {"?": "bool", ">i4": "big", "<i4": "i4"}.get(kind, kind)
        group.create_array(name, data=cells.astype(kind), chunks=(3, 2), dims=["t", "y"])
    group.create_array("unwritten", shape=(4,), dtype="f4", dims=["four"])
    group.create_array("empty", shape=(0, 3), dtype="f4", dims=["none", "three"])
    group.create_array("odd", data=np.array([1.5, np.nan, -0.0]), dims=["three"])


def others(group: hs.Group) -> None:
    """Text, bytes, scalars, rows of numbers."""
    words = np.array(["a", "bé", "", "日本"], object)
    group.create_array("text", data=words, dtype=str, chunks=(3,), dims=["w"])
    group.create_array("bytes", data=np.array([b"a", b"", b"xyz"], object), dtype=VlenBytes(), dims=["w"])
    group.create_array("number", data=np.int32(7))
    group.create_array("word", data="hello é", dtype=str)
    group.create_array("rows", data=np.array([(1, 0.5), (3, 0.25)], [("x", "u4"), ("w", "f4")]), dims=["r"])


def references(group: hs.Group, to: list[ObjectReference]) -> None:
    """References in arrays of every shape, in rows and in an attribute."""
    group.create_array("many", data=[to[i % 3] for i in range(100)], dtype=ObjectRef(), chunks=(40,), dims=["n"])
    group.create_array("square", data=[[to[0], to[1]], [to[2], to[0]]], dtype=ObjectRef(), dims=["n", "m"])
    group.create_array("one", data=to[1], dtype=ObjectRef())
    group.create_array("rows", data=rows(to), dims=["n"], dtype=ROW)
    group.create_array("index", data=np.arange(3, dtype="u1"), attrs={"target": to[1]}, dims=["n"])


def rows(to: list[ObjectReference]) -> np.ndarray[Any, Any]:
    """Rows of a number, text and a reference."""
    made = np.empty(3, ROW)
    made[:] = [(0, "zero", to[0]), (1, "öne", to[1]), (2, "", to[2])]
    return made


def write_scalar_row(path: Path, options: Options) -> None:
    """A dataset with one row that has no axis, and an array beside."""
    with hs.create(path, format="hdmf", durable=False, **options) as root:
        target = root.create_array("x", data=np.arange(5.0), attrs=said("VectorData", 1))
        root.create_array("row", data=rows([target.ref] * 3)[0], dtype=ROW)


def write_regions(path: Path, options: Options) -> None:
    """A dataset with an array of references to cells."""
    with hs.create(path, format="hdmf", durable=False, **options) as root:
        target = root.create_array("x", data=np.arange(20).reshape(4, 5), dims=["a", "b"], attrs=said("VectorData", 1))
        found = [target.regionref[1:3], target.regionref[:, [0, 4]]]
        root.create_array("regions", data=found, dtype=RegionRef(), dims=["n"])


def write_region_attribute(path: Path, options: Options) -> None:
    """A dataset with a reference to cells in an attribute."""
    with hs.create(path, format="hdmf", durable=False, region_attributes=True, **options) as root:
        target = root.create_array("x", data=np.arange(20).reshape(4, 5), dims=["a", "b"], attrs=said("VectorData", 1))
        root.attrs["part"] = target.regionref[2]
