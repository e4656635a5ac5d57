"""What the arrays of a DEKER collection are, and their cells: of one file each, or of a grid of tiles."""

from __future__ import annotations

import json
from functools import cached_property, partial

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Unsupported
from hyperslab.formats.collection_document import CollectionDocument, bare_spec
from hyperslab.formats.deker.files import Form, form_of
from hyperslab.formats.deker.folder import Folder
from hyperslab.formats.deker.lost import LostTiles
from hyperslab.formats.deker.opened import file_stamp
from hyperslab.formats.deker.records import Records
from hyperslab.formats.deker.source import ArrayCells, FlatArrayCells, OpenFiles
from hyperslab.formats.deker.tiles import TileCells
from hyperslab.model.schemas.arrays import VArraySchema
from hyperslab.model.schemas.dimensions import TimeDimensionSchema
from hyperslab.model.schemas.times import iso
from hyperslab.model.spec import ArraySpec


class DekerCells:
    """Specs and sources of one collection's arrays."""

    def __init__(self, folder: Folder, document: CollectionDocument, records: Records) -> None:
        self._folder = folder
        self._document = document
        self._records = records
        self.files = OpenFiles()
        self.lost = LostTiles(folder.path, self.files.get)

    @cached_property
    def form(self) -> Form:
        """How a file's cells are cut and compressed."""
        schema = self._document.schema
        shape = schema.arrays_shape if isinstance(schema, VArraySchema) else schema.shape
        return form_of(self._document.options, shape, schema.dtype)

    @cached_property
    def fill(self) -> Block:
        """What cells that were never written read as, as a 0-d array."""
        return np.asarray(self._document.schema.fill_value, self._document.schema.dtype)

    def spec(self, id: str) -> ArraySpec:
        """What an array is. NodeNotFound, FormatError."""
        schema = self._document.schema
        spec = bare_spec(self._document, self._records.read(id))
        if spec.problem is not None:
            return spec
        cut = schema.arrays_shape if isinstance(schema, VArraySchema) else self.form.pieces
        return spec.evolve(chunks=cut, codecs=self.form.codecs)

    def source(self, id: str, spec: ArraySpec) -> ChunkSource:
        """The cells of an array."""
        if spec.problem is not None:
            raise Unsupported(spec.problem, url=self._folder.path, node=f"{self._folder.name}/{id}")
        folder, fill = self._folder, self.fill
        if folder.kind == "varray":
            grid = Grid.of(spec.shape, spec.chunks)
            return TileCells(folder, id, grid, self.form, fill, self.files, self.lost, partial(self.tile_text, id))
        kind = FlatArrayCells if self.form.chunks is None else ArrayCells

        def path() -> str:
            place = self._records.path(id)
            file_stamp(place)
            return place

        return kind(self.files, path, self.form, fill, folder.settings, folder.require_writable)

    def tile_text(self, id: str, tile: str, coords: Coords) -> str:
        """The ``meta`` of a new tile: where it belongs, and where its time axis starts."""
        schema = self._document.schema
        starts: dict[str, str] = {}
        for dimension, place, size in zip(schema.dimensions, coords, self.form.shape, strict=True):
            if isinstance(dimension, TimeDimensionSchema) and (name := dimension.attribute) is not None:
                values = self._records.read(id).values
                start = values[name]
                if start is not None:
                    starts[f"parent.{name}"] = iso(start + dimension.step * (size * place))
        said = {
            "id": tile,
            "primary_attributes": {"vid": id, "v_position": list(coords)},
            "custom_attributes": starts,
        }
        return json.dumps(said)
