"""References on disk: kerchunk's JSON and Parquet, and virtual chunks of icechunk.

Beside the references stands what tells the version of each file that they lead to, in a member of its own that other
readers pass over; :mod:`hyperslab.stores.references` holds the files to it.
"""

from __future__ import annotations

import base64
import logging
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import numpy as np

from hyperslab.chunks.locations import ChunkLocations
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.amounts import counted
from hyperslab.stores.building import already_exists
from hyperslab.stores.location import Location
from hyperslab.stores.parquet import ParquetColumn, write_table
from hyperslab.stores.reference_table import ALLOW, LIMIT, METADATA, VERSIONS, file_version
from hyperslab.stores.repositories import RepositoryPlace, library, translate_errors
from hyperslab.stores.repository_buckets import container_store, major_minor
from hyperslab.stores.stored_file import StoredFile

_log = logging.getLogger("hyperslab")

RECORD_ROWS = 10_000
"""Chunks of a table: as many as kerchunk has. More make a lone chunk dearer to find, fewer make more files."""


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
    """The names by which references call files, and the version of each of them."""

    def __init__(self, target: str, *, relative: bool) -> None:
        self.target = target
        self._folder = os.path.join(os.path.dirname(os.path.realpath(target)), "")
        self._relative = relative
        self.versions: dict[str, Sequence[object]] = {}

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

    def warn_of_others(self) -> None:
        """Log how many files lie outside the folder of the target, which readers are to be allowed."""
        folder = self._folder.replace(os.sep, "/")
        others = [
            name for name in self.versions if "://" in name or (os.path.isabs(name) and not name.startswith(folder))
        ]
        if others:
            lie = "lie" if len(others) > 1 else "lies"
            _log.warning(
                "%s %s outside the folder of %s; readers %s", counted(len(others), "file"), lie, self.target, ALLOW
            )

    def _name(self, file: StoredFile) -> str:
        name = file.url
        if "://" not in name:
            path = os.path.realpath(name)
            name = path[len(self._folder) :] if self._relative and path.startswith(self._folder) else path
            name = name.replace(os.sep, "/")
        if "{{" in name:
            raise Invalid("two braces in a name mean a template", url=file.url, remedy="give the file another name")
        return name


def spell_compressors_as_filters(values: dict[str, bytes], paths: Iterable[str]) -> None:
    """Have the documents of arrays name the compressor as the last filter, which means the same to every reader of Zarr
    v2: kerchunk does so for HDF5, and VirtualiZarr 2.5 takes no other form."""
    consolidated = msgspec.json.decode(values[METADATA])
    for path in paths:
        key = f"{path}/.zarray".removeprefix("/")
        document = consolidated["metadata"][key]
        if document["compressor"] is not None:
            document["filters"] = [*(document["filters"] or ()), document["compressor"]]
            document["compressor"] = None
            values[key] = msgspec.json.encode(document)
    values[METADATA] = msgspec.json.encode(consolidated)


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
    targets.warn_of_others()
    return len(targets.versions)


def write_parquet(path: str, target: str, references: References, *, relative: bool) -> int:
    """Write kerchunk's tables below the folder ``path``, which is to have the name ``target``; return how many files
    they lead to."""
    targets = _Targets(target, relative=relative)
    documents: dict[str, object] = {}
    chunks: dict[str, dict[str, bytes]] = {}
    for key, value in references.values.items():
        folder, _, name = key.rpartition("/")
        if key == METADATA:  # it has all documents, in the order of the source
            documents = msgspec.json.decode(value)["metadata"]
        elif name.startswith(".z"):
            continue
        elif folder:
            chunks.setdefault(folder, {})[name] = value
        else:
            remedy = "write them as JSON: give the target the ending .json"
            raise Unsupported("references in Parquet to an array without a group", url=target, remedy=remedy)
    located = {each.path: each for each in references.arrays}
    os.mkdir(path)
    for key, document in documents.items():
        array, _, name = key.rpartition("/")
        if name == ".zarray":
            _write_array(os.path.join(path, array), document, located.get(array), chunks.get(array, {}), targets)
    noted = {"metadata": documents, "record_size": RECORD_ROWS, "zarr_consolidated_format": 1}
    with open(os.path.join(path, METADATA), "wb") as file:
        file.write(msgspec.json.encode(noted | {VERSIONS: {"files": targets.versions}}))
    targets.warn_of_others()
    return len(targets.versions)


def _write_array(
    folder: str, document: Any, located: ArrayReferences | None, inline: Mapping[str, bytes], targets: _Targets
) -> None:
    """Write the tables of one array, none for so many chunks of which none is stored."""
    counts = tuple(-(-length // size) for length, size in zip(document["shape"], document["chunks"], strict=True))
    numbers = files = offsets = sizes = np.zeros(0, np.int64)
    names: list[bytes] = []
    total = prod(counts)
    if total >= 2**63 and (inline or (located is not None and len(located.locations))):
        remedy = "write them as JSON: give the target the ending .json"
        raise Unsupported(f"{total} chunks of an array have no number in a table", url=targets.target, remedy=remedy)
    if located is not None and len(located.locations):
        found = located.locations
        numbers = np.ravel_multi_index(tuple(found.coords.T), counts) if counts else np.zeros(1, np.int64)
        order = np.argsort(numbers, kind="stable")
        numbers, files = numbers[order], found.numbers[order].astype(np.int64)
        offsets, sizes = found.offsets[order], found.sizes[order]
        names = [name.encode() for name in targets.names(found)]
    inline_numbers = [
        int(np.ravel_multi_index(tuple(map(int, name.split("."))), counts)) if counts else 0 for name in inline
    ]
    raw = dict(sorted(zip(inline_numbers, inline.values(), strict=True)))
    raw_numbers = np.array(list(raw), np.int64)
    os.makedirs(folder, exist_ok=True)
    for table in np.union1d(numbers // RECORD_ROWS, raw_numbers // RECORD_ROWS).tolist():
        start = table * RECORD_ROWS
        first, last = np.searchsorted(numbers, (start, start + RECORD_ROWS))
        own = raw_numbers[slice(*np.searchsorted(raw_numbers, (start, start + RECORD_ROWS)))].tolist()
        rows = min(RECORD_ROWS, total - start)
        places, columns = numbers[first:last] - start, {}
        if first < last:
            used, codes = np.unique(files[first:last], return_inverse=True)
            columns["path"] = ParquetColumn(places, [names[number] for number in used.tolist()], codes)
            for name, values in (("offset", offsets), ("size", sizes)):
                full = np.zeros(rows, np.int64)
                full[places] = values[first:last]
                columns[name] = ParquetColumn(np.arange(rows), full)
        if own:
            columns["raw"] = ParquetColumn(np.array(own) - start, [raw[number] for number in own], np.arange(len(own)))
        with open(os.path.join(folder, f"refs.{table}.parq"), "wb") as file:
            file.write(write_table(rows, columns))


def refuse_taken_repository(place: Location) -> None:
    """Raise AlreadyExists for a repository of icechunk with a dataset."""
    from hyperslab.stores.icechunk import RepositoryStore
    from hyperslab.stores.repository_keys import DOCUMENT

    if place.repository.exists():
        with closing(RepositoryStore(place.repository)) as store:
            if store.get(DOCUMENT) is not None:
                raise already_exists(place.url)


def write_repository(
    place: Location,
    pieces: Sequence[Location],
    references: References,
    message: str,
    options: Mapping[str, Any],
    *,
    overwrite: bool,
) -> int:
    """Commit the values and the virtual chunks to a repository of icechunk, which is made where there is none; return
    how many files they lead to. AlreadyExists for one with a dataset, unless it is to be replaced. ``pieces``: the
    datasets that the chunks are of, in whose folders the repository has readers allow them."""
    from hyperslab.stores.icechunk import RepositoryStore
    from hyperslab.stores.repository_keys import DOCUMENT

    used = {file for array in references.arrays for file in _used_files(array.locations)}
    repository = place.repository
    add_containers(repository, find_prefixes([piece.path or piece.url for piece in pieces], used), options)
    with closing(RepositoryStore(repository)) as store, store.transaction():
        if store.get(DOCUMENT) is not None:
            if not overwrite:
                raise already_exists(place.url)
            store.delete_prefix("")
        store.describe_commit(message)
        store.put_many(sorted(references.values.items(), key=lambda pair: not pair[0].endswith(DOCUMENT)))
        for array in references.arrays:
            found = array.locations
            names = [(location_of(file), checksum_of(file)) for file in found.files]
            places = zip(
                found.coords.tolist(), found.numbers.tolist(), found.offsets.tolist(), found.sizes.tolist(), strict=True
            )
            store.refer(
                array.path,
                ((coords, names[number][0], offset, size, names[number][1]) for coords, number, offset, size in places),
            )
    return len(used)


def _used_files(locations: ChunkLocations) -> list[StoredFile]:
    return [locations.files[number] for number in np.unique(locations.numbers).tolist()]


def inline_text(value: bytes) -> str:
    """Return a value as text, as kerchunk has it."""
    if value.startswith(b"{"):
        with suppress(UnicodeDecodeError):
            return value.decode()
    return "base64:" + base64.b64encode(value).decode()


# -- virtual chunks of repositories of icechunk ------------------------------------------------------------------------
# A repository names the folders and servers in which they may lie (its containers); who reads it allows those that he
# trusts. The version of a file is kept with each chunk, as icechunk does: its ETag, or the second of its last change.


_SECOND = 10**9
_SLASH = re.compile("/")


def location_of(file: StoredFile) -> str:
    """Return the URL by which icechunk knows a file."""
    return _absolute(file.url)


def _absolute(place: str) -> str:
    return place if "://" in place else f"file://{quote(os.path.realpath(place))}"


def checksum_of(file: StoredFile) -> str | datetime | None:
    """Return what icechunk compares the version of a file with. Times have whole seconds there, and a file that was
    changed later is another one: so the next second is kept."""
    if file.tag is not None or file.mtime is None:
        return None if _loses_quotes(file.url) else file.tag
    return datetime.fromtimestamp(-(-file.mtime // _SECOND), UTC)


def _loses_quotes(url: str) -> bool:
    """Return True for files on a web server by icechunk 2, which sends it their ETags without the quotes: no server
    knows them so, and each read would fail. A changed file is read unnoticed."""
    return url.startswith(("http://", "https://")) and major_minor(library()) >= (2, 0)


def find_prefixes(pieces: Sequence[str], files: Iterable[StoredFile]) -> list[str]:
    """Return the URLs of the folders in which the files lie: for each piece the dataset itself where that is a folder
    alone in its own, else the folder that it is in; those of files elsewhere."""
    locations = set(map(location_of, files))
    datasets = [_absolute(piece).rstrip("/") for piece in pieces]
    beside = Counter(map(_folder_of, datasets))
    folders = {
        f"{each}/" if each not in locations and beside[_folder_of(each)] == 1 else _folder_of(each) for each in datasets
    }
    found: set[str] = set()
    for folder in sorted(set(map(_folder_of, locations))):
        above = (folder[: slash.end()] for slash in _SLASH.finditer(folder))
        found.add(next((each for each in above if each in folders or each in found), folder))
    return sorted(found)


def _folder_of(url: str) -> str:
    return url.rpartition("/")[0] + "/"


def add_containers(place: RepositoryPlace, prefixes: Sequence[str], options: Mapping[str, Any]) -> None:
    """Have a repository, which is made where there is none, name the places of virtual chunks. ``options``: where
    servers are, as for the sources; no secret of these is kept.

    icechunk compares a path as the URL has it when a place of a chunk is stored, and without its escapes when the chunk
    is read: so a folder that is escaped is named both ways.
    """
    icechunk = library()
    wanted = {*prefixes, *(unquote(prefix) for prefix in prefixes if prefix.startswith("file://"))}
    # or Unsupported, and nothing is made
    stores = {prefix: container_store(icechunk, prefix, options) for prefix in sorted(wanted)}
    repository = place.open(create=True)
    with place.exclusive(None), translate_errors(place.name, doing="change"):
        config = repository.config
        known = config.virtual_chunk_containers or {}
        for prefix in sorted(wanted - known.keys()):
            config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(prefix, stores[prefix]))
        if not known.keys() >= wanted:
            repository.reopen(config).save_config()
