"""Records of a DEKER collection: the ``meta`` of an Array's file, or the JSON document of a VArray."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from hyperslab.errors import FormatError, HyperslabError, NodeNotFound
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.deker import links, paths
from hyperslab.formats.deker.folder import Folder, read_bounded
from hyperslab.formats.deker.opened import file_stamp, open_file
from hyperslab.formats.documents import check_limits
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json import records
from hyperslab.model.schemas.records import Record, is_id, key_of
from hyperslab.stores.files import read_error

Key = tuple[object, ...]


class Records:
    """Records by id and by key, as they are stored at that moment."""

    def __init__(self, folder: Folder, document: CollectionDocument) -> None:
        self._folder = folder
        self._document = document
        self._elsewhere: dict[str, str] = {}

    def path(self, id: str) -> str:
        """The file of an array; NodeNotFound for what is no id."""
        if not is_id(id):
            raise NodeNotFound(f"{id!r:.60} is no id", url=self._folder.path, node=f"{self._folder.name}/{id:.60}")
        path = links.require_inside(self._folder.path, self._folder.data(id))
        if id in self._elsewhere and not os.path.exists(path):
            return self._elsewhere[id]
        return path

    def text(self, id: str) -> str:
        """The JSON text of a record; NodeNotFound, Conflict, FormatError."""
        path = self.path(id)
        if self._folder.kind == "array":
            return open_file(path).meta()
        try:
            data = read_bounded(path)
            check_limits(data)
            return data.decode()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NodeNotFound("the array was removed", url=path, node=self._node(id)) from error
        except UnicodeDecodeError as error:
            raise FormatError(f"the document is no text: {error}", url=path, node=self._node(id)) from error
        except OSError as error:
            raise read_error(error, path, "") from error

    def read(self, id: str) -> Record:
        """A record; NodeNotFound, Conflict, FormatError."""
        problems = Problems(self._node(id))
        try:
            record = self.parse(id, self.text(id), problems)
            problems.raise_if_fatal()
        except HyperslabError as error:
            raise error.locate(url=self._folder.path, node=self._node(id)) from error.__cause__
        return record

    def parse(self, id: str, text: str, problems: Problems) -> Record:
        """The record of a text; the name of its file tells the id."""
        try:
            check_limits(text.encode("utf-8", "replace"))
            said = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = error.said if isinstance(error, FormatError) else f"the metadata is no JSON: {error}"
            problems.fatal("meta", reason)
            said = {}
        record = records.record_from_json(self._document.schema, said, problems)
        if record.id != id:
            problems.warn("id", f"the metadata is of {record.id!r}, the file is named {id}")
        return Record(id, record.primary, record.custom)

    def _node(self, id: str) -> str:
        return f"{self._folder.name}/{id}"

    # -- by key -----------------------------------------------------------------------------------------------------

    def place(self, values: Key) -> str:
        """The folder of the link of a key."""
        return paths.key_folder(self._folder.kind, values)

    def id_of(self, key: Key) -> str | None:
        """The array of a key; None when there is none."""
        if not self._document.schema.primary_attributes:
            return None
        if paths.are_safe(key):
            for id in self.live(self.place(key)):
                return id
        return self._search(key) if any(isinstance(value, tuple) for value in key) else None

    def live(self, place: str) -> list[str]:
        """The ids of the links right in a folder whose arrays exist."""
        folder, kind = self._folder.path, self._folder.kind
        found = []
        for id in links.linked_ids(folder, kind, place):
            path = links.follow(folder, kind, place, id)
            if path is not None:
                found.append(id)
                if path != self._folder.data(id):
                    self._elsewhere[id] = path
        return found

    def _search(self, key: Key) -> str | None:
        """The array of a key with a tuple, of which complex numbers and times within are known as text alone."""
        before = next(place for place, value in enumerate(key) if isinstance(value, tuple))
        if not paths.are_safe(key[:before]):
            return None
        for _, id in links.places(self._folder.path, self._folder.kind, self.place(key[:before])):
            with suppress(HyperslabError):
                if key_of(self._document.schema, self.read(id)) == key:
                    return id
        return None

    def stamp(self, id: str) -> tuple[int, ...] | None:
        """What identifies the present version of a record; None when there is none."""
        try:
            return file_stamp(self.path(id))
        except NodeNotFound:
            return None

    def links_of(self, record: Record) -> list[tuple[str, str]]:
        """The folders of the links to an array: that of its key, or wherever they are found."""
        key = tuple(record.primary.values())
        place = self.place(key)
        if paths.are_safe(key) and record.id in links.linked_ids(self._folder.path, self._folder.kind, place):
            return [(place, record.id)]
        return self.links_to(record.id)

    def links_to(self, id: str) -> list[tuple[str, str]]:
        """The folders of all links to an array, by looking at every link."""
        return [found for found in links.places(self._folder.path, self._folder.kind) if found[1] == id]
