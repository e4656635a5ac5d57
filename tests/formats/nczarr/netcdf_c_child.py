"""netcdf-c at the other end of a pipe, through netCDF4: it reads stores and writes them, in a process that it may end.

One JSON object comes in on each line of standard input, ``{"store": path, "mode": ..., "write": group or None}``, and
one goes out for it: the group that was read, or ``{"error": text}``. A group is ``{"dims": [[name, size, unlimited]],
"attrs": [[name, type, value]], "arrays": [[name, array]], "groups": [[name, group]]}``; numbers are hexadecimal bytes.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import netCDF4
import numpy as np

_GLOBAL = -1
_CHAR, _STRING = 2, 12
_TYPES = {1: "i1", 3: "i2", 4: "i4", 5: "f4", 6: "f8", 7: "u1", 8: "u2", 9: "u4", 10: "i8", 11: "u8"}


def _library() -> ctypes.CDLL:
    """The netcdf-c that netCDF4 loaded: what type an attribute has, Python is not told."""
    with open("/proc/self/maps") as lines:
        return ctypes.CDLL(next(line.split()[-1] for line in lines if "libnetcdf" in line))


LIBRARY = _library()


def attributes(node: Any) -> Iterator[tuple[str, str, Any]]:
    """Names, types and values of the attributes of a group or variable."""
    group, number = _where(node)
    for name in node.ncattrs():
        code, length = ctypes.c_int(), ctypes.c_size_t()
        LIBRARY.nc_inq_att(group, number, name.encode(), ctypes.byref(code), ctypes.byref(length))
        value = node.getncattr(name)
        if code.value == _CHAR:
            yield name, "char", value.decode() if isinstance(value, bytes) else value
        elif code.value == _STRING:
            yield name, "string", [value] if isinstance(value, str) else list(value)
        else:
            yield name, _TYPES[code.value], np.atleast_1d(value).astype(_TYPES[code.value]).tobytes().hex()


def _where(node: Any) -> tuple[int, int]:
    return (node._grpid, node._varid) if isinstance(node, netCDF4.Variable) else (node._grpid, _GLOBAL)


def read_array(variable: Any) -> dict[str, Any]:
    """What there is to know of a variable."""
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    dims = [f"{dim.group().path.rstrip('/')}/{dim.name}" for dim in variable.get_dims()]
    found = {"dims": dims, "shape": list(variable.shape), "attrs": list(attributes(variable))}
    cells = variable[...]
    if variable.dtype is str:
        return found | {"type": "string", "cells": np.asarray(cells, object).ravel().tolist()}
    kind = "char" if variable.dtype.kind == "S" else variable.dtype.str
    return found | {"type": kind, "cells": np.asarray(cells, variable.dtype).tobytes().hex()}


def read_group(group: Any) -> dict[str, Any]:
    """What there is to know of a group and all below it."""
    return {
        "dims": [[name, dim.size, dim.isunlimited()] for name, dim in group.dimensions.items()],
        "attrs": list(attributes(group)),
        "arrays": [[name, read_array(variable)] for name, variable in group.variables.items()],
        "groups": [[name, read_group(below)] for name, below in group.groups.items()],
    }


def write_attributes(node: Any, attrs: list[tuple[str, str, Any]]) -> None:
    """Set attributes of exactly these types."""
    for name, kind, value in attrs:
        if kind == "char":
            text = value.encode()
            assert LIBRARY.nc_put_att_text(*_where(node), name.encode(), ctypes.c_size_t(len(text)), text) == 0
        elif kind == "string" and len(value) == 1:
            node.setncattr_string(name, value[0])
        elif kind == "string":
            node.setncattr(name, value)
        else:
            node.setncattr(name, np.frombuffer(bytes.fromhex(value), kind))


def write_array(group: Any, name: str, said: dict[str, Any]) -> None:
    """Make a variable and give it its cells; ``options`` are those of createVariable."""
    kind, options = said["type"], dict(said["options"])
    endian = "big" if kind.startswith(">") else "native"
    dtype = {"char": "S1", "string": str}.get(kind) or np.dtype(kind)
    if isinstance(options.get("fill_value"), str) and kind != "string":
        options["fill_value"] = np.frombuffer(bytes.fromhex(options["fill_value"]), dtype)[0]
    dims = tuple(_dimension(group, fqn) for fqn in said["dims"])
    variable = group.createVariable(name, dtype, dims, endian=endian, **options)
    variable.set_auto_maskandscale(False)
    write_attributes(variable, said["attrs"])
    if said["cells"] is None:
        return
    cells = said["cells"] if kind == "string" else np.frombuffer(bytes.fromhex(said["cells"]), dtype)
    shaped = np.array(cells, object if kind == "string" else dtype).reshape(said["shape"])
    if shaped.size:
        variable[...] = shaped[()] if not shaped.shape else shaped


def _dimension(group: Any, fqn: str) -> Any:
    while group.path.rstrip("/") != fqn.rpartition("/")[0]:
        group = group.parent
    return group.dimensions[fqn.rpartition("/")[2]]


def write_group(group: Any, said: dict[str, Any]) -> None:
    """Everything in a group and below it."""
    write_attributes(group, said["attrs"])
    for name, size, unlimited in said["dims"]:
        group.createDimension(name, None if unlimited else size)
    for name, array in said["arrays"]:
        write_array(group, name, array)
    for name, below in said["groups"]:
        write_group(group.createGroup(name), below)


def done(task: dict[str, Any]) -> dict[str, Any]:
    """Write if there is something to write, and say what is there."""
    url = f"file://{task['store']}#mode={task['mode']}"
    try:
        if task["write"] is not None:
            with netCDF4.Dataset(url, "w") as root:
                write_group(root, task["write"])
        with netCDF4.Dataset(url, "r") as root:
            return read_group(root)
    except Exception as error:  # its own words are what is asked for
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is no answer
    for line in sys.stdin:
        print(json.dumps(done(json.loads(line))), file=answers, flush=True)
