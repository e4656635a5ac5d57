"""Where a client's collections are: a URI, a URL of a store or a path becomes what ``hyperslab.open`` takes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from hyperslab.errors import ClientError, ReadOnly, StorageError
from hyperslab.formats.collection_tree_format import OF_ZARR
from hyperslab.stores.redaction import redact

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HERE = ("", "localhost")
_PERMITTED = "look at the permissions of the folder above, or open it with mode='r'"


def place_of(uri: object) -> str:
    """The path or URL of a URI. ``file:rel`` and ``file://./rel`` are relative to the working directory, as paths are.

    ClientError for what is empty, no text and no path, or on another machine.
    """
    if isinstance(uri, os.PathLike):
        return os.path.abspath(os.fsdecode(uri))
    if not isinstance(uri, str) or not uri.strip():
        raise ClientError(f"{uri!r} is no place", remedy="give a URI such as file:///data/store, or a path")
    if uri.lower().startswith("file:"):
        return os.path.abspath(_file_path(uri[len("file:") :], uri))
    return uri if _SCHEME.match(uri) else os.path.abspath(uri)


def _file_path(rest: str, uri: str) -> str:
    if not rest.startswith("//"):
        return unquote(rest) or "."
    host, slash, path = rest[2:].partition("/")
    if host == ".":
        return f"./{unquote(path)}"
    if host.lower() not in _HERE:
        raise ClientError(f"{redact(uri)!r} names another machine", remedy="use file:///path, with three slashes")
    return unquote(slash + path) or "."


def local_folder(place: str) -> Path | None:
    """The folder that a place is; None for a URL."""
    return None if _SCHEME.match(place) else Path(place)


def make_folder(place: str) -> None:
    """Make the folder of collections at a place in the file system, and those above it. ClientError where a file
    or a dataset of Zarr is."""
    root = local_folder(place)
    if root is None or _is_archive(root):
        return
    folder = root / "collections"
    if not os.path.isdir(folder) and any(os.path.isfile(root / name) for name in OF_ZARR):
        raise ClientError("a dataset of Zarr lies here", url=place, remedy="give collections their own folder")
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ClientError("this is a file, not a folder", url=place, remedy="name a folder") from None
    except PermissionError as error:
        raise ReadOnly(f"the folder cannot be made: {error.strerror}", url=place, remedy=_PERMITTED) from error
    except (OSError, ValueError) as error:
        raise StorageError(f"the folder cannot be made: {error}", url=place) from error


def _is_archive(folder: Path) -> bool:
    """Return whether it is a zip file."""
    return folder.suffix.lower() == ".zip" and folder.is_file()
