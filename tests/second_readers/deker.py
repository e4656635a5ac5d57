"""Read collections in DEKER's layout, from docs/formats/deker.md alone: h5py is the library, nothing of hyperslab is
used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from second_readers.collections import decode_value, parse_dtype


class Collection:
    """A collection: its ``schema``, ``dtype`` and ``shape``, and ``arrays`` by id."""

    def __init__(self, folder: str | Path) -> None:
        """Read the document."""
        self.folder = Path(folder)
        self.said = json.loads((self.folder / f"{self.folder.name}.json").read_bytes())
        self.schema, self.is_tiled = self.said["schema"], self.said["type"] == "varray"
        self.shape = tuple(each["size"] for each in self.schema["dimensions"])
        self.dtype = parse_dtype(self.schema["dtype"])
        text, kind = self.schema["fill_value"], self.dtype.kind
        lowest = np.iinfo(self.dtype).min if kind in "iu" else np.nan
        made = lowest if text is None else complex(text) if kind == "c" else text
        self.fill_value = np.array(made).astype(self.dtype)[()]
        kind_of_file = "varray" if self.is_tiled else "array"
        files = self.folder.glob(f"{kind_of_file}_data/*/*/*/*/*/*/*/*/*/*.*")
        self.arrays = {path.stem: Array(path.stem, self) for path in sorted(files) if path.suffix in (".hdf5", ".json")}

    def find_file(self, kind: str, id_: str) -> Path:
        """Return the file of an array, tile or VArray."""
        ending = "json" if kind == "varray" else "hdf5"
        return self.folder / f"{kind}_data" / "/".join(id_[:8]) / id_[9:] / f"{id_}.{ending}"

    def find(self, *values: Any) -> Array:
        """Return the array of a key: a link in the folders of its values leads to it, wherever it says."""
        kind = "varray" if self.is_tiled else "array"
        (link,) = self.folder.joinpath(f"{kind}_symlinks", *map(str, values)).glob("*.*")
        return self.arrays[link.stem]


class Array:
    """An array of a collection: ``id``, ``primary``, ``custom``."""

    def __init__(self, id_: str, collection: Collection) -> None:
        """Read its words."""
        self.id, self.collection = id_, collection
        if collection.is_tiled:
            said = json.loads(collection.find_file("varray", id_).read_bytes())
        else:
            with h5py.File(collection.find_file("array", id_)) as file:
                said = json.loads(file["meta"][()].decode("ascii").rstrip("\0"))
        assert said["id"] == id_
        kinds = {each["name"]: each["dtype"] for each in collection.schema["attributes"]}
        self.primary, self.custom = (
            {name: decode_value(value, kinds[name]) for name, value in said[part].items()}
            for part in ("primary_attributes", "custom_attributes")
        )

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells."""
        collection = self.collection
        made = np.full(collection.shape, collection.fill_value, collection.dtype)
        if not collection.is_tiled:
            self._read_file(self.id, made)
            return made
        sizes = [size // count for size, count in zip(made.shape, collection.schema["vgrid"], strict=True)]
        for link in (collection.folder / "array_symlinks" / self.id).glob("*/*.hdf5"):
            place = map(int, link.parent.name.split("-"))
            here = tuple(slice(at * size, (at + 1) * size) for at, size in zip(place, sizes, strict=True))
            self._read_file(link.stem, made[here])
        return made

    def _read_file(self, id_: str, into: np.ndarray[Any, Any]) -> None:
        """Read the cells of an array or tile, and compare how many of them are the fill value."""
        with h5py.File(self.collection.find_file("array", id_)) as file:
            if "data" in file:
                into[...] = file["data"][()]
            fill = self.collection.fill_value
            empty = np.isnan(into) if fill != fill else into == fill
            assert file["empty_cells"][()] == empty.sum()
