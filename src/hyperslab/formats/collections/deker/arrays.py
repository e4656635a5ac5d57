"""The arrays of a DEKER collection by id and by key: their records, specs and cells.

The record of an Array is the ``meta`` of its file, that of a VArray a JSON document. The cells of an Array are those of
its file (:mod:`.array_cells`), those of a VArray a grid of tiles (:mod:`.tiles`).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cached_property, partial

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound, Unsupported
from hyperslab.formats.collections.base import CollectionDocument, bare_spec
from hyperslab.formats.collections.deker import links
from hyperslab.formats.collections.deker.array_cells import ArrayCells, OpenFiles
from hyperslab.formats.collections.deker.data_file import file_stamp, open_file
from hyperslab.formats.collections.deker.file_writer import DatasetForm, dataset_form
from hyperslab.formats.collections.deker.folder import (
    CollectionFolder,
    are_safe,
    key_folder,
    read_bounded,
    translate_errors,
)
from hyperslab.formats.collections.deker.tiles import TileCells, UnlinkedTiles
from hyperslab.formats.documents import check_limits
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json import records
from hyperslab.model.schemas.arrays import Record, VArraySchema, is_id, key_of
from hyperslab.model.schemas.dimensions import TimeDimensionSchema, iso_text
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.files import read_error

Key = tuple[object, ...]


@translate_errors(
    lambda arrays: arrays.folder.path,
    bare=("path", "text", "parse", "place", "existing_ids", "links_of", "links_to", "tile_text"),
)
class StoredArrays:
    """Records by id and by key, specs and cells of one collection's arrays, as they are stored at that moment."""

    def __init__(self, folder: CollectionFolder, document: CollectionDocument) -> None:
        self.folder = folder
        self.document = document
        self.files = OpenFiles()
        self.unlinked = UnlinkedTiles(folder.path, self.files.get)
        self._elsewhere: dict[str, str] = {}

    def path(self, id: str) -> str:
        """Return the file of an array; NodeNotFound for what is no id."""
        if not is_id(id):
            raise NodeNotFound(f"{id!r:.60} is no id", url=self.folder.path, node=f"{self.folder.name}/{id:.60}")
        path = links.require_inside(self.folder.path, self.folder.data(id))
        if id in self._elsewhere and not os.path.exists(path):
            return self._elsewhere[id]
        return path

    def text(self, id: str) -> str:
        """Return the JSON text of a record; NodeNotFound, Conflict, FormatError."""
        path = self.path(id)
        if self.folder.kind == "array":
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

    def record(self, id: str) -> Record:
        """Return one array's record as it is stored now; NodeNotFound, Conflict, FormatError."""
        problems = Problems(self._node(id))
        try:
            record = self.parse(id, self.text(id), problems)
            problems.raise_if_fatal()
        except HyperslabError as error:
            raise error.locate(url=self.folder.path, node=self._node(id)) from error.__cause__
        return record

    def parse(self, id: str, text: str, problems: Problems) -> Record:
        """Return the record of a text; the name of its file tells the id."""
        try:
            check_limits(text.encode("utf-8", "replace"))
            doc = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = error.said if isinstance(error, FormatError) else f"the metadata is no JSON: {error}"
            problems.fatal("meta", reason)
            doc = {}
        record = records.record_from_json(self.document.schema, doc, problems)
        if record.id != id:
            problems.warn("id", f"the metadata is of {record.id!r}, the file is named {id}")
        return Record(id, record.primary, record.custom)

    def _node(self, id: str) -> str:
        return f"{self.folder.name}/{id}"

    # -- by key -----------------------------------------------------------------------------------------------------

    def place(self, values: Key) -> str:
        """Return the folder of the link of a key."""
        return key_folder(self.folder.kind, values)

    def id_of(self, key: Key) -> str | None:
        """Return the array of a key; None when there is none."""
        if not self.document.schema.primary_attributes:
            return None
        if are_safe(key):
            for id in self.existing_ids(self.place(key)):
                return id
        return self._search(key) if any(isinstance(value, tuple) for value in key) else None

    def existing_ids(self, place: str) -> list[str]:
        """Return the ids of the links right in a folder whose arrays exist."""
        folder, kind = self.folder.path, self.folder.kind
        found = []
        for id in links.linked_ids(folder, kind, place):
            path = links.follow(folder, kind, place, id)
            if path is not None:
                found.append(id)
                if path != self.folder.data(id):
                    self._elsewhere[id] = path
        return found

    def _search(self, key: Key) -> str | None:
        """Return the array of a key with a tuple, of which complex numbers and times within are known as text alone."""
        before = next(place for place, value in enumerate(key) if isinstance(value, tuple))
        if not are_safe(key[:before]):
            return None
        for _, id in links.places(self.folder.path, self.folder.kind, self.place(key[:before])):
            with suppress(HyperslabError):
                if key_of(self.document.schema, self.record(id)) == key:
                    return id
        return None

    def stamp(self, id: str) -> tuple[int, ...] | None:
        """Return a value that identifies the present version of a record; None when there is none."""
        try:
            return file_stamp(self.path(id))
        except NodeNotFound:
            return None

    def links_of(self, record: Record) -> list[tuple[str, str]]:
        """Return the folders of the links to an array: that of its key, or wherever they are found."""
        key = tuple(record.primary.values())
        place = self.place(key)
        if are_safe(key) and record.id in links.linked_ids(self.folder.path, self.folder.kind, place):
            return [(place, record.id)]
        return self.links_to(record.id)

    def links_to(self, id: str) -> list[tuple[str, str]]:
        """Return the folders of all links to an array, by looking at every link."""
        return [found for found in links.places(self.folder.path, self.folder.kind) if found[1] == id]

    # -- cells ------------------------------------------------------------------------------------------------------

    @cached_property
    def form(self) -> DatasetForm:
        """The chunks and filters of the collection's files."""
        schema = self.document.schema
        shape = schema.arrays_shape if isinstance(schema, VArraySchema) else schema.shape
        return dataset_form(self.document.options, shape, schema.dtype)

    @cached_property
    def fill(self) -> Block:
        """The fill value, as a 0-d array."""
        return np.asarray(self.document.schema.fill_value, self.document.schema.dtype)

    def spec(self, id: str) -> ArraySpec:
        """Return an array's spec; NodeNotFound, FormatError."""
        schema = self.document.schema
        spec = bare_spec(self.document, self.record(id))
        if spec.problem is not None:
            return spec
        cut = schema.arrays_shape if isinstance(schema, VArraySchema) else self.form.piece_shape
        return spec.evolve(chunks=cut, codecs=self.form.codecs)

    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of an array under a spec."""
        if spec.problem is not None:
            raise Unsupported(spec.problem, url=self.folder.path, node=f"{self.folder.name}/{id}")
        folder, fill = self.folder, self.fill
        if folder.kind == "varray":
            grid = Grid.of(spec.shape, spec.chunks)
            return TileCells(folder, id, grid, self.form, fill, self.files, self.unlinked, partial(self.tile_text, id))

        def path() -> str:
            place = self.path(id)
            file_stamp(place)
            return place

        return ArrayCells(self.files, path, self.form, fill, folder.settings, folder.require_writable)

    def tile_text(self, id: str, tile: str, coords: Coords) -> str:
        """Return the ``meta`` of a new tile: where it belongs, and where its time axis starts."""
        schema = self.document.schema
        starts: dict[str, str] = {}
        for dimension, place, size in zip(schema.dimensions, coords, self.form.shape, strict=True):
            if isinstance(dimension, TimeDimensionSchema) and (name := dimension.attribute) is not None:
                values = self.record(id).values
                start = values[name]
                if start is not None:
                    starts[f"parent.{name}"] = iso_text(start + dimension.step * (size * place))
        doc = {
            "id": tile,
            "primary_attributes": {"vid": id, "v_position": list(coords)},
            "custom_attributes": starts,
        }
        return json.dumps(doc)
