"""Hostile documents: too deep, too large, of wrong types, of shapes that cannot be; codecs that would run code."""

from __future__ import annotations

import json as json_text
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from corpus import MAIN, A, Case, edit, opened, part, whole

import hyperslab as hs

FORMAT = ("FormatError",)
CANNOT = ("FormatError", "Unsupported", "Invalid")
DOCUMENT = dict.fromkeys(("zarr3", "shards", "hdmf3"), "a/zarr.json")
ATTRIBUTES = dict(DOCUMENT)
for _layout in ("zarr2", "nczarr", "draft", "hdmf"):
    DOCUMENT[_layout], ATTRIBUTES[_layout] = "a/.zarray", "a/.zattrs"

Change = Callable[[dict[str, Any]], Any]


def edited(name: str, change: Change) -> Callable[[Path], None]:
    return lambda root: edit(root / name, change)


def text(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Change a document as text."""

    def make(root: Path) -> None:
        path = root / name
        path.write_bytes(change(path.read_text()).encode("utf-8", "surrogatepass"))

    return make


def with_attribute(layout: str, value: str) -> Callable[[Path], None]:
    """One attribute whose value is this text."""

    def make(root: Path) -> None:
        edit(root / ATTRIBUTES[layout], lambda doc: doc.get("attributes", doc).update(x="@"))
        text(ATTRIBUTES[layout], lambda said: said.replace('"@"', value))(root)

    return make


def _sparse(name: str, head: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        with open(root / name, "wb") as file:
            file.write(head)
            file.truncate(65 << 20)

    return make


def json_depth(levels: int, kind: str) -> str:
    if kind == "lists":
        return "[" * levels + "]" * levels
    if kind == "objects":
        return '{"a":' * levels + "1" + "}" * levels
    return "[" * levels


def json_cases(layout: str) -> Iterator[Case]:
    """Documents of one layout that are no JSON, too much of it, or odd JSON."""
    for kind in ("lists", "objects", "lists that stay open"):
        yield Case(
            f"{layout}: 10^5 levels of {kind}", with_attribute(layout, json_depth(100_000, kind)), FORMAT, layout
        )
    many = {
        "numbers": "[" + "1," * 1_100_000 + "1]",
        "lists": "[" + "[]," * 600_000 + "[]]",
        "objects": "{" + ",".join(f'"{i}":{{}}' for i in range(600_000)) + "}",
    }
    for name, value in many.items() if layout != "shards" else ():
        make = with_attribute(layout, value)
        yield Case(f"{layout}: more than 10^6 {name}", make, FORMAT, layout, memory=16 * len(value) + (32 << 20))
    for name in dict.fromkeys((DOCUMENT[layout], ATTRIBUTES[layout])):
        make = _sparse(name, b'{"zarr_format": 3, "attributes": {')
        yield Case(f"{layout}: 65 MiB in {name}", make, FORMAT, layout, memory=200 << 20)
        broken = {
            "empty": lambda said: "",
            "cut": lambda said: said[: len(said) // 2],
            "a list": lambda said: f"[{said}]",
            "a number": lambda said: "3",
            "null": lambda said: "null",
            "NUL bytes": lambda said: "\0" * 100,
            "a lone surrogate": lambda said: said.replace("{", '{"\ud800": 1,', 1),
            "an unclosed string": lambda said: said.rstrip("} \n") + ', "x": "',
            "single quotes": lambda said: said.replace('"', "'"),
        }
        for how, change in broken.items():
            yield Case(f"{layout}: {how} in {name}", text(name, change), FORMAT, layout)
    survived = {
        "NaN": "NaN",
        "infinities": "[Infinity, -Infinity]",
        "numbers without digits": "[1., .5, -.5]",
        "an integer of 4000 digits": "9" * 4000,
        "the same key twice": '1, "x": 2, "x": 3',
        "a float that is too large": "1e999",
        "99 levels": json_depth(90, "lists"),
        "a long text": '"' + "x" * 100_000 + '"',
        "brackets within text": '"' + "[" * 100_000 + "," * 1_100_000 + '"',
    }
    for name, value in survived.items():
        yield Case(f"{layout}: {name}", with_attribute(layout, value), (), layout, (whole,), A)
    document = DOCUMENT[layout]
    tail = {
        "bytes behind the document": lambda said: said + '}}J0"}}}',
        "a byte order mark": lambda said: "\ufeff" + said,
        "spaces around": lambda said: f"\n\n \t{said}\r\n ",
        "the same key twice": lambda said: said.replace("{", '{"shape": "x", "zarr_format": 9,', 1),
    }
    for name, change in tail.items():
        yield Case(f"{layout}: {name} in {document}", text(document, change), (), layout, (whole,), A)


def json() -> Iterator[Case]:
    """For each main layout, and in consolidated metadata."""
    for layout in MAIN:
        yield from json_cases(layout)
    for name, said in {
        "no JSON": "{{{",
        "a list": "[]",
        "no metadata": "{}",
        "a list of metadata": '{"metadata": []}',
        "entries of wrong types": '{"metadata": {"a/.zarray": 5, ".zgroup": null, "good/.zarray": [], "": {}}}',
        "10^5 levels": '{"metadata": ' + json_depth(100_000, "objects") + "}",
    }.items():
        make = lambda root, said=said: (root / ".zmetadata").write_text(said)  # noqa: E731
        yield Case(f"zarr2: consolidated metadata: {name}", make, (), "zarr2", (whole,), A)
    for name, value in {"a number": 5, "a list": [], "entries": {"metadata": {"a": 5, "good": None, "": {}}}}.items():
        make = edited("zarr.json", lambda doc, value=value: doc.update(consolidated_metadata=value))
        yield Case(f"zarr3: consolidated metadata: {name}", make, (), "zarr3", (whole,), A)
    for layout, name in (("zarr2", ".zgroup"), ("zarr3", "zarr.json")):
        for how, said in {"no JSON": "{", "a list": "[]", "10^5 levels": json_depth(100_000, "lists")}.items():
            make = lambda root, name=name, said=said: (root / name).write_text(said)  # noqa: E731
            where = (f"key={name}", "node=/")
            yield Case(f"{layout}: the root's document: {how}", make, FORMAT, layout, (opened,), None, where, False)


WRONG: dict[str, Any] = {
    "null": None,
    "a truth value": True,
    "minus one": -1,
    "a fraction": 1.5,
    "a large number": 10**30,
    "text": "x\0y",
    "a list": [[], {}],
    "an object": {"name": 5, "configuration": []},
    "a list of objects": [{"id": [], "name": {}}],
}
FIELDS = {
    "zarr2": [
        "zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters",
        "dimension_separator",
    ],
    "zarr3": [
        "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
        "attributes", "dimension_names", "storage_transformers", "unknown",
    ],
}  # fmt: skip


def _wrong_fields(layout: str) -> Iterator[Case]:
    for name in FIELDS[layout]:
        for kind, value in WRONG.items():
            make = edited(DOCUMENT[layout], lambda doc, name=name, value=value: doc.update({name: value}))
            survives = (name, kind) in SURVIVES[layout]
            errors = () if survives else CANNOT
            if (name, kind) == ("compressor", "null"):
                errors = ("CorruptChunk",)
            steps = (shape_of,) if survives else (whole, part)
            said = (name, SAYS.get(name, name)) if errors == CANNOT else ()
            yield Case(f"{layout}: {name} is {kind}", make, errors, layout, steps, says=said)
        make = edited(DOCUMENT[layout], lambda doc, name=name: doc.pop(name, None))
        survives = (name, "absent") in SURVIVES[layout]
        errors = ("CorruptChunk",) if name == "compressor" else () if survives else CANNOT
        yield Case(f"{layout}: no {name}", make, errors, layout, (whole,))


def _odd_types() -> Iterator[Case]:
    for value in (
        "<i3",
        "|b7",
        ">f5",
        "<U-1",
        "|S99999999999999",
        "i4,i4",
        "|V-4",
        "<M8[xx]",
        "|O",
        "(1000000,1000000)i4",
    ):
        make = edited("a/.zarray", lambda doc, value=value: doc.update(dtype=value))
        yield Case(f"zarr2: dtype {value}", make, (*CANNOT, "MemoryLimit", "CorruptChunk"), "zarr2")
    for value in ("int3", "r7", "r-8", "r99999999999", "string[5]", "float128", "complex1", "raw_bytes_0"):
        make = edited("a/zarr.json", lambda doc, value=value: doc.update(data_type=value))
        yield Case(f"zarr3: data_type {value}", make, (*CANNOT, "MemoryLimit", "CorruptChunk"), "zarr3")


def fields() -> Iterator[Case]:
    """Every field of an array's document with values of wrong types: an error that names the field, or no harm."""
    for layout in FIELDS:
        yield from _wrong_fields(layout)
    yield from _odd_types()
    for name in ("chunk_shape", "codecs", "index_codecs", "index_location"):
        for kind, value in WRONG.items():

            def inner(doc: dict[str, Any], name: str = name, value: Any = value) -> None:
                doc["codecs"][0]["configuration"][name] = value

            yield Case(f"shards: {name} is {kind}", edited("a/zarr.json", inner), CANNOT, "shards")
    for kind, value in WRONG.items():
        for layout in ("zarr2", "zarr3"):

            def mark(doc: dict[str, Any], layout: str = layout, value: Any = value) -> None:
                attributes = doc if layout == "zarr2" else doc["attributes"]
                attributes.update(_hyperslab=value, _ARRAY_DIMENSIONS=value, units=value)

            make = edited(ATTRIBUTES[layout], mark)
            yield Case(f"{layout}: attributes with a meaning are {kind}", make, (), layout, (whole,), A)


SAYS = {"compressor": "codec", "filters": "codec", "codecs": "codec", "storage_transformers": "storage transformer"}
SURVIVES = {
    "zarr2": {
        ("zarr_format", "absent"),
        ("fill_value", "null"),
        ("fill_value", "minus one"),
        ("filters", "null"),
        ("filters", "absent"),
        ("order", "absent"),
        ("fill_value", "absent"),
        ("dimension_separator", "absent"),
    },
    "zarr3": {
        ("unknown", "absent"),
        ("fill_value", "minus one"),
        ("attributes", "an object"),
        ("attributes", "absent"),
        ("storage_transformers", "absent"),
        ("storage_transformers", "null"),
        ("dimension_names", "absent"),
        ("dimension_names", "null"),
        ("chunk_key_encoding", "absent"),
        ("chunk_key_encoding", "null"),
    },
}


def cell(url: str) -> Any:
    """The first cell."""
    array = hs.open(url)["a"]
    return array[(0,) * array.ndim]


def shape_of(url: str) -> Any:
    """The shape."""
    return hs.open(url)["a"].shape


def shapes() -> Iterator[Case]:
    """Shapes and chunks that are negative, zero, huge, of too many dimensions."""
    limit = ("MemoryLimit",)
    for layout in MAIN:

        def made(shape: Any, chunks: Any, layout: str = layout) -> Callable[[Path], None]:
            return edited(DOCUMENT[layout], lambda doc: _cut(doc, layout, shape, chunks))

        huge = 2**62
        yield Case(f"{layout}: a negative length", made([-8, 8], [4, 4]), FORMAT, layout)
        yield Case(f"{layout}: a length beyond 2^63", made([2**63, 8], [8, 8]), FORMAT, layout)
        yield Case(f"{layout}: a length beyond 2^64", made([2**65, 8], [8, 8]), FORMAT, layout)
        yield Case(f"{layout}: chunks of no cell", made([8, 8], [0, 4]), FORMAT, layout)
        yield Case(f"{layout}: negative chunks", made([8, 8], [-4, 4]), FORMAT, layout)
        yield Case(f"{layout}: chunks of one dimension", made([8, 8], [4]), FORMAT, layout)
        yield Case(f"{layout}: chunks of three dimensions", made([8, 8], [4, 4, 4]), FORMAT, layout)
        yield Case(f"{layout}: 65 dimensions", made([1] * 65, [1] * 65), FORMAT, layout)
        yield Case(f"{layout}: 10^5 dimensions", made([1] * 100_000, [1] * 100_000), FORMAT, layout)
        yield Case(f"{layout}: a fraction", made([8.5, 8], [4, 4]), FORMAT, layout)
        chunks = [8, 8] if layout == "shards" else [4, 4]
        yield Case(f"{layout}: 2^124 cells, read whole", made([huge, huge], chunks), limit, layout, (whole,))
        yield Case(f"{layout}: 2^62 cells in a row", made([huge, 8], chunks), limit, layout, (whole, _rows))
        yield Case(f"{layout}: 2^124 cells, read one", made([huge, huge], chunks), (), layout, (cell,), 1)
        yield Case(f"{layout}: 2^124 cells, described", made([huge, huge], chunks), (), layout, (_described,))
        if layout != "shards":
            big = made([8, 8], [2**40, 2**40])
            yield Case(f"{layout}: chunks of 2^80 cells", big, limit, layout, (whole, part, cell))
            big = made([8, 8], [2**31, 4])
            yield Case(f"{layout}: chunks of 2^33 cells", big, limit, layout, (whole, part, cell))
        empty = made([0, 8], chunks)
        yield Case(f"{layout}: no cells at all", empty, (), layout, (whole,), np.empty((0, 8), "i4"))
    yield Case(
        "zarr3: 64 dimensions",
        edited("a/zarr.json", lambda doc: _cut(doc, "zarr3", [1] * 64, [1] * 64)),
        (),
        "zarr3",
        (shape_of,),
        (1,) * 64,
    )
    for name, count in {"2^31 inner chunks": 2**15, "2^60 inner chunks": 2**30}.items():

        def many(doc: dict[str, Any], count: int = count) -> None:
            _cut(doc, "zarr3", [2 * count, 2 * count], [2 * count, 2 * count])

        yield Case(
            f"shards: an index of {name}",
            edited("a/zarr.json", many),
            ("MemoryLimit", "CorruptChunk"),
            "shards",
            (cell,),
        )
    for name, value in {
        "a run of 2^60 sizes": [[4, 2**60]],
        "10^7 sizes": [[4, 10**7], [2, 10**7]],
        "a size of 0": [0, 8],
        "sizes that do not reach": [1, 1],
        "text": "x",
        "runs within runs": [[[4, 2], 2]],
    }.items():
        grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [value, [4, 4]]}}
        make = edited("a/zarr.json", lambda doc, grid=grid: doc.update(chunk_grid=grid))
        errors = () if name.startswith("a run of") else FORMAT
        yield Case(f"zarr3: rectilinear: {name}", make, errors, "zarr3", (whole,))


def _cut(doc: dict[str, Any], layout: str, shape: Any, chunks: Any) -> None:
    doc["shape"] = shape
    doc.pop("dimension_names", None)
    if layout == "zarr2":
        doc["chunks"] = chunks
    else:
        doc["chunk_grid"]["configuration"]["chunk_shape"] = chunks


def _rows(url: str) -> Any:
    return hs.open(url)["a"][::2, 0]


def _described(url: str) -> Any:
    root: Any = hs.open(url)
    array = root["a"]
    return [
        repr(array),
        array._repr_html_(),
        root.tree(),
        root._repr_html_(),
        array.plan((0, 0)),
        array.grid.axes[0].count,
    ]


class Payload:
    """What a pickle would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def _armed(root: Path) -> bytes:
    """A pickle that makes a folder beside the dataset when it is loaded; the folder is noticed as a change on disk."""
    return pickle.dumps(Payload(root.parent / "executed"))


def _odd_codec(name: str, config: Any) -> Iterator[Case]:
    """One codec at every place."""
    for place in ("compressor", "filters", "both"):

        def chain(root: Path, name: str = name, config: Any = config, place: str = place) -> None:
            said = {"id": name, **config}
            new: dict[str, Any] = {"compressor": said if place != "filters" else None}
            new["filters"] = [said] if place != "compressor" else None
            edit(root / "a/.zarray", lambda doc: doc.update(new, dtype="|O", fill_value=None))
            (root / "a/0.0").write_bytes(_armed(root))

        yield Case(f"zarr2: {name!r} as {place}", chain, CANNOT, "zarr2")
    for place in ("first", "serial", "last", "inner", "index"):
        layout = "shards" if place in ("inner", "index") else "zarr3"

        def chain3(root: Path, name: str = name, config: Any = config, place: str = place) -> None:
            edit(
                root / "a/zarr.json",
                lambda doc: _insert(doc["codecs"], place, {"name": name, "configuration": config}),
            )
            (root / "a/c/0/0").write_bytes(_armed(root))

        yield Case(f"zarr3: {name!r} {place}", chain3, CANNOT, layout)


def codecs() -> Iterator[Case]:
    """Unknown codecs and those that would run code, at every place of a chain."""
    odd: dict[str, Any] = {
        "unknown": {},
        "pickle": {"protocol": 5},
        "msgpack2": {},
        "numcodecs.pickle": {},
        "os.system": {"command": "true"},
        "__import__": {},
        "../../pickle": {},
        "numcodecs.numcodecs.zlib": {},
        "": {},
    }
    for name, config in odd.items():
        yield from _odd_codec(name, config)
    objects = {
        "a filter": [{"id": "pickle"}],
        "no filter": None,
        "json2 and pickle": [{"id": "json2"}, {"id": "pickle"}],
    }
    for name, said in objects.items():

        def of_objects(root: Path, said: Any = said) -> None:
            edit(root / "a/.zarray", lambda doc: doc.update(dtype="|O", filters=said, compressor=None, fill_value=None))
            (root / "a/0.0").write_bytes(_armed(root))

        yield Case(f"zarr2: objects with {name}", of_objects, (*CANNOT, "CorruptChunk"), "zarr2")
    wrong: dict[str, Any] = {
        "blosc of a strange cname": {
            "name": "blosc",
            "configuration": {"cname": "x", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        },
        "gzip of level 99": {"name": "gzip", "configuration": {"level": 99}},
        "zstd of a text level": {"name": "zstd", "configuration": {"level": "high", "checksum": False}},
        "transpose of no permutation": {"name": "transpose", "configuration": {"order": [0, 0]}},
        "transpose of 10^9 axes": {"name": "transpose", "configuration": {"order": [10**9, 1]}},
        "crc32c with an option": {"name": "crc32c", "configuration": {"location": "middle"}},
        "a list of filters": {"name": "numcodecs.lzma", "configuration": {"format": 3, "filters": [{"id": 99}]}},
        "delta of objects": {"name": "numcodecs.delta", "configuration": {"dtype": "|O"}},
    }
    for name, said in wrong.items():
        place = "first" if "transpose" in name or "delta" in name else "last"
        make = edited("a/zarr.json", lambda doc, place=place, said=said: _insert(doc["codecs"], place, said))
        yield Case(f"zarr3: {name}", make, (*CANNOT, "CorruptChunk"), "zarr3")

    def deep(doc: dict[str, Any]) -> None:
        inner = doc["codecs"][0]
        for _ in range(20):
            inner = {
                "name": "sharding_indexed",
                "configuration": {**inner["configuration"], "codecs": [json_text.loads(json_text.dumps(inner))]},
            }
        doc["codecs"] = [inner]

    yield Case("shards: 20 deep", edited("a/zarr.json", deep), CANNOT, "shards")


def _insert(chain: list[Any], place: str, said: Any) -> None:
    if place in ("inner", "index"):
        config = chain[0]["configuration"]
        config["codecs" if place == "inner" else "index_codecs"].append(said)
    elif place == "serial":
        chain[0] = said
    else:
        chain.insert(0 if place == "first" else len(chain), said)
