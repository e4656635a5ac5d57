"""Read arrays in MongoDB, from docs/formats/mongo.md alone: pymongo is the driver, nothing of hyperslab is used."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

import numpy as np
from bson import ObjectId

from second_readers.bloscpack import decode_attribute


class Collection:
    """Two collections of MongoDB, ``xarray.meta`` and ``xarray.chunks``, and the objects in them."""

    def __init__(self, database: Any, prefix: str = "xarray") -> None:
        """Take a database of pymongo."""
        self.meta, self.chunks = database[f"{prefix}.meta"], database[f"{prefix}.chunks"]

    def list_objects(self) -> list[Object]:
        """Return all finished objects; one that is being replaced by another is not there any more."""
        found = [each for each in self.meta.find() if "status" not in each.get("hyperslab", {})]
        gone = {each["hyperslab"]["replaces"] for each in found if "replaces" in each.get("hyperslab", {})}
        return [Object(each, self) for each in found if each["_id"] not in gone]

    def find(self, name: str | ObjectId, at: datetime | None = None) -> Object:
        """Return an object by its name or id; ``at`` a moment (UTC), that version."""
        if isinstance(name, ObjectId):
            return Object(self.meta.find_one({"_id": name}), self)
        (found,) = [each for each in self.list_objects() if each.document.get("name") == name]
        return found if at is None else self._find_version(found, at)

    def _find_version(self, present: Object, at: datetime) -> Object:
        """Return the version of an object that was the present one at a moment."""
        retired = self.meta.find({"hyperslab.lineage": present.said.get("lineage"), "hyperslab.status": "retired"})
        later = [each for each in retired if at < each["hyperslab"]["retired_at"]]
        found = Object(min(later, key=lambda each: each["hyperslab"]["retired_at"]), self) if later else present
        if at < found.said.get("since", found.document["_id"].generation_time.replace(tzinfo=None)):
            raise KeyError(at)
        return found


class Object:
    """One object: ``attrs``, ``arrays`` and ``groups`` (their attributes) by path, ``unlimited``."""

    def __init__(self, document: dict[str, Any], collection: Collection) -> None:
        """Take the object's document."""
        self.document, self.collection = document, collection
        said = self.said = document.get("hyperslab", {})
        attrs = _decode_all(document.get("attrs", {}), said.get("attr_types", {}))
        self.unlimited = {"": tuple(said.get("unlimited", ()))} | {
            path: tuple(each.get("unlimited", ())) for path, each in said.get("groups", {}).items()
        }
        self.groups = {
            path: _decode_all(each.get("attrs", {}), each.get("attr_types", {}))
            for path, each in said.get("groups", {}).items()
        }
        both = {**document["coords"], **document["data_vars"]}
        self.arrays = {self._find_path(name): Array(name, each, self) for name, each in both.items()}
        self.attrs = {} if "__DataArray__" in both else attrs
        if "__DataArray__" in both:
            self.arrays[self._find_path("__DataArray__")].attrs.update(attrs)
        named = " ".join(array.attrs.get("coordinates", "") for array in self.arrays.values()).split()
        aside = [name for name, each in document["coords"].items() if each["dims"] != [name] and name not in named]
        if "coordinates" in said or aside:
            self.attrs.setdefault("coordinates", said.get("coordinates", " ".join(aside)))

    def _find_path(self, name: str) -> str:
        """Return where an array is: only a variable below groups that the document names is called by its path."""
        if name == "__DataArray__":
            wanted = self.document.get("name")
            return wanted if wanted and wanted not in self.document["coords"] else "data"
        parent = name.rpartition("/")[0]
        if parent in self.groups:
            return name
        if name.strip(".") == "":
            return "%2E" * len(name) or "%"
        bad = [mark for mark in "/\\" if mark in name]
        return "".join(f"%{ord(mark):02X}" if bad and mark in "/\\%" else mark for mark in name)


class Array:
    """One array: ``shape``, ``dtype``, ``dims``, ``chunks``, ``attrs``, ``fill_value``, ``read()``."""

    def __init__(self, name: str, said: dict[str, Any], parent: Object) -> None:
        """Take what the object's document says of a variable."""
        self.name, self.said, self.parent = name, said, parent
        ours = parent.said.get("variables", {}).get(name, {})
        self.chunks, self.dtype = said["chunks"], np.dtype(said["dtype"])
        self.shape = tuple(said["shape"])
        if any(size != size for size in [*self.shape, *itertools.chain(*(self.chunks or []))]):
            self._measure_chunks()
        names = {
            dim for each in ("coords", "data_vars") for var in parent.document[each].values() for dim in var["dims"]
        }
        self.dims = tuple(
            dim.removesuffix(f"@{size}") if dim.removesuffix(f"@{size}") in names else dim
            for dim, size in zip(said["dims"], self.shape, strict=True)
        )
        self.attrs = _decode_all(said.get("attrs", {}), ours.get("attr_types", {}))
        if "units" in said:
            self.attrs.setdefault("units", said["units"])
        if "coordinates" in ours:
            self.attrs["coordinates"] = ours["coordinates"]
        fill = ours.get("fill", ours.get("fill_value"))
        self.unwritten = None if "fill" not in ours else np.frombuffer(ours["fill"], self.dtype)[0]
        self.fill_value = np.zeros((), self.dtype)[()] if fill is None else np.frombuffer(fill, self.dtype)[0]

    def _measure_chunks(self) -> None:
        """Take sizes that nobody knew when the object was put from the shapes of its chunks."""
        where = {"meta_id": self.parent.document["_id"], "name": self.name, "n": 0}
        found = {tuple(each["chunk"]): each["shape"] for each in self.parent.collection.chunks.find(where)}
        self.chunks = [
            [next(shape[axis] for place, shape in found.items() if place[axis] == at) for at in range(len(sizes))]
            for axis, sizes in enumerate(self.chunks)
        ]
        self.shape = tuple(map(sum, self.chunks))

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells; a chunk that is not there, of an array that was written whole, is an error."""
        if "data" in self.said or "sparse_data" in self.said:
            return self._decode([self.said], self.shape)
        made = np.empty(self.shape, self.dtype)
        grid = self.chunks if self.chunks is not None else [[size] for size in self.shape]
        starts = [[0, *itertools.accumulate(sizes)] for sizes in grid]
        for place in itertools.product(*(range(len(sizes)) for sizes in grid)):
            here = tuple(slice(edges[at], edges[at + 1]) for at, edges in zip(place, starts, strict=True))
            cells = self._read_chunk(list(place) if self.chunks is not None else None)
            if cells is None and self.unwritten is None:
                raise KeyError(f"chunk {place} of {self.name} is not there")
            made[here] = self.fill_value
            if cells is not None:
                sizes = [min(part.stop - part.start, size) for part, size in zip(here, cells.shape, strict=True)]
                inside = tuple(slice(part.start, part.start + size) for part, size in zip(here, sizes, strict=True))
                made[inside] = cells[tuple(map(slice, sizes))]
        return made

    def _read_chunk(self, place: list[int] | None) -> np.ndarray[Any, Any] | None:
        """Return a chunk as it was before a change that has begun and not ended, else as it is."""
        owner, count = self.parent.document["_id"], None
        for undo in self.parent.said.get("undo", {}).values():
            if "documents" in undo and undo["name"] == self.name and undo["chunk"] == place:
                owner, count = undo["id"], undo["documents"]
        wanted = {"meta_id": owner, "name": self.name, "chunk": place}
        parts = list(self.parent.collection.chunks.find(wanted).sort("n"))[:count]
        return self._decode(parts, tuple(parts[0]["shape"])) if parts else None

    def _decode(self, parts: list[dict[str, Any]], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if parts[0]["type"] == "ndarray":
            return np.frombuffer(b"".join(part["data"] for part in parts), self.dtype).reshape(shape)
        made = np.full(shape, np.frombuffer(parts[0]["fill_value"], self.dtype)[0])
        data = np.frombuffer(b"".join(part["sparse_data"] for part in parts), self.dtype)
        raw = b"".join(part["sparse_coords"] for part in parts)
        count = len(data) * len(shape)
        if count:
            made[tuple(np.frombuffer(raw, f"<u{len(raw) // count}").reshape(len(shape), len(data)))] = data
        return made


def _decode_all(attrs: dict[str, Any], codes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of the types that the field ``hyperslab`` says."""
    return {name: _decode(value, codes.get(name)) for name, value in attrs.items()}


def _decode(value: Any, code: Any) -> Any:
    """Return one attribute: a date without a code is BSON's own, a large number is text."""
    if code is None and isinstance(value, datetime):
        return np.datetime64(value, "ms")
    large = isinstance(code, str) and code.startswith("<u8")
    return decode_attribute(_make_numbers(value) if large else value, code)


def _make_numbers(value: Any) -> Any:
    return [_make_numbers(each) for each in value] if isinstance(value, list) else int(value)
