"""Trees of hdmf's builders and containers: made, and as plain values. Runs wherever hdmf 6 and pynwb 4 are."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from hdmf.build import Builder, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import DynamicTable
from hdmf.container import AbstractContainer
from pynwb import TimeSeries

sys.path.insert(0, str(Path(__file__).parents[2] / "bridges" / "hdmf"))
from nwb_files import place_of

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool")
ROW = [{"name": "id", "dtype": "int32"}, {"name": "label", "dtype": "text"}, {"name": "ref", "dtype": "object"}]
NUMERIC_ROW = [{"name": "x", "dtype": "uint32"}, {"name": "w", "dtype": "float32"}]
SPECIFICATIONS = "specifications"
SETTLED = {"file_create_date", "starting_frame", "intervals"}
"""Fields that pynwb itself fills otherwise when it reads a file back, of whatever backend."""


def builders(source: str) -> GroupBuilder:
    """A tree for the store ``source`` with every kind of cells, attributes of every kind, links and references."""
    root = GroupBuilder("root", attributes=said("Root", 0), source=source)
    kinds = _group(root, "dtypes")
    for name, data, dtype in cells():
        kinds.set_dataset(DatasetBuilder(name, data, dtype=dtype))
    first = _group(root, "g1", said("DynamicTable", 2) | attributes())
    target = DatasetBuilder("i2", np.arange(12, dtype="i2").reshape(3, 4), attributes=said("VectorData", 1))
    first.set_dataset(target)
    deep = _group(_group(first, "deep"), "deeper", said("Deep", 3))
    refer(_group(root, "refs"), first, target, deep)
    return root


def refer(group: GroupBuilder, first: GroupBuilder, target: DatasetBuilder, deep: GroupBuilder) -> None:
    """Links and references to other nodes in attributes, cells and rows."""
    to = [ReferenceBuilder(target), ReferenceBuilder(first), ReferenceBuilder(deep)]
    group.set_attribute("table", to[1])
    group.set_dataset(DatasetBuilder("objrefs", [to[0], to[1], to[0]], dtype="object"))
    group.set_dataset(DatasetBuilder("many", [to[i % 3] for i in range(300)], dtype="object"))
    rows = [(0, "zero", to[0]), (1, "öne", to[1]), (2, "", to[2])]
    group.set_dataset(DatasetBuilder("compound_ref", rows, dtype=ROW))
    with_attribute = DatasetBuilder("index", np.arange(3, dtype="u1"), attributes={"target": to[0], **said("Index", 4)})
    group.set_dataset(with_attribute)
    for builder in (target, first, deep):
        group.set_link(LinkBuilder(builder, name=f"link_to_{builder.name}"))


def said(kind: str, number: int) -> dict[str, str]:
    """What a node with a type says of itself."""
    named = f"11111111-0000-4000-8000-{number:012}"
    return {"namespace": "hdmf-common", "neurodata_type": kind, "object_id": named}


def attributes() -> dict[str, Any]:
    """Attributes of every kind that JSON has."""
    return {
        "s": "é \U0001d11e",
        "empty": "",
        "b": True,
        "i": -7,
        "f": 0.1,
        "list": [1, 2, 3],
        "words": ["a", "ß"],
        "np": np.float64(1.25),
        "np_i": np.uint8(3),
        "array": np.array([1.5, 2.5]),
        "nested": np.arange(4).reshape(2, 2),
        "nan": float("nan"),
    }


def cells() -> list[tuple[str, Any, Any]]:
    """Name, data and dtype of each kind of dataset."""
    text, wide = ["a", "bé", "", "日本"], [["a", "b"], ["c", "dd"]]
    found: list[tuple[str, Any, Any]] = [(kind, np.array([0, 1, 1, 0], kind), None) for kind in NUMBERS]
    found += [("text", text, "text"), ("text2d", wide, "text"), ("np_U", np.array(["x", "yyy"]), None)]
    found.append(("ascii", [b"a", b"bc"], "ascii"))
    found += [
        ("ints", [1, 2, 3], None),
        ("floats", [0.5, 1.5], None),
        ("i4_2d", np.arange(6, dtype="i4").reshape(2, 3), None),
    ]
    found += [("scalar_text", "hello é", "text"), ("scalar_f8", 3.5, "float64"), ("scalar_i4", np.int32(7), "int32")]
    found += [("scalar_b", True, "bool"), ("scalar_bytes", b"raw", "ascii")]
    rows = np.array([(1, 0.5), (3, 0.25)], [("x", "u4"), ("w", "f4")])
    found.append(("compound_num", rows, NUMERIC_ROW))
    return found


def _group(parent: GroupBuilder, name: str, attributes: dict[str, Any] | None = None) -> GroupBuilder:
    made = GroupBuilder(name, attributes=attributes or {})
    parent.set_group(made)
    return made


# -- as plain values ------------------------------------------------------------------------------------------------


def tree(builder: GroupBuilder) -> dict[str, Any]:
    """A group with all below it, specifications left out; a dataset that cannot be read tells its error."""
    names = [name for name in builder.groups if name != SPECIFICATIONS or builder.parent is not None]
    return {
        "attributes": _attributes(builder),
        "groups": {name: tree(builder.groups[name]) for name in names},
        "datasets": {
            name: {"attributes": _attributes(each), "value": _cells(each.data)}
            for name, each in builder.datasets.items()
        },
        "links": {name: _target(link.builder) for name, link in builder.links.items()},
    }


def _attributes(builder: Builder) -> dict[str, Any]:
    return {name: plain(value) for name, value in builder.attributes.items()}


def _cells(data: Any) -> Any:
    return _told(lambda: plain(_taken(data)))


def _taken(data: Any) -> Any:
    """All cells; hdmf-zarr reads references of two axes row by row alone."""
    if isinstance(data, str | bytes | dict) or not hasattr(data, "__getitem__"):
        return data
    shape = getattr(data, "shape", None)
    if shape == ():
        return data[()]
    if shape is not None and len(shape) > 1 and hasattr(data, "get_inverse_class"):
        return [data[i] for i in range(len(data))]
    return data[:]


def plain(value: Any) -> Any:
    """A value as JSON: references by where they lead and how that is called."""
    match value:
        case ReferenceBuilder():
            return _target(value.builder)
        case Builder():
            return _target(value)
        case bytes():
            return {"$bytes": value.decode("latin-1")}
        case str() | None:
            return None if value is None else str(value)
        case float() if not math.isfinite(value):
            return {"$float": str(float(value))}
        case np.generic() | np.ndarray() if value.dtype.names or value.ndim:
            return [plain(each) for each in value.tolist()]
        case np.generic() | np.ndarray():
            return plain(value.item())
        case bool() | int() | float():
            return value
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
    return [plain(each) for each in value]


def _target(builder: Any) -> dict[str, Any]:
    return {"$ref": place_of(builder), "object_id": builder.attributes.get("object_id")}


def more_of(nwb: Any) -> TimeSeries:
    """A series that shares its times with one of the file."""
    first = nwb.acquisition["ts0"]
    return TimeSeries(name="more", data=np.arange(10.0) / 3, timestamps=first, unit="m")


def summary(nwb: Any) -> dict[str, Any]:
    """Every container of a file by its id: type, name, fields; tables also as DataFrames."""
    return {each.object_id: _container(each) for each in nwb.objects.values()}


def _container(container: Any) -> dict[str, Any]:
    told = {"type": type(container).__name__, "name": container.name}
    fields = {name: _told(lambda value=value: _field(value)) for name, value in container.fields.items()}
    told["fields"] = {name: value for name, value in fields.items() if value != {} and name not in SETTLED}
    if isinstance(container, DynamicTable):
        told["frame"] = _told(lambda: _field(container.to_dataframe()))
    return told


def _told(asked: Any) -> Any:
    try:
        return asked()
    except Exception as error:  # the peer's own words are what is asked for
        return {"$error": f"{type(error).__name__}: {error}"}


def _field(value: Any) -> Any:
    """A field or cell: containers are their ids, DataFrames their columns."""
    if isinstance(value, AbstractContainer):
        return {"$container": value.object_id}
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return {str(name): [_field(cell) for cell in value[name]] for name in value.columns}
    if isinstance(value, dict):
        return {str(name): _field(each) for name, each in value.items()}
    if isinstance(value, str | bytes | np.generic) or not hasattr(value, "__getitem__"):
        return _field_of_one(value)
    if getattr(value, "shape", None) == ():
        return _field(value[()])
    found = value[:] if not isinstance(value, tuple | list | set) else value
    return [_field(each) for each in found]


def _field_of_one(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, np.generic):
        return _field_of_one(value.item())
    if isinstance(value, str | bool | int | float | None):
        return {"$float": "nan"} if isinstance(value, float) and value != value else value
    return [_field(each) for each in value] if isinstance(value, set) else str(value)
