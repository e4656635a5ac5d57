"""Stores of each generation, written with ``json.dumps`` and ``open`` alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

A = np.arange(12, dtype="<i4").reshape(3, 4)
T = np.array([10, 11, 12], "<i4")
Edit = Callable[[dict[str, Any]], Any]


def write(root: Path, key: str, value: Any) -> None:
    """A document, or the bytes of a chunk."""
    path = root / key
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(value if isinstance(value, bytes) else json.dumps(value).encode())


def edit(root: Path, key: str, change: Edit) -> None:
    """Change a document."""
    doc = json.loads((root / key).read_bytes())
    change(doc)
    write(root, key, doc)


def zarray(shape: list[int], dtype: Any, chunks: list[int], **more: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": shape,
        "dtype": dtype,
        "chunks": chunks,
        "fill_value": -1,
        "order": "C",
        "compressor": None,
        "filters": None,
    } | more


def current_attributes(dims: list[str], **more: Any) -> dict[str, Any]:
    names = {"_ARRAY_DIMENSIONS": [dim.rpartition("/")[2] for dim in dims]}
    own = {"_nczarr_array": {"dimension_references": dims, "storage": "chunked"}}
    return more | names | own | {"_nczarr_attr": {"types": {"_nczarr_array": "|J0", "_nczarr_attr": "|J0"}}}


def current(root: Path) -> Path:
    """``a`` (t, x) and ``t`` (t) over the unlimited ``t`` and ``x``; ``g/b`` (x) and an empty group ``g/h``."""
    types = {"_NCProperties": ">S1", "_nczarr_group": "|J0", "_nczarr_superblock": "|J0", "_nczarr_attr": "|J0"}
    dims = {"t": {"size": 3, "unlimited": 1}, "x": 4}
    said = {
        "title": "x",
        "_NCProperties": "version=2,netcdf=4.10.1,nczarr=2.0.0",
        "_nczarr_group": {"dimensions": dims, "arrays": ["a", "t"], "groups": ["g"]},
        "_nczarr_superblock": {"version": "2.0.0"},
        "_nczarr_attr": {"types": {"title": ">S1", **types}},
    }
    write(root, ".zgroup", {"zarr_format": 2})
    write(root, ".zattrs", said)
    write(root, "a/.zarray", zarray([3, 4], "<i4", [2, 4]))
    write(root, "a/.zattrs", current_attributes(["/t", "/x"], units="K"))
    write(root, "t/.zarray", zarray([3], "<i4", [2]))
    write(root, "t/.zattrs", current_attributes(["/t"]))
    for path, arrays, groups in (("g", ["b"], ["h"]), ("g/h", [], [])):
        own = {"_nczarr_group": {"dimensions": {}, "arrays": arrays, "groups": groups}}
        write(root, f"{path}/.zgroup", {"zarr_format": 2})
        write(root, f"{path}/.zattrs", own | {"_nczarr_attr": {"types": {"_nczarr_group": "|J0"}}})
    write(root, "g/b/.zarray", zarray([4], "<i4", [4]))
    write(root, "g/b/.zattrs", current_attributes(["/x"]))
    write_cells(root)
    return root


def write_cells(root: Path) -> None:
    rest = np.full((1, 4), -1, "<i4")
    write(root, "a/0.0", A[:2].tobytes())
    write(root, "a/1.0", np.concatenate([A[2:], rest]).tobytes())
    write(root, "t/0", T[:2].tobytes())
    write(root, "t/1", np.array([12, -1], "<i4").tobytes())
    write(root, "g/b/0", A[0].tobytes())


def older(root: Path, *, upper: bool) -> Path:
    """The same of netcdf-c 4.9.0 (``upper``) or 4.9.1, where ``t`` has a fixed length."""

    def own(name: str) -> str:
        return f"_NCZARR_{name}" if upper else f"_nczarr_{name.lower()}"

    version = "4.9.0" if upper else "4.9.1"
    group = {"dims": {"t": 3, "x": 4}, "vars": ["a", "t"], "groups": ["g"]}
    write(root, ".zgroup", {"zarr_format": 2, own("SUPERBLOCK"): {"version": "2.0.0"}, own("GROUP"): group})
    write(root, ".zattrs", {"_NCProperties": f"version=2,netcdf={version},nczarr=2.0.0", own("ATTR"): {"types": {}}})
    for path, shape, chunks, dims in (("a", [3, 4], [2, 4], ["/t", "/x"]), ("t", [3], [2], ["/t"])):
        array = {own("ARRAY"): {"dimrefs": dims, "storage": "chunked"}}
        write(root, f"{path}/.zarray", zarray(shape, "<i4", chunks) | array)
        write(root, f"{path}/.zattrs", {"_ARRAY_DIMENSIONS": [dim[1:] for dim in dims], own("ATTR"): {}})
    for path, arrays, groups in (("g", ["b"], ["h"]), ("g/h", [], [])):
        write(root, f"{path}/.zgroup", {"zarr_format": 2, own("GROUP"): {"dims": {}, "vars": arrays, "groups": groups}})
    array = {own("ARRAY"): {"dimrefs": ["/x"], "storage": "chunked"}}
    write(root, "g/b/.zarray", zarray([4], "<i4", [4]) | array)
    write_cells(root)
    return root


def draft(root: Path) -> Path:
    """The same in the draft, with ``c`` (x) of a compound type and ``o`` (x) of an opaque one."""
    fields = [["p", "<i4"], ["q", "<f8"]]
    write(root, ".zdataset", {"nczarr_version": "0.1-2018"})
    write(root, ".zgroup", {"zarr_format": 2})
    write(root, ".zdims", {"t": {"size": 3, "unlimited": 1}, "x": 4})
    types = {"c_t": {"class": "compound", "fields": fields}, "o_t": {"class": "opaque", "size": 10}}
    write(root, ".ztypedefs", types)
    write(root, ".zattrs", {"title": "x", "_NCProperties": "version=2,hyperslab=1,nczarr=draft"})
    write(root, ".zattr_type", {"title": "char", "_NCProperties": "char"})
    for path, shape, chunks, dims in (
        ("a", [3, 4], [2, 4], ["/t", "/x"]),
        ("t", [3], [2], ["/t"]),
        ("g/b", [4], [4], ["/x"]),
    ):
        write(root, f"{path}/.zarray", zarray(shape, "<i4", chunks, dimensions=dims))
        write(root, f"{path}/.zattrs", {"_ARRAY_DIMENSIONS": [dim[1:] for dim in dims]})
    more: dict[str, Any] = {"dimensions": ["/x"], "fill_value": None}
    write(root, "c/.zarray", zarray([4], fields, [4], typedef="/c_t", **more))
    write(root, "c/0", np.zeros(4, [("p", "<i4"), ("q", "<f8")]).tobytes())
    write(root, "o/.zarray", zarray([4], "|V10", [4], typedef="/o_t", **more))
    write(root, "o/0", bytes(40))
    for path in ("c", "o"):
        write(root, f"{path}/.zattrs", {"_ARRAY_DIMENSIONS": ["x"]})
    write(root, "g/.zgroup", {"zarr_format": 2})
    write(root, "g/h/.zgroup", {"zarr_format": 2})
    write_cells(root)
    return root


STORES: dict[str, Callable[[Path], Path]] = {
    "current": current,
    "4.9.1": lambda root: older(root, upper=False),
    "4.9.0": lambda root: older(root, upper=True),
    "draft": draft,
}
