"""Collections in DEKER's layout below one root: found, opened, made."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, FormatError, Unsupported
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import CollectionDocument, LayoutName, parse, text
from hyperslab.formats.deker.files import sync_entries, write_beside
from hyperslab.formats.deker.folder import make_empty, read_document
from hyperslab.formats.deker.holding import DekerHolding
from hyperslab.formats.deker.stray_files import leftovers
from hyperslab.formats.deker.system_errors import translate_errors
from hyperslab.model.schemas.records import check_name
from hyperslab.stores.files import read_error, remove_tree, write_errors
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.location import Location
from hyperslab.stores.locks import hold_file


@translate_errors(lambda layout: "")
class DekerLayout:
    """Collections whose documents are called as they are, on a local file system."""

    name: LayoutName = "deker"

    def names(self, where: Location) -> list[str]:
        """The collections of this layout, sorted; what is none is passed over."""
        folder = _collections(where)
        return [] if folder is None else [name for name in _entries(folder) if _has_document(folder, name)]

    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> DekerHolding | None:
        """A collection; None when there is none of this name and layout; FormatError when its document is damaged."""
        folder = _collections(where)
        if folder is None or "/" in name or "\0" in name or not _has_document(folder, name):
            return None
        path = f"{folder}/{name}/{name}.json"
        try:
            document = parse(read_document(path), name)
        except FormatError as error:
            raise error.locate(url=path) from error.__cause__
        return DekerHolding(os.path.dirname(folder), document, settings, writable=writable)

    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> DekerHolding:
        """A new collection; AlreadyExists when the name is taken, Unsupported elsewhere than on a local file system."""
        check_name(document.name)
        folder = _collections(where)
        if folder is None:
            raise Unsupported(
                "the layout deker needs a folder of a file system",
                url=where.url,
                remedy='choose layout="hyperslab", which is format="collections"',
            )
        holding = DekerHolding(os.path.dirname(folder), document, settings, writable=True)
        holding.cells.form.rehearse()  # options that HDF5 cannot have are refused before anything is stored
        path, lock = holding.folder.path, holding.folder.lock
        with write_errors(where.url, f"collections/{document.name}"):
            os.makedirs(folder, exist_ok=True)
            with hold_file(partial(_made, lock), settings.lock_timeout):
                if os.path.lexists(path) and not _is_left_over(path):
                    raise AlreadyExists(f"the collection {document.name!r} exists", url=where.url)
                _put(path, text(document), settings)
        return holding

    def remedies(self, where: Location) -> Iterator[Remedy]:
        """Folders and files that belong to no collection, with what mends that."""
        folder = _collections(where)
        if folder is None:
            return
        names = _entries(folder)
        yield from leftovers(folder, names, [name for name in names if _has_document(folder, name)])


LAYOUT = DekerLayout()


def _collections(where: Location) -> str | None:
    """The folder of all collections; None for a place that is no folder of this machine."""
    if where.scheme != "file" or where.path is None:
        return None
    return f"{where.path.rstrip('/')}/collections"


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise read_error(error, folder, "") from error


def _has_document(folder: str, name: str) -> bool:
    """Return whether a folder holds the document of a collection, and not one of our own layout that is called so."""
    path = f"{folder}/{name}/{name}.json"
    if not os.path.isfile(path):
        return False
    if name != "collection":
        return True
    try:
        said = read_document(path)
    except FormatError:
        return not os.path.isdir(f"{folder}/{name}/arrays")
    return not (isinstance(said, dict) and said.get("layout") == "hyperslab")


def _made(lock: str) -> str:
    make_empty(lock)
    return lock


def _is_left_over(path: str) -> bool:
    """Return whether a folder is empty: its creation was not completed."""
    return os.path.isdir(path) and not os.listdir(path)


def _put(path: str, body: bytes, settings: Settings) -> None:
    """The folder of a collection with its document, at one stroke."""
    above, name = os.path.split(path)
    temporary = f"{above}/{temporary_name(name)}"
    os.mkdir(temporary)
    try:
        os.rename(write_beside(f"{temporary}/{name}.json", body, durable=settings.durable), f"{temporary}/{name}.json")
        os.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            remove_tree(temporary)
        raise
    if settings.durable:
        sync_entries(path)
        sync_entries(above)
