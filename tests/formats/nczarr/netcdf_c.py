"""Datasets that one side writes and the other reads: hyperslab and netcdf-c say what they see in one spelling."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, VlenString
from hyperslab.model.spec import GroupSpec

CHILD = Path(__file__).parent / "netcdf_c_child.py"
Told = dict[str, Any]


class NetcdfC:
    """A process with netcdf-c in it; a new one after it ended itself."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, store: Path, mode: str = "nczarr", write: Told | None = None) -> Told:
        """What netcdf-c reads there, after having written it if asked to."""
        process = self._process or self._start()
        print(json.dumps({"store": str(store), "mode": f"{mode},file", "write": write}), file=process.stdin, flush=True)
        line = process.stdout.readline()
        if not line:
            self._process = None
            raise AssertionError(f"netcdf-c ended itself over {store}: {process.wait()}")
        answer: Told = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def _start(self) -> Any:
        command = [sys.executable, str(CHILD)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self._process

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(60)


# -- one spelling -----------------------------------------------------------------------------------------------------


def attribute(value: Any) -> list[Any]:
    """The type and value of an attribute as hyperslab gives it."""
    match value:
        case np.str_():
            return ["string", [str(value)]]
        case str():
            return ["char", value]
        case np.ndarray() if value.dtype.kind == "T":
            return ["string", [str(text) for text in value]]
    return [value.dtype.str[1:], np.atleast_1d(value).tobytes().hex()]


def cells(values: Any, kind: str) -> Any:
    """Cells of a type, without their shape."""
    if kind == "string":
        return [str(text) for text in np.ravel(values)]
    return np.asarray(values, "S1" if kind == "char" else kind).tobytes().hex()


def array(dims: list[str], values: Any, attrs: Mapping[str, Any] | None = None, **options: Any) -> Told:
    """A variable to be written; ``dims`` are qualified names."""
    values = np.asarray(values)
    kind = {"T": "string", "U": "string", "S": "char"}.get(values.dtype.kind) or values.dtype.str
    told = [[name, *attribute(value)] for name, value in (attrs or {}).items()]
    shape = list(values.shape)
    return {"dims": dims, "shape": shape, "type": kind, "attrs": told, "cells": cells(values, kind), "options": options}


def group(
    dims: Mapping[str, int | tuple[int]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Told] | None = None,
    groups: Mapping[str, Told] | None = None,
) -> Told:
    """A group to be written; the length of an unlimited dimension is a tuple of one."""
    sizes = {name: size if isinstance(size, tuple) else (size, False) for name, size in (dims or {}).items()}
    return {
        "dims": [[name, said[0], len(said) == 1] for name, said in sizes.items()],
        "attrs": [[name, *attribute(value)] for name, value in (attrs or {}).items()],
        "arrays": [[name, said] for name, said in (arrays or {}).items()],
        "groups": [[name, said] for name, said in (groups or {}).items()],
    }


# -- hyperslab's side -------------------------------------------------------------------------------------------------


def seen(root: hs.Group) -> Told:
    """What hyperslab sees in a group, as the child says it."""
    spec = root.spec
    return {
        "dims": [[dim.name, dim.size, dim.unlimited] for dim in spec.dims],
        "attrs": [[name, *attribute(value)] for name, value in root.attrs.items()],
        "arrays": [[name, _seen_array(found)] for name, found in root.arrays()],
        "groups": [[name, seen(found)] for name, found in root.groups()],
    }


def _seen_array(found: hs.Array) -> Told:
    match found.spec.dtype:
        case Char():
            kind = "char"
        case VlenString():
            kind = "string"
        case dtype:
            kind = dtype.str
    return {
        "dims": list(found.spec.layout["dimensions"]),
        "shape": list(found.shape),
        "attrs": [[name, *attribute(value)] for name, value in found.attrs.items()],
        "type": kind,
        "cells": cells(found[...], kind),
    }


def make(root: hs.Group, said: Told) -> None:
    """Write a group with hyperslab; ``options`` of an array are those of create_array."""
    dims = tuple(Dimension(name, size, unlimited) for name, size, unlimited in said["dims"])
    attrs = {name: _value(kind, value) for name, kind, value in said["attrs"]}
    root._session.writer().put(root.path, GroupSpec(attrs=attrs, dims=dims))
    for name, array in said["arrays"]:
        attrs = {key: _value(kind, value) for key, kind, value in array["attrs"]}
        dtype = {"char": Char(), "string": VlenString()}.get(array["type"], array["type"])
        names = [fqn.rpartition("/")[2] for fqn in array["dims"]]
        made = root.create_array(name, array["shape"], dtype, dims=names, attrs=attrs, **array["options"])
        if array["cells"] is not None:
            made[...] = _values(array)
    for name, below in said["groups"]:
        make(root.create_group(name), below)


def _values(array: Told) -> Any:
    if array["type"] == "string":
        return np.array(array["cells"], np.dtypes.StringDType()).reshape(array["shape"])
    dtype = "S1" if array["type"] == "char" else array["type"]
    return np.frombuffer(bytes.fromhex(array["cells"]), dtype).reshape(array["shape"])


def _value(kind: str, value: Any) -> Any:
    if kind == "char":
        return value
    if kind == "string":
        return np.str_(value[0]) if len(value) == 1 else np.array(value, np.dtypes.StringDType())
    numbers = np.frombuffer(bytes.fromhex(value), kind)
    return numbers[0] if len(numbers) == 1 else numbers


def plain(said: Told) -> Told:
    """The group without what is asked of the writer alone."""
    arrays = [[name, {key: array[key] for key in array if key != "options"}] for name, array in said["arrays"]]
    return {**said, "arrays": arrays, "groups": [[name, plain(below)] for name, below in said["groups"]]}
