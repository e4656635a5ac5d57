"""Signatures of files that are no dataset: what lies at a place, in words for an error message."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.errors import FormatError, Unsupported
from hyperslab.stores.keys import UNFINISHED
from hyperslab.stores.location import Location, Probe

# The first bytes of common files, by which they are named in the message.
_SIGNATURES = [
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"CDF", "a netCDF classic file"),
    (b"\x93NUMPY", "a NumPy .npy file"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"GRIB", "a GRIB message"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program"),
]
_SHOWN = 6  # names of a folder that fit a line


def unknown_format_error(probe: Probe, formats: Iterable[str]) -> FormatError:
    """Return the error for a place that holds no dataset: how its bytes look, and which ``formats`` there are."""
    if is_unfinished(probe.where):
        return unfinished_error(probe.url)
    message = f"this is no dataset that hyperslab knows: {describe_place(probe)}"
    return FormatError(message, url=probe.url, remedy=f"give format=; there are {', '.join(formats)}")


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
        return f"a text file that begins with {text[:32]!r}"
    if not probe.where.is_dir():
        return "an empty file"
    try:
        keys, folders = probe.store.list_dir("")
    except Unsupported:  # a web server that lists nothing
        return "nothing that this server shows"
    names = [*(f"{name}/" for name in folders), *keys]
    if not names:
        return "an empty folder"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"a folder that holds {', '.join(map(repr, names[:_SHOWN]))}{more}"
