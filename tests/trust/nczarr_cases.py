"""Hostile NCZarr: its own words of wrong types, dimensions and types that cannot be, names that lead elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from corpus import A, Case, edit, opened, part, whole
from documents import CANNOT, FORMAT, WRONG, _cut, _described, cell, json_cases

import hyperslab as hs

BOTH = ("nczarr", "draft")
ESCAPES = (
    "../../canary",
    "..",
    "/",
    "a/../../canary",
    "\0",
    "\\",
    "a\\b",
    "C:",
    ".zarray",
    "",
    ".",
    "good/../a",
    "x" * 5000,
)


def edited(name: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change a document; consolidated metadata, which would hide that, goes."""

    def make(root: Path) -> None:
        (root / ".zmetadata").unlink(missing_ok=True)
        edit(root / name, change)

    return make


def written(name: str, data: bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        (root / ".zmetadata").unlink(missing_ok=True)
        (root / name).write_bytes(data)

    return make


def own(doc: dict[str, Any], kind: str, word: str, value: Any) -> None:
    doc[kind][word] = value


def nczarr() -> Iterator[Case]:
    """Everything of both dialects."""
    for layout in BOTH:
        yield from json_cases(layout)
        yield from _shapes(layout)
    yield from _words()
    yield from _words_of_the_draft()
    yield from _names()
    yield from _types()
    yield from _text()
    yield from _copies()


def _words() -> Iterator[Case]:
    """NCZarr's own objects are survived whatever they are."""
    words: dict[tuple[str, str], list[str]] = {
        ("a/.zattrs", "_nczarr_array"): ["dimension_references", "scalar", "storage", "nc_type", "written"],
        ("a/.zattrs", "_nczarr_attr"): ["types"],
        (".zattrs", "_nczarr_group"): ["dimensions", "arrays", "groups"],
        (".zattrs", "_nczarr_attr"): ["types"],
        ("g/.zattrs", "_nczarr_group"): ["dimensions", "arrays", "groups"],
    }
    for (name, kind), inner in words.items():
        for how, value in WRONG.items():
            whole_object = edited(name, lambda doc, kind=kind, value=value: doc.update({kind: value}))
            yield Case(f"nczarr: {kind} in {name} is {how}", whole_object, (), "nczarr", (whole,), A)
            for word in inner:
                make = edited(name, lambda doc, at=(kind, word), value=value: own(doc, *at, value))
                yield Case(f"nczarr: {word} of {kind} in {name} is {how}", make, (), "nczarr", (whole,), A)
    for how, value in WRONG.items():
        make = edited(".zattrs", lambda doc, value=value: doc.update(_nczarr_superblock=value, _NCProperties=value))
        yield Case(f"nczarr: the superblock is {how}", make, (), "nczarr", (whole,), A)
        make = edited(
            "a/.zattrs", lambda doc, value=value: doc["_nczarr_attr"]["types"].update(x=value) or doc.update(x=1)
        )
        yield Case(f"nczarr: the type of an attribute is {how}", make, (), "nczarr", (whole,), A)


def _words_of_the_draft() -> Iterator[Case]:
    """Those of the draft too, but ``dimensions`` that contradict the shape are an error of the array (R27)."""
    for how, value in WRONG.items():
        lost = how == "null"
        make = edited("a/.zarray", lambda doc, value=value: doc.update(dimensions=value))
        yield Case(
            f"draft: dimensions is {how}", make, () if lost else CANNOT, "draft", says=() if lost else ("dimensions",)
        )
        for word in ("typedef", "written", "nc_type"):
            make = edited("a/.zarray", lambda doc, word=word, value=value: doc.update({word: value}))
            yield Case(f"draft: {word} is {how}", make, (), "draft", (whole,), A)
        entries = {"x": value, "y": {"size": value, "class": value, "fields": value}, "title": value}
        for name in (".zdims", ".zattr_type"):
            make = edited(name, lambda doc, entries=entries: doc.update(entries))
            yield Case(f"draft: entries of {name} are {how}", make, (), "draft", (opened,))
        yield Case(f"draft: types are {how}", _types_of(entries), (), "draft", (whole,), A)


def _types_of(types: Any) -> Callable[[Path], None]:
    return written(".ztypedefs", json.dumps(types).encode())


def _shapes(layout: str) -> Iterator[Case]:
    """Lengths of dimensions and arrays that cannot be."""
    huge = 2**62
    group = ".zdims" if layout == "draft" else ".zattrs"

    def dims(said: dict[str, Any]) -> Callable[[Path], None]:
        return edited(
            group, lambda doc: (doc if layout == "draft" else doc["_nczarr_group"]["dimensions"]).update(said)
        )

    for size in (2**63, 10**300, -1, 0.5, True):
        for said in (size, {"size": size, "unlimited": 1}):
            yield Case(f"{layout}: dimensions of length {said}"[:120], dims({"more": said}), (), layout, (whole,), A)
    many = {f"d{number}": number for number in range(100_000)}
    yield Case(f"{layout}: 10^5 dimensions of a group", dims(many), (), layout, (whole,), A, memory=256 << 20)
    names = dict.fromkeys(ESCAPES, 3)
    yield Case(f"{layout}: names of dimensions", dims(names), (), layout, (whole,), A)

    def shaped(shape: Any, chunks: Any) -> Callable[[Path], None]:
        def change(doc: dict[str, Any]) -> None:
            _cut(doc, "zarr2", shape, chunks)
            doc.pop("dimensions", None)

        return edited("a/.zarray", change)

    yield Case(f"{layout}: a negative length", shaped([-8, 8], [4, 4]), FORMAT, layout)
    yield Case(f"{layout}: a length beyond 2^64", shaped([2**65, 8], [8, 8]), FORMAT, layout)
    yield Case(f"{layout}: 10^5 axes", shaped([1] * 100_000, [1] * 100_000), FORMAT, layout)
    yield Case(f"{layout}: 2^124 cells", shaped([huge, huge], [4, 4]), ("MemoryLimit",), layout, (whole,))
    yield Case(f"{layout}: 2^124 cells, read one", shaped([huge, huge], [4, 4]), (), layout, (cell,), 1)
    yield Case(f"{layout}: 2^124 cells, described", shaped([huge, huge], [4, 4]), (), layout, (_described,))
    yield Case(
        f"{layout}: chunks of 2^80 cells", shaped([8, 8], [2**40, 2**40]), ("MemoryLimit",), layout, (whole, part)
    )


def _names() -> Iterator[Case]:
    """Names that lead out of the dataset, in lists and references."""
    for name in ESCAPES:
        shown = repr(name)[:40]
        for kind in ("arrays", "groups"):
            make = edited(".zattrs", lambda doc, kind=kind, name=name: doc["_nczarr_group"][kind].insert(0, name))
            yield Case(f"nczarr: {kind} has {shown}", make, (), "nczarr", (_walked,))
        for number, fqn in enumerate((name, f"/{name}", f"/../{name}/x", f"/{name}/{name}")):
            said = [fqn, fqn]
            make = edited("a/.zattrs", lambda doc, said=said: doc["_nczarr_array"].update(dimension_references=said))
            yield Case(f"nczarr: reference {number} to {shown}", make, (), "nczarr", (whole, _walked), A)
    many = [f"n{number}" for number in range(100_000)]
    make = edited(".zattrs", lambda doc: doc["_nczarr_group"].update(arrays=[*many, "a", "good", "other"]))
    yield Case("nczarr: a list of 10^5 names", make, (), "nczarr", (whole,), A, memory=256 << 20)


def _walked(url: str) -> Any:
    """Every name is asked for, every node looked at."""
    root: Any = hs.open(url)
    assert "canary" not in list(root)
    return [root.tree(), [node.attrs for node in root.values()], hs.check(url)]


def _types() -> Iterator[Case]:
    """Types of the draft that cannot be: the rest of them, and all arrays, stay."""
    deep: Any = "<i4"
    for _ in range(40):
        deep = [["f", deep]]
    chain = {f"t{n}": {"class": "compound", "fields": [["f", f"/t{n + 1}"]]} for n in range(1000)}
    doubling = {f"t{n}": {"class": "compound", "fields": [["f", f"/t{n + 1}", [1000]]]} for n in range(20)}
    types: dict[str, Any] = {
        "a type that holds itself": {"t": {"class": "compound", "fields": [["f", "/t"]]}},
        "types in a circle": {
            "t": {"class": "compound", "fields": [["f", "/u"]]},
            "u": {"class": "compound", "fields": [["f", "/t"]]},
        },
        "40 structures in one another": {"t": {"class": "compound", "fields": deep}},
        "a chain of 1000 types": chain,
        "types that grow": doubling | {"t20": {"class": "compound", "fields": [["f", "<i4"]]}},
        "an opaque type of 2^62 bytes": {"t": {"class": "opaque", "size": 2**62}},
        "a compound of 2^62 bytes": {"t": {"class": "compound", "fields": [["f", "<f8", [2**31, 2**31]]]}},
        "a field of objects": {"t": {"class": "compound", "fields": [["f", "|O"]]}},
        "a field elsewhere": {"t": {"class": "compound", "fields": [["f", "/../../canary"]]}},
        "an enum out of range": {"t": {"class": "enum", "base": "|u1", "members": {"A": 2**70}}},
        "an enum of fractions": {"t": {"class": "enum", "base": "<f8", "members": {"A": 0}}},
        "10^5 members": {"t": {"class": "enum", "base": "<i4", "members": {f"m{n}": n for n in range(100_000)}}},
        "10^5 fields": {"t": {"class": "compound", "fields": [[f"f{n}", "<i4"] for n in range(100_000)]}},
        "two fields of one name": {"t": {"class": "compound", "fields": [["f", "<i4"], ["f", "<i4"]]}},
    }
    for name, said in types.items():
        yield Case(f"draft: {name}", _types_of(said), (), "draft", (whole,), A, memory=256 << 20)
    for fqn in ("/t", "t", "/g/t", "/../t", "/nowhere/t", ""):
        make = edited("a/.zarray", lambda doc, fqn=fqn: doc.update(typedef=fqn))
        yield Case(f"draft: the typedef {fqn!r}", make, (), "draft", (whole,), A)


def _text() -> Iterator[Case]:
    """Cells of text and characters of sizes that cannot be."""
    for layout in BOTH:
        for dtype in ("|S99999999999999", "|S-1", "|S", ">S1x", "<U99999999999", "|V99999999999999", "|S2147483647"):
            make = edited("a/.zarray", lambda doc, dtype=dtype: doc.update(dtype=dtype, fill_value=None))
            errors = (*CANNOT, "MemoryLimit", "CorruptChunk")
            yield Case(f"{layout}: dtype {dtype}", make, errors, layout)
        for size in (-1, 2**40, "x", [], "99999999999999999999"):
            step = {"id": "shuffle", "elementsize": size}
            make = edited("a/.zarray", lambda doc, step=step: doc.update(filters=[step]))
            yield Case(f"{layout}: an elementsize of {size!r}", make, (*CANNOT, "CorruptChunk", "MemoryLimit"), layout)


def _copies() -> Iterator[Case]:
    """Consolidated metadata of the draft that is damaged: the documents themselves count."""
    whole_copy: dict[str, Any] = {
        "no JSON": b"{{{",
        "a list": b"[]",
        "no metadata": b"{}",
        "10^5 levels": b'{"metadata": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
    }
    for name, said in whole_copy.items():
        make = lambda root, said=said: (root / ".zmetadata").write_bytes(said)  # noqa: E731
        yield Case(f"draft: consolidated metadata: {name}", make, (), "draft", (whole,), A)
    beside: dict[str, Any] = {
        "a list": [],
        "lists": {"documents": [], "order": []},
        "an odd order": {"documents": {}, "order": {"": [1, None, "../../canary", "a"], "g": 5, "../..": ["canary"]}},
        "odd documents": {"documents": {"../../canary/.zdims": {}, ".zdims": 5, "a": {}, "": {}}, "order": {}},
    }
    for name, value in beside.items():

        def change(root: Path, value: Any = value) -> None:
            edit(root / ".zmetadata", lambda doc: doc.update(nczarr=value))

        yield Case(f"draft: beside consolidated metadata: {name}", change, (), "draft", (whole, _walked), A)
    for name in (".zdataset", ".zdims", ".zattr_type"):
        for how, said in {"no JSON": b"{", "a list": b"[]", "levels": b"[" * 100_000}.items():
            where = (f"key={name}", "node=/")
            yield Case(f"draft: {name} is {how}", written(name, said), FORMAT, "draft", (opened,), None, where, False)
