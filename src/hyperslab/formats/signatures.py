"""Signatures of files that are no dataset: what lies at a place, in words for an error message."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress

from hyperslab.errors import FormatError, HyperslabError, Unsupported
from hyperslab.model.amounts import counted
from hyperslab.stores.keys import UNFINISHED
from hyperslab.stores.location import Location, Probe

_NUMPY, _ZIP, _GRIB, _PARQUET, _TEXT, _NOTHING, _NOTHING_IN = (
    "a NumPy .npy file",
    "a zip archive",
    "a GRIB message",
    "a Parquet file",
    "a text file",
    "an empty file",
    "an empty folder",
)
# The first bytes of common files, by which they are named in the message.
_SIGNATURES = [
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"CDF", "a netCDF classic file"),
    (b"\x93NUMPY", _NUMPY),
    (b"PK\x03\x04", _ZIP),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"GRIB", _GRIB),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"PAR1", _PARQUET),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
]
_REMEDIES = {
    _NUMPY: "np.load reads it, and hs.save stores what that gives",
    _ZIP: "of np.savez, np.load reads it; of a dataset, its documents have to lie at the root of the archive",
    _GRIB: "cfgrib opens it in xarray, and hs.save stores what that gives",
    _PARQUET: "pandas reads it, and hs.write_frame stores what that gives",
    _TEXT: "pandas reads tables of text, and hs.write_frame stores what that gives",
    _NOTHING: "write it anew, or fetch it again: what was to fill it has failed",
    _NOTHING_IN: "check the path, or make a dataset there with mode='a' (convert --overwrite)",
}
"""What reads a file that is no dataset, by the words that it is described with; for others the formats are listed."""
DOCUMENT_3 = "zarr.json"
"""The document of each node in Zarr v3."""
_ARRAY_2, _GROUP_2 = ".zarray", ".zgroup"
_DOCUMENTS_2 = (_ARRAY_2, _GROUP_2, ".zattrs", ".zmetadata")
_OF_NODE = re.compile(rb'"node_type"\s*:\s*"(array|group)"')
_REPOSITORIES = ({"refs", "snapshots", "transactions"}, {"repo", "snapshots", "transactions"})
"""What every repository of icechunk has from its first commit on: by its version 1, and 2."""
_MOST_ABOVE = 16  # folders that a chunk lies in, below its array: one for each dimension, and `c`
_SHOWN = 6  # names of a folder that fit a line
_ENDINGS = {".zarr", ".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".nwb", ".nczarr", ".blaze", ".blp", ".b2nd", ".db"}


def unknown_format_error(probe: Probe, formats: Iterable[str]) -> FormatError:
    """Return the error for a place that holds no dataset: how its bytes look, and which ``formats`` there are."""
    if is_unfinished(probe.where):
        return unfinished_error(probe.url)
    if (document := document_error(probe.where)) is not None:
        return document
    if is_repository(probe):
        url = probe.url if "://" in probe.url else f"file://{probe.url}"
        message = "this is a repository of icechunk, which a path alone does not say"
        return FormatError(message, url=probe.url, remedy=f"open icechunk+{url}")
    words = describe_place(probe)
    remedy = next((remedy for kind, remedy in _REMEDIES.items() if words.startswith(kind)), None)
    if remedy is None and (names := _datasets_within(probe)):
        remedy = _name_datasets(probe.url, names)
    message = f"this is no dataset that hyperslab knows: {words}"
    return FormatError(message, url=probe.url, remedy=remedy or f"give format=; there are {', '.join(formats)}")


def holds_only_datasets(probe: Probe) -> bool:
    """Return True for a folder, or a prefix of a bucket, without a document of Zarr, whose folders all have names that
    end as datasets do."""
    keys, folders = probe.list_dir()
    return bool(folders) and all(map(ends_as_dataset, folders)) and not {DOCUMENT_3, *_DOCUMENTS_2} & set(keys)


def ends_as_dataset(name: str) -> bool:
    """Return True for a name that ends as those of datasets do."""
    return os.path.splitext(name)[1].lower() in _ENDINGS


def _datasets_within(probe: Probe) -> list[str]:
    """Return the names in a folder, or below a prefix of a bucket, that end as datasets do, in order."""
    try:
        keys, folders = probe.store.list_dir("") if probe.where.is_dir() else ((), ())
    except Unsupported:  # a web server that lists nothing
        return []
    return sorted(filter(ends_as_dataset, {*keys, *folders}))


def _name_datasets(url: str, names: list[str]) -> str:
    """Return the remedy for a folder at ``url`` that holds these datasets: the first few names, and the pattern of all
    where they end alike."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    remedy = f"name one in it: {', '.join(names[:_SHOWN])}{more}"
    endings = {os.path.splitext(name)[1] for name in names}
    if len(names) == 1 or len(endings) > 1 or "://" in url or any(".nwb" in name for name in names):  # sessions
        return remedy
    return f"{remedy}; or all as one, with '{url.rstrip('/')}/*{endings.pop()}'"


def is_repository(probe: Probe) -> bool:
    """Return True for a folder, or a place in a bucket, that looks like a repository of icechunk."""
    try:
        if not probe.where.is_dir():
            return False
        keys, folders = probe.store.list_dir("")
    except Unsupported:  # a web server that lists nothing
        return False
    return any(each <= {*keys, *folders} for each in _REPOSITORIES)


def document_error(where: Location) -> FormatError | None:
    """Return the error for a place within a node of Zarr: a document of one, or chunks of an array; None elsewhere."""
    is_document = where.name in (DOCUMENT_3, *_DOCUMENTS_2)
    if (array := array_around(where)) is not None:
        what = "this document" if is_document else "this"
        return FormatError(f"{what} lies within the array {array.url}", url=where.url, remedy="open that")
    node = _folder_of(where) if is_document else None
    if node is None or not _holds_node(node):
        return None
    return FormatError(f"this is a document of the dataset {node.url}", url=where.url, remedy="open that")


def array_around(where: Location) -> Location | None:
    """Return the place of the array of Zarr that a place lies within, as its chunks and documents do."""
    above = _folder_of(where)
    for _ in range(_MOST_ABOVE):
        if above is None:
            return None
        with suppress(HyperslabError):
            store = above.store(read_only=True)
            document = store.get(DOCUMENT_3)
            found = None if document is None else _OF_NODE.search(document)
            if (found and found[1] == b"array") or store.size(_ARRAY_2) is not None:
                return above
            if found or store.size(_GROUP_2) is not None:
                return None
        above = above.above()
    return None


def _folder_of(where: Location) -> Location | None:
    """Return the folder that a place lies in, of a file of references and of an archive too."""
    return where.above() if where.path is None else Location.of(os.path.dirname(where.path))


def _holds_node(where: Location) -> bool:
    """Return True for a folder with documents of Zarr; a file of references may be called like one."""
    store = where.store(read_only=True)
    document = store.get(DOCUMENT_3)
    if document is not None:
        return _OF_NODE.search(document) is not None and b'"refs"' not in document
    return any(store.size(name) is not None for name in (_ARRAY_2, _GROUP_2))


def file_above(where: Location) -> str | None:
    """Return the path of the file that a place of this machine lies below, as if it were a folder; None elsewhere."""
    path = where.path
    while path and not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
        if os.path.isfile(path):
            return path
    return None


def is_unfinished(where: Location) -> bool:
    """Return True where a conversion was interrupted, or is still under way."""
    try:
        return where.is_dir() and UNFINISHED in where.store(read_only=True).list_dir("")[1]
    except Unsupported:  # a web server that lists nothing
        return False


def unfinished_error(url: str) -> FormatError:
    """Return the error for a place that holds half a dataset."""
    message = "a conversion to this place is not finished: it was interrupted, or is still under way"
    remedy = "repeat the conversion: with resume=True (--resume) it goes on, where it was begun so; else it starts anew"
    return FormatError(message, url=url, remedy=remedy)


def describe_place(probe: Probe) -> str:
    """Return ``a PNG image``, ``a folder that holds 'a', 'b'``, ``a text file that begins with '…'`` …"""
    head = probe.head(64)
    for signature, words in _SIGNATURES:
        if head.startswith(signature):
            return words
    if head:
        try:
            text = head.decode()
        except UnicodeDecodeError:
            return f"a file that begins with the bytes {head[:16].hex(' ')}"
        return f"{_TEXT} that begins with {text[:32]!r}"
    if not probe.where.is_dir():
        return _NOTHING
    try:
        keys, folders = probe.store.list_dir("")
    except Unsupported:  # a web server that lists nothing
        return "nothing that this server shows"
    names = [*(f"{name}/" for name in folders), *keys]
    if not names:
        return _NOTHING_IN
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    looked = f"; {counted(probe.folders_searched, 'folder')} of it were looked at" if probe.folders_searched > 1 else ""
    return f"a folder that holds {', '.join(map(repr, names[:_SHOWN]))}{more}{looked}"
