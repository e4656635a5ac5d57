"""Hostile roots of collections, in both layouts: documents, records, key entries, journals, indexes, tiles and links.

Each case damages one array or the document of the collection ``bad``. Nothing but errors of ours comes of it, the other
array, the other collection and all listings stay as they were, the check tells of it, and a repair harms nothing.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from collection_schemas import key, schema
from corpus import CANARY, Case
from documents import json_depth

import hyperslab as hs
from hyperslab.database import Client
from hyperslab.errors import HyperslabError

HIT, SOUND = "aa345678-1234-4234-8234-123456789abc", "bb345678-1234-4234-8234-123456789abc"
CELLS = np.arange(128).reshape(8, 16)
MEMORY = 200 << 20
Make = Callable[[Path], Any]


def made(folder: Path, layout: Any, flavour: str) -> None:
    """A root with a collection to be damaged and a sound one, and, in our own layout, a stored index of each."""
    links: Any = {"relative_links": True} if layout == "deker" else {"index": "stored"}
    with Client(folder, durable=False) as client:
        for name in ("bad", "good"):
            collection = client.create_collection(name, schema(flavour), layout=layout, **links)
            for slot, id in enumerate((HIT, SOUND)):
                array = collection.create(key(slot), {"note": "sound"}, id)
                array[:].update(CELLS + slot)
    if layout == "hyperslab":
        (folder / "collections" / "bad" / "index").write_text("{}")


@functools.cache
def template(folder: Path, layout: str, flavour: str) -> Path:
    """The same, made once."""
    place = folder / f"collections-{layout}-{flavour}"
    made(place, layout, flavour)
    return place


def copied(layout: str, flavour: str, damage: Make) -> Make:
    """A root with its collection ``bad`` damaged."""

    def make(root: Path) -> None:
        shutil.copytree(template(root.parent.parent.parent / "templates", layout, flavour), root, symlinks=True)
        damage(root / "collections" / "bad")

    return make


# -- what is done with them -------------------------------------------------------------------------------------------


@contextmanager
def tolerant(url: str) -> Iterator[None]:
    """Errors of ours that say where and what would work are fine."""
    try:
        yield
    except HyperslabError as error:
        for each in getattr(error, "exceptions", {0: error}).values():
            text = str(each)
            assert url in text and each.remedy and each.remedy in text, f"{type(each).__name__}: {text[:500]}"


def no_canary(value: Any) -> None:
    assert CANARY.decode() not in repr(value)


def survived(url: str) -> None:
    """Every way to the damaged collection and its array."""
    client = Client(url, mode="r")
    with tolerant(url):
        bad = client.get_collection("bad")
        if bad is not None:
            no_canary((bad.as_dict, bad, bad._repr_html_()))
            for work in (
                lambda: [no_canary((array, array.as_dict)) for array in bad],
                lambda: len(bad),
                lambda: no_canary(list(bad.query(note="sound"))),
                lambda: no_canary(bad.get(**key(0))),
                lambda: bad.last(),
                lambda: bad[HIT][:].read(),
                lambda: bad[HIT][0, 0].read(),
                lambda: bad[HIT].read_meta(),
                lambda: HIT in bad,
            ):
                with tolerant(url):
                    work()
    for path in ("bad", f"bad/{HIT}"):
        with tolerant(url):
            no_canary(hs.open(url)[path])
    with tolerant(url):
        no_canary(hs.open(url)[f"bad/{HIT}"][...])
    with tolerant(url):
        hs.open(url).tree()
    with tolerant(url):
        client.calculate_storage_size()


def unharmed(url: str, *, beside: bool = True) -> None:
    """The other collection, and the other array where the collection's own document is sound."""
    client = Client(url, mode="r")
    names = ["good", "bad"] if beside else ["good"]
    assert {collection.name for collection in client} >= set(names)
    assert "good" in hs.open(url)
    for name in names:
        collection = client.get_collection(name)
        assert SOUND in [array.id for array in collection]
        assert SOUND in [array.id for array in collection.query(station=key(1)["station"])]
        array = collection.get(**key(1))
        assert array is not None
        assert (array.id, array.custom_attributes["note"]) == (SOUND, "sound")
        assert (array[:].read() == CELLS + 1).all()
        assert len(collection) in (1, 2)
    array = client.get_collection("good")[HIT]
    assert (array[:].read() == CELLS).all()


def alone(url: str) -> None:
    """The same where the damage is the collection's."""
    unharmed(url, beside=False)


def told(url: str) -> None:
    """The check tells of the damage, with its place, and of nothing else."""
    for found in (Client(url, mode="r").check_integrity(4, stop_on_error=False), hs.check(url, deep=True)):
        assert found, "the check tells nothing"
        for problem in found:
            assert problem.node.startswith("bad") or "collections/bad" in str(problem), f"{problem}"
            assert SOUND not in problem.node, f"{problem}"


def mended(url: str) -> None:
    """A repair does what it said it would, and harms nothing; what is left is told by another one."""
    said = hs.repair(url)
    done = hs.repair(url, dry_run=False)
    assert [(each.node, each.kind) for each in said] == [(each.node, each.kind) for each in done]
    assert all(each.done for each in done if each.action), f"{list(done)}"
    again = hs.repair(url)
    failed = {each.kind for each in done if not each.done}
    assert {each.kind for each in again if each.action} <= {"leftover", "dangling-link", *failed}, f"{list(again)}"


def written(url: str) -> None:
    """Whoever writes meets errors of ours too, and changes nothing else."""
    client = Client(url, durable=False, write_lock_timeout=2)
    with tolerant(url):
        bad = client.get_collection("bad")
        if bad is not None:
            for work in (
                lambda: bad.create(key(5)).delete(),
                lambda: bad.get(**key(0))[0, 0].update(5),
                lambda: bad[HIT].update_custom_attributes({"note": "new"}),
                lambda: bad[HIT][:].update(CELLS),
                lambda: bad[HIT].delete(),
            ):
                with tolerant(url):
                    if bad.get(**key(0)) is not None:
                        work()


def cases(name: str, make: Make, *, beside: bool = True, found: bool = True, memory: int = MEMORY) -> Iterator[Case]:
    """One damage: nothing crashes and nothing is changed; it is told; a repair and writers harm nothing."""
    common: dict[str, Any] = {"layout": None, "where": (), "sibling": False, "target": "x", "memory": memory}
    harmless = unharmed if beside else alone
    yield Case(f"{name}: read", make, steps=(survived, harmless, *((told,) if found else ())), **common)
    yield Case(f"{name}: repaired", make, steps=(mended, survived, harmless), leaves=".*", **common)
    yield Case(f"{name}: written", make, steps=(written, survived, harmless), leaves="inside/.*", **common)


# -- damage -----------------------------------------------------------------------------------------------------------


def text(said: str | bytes) -> Callable[[Path], None]:
    data = said.encode() if isinstance(said, str) else said
    return lambda path: path.write_bytes(data) and None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def sparse(path: Path) -> None:
    with open(path, "r+b") as file:
        file.truncate(65 << 20)


def replaced(change: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Something else in place of the file."""

    def damage(path: Path) -> None:
        path.unlink()
        change(path)

    return damage


def elsewhere(path: Path) -> None:
    """A link to the sound file, moved out of the root."""
    outside = root_of(path).parent.parent / f"outside-{path.name}"
    shutil.move(path, outside)
    os.symlink(outside, path)


def root_of(path: Path) -> Path:
    while path.name != "collections":
        path = path.parent
    return path.parent


FILES: dict[str, Callable[[Path], Any]] = {
    "empty": text(""),
    "cut": cut,
    "garbage": text(bytes(range(256)) * 8),
    "65 MiB": sparse,
    "removed": Path.unlink,
    "a folder": replaced(Path.mkdir),
    "a pipe": replaced(os.mkfifo),
    "a link to nothing": replaced(lambda path: os.symlink("nothing", path)),
    "a link to itself": replaced(lambda path: os.symlink(path.name, path)),
    "a link out": elsewhere,
    "a link to the canary": replaced(lambda path: os.symlink(root_of(path).parent.parent / "canary", path)),
    "a link to a device": replaced(lambda path: os.symlink("/dev/zero", path)),
}
if os.geteuid():
    FILES["not readable"] = lambda path: path.chmod(0)
TEXTS: dict[str, str] = {
    "a list": "[]",
    "a number": "3",
    "null": "null",
    "an empty object": "{}",
    "10^5 lists": json_depth(100_000, "lists"),
    "10^5 open lists": json_depth(100_000, "lists that stay open"),
    "10^5 objects": json_depth(100_000, "objects"),
    "10^6 values": "[" + "1," * 1_100_000 + "1]",
    "a lone surrogate": '{"\\ud800": "\\ud800"}',
}


def found_in(bad: Path, place: str) -> Path:
    """The file of a pattern; of key entries the one of the array that is hit."""
    found = [path for path in sorted(bad.glob(place)) if path.parent.name != "keys" or path.read_text() == HIT]
    return found[0]


def file_cases(name: str, layout: str, flavour: str, place: str, **more: Any) -> Iterator[Case]:
    """All that can be wrong with a file; the first that fits the pattern."""

    def at(change: Callable[[Path], Any]) -> Make:
        return copied(layout, flavour, lambda bad: change(found_in(bad, place)))

    for how, change in FILES.items():
        large = {"memory": 1000 << 20} if how == "65 MiB" else {}
        yield from cases(f"{name}: {how}", at(change), **more, **large)


def text_cases(name: str, layout: str, flavour: str, place: str, **more: Any) -> Iterator[Case]:
    """All that can be wrong with a document."""
    yield from file_cases(name, layout, flavour, place, **more)
    for how, said in TEXTS.items():
        make = copied(layout, flavour, lambda bad, said=said: found_in(bad, place).write_text(said))
        yield from cases(f"{name}: {how}", make, **{"memory": MEMORY + 16 * len(said), **more})


def collections() -> Iterator[Case]:
    """Of our own layout."""
    layout = "hyperslab"
    array = f"arrays/aa/{HIT}"
    yield from text_cases("the collection", layout, "array", "collection.json", beside=False, found=False)
    yield from text_cases("the array", layout, "array", f"{array}/zarr.json")
    yield from text_cases("the index", layout, "array", "index", found=False)
    yield from file_cases("a generation", layout, "array", "generations/aa", found=False)
    yield from file_cases("an entry", layout, "array", "keys/*", found=False)
    yield from file_cases("the shard", layout, "array", f"{array}/c/0/0", found=False)
    yield from file_cases("a tile", layout, "varray", f"{array}/c/0/0", found=False)
    yield from text_cases("the journal", layout, "varray", f"journal/{HIT}", found=False)


def deker() -> Iterator[Case]:
    """Of DEKER's layout."""
    layout = "deker"
    yield from text_cases("the collection", layout, "array", "bad.json", beside=False, found=False)
    yield from text_cases("the varray", layout, "varray", f"varray_data/**/{HIT}.json", found=False)
    yield from file_cases("the file", layout, "array", f"array_data/**/{HIT}.hdf5", found=False)
    yield from file_cases("a tile", layout, "varray", f"array_symlinks/{HIT}/0-0/*.hdf5", found=False)
