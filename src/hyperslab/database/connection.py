"""What a client has open: a root of collections under the one face, opened and closed as often as asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hyperslab import api
from hyperslab.array.session import OpenDataset
from hyperslab.database.uri import local_folder, make_folder
from hyperslab.errors import (
    AlreadyExists,
    ClientError,
    CollectionNotFound,
    FormatError,
    Invalid,
    NotFound,
    ReadOnly,
    SchemaError,
    StorageError,
    Unsupported,
)
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.collection_stores import CollectionStore
from hyperslab.formats.collection_tree import CollectionTreeReader
from hyperslab.model.schemas.records import check_name
from hyperslab.stores.redaction import redact


@dataclass(repr=False)
class Connection:
    """A place, how it is opened, and the session while it is open. ``memory_limit``: bytes that one subset may take."""

    place: str
    mode: Literal["r", "a"]
    memory_limit: int
    options: Mapping[str, Any]
    opened: OpenDataset | None = field(default=None, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the place and options of what is open for a pickle, which refuses secrets; it is opened when it is
        first used. ClientError when it is closed."""
        return _reopened, (redact(self.place), self.mode, self.memory_limit, self.session)

    def open(self) -> None:
        """Open the place; with mode ``a`` it is made first. ClientError for what is no place."""
        if self.mode == "a":
            make_folder(self.place)
        try:
            self.opened = api.open(self.place, self.mode, format="collections", **self.options)._session
        except (Invalid, Unsupported) as error:
            raise ClientError(error.message, url=error.url, remedy=error.remedy) from error
        except (NotFound, FormatError) as error:
            error.remedy = error.remedy and error.remedy.replace("mode='x'", "mode='a'")
            raise

    def close(self) -> None:
        """Let go of what is open; closing twice is fine."""
        opened, self.opened = self.opened, None
        if opened is not None:
            opened.close()

    @property
    def session(self) -> OpenDataset:
        """What is open; ClientError when it is closed."""
        opened = self.opened
        if opened is None:
            raise ClientError("the client is closed", url=self.url, remedy="open it again: with client: ...")
        return opened

    def require_open(self) -> None:
        """ClientError when it is closed."""
        _ = self.session

    def require_writable(self) -> None:
        """ReadOnly unless changes are taken."""
        if not self.session.writable:
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

    def holding(self, name: str) -> CollectionStore | None:
        """What a collection has, if it is there now; FormatError for a damaged one."""
        found = self.reader.holding(name)
        if found is not None and not found.exists():
            self.reader.refresh("")
            found = self.reader.holding(name)
        return found

    def named(self, name: object) -> CollectionStore | None:
        """The collection of this name; None also for what no collection is called."""
        self.require_open()
        try:
            return self.holding(check_name(name))
        except SchemaError:
            return None

    def holdings(self, name: str | None = None) -> Iterator[CollectionStore | FormatError | Unsupported | StorageError]:
        """All collections, or the one that is named (CollectionNotFound); what is damaged as its error."""
        if name and self.named(name) is None:
            raise CollectionNotFound(f"no collection {name!r}", url=self.url)
        for each in [name] if name else self.reader.collections():
            try:
                found = self.holding(each)
            except (FormatError, Unsupported, StorageError) as error:
                yield error
                continue
            if found is not None:
                yield found

    def create(self, document: CollectionDocument) -> CollectionStore:
        """A new collection; AlreadyExists."""
        if self.holding(document.name) is not None:
            remedy = "choose another name, or get_collection() it"
            raise AlreadyExists(
                f"the collection {document.name!r} exists", url=self.url, node=document.name, remedy=remedy
            )
        writer: Any = self.session.writer()
        made: CollectionStore = writer.create_collection(document)
        return made

    def drop(self, name: str) -> None:
        """Remove a collection; one that is gone is fine."""
        holding = self.holding(name)
        if holding is not None:
            holding.drop()
            self.reader.refresh("")


def _reopened(place: str, mode: Literal["r", "a"], memory_limit: int, session: OpenDataset) -> Connection:
    connection = Connection(place, mode, memory_limit, {})
    connection.opened = session
    return connection
