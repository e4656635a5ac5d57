"""One collection of a client as its arrays and queries see it, opened anew where the client was closed in between."""

from __future__ import annotations

from pathlib import Path

from hyperslab.array.session import Session
from hyperslab.database.connection import Connection
from hyperslab.database.index import Index
from hyperslab.errors import CollectionNotFound
from hyperslab.formats.catalogs import Holding
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.model.schemas import ArraySchema, VArraySchema


class Held:
    """A collection: its document, which never changes, and what is open of it."""

    def __init__(self, connection: Connection, holding: Holding) -> None:
        self.connection = connection
        self.document: CollectionDocument = holding.document
        self._opened = (connection.session, holding, Index(holding))

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
    def _now(self) -> tuple[Session, Holding, Index]:
        session = self.connection.session
        if self._opened[0] is not session:
            holding = self.connection.holding(self.name)
            if holding is None:
                raise self.missing()
            self._opened = (session, holding, Index(holding))
        return self._opened

    @property
    def session(self) -> Session:
        """What is open of the root; ClientError when the client is closed."""
        return self.connection.session

    @property
    def holding(self) -> Holding:
        """The arrays of the collection; CollectionNotFound, ClientError."""
        return self._now[1]

    @property
    def index(self) -> Index:
        """What queries look arrays up in."""
        return self._now[2]

    def required(self) -> Holding:
        """The arrays of the collection, which was asked for and is there: CollectionNotFound when it was deleted."""
        holding = self.holding
        if not holding.exists():
            raise self.missing()
        return holding

    def missing(self) -> CollectionNotFound:
        """The error of a collection that was deleted."""
        message = f"the collection {self.name!r} is not there any more"
        return CollectionNotFound(message, url=self.url, remedy="create it anew")
