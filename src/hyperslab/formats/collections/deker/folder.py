"""Where the files of a DEKER collection lie, and how they are listed, replaced and removed.

Paths are relative to the folder of the collection: computed from ids, keys and positions of tiles. An id's data lies
below eight folders of one character each (its first group) and one of the rest; a link to it lies below the values of
its primary attributes, as Python's ``str`` spells them. What could lead out of the folder is refused where it is
written and means nothing where it is read. A file is written under a temporary name and renamed: readers see the old or
the new."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, Literal, TypeVar

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError, ReadOnly, SchemaError
from hyperslab.formats.documents import LIMITS, check_limits
from hyperslab.model.schemas.arrays import check_component, is_id
from hyperslab.stores.files import create, discard, open_folder, read_error, sync_and_close, sync_folder, write_errors
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.system import ALWAYS, NO_WAIT, replace_file

Kind = Literal["array", "varray"]
"""Arrays and tiles are HDF5 files, VArrays are JSON documents."""


SUFFIXES: dict[Kind, str] = {"array": ".hdf5", "varray": ".json"}


FOLDERS = ("array_data", "array_symlinks", "varray_data", "varray_symlinks")


_is_position = re.compile(r"(?:0|[1-9][0-9]*)(?:-(?:0|[1-9][0-9]*))*").fullmatch


def data_path(kind: Kind, id: str) -> str:
    """Return the file of an array, tile or VArray."""
    first, _, rest = id.partition("-")
    return f"{kind}_data/{'/'.join(first)}/{rest}/{id}{SUFFIXES[kind]}"


def id_in(kind: Kind, name: str) -> str | None:
    """Return the id that a file or link of this kind is named by; None for any other name."""
    suffix = SUFFIXES[kind]
    stem = name.removesuffix(suffix)
    return stem if name.endswith(suffix) and is_id(stem) else None


def key_folder(kind: Kind, values: Iterable[object]) -> str:
    """Return the folder of the link of an array with these primary attributes, in the schema's order."""
    return "/".join([f"{kind}_symlinks", *map(path_component, values)])


def tile_folder(id: str, coords: Coords | None = None) -> str:
    """Return the folder of the link to a tile of a VArray; without ``coords`` the one above those of all its tiles."""
    return f"array_symlinks/{id}" if coords is None else f"array_symlinks/{id}/{'-'.join(map(str, coords))}"


def position_of(name: str) -> Coords | None:
    """Return the position that a tile's folder is named by; None for any other name, a negative position among them."""
    return tuple(map(int, name.split("-"))) if _is_position(name) else None


def path_component(value: object) -> str:
    """Return a primary attribute's value as a part of a path."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def check_parts(values: Iterable[object]) -> None:
    """Raise SchemaError for a key that would leave its folder, nest in another or be too long for a file system."""
    for value in values:
        check_component(path_component(value))


def are_safe(values: Iterable[object]) -> bool:
    """Return True if a link below these values lies where it should: in as many folders as there are values."""
    try:
        check_parts(values)
    except SchemaError:
        return False
    return True


# -- files by walking the folders -------------------------------------------------------------------------------------


# Folders between ``array_data`` and a file.
_DEPTH = 9


def data_files(folder: str, kind: Kind) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the ids of all arrays (or tiles, or VArrays) with what the system says of their files.

    Files elsewhere than where their id says are no arrays. What vanishes meanwhile is passed over.
    """
    for name, path, entry in walk(f"{folder}/{kind}_data", _DEPTH):
        id = id_in(kind, name)
        if id is not None and path == f"{folder}/{data_path(kind, id)}":
            with suppress(FileNotFoundError):
                yield id, _status(entry)


def _status(entry: os.DirEntry[str]) -> os.stat_result:
    """Return the status of an entry; of the link itself where its target cannot be reached."""
    try:
        return entry.stat()
    except FileNotFoundError:
        raise
    except OSError:
        return entry.stat(follow_symlinks=False)


def walk(folder: str, depth: int) -> Iterator[tuple[str, str, os.DirEntry[str]]]:
    """Yield all that is no folder at most so deep below ``folder``, sorted by name within each: its name, path and
    entry."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from walk(entry.path, depth - 1)
        else:
            yield entry.name, entry.path, entry


def total_size(folder: str) -> int:
    """Return bytes of all plain files below a folder."""
    total = 0
    for _, _, entry in walk(folder, 100):
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
    return total


# -- the folder of one collection -------------------------------------------------------------------------------------


@dataclass
class CollectionFolder:
    """``path`` is absolute and spelled as the user's URL; ``relative``: whether new links are relative."""

    path: str
    kind: Kind
    settings: Settings
    writable: bool
    relative: bool = False

    @property
    def name(self) -> str:
        """The collection's name."""
        return os.path.basename(self.path)

    @property
    def document(self) -> str:
        """The file of the collection's document."""
        return f"{self.path}/{self.name}.json"

    @property
    def lock(self) -> str:
        """The file that the peer locks while it makes the collection."""
        return f"{self.path}.lock"

    def data(self, id: str, kind: Kind | None = None) -> str:
        """Return the file of an array."""
        return f"{self.path}/{data_path(kind or self.kind, id)}"

    def require_writable(self) -> None:
        """Raise ReadOnly when the root was opened for reading."""
        if not self.writable:
            raise ReadOnly("the collection was opened for reading", url=self.path, remedy="open it for writing")

    @contextmanager
    def modify(self) -> Iterator[None]:
        """Raise the system's errors of the block as errors of ours; ReadOnly where no change is allowed."""
        self.require_writable()
        with write_errors(self.path, ""):
            yield


def read_bounded(path: str) -> bytes:
    """Return the bytes of a document, not many more than it may have; of a pipe none. OSError."""
    with open(os.open(path, os.O_RDONLY | NO_WAIT | ALWAYS), "rb") as file:
        return file.read(LIMITS.size + 1)


def make_empty(path: str) -> None:
    """Make a file unless it is there; OSError, also for what is a pipe."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | NO_WAIT | ALWAYS, 0o666))


def read_json_file(path: str) -> object:
    """Return a document as JSON values; FormatError."""
    try:
        data = read_bounded(path)
    except OSError as error:
        raise read_error(error, path, "") from error
    try:
        check_limits(data)
        return json.loads(data)
    except FormatError as error:
        raise error.locate(url=path) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the document of the collection is no JSON: {error}", url=path) from error


# -- files that are replaced whole ------------------------------------------------------------------------------------


# Attempts to use a folder that others remove whenever they see it empty: each attempt makes it anew.
_ATTEMPTS = 100


Made = TypeVar("Made")


def put_file(path: str, data: bytes, *, durable: bool) -> None:
    """Replace a small file whole."""
    temporary = write_beside(path, data, durable=durable)
    try:
        put_in_place(temporary, path, durable=durable, flushed=True)
    finally:
        discard(temporary)


def write_beside(path: str, data: bytes, *, durable: bool) -> str:
    """Make a file beside ``path``, which is to become that; return its temporary name."""
    temporary = temporary_path(path)
    descriptor = create(temporary, data)
    if durable:
        sync_and_close(descriptor)
    else:
        os.close(descriptor)
    return temporary


def put_in_place(temporary: str, path: str, *, durable: bool, flushed: bool = False) -> None:
    """Give a complete file its name."""
    if durable and not flushed:
        sync_and_close(os.open(temporary, os.O_RDWR | ALWAYS))
    replace_file(temporary, path)
    if durable:
        sync_entries(os.path.dirname(path))


def sync_entries(folder: str) -> None:
    """Have the medium keep the names in a folder."""
    with open_folder(folder) as descriptor:
        sync_folder(descriptor)


def sync_removal(folder: str) -> None:
    """Have the medium keep that something in a folder is gone: by that folder, or by the nearest one that is left."""
    while True:
        try:
            return sync_entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            folder = os.path.dirname(folder)


def temporary_path(path: str) -> str:
    """Return a temporary name in the folder of ``path``."""
    folder, name = os.path.split(path)
    return os.path.join(folder, temporary_name(name))


def with_folder(folder: str, work: Callable[[], Made]) -> Made:
    """Do what needs a folder, which others remove whenever they see it empty: it is made until that succeeds."""
    for _ in range(_ATTEMPTS):
        try:
            _make_folder(folder)
            return work()
        except FileNotFoundError:
            continue
    _make_folder(folder)
    return work()


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as error:
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from error
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder) from error


# -- errors of the system ---------------------------------------------------------------------------------------------


Class = TypeVar("Class", bound=type[Any])


def translate_errors(url: Callable[[Any], str], *, bare: Collection[str] = ()) -> Callable[[Class], Class]:
    """Return a decorator of classes: their public methods, generators too, raise :func:`read_error` for an error of the
    system; errors of ours stay what they are.

    ``url`` is of the instance. ``bare``: methods that only others of the class call, which stay as they are: a call
    more counts where a tile is small. What writes does the same by ``write_errors``, which knows a medium without
    writes.
    """

    def decorate(kind: Class) -> Class:
        for name, member in list(vars(kind).items()):
            if isinstance(member, FunctionType) and not name.startswith("_") and name not in bare:
                setattr(kind, name, (_generator if isgeneratorfunction(member) else _function)(member, url))
        return kind

    return decorate


def _function(method: Callable[..., object], url: Callable[[Any], str]) -> Callable[..., object]:
    @wraps(method)
    def call(self: object, *args: object, **options: Any) -> object:
        try:
            return method(self, *args, **options)
        except HyperslabError:
            raise
        except OSError as error:
            raise read_error(error, str(error.filename or url(self)), "") from error

    return call


def _generator(method: Callable[..., Any], url: Callable[[Any], str]) -> Callable[..., object]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> object:
        try:
            yield from method(self, *args, **options)
        except HyperslabError:
            raise
        except OSError as error:
            raise read_error(error, str(error.filename or url(self)), "") from error

    return call
