"""Planted damage: a sound dataset in three layouts, and what is done to its bytes, by kind.

Each case says where ``check`` has to find what, and which cells are lost: those read as the fill value after the
repair, all others as before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

import hyperslab as hs

LAYOUTS = ("zarr2", "zarr3", "shards")
T2M = np.arange(1, 97, dtype="<i4").reshape(8, 12)
CELLS = {
    "lat": np.linspace(60.0, 25.0, 8),
    "lon": np.arange(12, dtype="f4") + 1,
    "t2m": T2M,
    "raw": np.arange(1, 97, dtype="<i2").reshape(8, 12),
    "g/b": np.arange(1, 6),
}
MISSING = 2**64 - 1


def sound(folder: Path, layout: str) -> Path:
    """The dataset: coordinates, an array with checksums or compression, a raw one, a group with an array; one copy."""
    place = folder / "x.zarr"
    shards: dict[str, Any] = {"chunks": (2, 3), "shards": (4, 6)} if layout == "shards" else {"chunks": (4, 6)}
    version = "zarr2" if layout == "zarr2" else "zarr3"
    with hs.create(str(place), version, consolidated=True, durable=False) as root, root.batch():
        root.attrs["title"] = "sound"
        root.create_group("g")
        for name in ("lat", "lon"):
            root.create_array(
                name, data=CELLS[name], dims=(name,), chunks=(4,), codec="zstd", attrs={"units": "degrees"}
            )
        root.create_array("t2m", data=T2M, dims=("lat", "lon"), codec="gzip", attrs={"units": "K"}, **shards)
        root.create_array("raw", data=CELLS["raw"], dims=("lat", "lon"), codec="none", checksum=False, **shards)
        root.create_array("g/b", data=CELLS["g/b"], dims=("x",), chunks=(5,))
    return place


@dataclass(frozen=True)
class Dataset:
    """One that is to be damaged."""

    root: Path
    layout: str

    @property
    def document(self) -> str:
        return ".zarray" if self.layout == "zarr2" else "zarr.json"

    @property
    def group(self) -> str:
        return ".zgroup" if self.layout == "zarr2" else "zarr.json"

    def chunk(self, array: str = "t2m", coords: tuple[int, ...] = (0, 0)) -> Path:
        """The file of a chunk or shard."""
        return self.root / array / self.key(coords)

    def key(self, coords: tuple[int, ...]) -> str:
        if self.layout == "zarr2":
            return ".".join(map(str, coords))
        return "/".join(map(str, ("c", *coords)))

    def change(self, path: Path, how: Callable[[bytes], bytes]) -> None:
        """Other bytes in a file."""
        path.write_bytes(how(path.read_bytes()))

    def edit(self, path: Path, how: Callable[[dict[str, Any]], Any]) -> None:
        """Another JSON document."""
        doc = json.loads(path.read_bytes())
        how(doc)
        path.write_text(json.dumps(doc))

    def copy(self, how: Callable[[dict[str, Any]], Any]) -> None:
        """Another consolidated metadata; ``how`` gets its entries."""
        if self.layout == "zarr2":
            self.edit(self.root / ".zmetadata", lambda doc: how(doc["metadata"]))
        else:
            self.edit(self.root / "zarr.json", lambda doc: how(doc["consolidated_metadata"]["metadata"]))

    def name_in_copy(self, array: str) -> str:
        return f"{array}/.zarray" if self.layout == "zarr2" else array

    def both(self, array: str, how: Callable[[dict[str, Any]], Any]) -> None:
        """Change a document and its copy alike."""
        self.edit(self.root / array / self.document, how)
        self.copy(lambda entries: how(entries[self.name_in_copy(array)]))


Region = tuple[slice, ...]
FIRST: Region = (slice(0, 4), slice(0, 6))


@dataclass(frozen=True)
class Case:
    """One kind of damage. ``kinds`` by layout where they differ; ``lost``: array and cells that are gone for good."""

    plant: Callable[[Dataset], Any]
    kind: str | dict[str, str]
    node: str = "t2m"
    key: str | None = None
    lost: dict[str, Region] = field(default_factory=dict)
    layouts: tuple[str, ...] = LAYOUTS
    attrs: bool = True

    def kind_in(self, layout: str) -> str:
        return self.kind if isinstance(self.kind, str) else self.kind[layout]


def _unlink(name: Callable[[Dataset], str]) -> Callable[[Dataset], None]:
    return lambda data: (data.root / name(data)).unlink()


def _on_document(how: Callable[[bytes], bytes]) -> Callable[[Dataset], None]:
    return lambda data: data.change(data.root / "t2m" / data.document, how)


def _on_chunk(how: Callable[[bytes], bytes], array: str = "t2m") -> Callable[[Dataset], None]:
    return lambda data: data.change(data.chunk(array), how)


def _huge(data: Dataset) -> None:
    os.truncate(data.root / "t2m" / data.document, 65 << 20)


def _attributes(data: Dataset) -> None:
    if data.layout == "zarr2":
        data.change(data.root / "t2m" / ".zattrs", lambda text: text[:-5])
    else:
        data.edit(data.root / "t2m" / "zarr.json", lambda doc: doc.update(attributes=[1]))


def _outside(data: Dataset) -> None:
    target = data.chunk(coords=(2, 0))
    target.parent.mkdir(exist_ok=True)
    shutil.copy(data.chunk(), target)


def _misspelled(data: Dataset) -> None:
    wrong = data.root / "t2m" / ("0/1" if data.layout == "zarr2" else "c.0.1")
    wrong.parent.mkdir(exist_ok=True)
    data.chunk(coords=(0, 1)).rename(wrong)


def _misspelled_twice(data: Dataset) -> None:
    wrong = data.root / "t2m" / ("0/1" if data.layout == "zarr2" else "0.1")
    wrong.parent.mkdir(exist_ok=True)
    shutil.copy(data.chunk(), wrong)


def _foreign(name: str) -> Callable[[Dataset], None]:
    def plant(data: Dataset) -> None:
        path = data.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"by somebody else")

    return plant


def _temporary(data: Dataset) -> None:
    for name, age in (("old", 10_000), ("fresh", 0)):
        path = data.root / "t2m" / f".{name}.{'0123456789abcdef'}.tmp"
        path.write_bytes(b"half")
        then = path.stat().st_mtime - age
        os.utime(path, (then, then))


def _in_place(make: Callable[[Path], Any]) -> Callable[[Dataset], None]:
    def plant(data: Dataset) -> None:
        path = data.chunk()
        path.unlink()
        make(path)

    return plant


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(b"?")


def _outside_link(path: Path) -> None:
    elsewhere = path.parents[3 if path.parent.parent.name == "c" else 1].parent / "elsewhere"
    elsewhere.write_bytes(b"secret")
    path.symlink_to(elsewhere)


def _circle_of_folders(data: Dataset) -> None:
    (data.root / "g" / "loop").symlink_to(data.root, target_is_directory=True)


def _extra_array(data: Dataset) -> None:
    """A node that the copy does not know."""
    shutil.copytree(data.root / "raw", data.root / "new")


def _gone(data: Dataset) -> None:
    shutil.rmtree(data.root / "raw")


def _damaged_copy(data: Dataset) -> None:
    if data.layout == "zarr2":
        data.edit(data.root / ".zmetadata", lambda doc: doc.update(metadata=[]))
    else:
        data.edit(data.root / "zarr.json", lambda doc: doc["consolidated_metadata"].update(metadata=3))


def _no_json_copy(data: Dataset) -> None:
    data.change(data.root / ".zmetadata", lambda text: text[:100])


def _smaller(data: Dataset) -> None:
    data.both("t2m", lambda doc: doc.update(shape=[4, 12]))


def _without_key_encoding(data: Dataset) -> None:
    """What comes back has to be mended itself, in the same repair."""
    data.both("t2m", lambda doc: doc.pop("chunk_key_encoding"))
    (data.root / "t2m" / "zarr.json").unlink()


def flip(data: bytes, place: int) -> bytes:
    """One bit turned."""
    turned = bytearray(data)
    turned[place] ^= 1
    return bytes(turned)


def _index(how: Callable[[np.ndarray], Any]) -> Callable[[Dataset], None]:
    """Another index at the end of the first shard, itself sound."""

    def change(data: bytes) -> bytes:
        entries = np.frombuffer(data[-68:-4], "<u8").reshape(4, 2).copy()
        how(entries)
        raw = entries.tobytes()
        return data[:-68] + raw + google_crc32c.value(raw).to_bytes(4, "little")

    return _on_chunk(change)


def _swap_length(entries: np.ndarray) -> None:
    entries[1, 0] += 10**6


def _overlap(entries: np.ndarray) -> None:
    entries[1] = entries[0]
    entries[1, 1] -= 1


def _half_missing(entries: np.ndarray) -> None:
    entries[1, 1] = MISSING


INNER: Region = (slice(0, 2), slice(3, 6))
HALF = {"zarr2": "corrupt-chunk", "zarr3": "corrupt-chunk", "shards": "shard-index"}

CASES: dict[str, Case] = {
    "root without document": Case(_unlink(lambda data: data.group), "missing-document", "", attrs=False),
    "group without document": Case(_unlink(lambda data: f"g/{data.group}"), "missing-document", "g"),
    "array without document": Case(_unlink(lambda data: f"t2m/{data.document}"), "missing-document"),
    "document cut": Case(_on_document(lambda text: text[: len(text) // 2]), "json-damaged"),
    "document empty": Case(_on_document(lambda text: b""), "json-damaged"),
    "document too deep": Case(_on_document(lambda text: b"[" * 101 + b"]" * 101), "json-depth"),
    "document too long": Case(_huge, "json-size"),
    "document with too many values": Case(_on_document(lambda text: b"[" + b"1," * 10**6 + b"1]"), "json-values"),
    "document no object": Case(
        lambda data: data.change(data.root / "g" / data.group, lambda text: b"[]"), "json-kind", "g"
    ),
    "document with bytes behind": Case(_on_document(lambda text: text + b"garbage"), "json-mended"),
    "document refused": Case(_on_document(lambda text: text.replace(b"8,", b"-8,", 1)), "shape"),
    "attributes damaged": Case(_attributes, {"zarr2": "json-damaged", "zarr3": "attributes", "shards": "attributes"}),
    "chunk empty": Case(_on_chunk(lambda data: b""), "empty-chunk", lost={"t2m": FIRST}),
    "chunk cut": Case(_on_chunk(lambda data: data[: len(data) // 2]), HALF, lost={"t2m": FIRST}),
    "raw chunk cut": Case(_on_chunk(lambda data: data[:7], "raw"), "truncated-chunk", "raw", lost={"raw": FIRST}),
    "raw chunk too long": Case(
        _on_chunk(lambda data: data + b"!", "raw"),
        "oversized-chunk",
        "raw",
        lost={"raw": FIRST},
        layouts=("zarr2", "zarr3"),
    ),
    "chunk of huge length": Case(
        lambda data: os.truncate(data.chunk(), 1 << 33),
        {"zarr2": "oversized-chunk", "zarr3": "oversized-chunk", "shards": "shard-index"},
        lost={"t2m": FIRST},
    ),
    "document without its version": Case(
        lambda data: data.edit(data.root / "t2m" / ".zarray", lambda doc: doc.pop("zarr_format")),
        "zarr_format",
        layouts=("zarr2",),
    ),
    "document without key encoding": Case(
        lambda data: data.edit(data.root / "t2m" / "zarr.json", lambda doc: doc.pop("chunk_key_encoding")),
        "chunk_key_encoding",
        layouts=("zarr3", "shards"),
    ),
    "document lost, which consolidated metadata has without key encoding": Case(
        _without_key_encoding, "missing-document", layouts=("zarr3", "shards")
    ),
    "chunk with a bit flipped": Case(
        _on_chunk(lambda data: flip(data, 20)), "corrupt-chunk", lost={"t2m": FIRST}, layouts=("zarr2", "zarr3")
    ),
    "chunk outside the grid": Case(_outside, "outside-grid"),
    "chunk under a wrong name": Case(_misspelled, "misspelled-key"),
    "second chunk under a wrong name": Case(_misspelled_twice, "misspelled-key"),
    "key of another rank": Case(_foreign("t2m/1"), "stray-chunk"),
    "foreign file in an array": Case(_foreign("t2m/notes.txt"), "foreign"),
    "foreign file in a group": Case(_foreign("g/.DS_Store"), "foreign", "g"),
    "foreign folder": Case(_foreign("g/pictures/a.png"), "foreign", "g/pictures"),
    "foreign folder in an array": Case(_foreign("t2m/old/a.png"), "foreign"),
    "unfinished write": Case(_temporary, "temporary"),
    "name that is no key": Case(_foreign("t2m/a\\b"), "unusable-name"),
    "folder for a chunk": Case(_in_place(_folder), "folder-for-chunk", lost={"t2m": FIRST}),
    "dangling link": Case(_in_place(lambda path: path.symlink_to("nowhere")), "dangling-link", lost={"t2m": FIRST}),
    "link to itself": Case(_in_place(lambda path: path.symlink_to(path.name)), "circular-link", lost={"t2m": FIRST}),
    "link out of the dataset": Case(_in_place(_outside_link), "outside-link", lost={"t2m": FIRST}),
    "circle of folders": Case(_circle_of_folders, "circular-link", "g"),
    "pipe for a chunk": Case(_in_place(os.mkfifo), "special-file", lost={"t2m": FIRST}),
    "consolidated metadata stale": Case(
        lambda data: data.copy(lambda entries: entries[data.name_in_copy("t2m")].update(shape=[2, 2])), "stale-copy"
    ),
    "consolidated metadata incomplete": Case(_extra_array, "incomplete-copy", "new"),
    "consolidated metadata of nothing": Case(_gone, "copy-of-nothing", "raw"),
    "consolidated metadata damaged": Case(_damaged_copy, "damaged-copy", ""),
    "consolidated metadata no JSON": Case(_no_json_copy, "json-damaged", "", layouts=("zarr2",)),
    "dimension too short": Case(_smaller, "dimension-sizes", ""),
    "array and group at once": Case(
        _foreign_group := lambda data: (data.root / "t2m" / ".zgroup").write_text('{"zarr_format": 2}'),
        "two-kinds",
        layouts=("zarr2",),
    ),
    "shard index flipped": Case(_on_chunk(lambda data: flip(data, -1)), "shard-index", layouts=("shards",)),
    "shard entry outside": Case(_index(_swap_length), "shard-range", lost={"t2m": INNER}, layouts=("shards",)),
    "shard entry half missing": Case(_index(_half_missing), "shard-range", lost={"t2m": INNER}, layouts=("shards",)),
    "shard entries overlap": Case(_index(_overlap), "shard-overlap", lost={"t2m": INNER}, layouts=("shards",)),
    "inner chunk flipped": Case(
        _on_chunk(lambda data: flip(data, 5)),
        "corrupt-chunk",
        lost={"t2m": (slice(0, 2), slice(0, 3))},
        layouts=("shards",),
    ),
    "inner chunk emptied": Case(
        _index(lambda entries: entries[1].__setitem__(1, 0)), "corrupt-chunk", lost={"t2m": INNER}, layouts=("shards",)
    ),
}
