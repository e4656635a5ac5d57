"""References on disk: kerchunk's JSON, which readers of fsspec, kerchunk and VirtualiZarr know.

Beside the references stands what tells the version of each file that they lead to, in a member of its own that other
readers pass over; :mod:`hyperslab.stores.references` holds the files to it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np

from hyperslab.chunks.locations import ChunkLocations
from hyperslab.errors import Invalid
from hyperslab.stores.references import LIMIT, VERSIONS, file_version
from hyperslab.stores.stored_file import StoredFile


@dataclass(frozen=True, eq=False)
class ArrayReferences:
    """The stored chunks of one array, at its ``path``, whose grid has ``counts`` chunks along each axis."""

    path: str
    counts: tuple[int, ...]
    locations: ChunkLocations


@dataclass(frozen=True, eq=False)
class References:
    """A dataset: ``values`` by key that are stored themselves, documents among them, and the chunks of ``arrays``."""

    values: Mapping[str, bytes]
    arrays: Sequence[ArrayReferences]


class _Targets:
    """What references call files by, and the version of each of them."""

    def __init__(self, target: str, *, relative: bool) -> None:
        self._folder = os.path.join(os.path.dirname(os.path.realpath(target)), "")
        self._relative = relative
        self.versions: dict[str, list[object]] = {}

    def names(self, locations: ChunkLocations) -> list[str]:
        """Return the names of the files of an array, in their order."""
        used = np.unique(locations.numbers)
        names = [""] * len(locations.files)
        for number in used.tolist():
            file = locations.files[number]
            name = names[number] = self._name(file)
            if self.versions.setdefault(name, file_version(file)) != file_version(file):
                raise Invalid("the file changed while it was read", url=file.url, remedy="try again")
        return names

    def _name(self, file: StoredFile) -> str:
        name = file.url
        if "://" not in name:
            path = os.path.realpath(name)
            name = path[len(self._folder) :] if self._relative and path.startswith(self._folder) else path
            name = name.replace(os.sep, "/")
        if "{{" in name:
            raise Invalid("two braces in a name mean a template", url=file.url, remedy="give the file another name")
        return name


def chunk_keys(path: str, coords: np.ndarray) -> list[str]:
    """Return the keys of chunks (n, ndim) in Zarr v2."""
    ndim = coords.shape[1]
    start = f"{path}/".replace("%", "%%") if path else ""
    if not ndim:
        return [f"{path}/0" if path else "0"] * len(coords)
    return list(map((start + ".".join(["%d"] * ndim)).__mod__, map(tuple, coords.tolist())))


def write_json(path: str, target: str, references: References, *, relative: bool) -> int:
    """Write kerchunk's document to ``path``, which is to have the name ``target``; return how many files it leads
    to."""
    targets = _Targets(target, relative=relative)
    refs: dict[str, object] = {key: inline_text(value) for key, value in references.values.items()}
    for array in references.arrays:
        found, names = array.locations, targets.names(array.locations)
        places = zip(found.numbers.tolist(), found.offsets.tolist(), found.sizes.tolist(), strict=True)
        entries = ([names[number], offset, size] for number, offset, size in places)
        refs.update(zip(chunk_keys(array.path, found.coords), entries, strict=True))
    document = {"version": 1, "refs": refs, VERSIONS: {"files": targets.versions}}
    data = msgspec.json.encode(document)
    if len(data) > LIMIT:
        remedy = "write them as Parquet: give the target the ending .parquet"
        raise Invalid(f"the document would have {len(data)} bytes, more than are read at once", remedy=remedy)
    with open(path, "wb") as file:
        file.write(data)
    return len(targets.versions)


def inline_text(value: bytes) -> str:
    """Return a value as text, as kerchunk has it."""
    if value.startswith(b"{"):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return "base64:" + base64.b64encode(value).decode()
