"""Hostile HDMF: its own words of wrong types, links and references that lead elsewhere, too many or in circles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from corpus import CANARY, A, Case, edit, whole
from documents import WRONG, json_cases
from nczarr_cases import ESCAPES

import hyperslab as hs
from hyperslab.errors import HyperslabError

BOTH = {"hdmf": ".zattrs", "hdmf3": "zarr.json"}
LINKS = {"hdmf": "zarr_link", "hdmf3": "_LINKS"}
TYPES = {"hdmf": "zarr_dtype", "hdmf3": "_DTYPE"}
OUT = ("../..", "/", "/etc", "file:///etc", "..", "../canary", "\0", "\\..\\..", "C:/", "x" * 5000, "http://[", "~", "")
Change = Callable[[dict[str, Any]], Any]


def attributes(layout: str, node: str, change: Change) -> Callable[[Path], None]:
    """Change the attributes of a node."""

    def changed(doc: dict[str, Any]) -> None:
        change(doc["attributes"] if layout == "hdmf3" else doc)

    def make(root: Path) -> None:
        path = root / node / BOTH[layout]
        if not path.exists():
            path.write_text("{}")
        edit(path, changed)

    return make


def linked(layout: str, *entries: Any) -> Callable[[Path], None]:
    """The root with these links."""
    return attributes(layout, "", lambda attrs: attrs.update({LINKS[layout]: list(entries)}))


def entry(name: Any, path: Any = "/g", source: Any = ".", **more: Any) -> dict[str, Any]:
    return {"name": name, "path": path, "source": source, **more}


def walked(url: str) -> Any:
    """Every name is asked for and every link followed; what is outside is never there."""
    root: Any = hs.open(url)
    for name in list(root)[:200]:
        with suppress(HyperslabError):
            assert CANARY.decode() not in repr(root[name])
    for value in (*root.attrs.values(), *root["a"].attrs.values()):
        if hasattr(value, "resolve"):
            with suppress(HyperslabError):
                value.resolve()
    return [root.tree(), hs.check(url, deep=True), hs.repair(url, links=True, drop_links=True)]


def hdmf() -> Iterator[Case]:
    """Everything of both profiles."""
    for layout in BOTH:
        yield from json_cases(layout)
        yield from _words(layout)
        yield from _links(layout)
        yield from _many_links(layout)
        yield from _references(layout)


def sound(layout: str, name: str, make: Callable[[Path], None], memory: int = 64 << 20) -> Case:
    """One in which all arrays are read as they were."""
    return Case(f"{layout}: {name}", make, (), layout, (whole, walked), A, memory=memory)


def _words(layout: str) -> Iterator[Case]:
    """Reserved attributes are survived whatever they are."""
    for how, value in WRONG.items():
        for word in (
            LINKS[layout],
            ".specloc",
            "_REFERENCE_FIELDS",
            "_ARRAY_DIMENSIONS",
            "object_id",
            "neurodata_type",
        ):
            make = attributes(layout, "", lambda attrs, word=word, value=value: attrs.update({word: value}))
            yield sound(layout, f"{word} of the root is {how}", make)
        for word in (TYPES[layout], LINKS[layout], "_REFERENCE_FIELDS", "_ARRAY_DIMENSIONS", "_hyperslab"):
            make = attributes(layout, "a", lambda attrs, word=word, value=value: attrs.update({word: value}))
            yield sound(layout, f"{word} of an array is {how}", make)
    for place in ESCAPES:
        make = attributes(layout, "", lambda attrs, place=place: attrs.update({".specloc": place}))
        yield sound(layout, f"the specifications are at {place[:20]!r}", make)
    for word in (
        "object",
        "region",
        "object_reference",
        "region_reference",
        [{"name": "x", "dtype": "object"}],
        "scalar",
    ):
        make = attributes(layout, "a", lambda attrs, word=word: attrs.update({TYPES[layout]: word}))
        yield sound(layout, f"{TYPES[layout]} is {word}", make)


def _links(layout: str) -> Iterator[Case]:
    """Names, places and sources that lead out."""
    for name in ESCAPES:
        yield sound(layout, f"a link called {name[:20]!r}", linked(layout, entry(name)))
    for number, place in enumerate((*ESCAPES, *OUT)):
        yield sound(layout, f"a link to {number}", linked(layout, entry("l", place)))
        yield sound(layout, f"a link to the dataset {number}", linked(layout, entry("l", "/", place)))
        known = entry("l", "/", place, object_id="x", source_object_id="y")
        yield sound(layout, f"a link to the dataset {number} of an identity", linked(layout, known))
    for how, value in WRONG.items():
        for word in ("name", "path", "source", "object_id", "source_object_id"):
            make = linked(layout, entry("l") | {word: value})
            yield sound(layout, f"{word} of a link is {how}", make)
        yield sound(layout, f"a link is {how}", linked(layout, value, value))
    yield sound(layout, "links of the names of nodes", linked(layout, entry("more", "/a"), entry("g2", "/g/b")))


def _many_links(layout: str) -> Iterator[Case]:
    """Circles, chains, links that grow, very many."""
    circle = [
        entry("l0", "/l1"),
        entry("l1", "/l0"),
        entry("l2", "/l2"),
        entry("l3", "/l3/x"),
        entry("l4", "/l4/../l4"),
    ]
    yield sound(layout, "links in a circle", linked(layout, *circle))
    chain = [entry(f"l{number}", f"/l{number + 1}") for number in range(500)]
    yield sound(layout, "a chain of 500 links", linked(layout, *chain))
    doubling = [entry(f"l{number}", f"/l{number + 1}/l{number + 1}") for number in range(100)]
    yield sound(layout, "links that double", linked(layout, *doubling))
    yield sound(layout, "a link to the root of the root", linked(layout, entry("l", "/l/l/l/l/l/l/l/l/l/a")))
    deep = entry("l", "/".join(["", *["a"] * 20_000]))
    yield sound(layout, "a link to a path of 20000 parts", linked(layout, deep))
    many = [entry(f"l{number}", "/a") for number in range(5_000)]
    yield sound(layout, "5000 links", linked(layout, *many), 256 << 20)


def _references(layout: str) -> Iterator[Case]:
    """References among attributes, to what cannot be."""

    def spelled(said: Any, word: str = "object") -> Callable[[Path], None]:
        value = {"_REFERENCE": said} if layout == "hdmf3" else {"value": said, "zarr_dtype": word}
        return attributes(layout, "a", lambda attrs: attrs.update(table=value))

    for how, value in WRONG.items():
        yield sound(layout, f"a reference is {how}", spelled(value))
        for word in ("path", "source", "object_id", "region"):
            said = {"path": "/a", "source": ".", word: value}
            yield sound(
                layout, f"{word} of a reference is {how}", spelled(said, "region" if word == "region" else "object")
            )
    for number, place in enumerate((*ESCAPES, *OUT)):
        yield sound(layout, f"a reference to {number}", spelled({"path": place, "source": "."}))
        yield sound(layout, f"a reference to the dataset {number}", spelled({"path": "/a", "source": place}))
    huge = 2**62
    regions = {
        "2^124 cells": {"type": "all", "shape": [huge, huge]},
        "a shape beyond 2^64": {"type": "all", "shape": [2**65, 8]},
        "10^5 axes": {"type": "all", "shape": [1] * 100_000},
        "negative": {"type": "slices", "shape": [8, 8], "axes": [{"start": -1, "stop": 3, "step": 1}] * 2},
        "a step of 0": {"type": "slices", "shape": [8, 8], "axes": [{"start": 0, "stop": 8, "step": 0}] * 2},
        "2^62 steps": {"type": "slices", "shape": [huge] * 2, "axes": [{"start": 0, "stop": huge, "step": 1}] * 2},
        "10^5 points": {"type": "points", "shape": [8, 8], "points": [[7, 7]] * 100_000},
        "10^4 blocks": {"type": "blocks", "shape": [8, 8], "blocks": [[[0, 0], [8, 8]]] * 10_000},
    }
    for name, region in regions.items():
        make = spelled({"path": "/a", "source": ".", "region": region}, "region")
        yield sound(layout, f"a region of {name}", make, 256 << 20)
