"""One collection of a client as its arrays and queries see it, opened anew where the client was closed in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperslab.array.session import OpenDataset
from hyperslab.database.connection import Connection
from hyperslab.database.index import AttributeIndex
from hyperslab.errors import CollectionNotFound, HyperslabError
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.collection_stores import CollectionStore
from hyperslab.model.schemas import ArraySchema, VArraySchema


class OpenCollection:
    """A collection: its document, which never changes, and what is open of it."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        """It is pickled as where it is, and opened when it is first used."""
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
        """Where it lies, without secrets."""
        return f"{self.connection.url}/collections/{self.name}"

    @property
    def path(self) -> Path | str:
        """Its folder; the URL where there are no folders."""
        folder = self.connection.folder
        return folder / self.name if isinstance(folder, Path) else f"{folder}/{self.name}"

    @property
    def _now(self) -> tuple[OpenDataset, CollectionStore, AttributeIndex]:
        session = self.connection.session
        if self._opened is None or self._opened[0] is not session:
            holding = self.connection.holding(self.name)
            if holding is None:
                raise self.missing()
            self._opened = (session, holding, AttributeIndex(holding))
        return self._opened

    @property
    def session(self) -> OpenDataset:
        """What is open of the root; ClientError when the client is closed."""
        return self.connection.session

    @property
    def holding(self) -> CollectionStore:
        """The arrays of the collection; CollectionNotFound, ClientError."""
        return self._now[1]

    @property
    def index(self) -> AttributeIndex:
        """What queries look arrays up in."""
        return self._now[2]

    def required(self) -> CollectionStore:
        """The arrays of the collection, which was asked for and is there: CollectionNotFound when it was deleted."""
        holding = self.holding
        if not holding.exists():
            raise self.missing()
        return holding

    @contextmanager
    def located(self, id: str = "") -> Iterator[None]:
        """Have errors of the block tell the collection, or its array ``id``, where they tell no place."""
        try:
            yield
        except HyperslabError as error:
            node = f"{self.name}/{id}".rstrip("/")
            raise error.locate(url=self.connection.url, node=node) from error.__cause__

    def missing(self) -> CollectionNotFound:
        """The error of a collection that was deleted."""
        message = f"the collection {self.name!r} is not there any more"
        return CollectionNotFound(message, url=self.url, node=self.name, remedy="create it anew")
