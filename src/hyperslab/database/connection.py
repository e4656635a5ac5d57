"""The connection of a client: a root of collections and each collection of it, opened and closed as often as asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.database.index import AttributeIndex
from hyperslab.errors import (
    AlreadyExists,
    ClientError,
    CollectionNotFound,
    FormatError,
    HyperslabError,
    Invalid,
    NotFound,
    ReadOnly,
    SchemaError,
    StorageError,
    Unsupported,
)
from hyperslab.formats.collections.base import CollectionDocument, CollectionStore
from hyperslab.formats.collections.format import OF_ZARR
from hyperslab.formats.collections.tree import CollectionTreeReader
from hyperslab.model.schemas import ArraySchema, VArraySchema
from hyperslab.model.schemas.arrays import check_collection_name
from hyperslab.stores.credentials import redact
from hyperslab.stores.moments import split_moment

# Seconds for which a client that closes brings an index up to date, some 30,000 to 90,000 documents of 0.06 to 0.18 ms
# each: whoever makes one array in a copied collection of a million does not wait for all of it. The next one goes on.
_CATCH_UP = 5.0


@dataclass(repr=False, eq=False)
class Connection:
    """A place, how it is opened, and the session while it is open. ``memory_limit``: bytes that one subset may take."""

    place: str
    mode: Literal["r", "a"]
    memory_limit: int
    options: Mapping[str, Any]
    opened: OpenDataset | None = field(default=None, init=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Return the place and options of what is open for a pickle, which refuses secrets; it is opened when it is
        first used. ClientError when it is closed."""
        return connection_of, (redact(self.place), self.mode, self.memory_limit, self.session)

    def open(self) -> None:
        """Open the place; with mode ``a`` it is made first. ClientError for what is no place."""
        if self.mode == "a":
            make_folder(self.place)
        try:
            self.opened = api.open(self.place, self.mode, format="collections", **self.options)._session
        except (Invalid, Unsupported) as error:
            raise ClientError(error.message, url=error.url, remedy=error.remedy) from error
        except NotFound as error:
            error.remedy = f"{error.remedy}, or make it with mode='a'"
            raise

    def close(self) -> None:
        """Let go of what is open; closing twice is fine."""
        opened = self.opened
        if opened is None:
            return
        try:
            for store in self.reader.opened_collections():
                _catch_up(store)
        finally:
            self.opened = None
            opened.close()

    @property
    def session(self) -> OpenDataset:
        """The open dataset; ClientError when it is closed."""
        opened = self.opened
        if opened is None:
            raise ClientError("the client is closed", url=self.url, remedy="open it again: with client: ...")
        return opened

    def require_open(self) -> None:
        """Raise ClientError when it is closed."""
        _ = self.session

    def require_writable(self) -> None:
        """Raise ReadOnly unless changes are taken."""
        if not self.session.writable:
            if self.session.origin is not None and self.session.origin.where.moment is not None:
                remedy = "get the collection without at="
                raise ReadOnly("an older state of a collection is only read", url=self.url, remedy=remedy)
            raise ReadOnly("the client is open read-only", url=self.url, remedy='open it with mode="a"')

    @property
    def url(self) -> str:
        """The place, without secrets."""
        return redact(self.place)

    @property
    def folder(self) -> Path | str:
        """The folder of the collections; a URL where there are no folders."""
        root = local_folder(self.place)
        return f"{self.url.rstrip('/')}/collections" if root is None else root / "collections"

    @property
    def reader(self) -> CollectionTreeReader:
        """The root of collections."""
        reader: Any = self.session.reader
        found: CollectionTreeReader = reader
        return found

    def collection_store(self, name: str) -> CollectionStore | None:
        """Return the arrays of a collection, None when it is not there; FormatError for a damaged one."""
        was_open = self.reader.has_opened(name)
        found = self.reader.collection_store(name)
        if found is not None and was_open and not found.exists():  # another process removed it, or made it anew
            self.reader.refresh("")
            found = self.reader.collection_store(name)
        return found

    def find_collection(self, name: object) -> CollectionStore | None:
        """Return the collection of this name; None also for what no collection is called."""
        self.require_open()
        try:
            return self.collection_store(check_collection_name(name))
        except SchemaError:
            return None

    def collection_stores(
        self, name: str | None = None
    ) -> Iterator[CollectionStore | FormatError | Unsupported | StorageError]:
        """Yield all collections, or the one that is named (CollectionNotFound); what is damaged as its error."""
        if name and self.find_collection(name) is None:
            raise CollectionNotFound(f"no collection {name!r}", url=self.url)
        for each in [name] if name else self.reader.collections():
            try:
                found = self.collection_store(each)
            except (FormatError, Unsupported, StorageError) as error:
                yield error
                continue
            if found is not None:
                yield found

    def create(self, document: CollectionDocument) -> CollectionStore:
        """Make a new collection; AlreadyExists."""
        if self.collection_store(document.name) is not None:
            remedy = "choose another name, or get_collection() it"
            raise AlreadyExists(
                f"the collection {document.name!r} exists", url=self.url, node=document.name, remedy=remedy
            )
        writer: Any = self.session.writer()
        made: CollectionStore = writer.create_collection(document)
        return made

    def drop(self, name: str) -> None:
        """Remove a collection; one that is gone is fine."""
        store = self.collection_store(name)
        if store is not None:
            store.drop()
            self.reader.refresh("")


def _catch_up(store: CollectionStore) -> None:
    """Bring the index of a collection that was changed here nearer to what is there: a copied one is not trusted, and
    who may only read would list all that was copied, in each process. Where that fails the index is only older."""
    with suppress(HyperslabError, OSError):
        if store.leaves_index_behind() and store.exists():
            AttributeIndex(store).catch_up(_CATCH_UP)


def connection_of(place: str, mode: Literal["r", "a"], memory_limit: int, session: OpenDataset) -> Connection:
    """Return a connection to the collections of a dataset that is open."""
    connection = Connection(place, mode, memory_limit, {})
    connection.opened = session
    return connection


class OpenCollection:
    """A collection: its document, and what is open of it. The document changes where attributes of the schema were
    added, removed or renamed, which :meth:`required_store` notices."""

    def __init__(
        self,
        connection: Connection,
        document: CollectionDocument,
        opened: tuple[OpenDataset, CollectionStore] | None = None,
    ) -> None:
        self.connection = connection
        self.document = document
        self._opened: tuple[OpenDataset, CollectionStore, AttributeIndex] | None = (
            None if opened is None else (*opened, AttributeIndex(opened[1]))
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Return it as where it is, for a pickle; it is opened when it is first used."""
        return OpenCollection, (self.connection, self.document)

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.document.name

    @property
    def schema(self) -> ArraySchema | VArraySchema:
        """The schema of its arrays."""
        return self.document.schema

    @property
    def url(self) -> str:
        """The URL, without secrets."""
        return f"{self.connection.url}/collections/{self.name}"

    @property
    def path(self) -> Path | str:
        """Its folder; the URL where there are no folders."""
        folder = self.connection.folder
        return folder / self.name if isinstance(folder, Path) else f"{folder}/{self.name}"

    @property
    def _now(self) -> tuple[OpenDataset, CollectionStore, AttributeIndex]:
        session, opened = self.connection.session, self._opened  # another thread may open the collection anew
        if opened is None or opened[0] is not session:
            store = self.connection.collection_store(self.name)
            if store is None:
                raise self.not_found_error()
            opened = self._opened = (session, store, AttributeIndex(store))
        return opened

    @property
    def store(self) -> CollectionStore:
        """The arrays of the collection; CollectionNotFound, ClientError."""
        return self._now[1]

    @property
    def index(self) -> AttributeIndex:
        """The index that queries look arrays up in."""
        return self._now[2]

    def required_store(self) -> CollectionStore:
        """Return the arrays of the collection, which was asked for and is there: CollectionNotFound when it was
        deleted."""
        with self.locate_errors():
            store = self.store
            return store if store.exists() else self._open_evolved()

    def _open_evolved(self) -> CollectionStore:
        """Open the collection anew where attributes of its schema were added, removed or renamed; CollectionNotFound
        where it was deleted, or another one is in its place."""
        store = self.connection.collection_store(self.name)
        if store is None or not self.document.has_become(store.document):
            raise self.not_found_error()
        self.document = store.document
        self._opened = (self.connection.session, store, AttributeIndex(store))
        return store

    @contextmanager
    def locate_errors(self, id: str = "") -> Iterator[None]:
        """Have errors of the block tell the collection, or its array ``id``, where they tell no place."""
        try:
            yield
        except HyperslabError as error:
            node = f"{self.name}/{id}".rstrip("/")
            raise error.locate(url=self.connection.url, node=node) from error.__cause__

    def not_found_error(self) -> CollectionNotFound:
        """Return the error of a collection that was deleted."""
        message = f"the collection {self.name!r} is not there any more"
        remedy = "get_collection() it by the name that it has now, or create it anew"
        return CollectionNotFound(message, url=self.connection.url, node=self.name, remedy=remedy)


# -- places: a URI, a URL of a store or a path ------------------------------------------------------------------------


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


# Hosts of a file URI (RFC 8089) that mean the file system here.
_THIS_MACHINE = ("", "localhost")


_PERMITTED = "look at the permissions of the folder above, or open it with mode='r'"


def place_of(uri: object) -> tuple[str, datetime | None]:
    """Return the path or URL of a URI, and the moment that it says (``?at=``). ``file:rel`` and ``file://./rel`` are
    relative to the working directory, as paths are.

    ClientError for what is empty, no text and no path, or on another machine; Invalid for what is no moment.
    """
    if not isinstance(uri, str | os.PathLike) or not os.fsdecode(uri).strip():
        raise ClientError(f"{uri!r} is no place", remedy="give a URI such as file:///data/store, or a path")
    text, moment = split_moment(os.fsdecode(uri))
    if isinstance(moment, str):
        raise ClientError("a repository holds no collections", url=text, remedy="open it with hyperslab.open")
    if isinstance(uri, str) and text.lower().startswith("file:"):
        text = _file_path(text[len("file:") :], text)
    elif isinstance(uri, str) and _SCHEME.match(text):
        return text, moment
    return os.path.abspath(text), moment


def _file_path(rest: str, uri: str) -> str:
    if not rest.startswith("//"):
        return unquote(rest) or "."
    host, slash, path = rest[2:].partition("/")
    if host == ".":
        return f"./{unquote(path)}"
    if host.lower() not in _THIS_MACHINE:
        raise ClientError(f"{redact(uri)!r} names another machine", remedy="use file:///path, with three slashes")
    return unquote(slash + path) or "."


def local_folder(place: str) -> Path | None:
    """Return the folder that a place is; None for a URL."""
    return None if _SCHEME.match(place) else Path(place)


def make_folder(place: str) -> None:
    """Make the folder of collections at a place in the file system, and those above it. ClientError where a file
    or a dataset of Zarr is."""
    root = local_folder(place)
    if root is None or (root.suffix.lower() == ".zip" and root.is_file()):
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
