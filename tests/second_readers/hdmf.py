"""Read HDMF on Zarr v2 and v3, from docs/formats/hdmf.md and zarr.md alone: nothing of hyperslab is used."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

from second_readers import zarr3
from second_readers.bloscpack import decode_attribute

_HIDDEN_2 = ("zarr_link", "zarr_dtype", ".specloc", "_hyperslab", "_ARRAY_DIMENSIONS")
_HIDDEN = (*_HIDDEN_2, "_LINKS", "_DTYPE", "_REFERENCE_FIELDS", "_REGION_FIELDS")
_DOCUMENTS = (".zarray", ".zgroup", "zarr.json")
_REFERENCES = ("object", "ref", "reference", "region", "object_reference", "region_reference")
_TEXTS = ("str", "str_", "text", "utf8", "utf-8", "utf", "isodatetime")
_BYTES = ("bytes", "bytes_", "string_", "ascii")
_NUMBERS = {"int": "int64", "float": "float64", "bool_": "bool", "uint": "uint64", "long": "int64", "double": "float64"}


def _load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _load_attributes(folder: Path) -> dict[str, Any]:
    return zarr3.load(folder).get("attributes", {}) or _load(folder / ".zattrs")


@dataclass
class Reference:
    """What a reference or a link says; ``region`` of a reference to a part."""

    source: str | None
    path: str
    object_id: str | None = None
    source_object_id: str | None = None
    region: dict[str, Any] | None = None


def _make_reference(said: Any) -> Reference | None:
    if isinstance(said, str) and said:  # of v3
        said = json.loads(said) if said.startswith("{") else {"path": said}
    if not isinstance(said, dict):
        return None
    keys = ("source", "path", "object_id", "source_object_id", "region")
    return Reference(**{"source": "."} | {key: said[key] for key in keys if key in said})


class _Inert(dict[str, Any]):
    """A pickled reference of hdmf-zarr: what it says, and no behaviour."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.update({key.lstrip("_"): value for key, value in state.items()})


class _Unpickler(pickle.Unpickler):
    """Knows NumPy's arrays and hdmf-zarr's references, and refuses all else."""

    def find_class(self, module: str, name: str) -> Any:
        numpys = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy")
        if module in numpys and name in ("_reconstruct", "scalar"):
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if module.startswith("hdmf_zarr") and name == "ZarrReference":
            return _Inert
        raise pickle.UnpicklingError(f"{module}.{name} is not read")


def decode_dtype(spelled: Any) -> np.dtype[Any]:
    """Return the type of cells that a document of Zarr v2 says."""
    if isinstance(spelled, str):
        return np.dtype(spelled)
    return np.dtype([(name, decode_dtype(kind), *map(tuple, shape)) for name, kind, *shape in spelled])


def _choose_kind(word: Any) -> str:
    return "O" if not isinstance(word, str) or word in _REFERENCES + _TEXTS + _BYTES else _NUMBERS.get(word, word)


class Array:
    """One array of v2: ``shape``, ``dtype``, ``dims``, ``attrs``, ``read()``."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        """Read the documents."""
        self.folder, self.dataset, self.said = folder, dataset, _load(folder / ".zarray")
        self.plain = _load(folder / ".zattrs")
        self.mark, self.word = self.plain.get("_hyperslab", {}), self.plain.get("zarr_dtype")
        scalar = self.word == "scalar" or self.mark.get("scalar", False)
        self.shape = () if scalar else tuple(self.said["shape"])
        self.dims = tuple(self.plain.get("_ARRAY_DIMENSIONS") or [None] * len(self.shape))
        self.attrs = read_attributes(self.plain)
        self.filters = [each["id"] for each in self.said.get("filters") or []]
        self.dtype = decode_dtype(self.said["dtype"])
        if isinstance(self.word, list) and self.dtype.kind == "O":
            self.dtype = np.dtype([(each["name"], _choose_kind(each["dtype"])) for each in self.word])
        self.rows = self.dtype.names is not None and self.dtype.hasobject

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells; text and references as objects."""
        shape, chunks = self.said["shape"], self.said["chunks"]
        made = np.empty(shape, self.dtype)
        made[...] = self._find_fill()
        for place in itertools.product(*(range(-(-size // step)) for size, step in zip(shape, chunks, strict=True))):
            path = self.folder / (self.said.get("dimension_separator", ".").join(map(str, place)) or "0")
            if path.exists():
                cells = self._decode(path.read_bytes(), tuple(chunks))
                starts = [at * step for at, step in zip(place, chunks, strict=True)]
                sizes = [min(step, size - at) for at, step, size in zip(starts, chunks, shape, strict=True)]
                here = tuple(slice(at, at + size) for at, size in zip(starts, sizes, strict=True))
                made[here] = cells[tuple(map(slice, sizes))]
        if "vlen-array" in self.filters:
            empty = np.zeros(0, next(each["dtype"] for each in self.said["filters"] if each["id"] == "vlen-array"))
            for place in np.ndindex(made.shape):
                made[place] = empty if made[place] is None else made[place]
        return self._find_references(made).reshape(self.shape)

    def _find_fill(self) -> Any:
        value = self.said["fill_value"]
        if self.dtype.kind == "O":
            return b"" if "vlen-bytes" in self.filters else "" if "vlen-utf8" in self.filters else None
        if self.rows:
            return tuple(self._empty(name) for name in self.dtype.names or ())
        if self.dtype.kind in "SV" and value is not None:
            return np.frombuffer(base64.b64decode(value).ljust(self.dtype.itemsize, b"\0"), self.dtype)[0]
        if self.dtype.kind == "c":
            return complex(float(value[0]), float(value[1]))
        if self.dtype.kind in "mM":
            return np.array(value, "i8").view(self.dtype.newbyteorder("="))[()]
        if value is None:
            return np.zeros((), self.dtype)[()]
        return float(value) if self.dtype.kind == "f" else value

    def _empty(self, name: str) -> Any:
        if self.dtype[name].kind != "O":
            return np.zeros((), self.dtype[name])[()]
        word = next((each["dtype"] for each in self.word or () if each["name"] == name), "str")
        return b"" if word in _BYTES else "" if word in _TEXTS else None

    def _decode(self, data: Any, chunks: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if self.said.get("compressor"):
            data = numcodecs.get_codec(dict(self.said["compressor"])).decode(data)
        for filter_ in reversed(self.said.get("filters") or []):
            if filter_["id"] == "json2":
                data = self._fill_rows(json.loads(bytes(data))[:-2], chunks)
            elif filter_["id"] == "pickle":
                data = _Unpickler(io.BytesIO(bytes(data))).load()
                data = data if self.dtype.kind == "O" else self._fill_rows(data.tolist(), chunks)
            else:
                data = numcodecs.get_codec(dict(filter_)).decode(data)
        if not self.dtype.hasobject:
            data = np.frombuffer(bytes(data), self.dtype)
        return data.reshape(chunks, order=self.said.get("order", "C"))

    def _fill_rows(self, cells: list[Any], chunks: tuple[int, ...]) -> np.ndarray[Any, Any]:
        for _ in chunks[1:]:
            cells = list(itertools.chain.from_iterable(cells))
        made = np.empty(math.prod(chunks), self.dtype)
        for index, cell in enumerate(cells):
            made[index] = tuple(map(self._field, self.dtype.names, cell)) if self.dtype.names else cell
        return made

    def _field(self, name: str, value: Any) -> Any:
        if self.dtype[name].kind == "O":
            return self._empty(name) if value in (0, None) else value
        return tuple(value) if self.dtype[name].names else value

    def _find_references(self, cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        parts = [cells[name] for name in self.dtype.names or () if self.dtype[name].kind == "O"]
        for part in [cells] if self.dtype.kind == "O" else parts:
            for place in np.ndindex(part.shape):
                cell = part[place]
                if isinstance(cell, dict) or (isinstance(cell, int) and cell == 0):
                    part[place] = _make_reference(cell)
        return cells

    def read_region(self, region: dict[str, Any]) -> np.ndarray[Any, Any]:
        """Return the cells that a region says."""
        cells, kind = self.read(), region["type"]
        if kind in ("all", "none"):
            return cells[tuple(map(slice, region.get("shape", cells.shape)))] if kind == "all" else cells.ravel()[:0]
        if kind == "points":
            return np.array([cells[tuple(point)] for point in region["points"]], cells.dtype)
        if kind == "blocks":
            chosen = np.zeros(cells.shape, bool)
            for start, stop in region["blocks"]:
                chosen[tuple(map(slice, start, stop))] = True
            return cells[chosen]
        for axis, part in enumerate(region["axes"]):
            index = part["index"] if "index" in part else range(part["start"], part["stop"], part["step"])
            cells = np.take(cells, list(index), axis)
        return cells


class Array3(Array):
    """One array of v3."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        """Read the document."""
        self.folder, self.dataset, self.said = folder, dataset, zarr3.load(folder)
        self.plain = _load_attributes(folder)
        self.mark, self.word = self.plain.get("_hyperslab", {}), self.plain.get("_DTYPE")
        self.shape = tuple(self.said["shape"])
        self.dims = tuple(self.said.get("dimension_names") or [None] * len(self.shape))
        self.attrs = read_attributes(self.plain)
        self.dtype = zarr3.decode_dtype(self.said["data_type"])
        self.rows = bool(self.dtype.names)
        missing = self.plain.get("_FillValue")
        if (
            self.dtype.kind in "fc"
            and isinstance(missing, str | list)
            and "_FillValue" not in self.mark.get("attrs", {})
        ):
            parts = [np.frombuffer(base64.b64decode(each), "<f8")[0] for each in np.atleast_1d(missing)]
            self.attrs["_FillValue"] = self.dtype.type(parts[0] if self.dtype.kind == "f" else complex(*parts))

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells; text of any length and references as objects."""
        cells, kind = zarr3.read_cells(self.folder), self.mark.get("dtype", {})
        fields = {*self.plain.get("_REFERENCE_FIELDS", ()), *self.plain.get("_REGION_FIELDS", ())}
        if self.dtype.names:
            texts = {
                name for name in self.dtype.names if self.dtype[name].kind == "U" and self.dtype[name].itemsize >= 2048
            }
            objects = texts | fields
            made = np.empty(cells.shape, [(n, "O" if n in objects else self.dtype[n]) for n in self.dtype.names])
            for name in self.dtype.names:
                made[name] = _change(cells[name], _make_reference) if name in fields else cells[name]
            return made
        if self.word in _REFERENCES:
            return _change(cells, _make_reference)
        if kind == {"type": "bytes"} or self.word in _BYTES:
            return _change(cells, lambda cell: cell.encode() if isinstance(cell, str) else cell)
        if kind.get("type") == "vlen":
            return _change(cells, lambda cell: np.frombuffer(cell, kind["base"]))
        return cells


def _change(cells: np.ndarray[Any, Any], change: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    made = np.empty(cells.shape, object)
    for place in np.ndindex(cells.shape):
        made[place] = change(cells[place])
    return made


def _decode_attribute(value: Any, code: Any) -> Any:
    if isinstance(code, str) and code.startswith("utf-8:"):
        words = [base64.b64encode(each.encode()) for each in (value if isinstance(value, list) else [value])]
        return decode_attribute(words if isinstance(value, list) else words[0], code[6:])
    return decode_attribute(value, code)


def read_attributes(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of users: references, and values of the types that the mark says."""
    mark, made = plain.get("_hyperslab", {}), {}
    for name, value in plain.items():
        if name in _HIDDEN:
            continue
        if isinstance(value, dict) and value.get("zarr_dtype") in _REFERENCES and "value" in value:
            made[name] = _make_reference(value["value"])
        elif isinstance(value, dict) and value.keys() == {"_REFERENCE"}:
            made[name] = _make_reference(value["_REFERENCE"])
        else:
            made[name] = _decode_attribute(value, mark.get("attrs", {}).get(name))
    for name, hidden in mark.get("hidden", {}).items():
        made[name] = _decode_attribute(hidden["value"], hidden.get("code"))
    return made


class Group:
    """A group: ``attrs``, ``links`` by name, ``names`` of the nodes in it."""

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        """Read the documents."""
        self.folder, self.dataset = folder, dataset
        self.plain = _load_attributes(folder)
        self.attrs, self.links = read_attributes(self.plain), {}
        self.names = sorted(path.parent.name for kind in _DOCUMENTS for path in folder.glob(f"*/{kind}"))
        for said in self.plain.get("zarr_link", self.plain.get("_LINKS", ())):
            if said["name"] not in self.names:
                self.links.setdefault(said["name"], _make_reference(said))
        sizes = self.plain.get("_hyperslab", {}).get("dims", {})
        self.unlimited = [name for name, size in sizes.items() if size.get("unlimited")]


def _open(folder: Path, dataset: Dataset) -> Group | Array:
    if (folder / ".zarray").exists():
        return Array(folder, dataset)
    return (Array3 if zarr3.load(folder).get("node_type") == "array" else Group)(folder, dataset)


class Dataset:
    """A dataset, at its root; ``allowed``: folders that links may lead to."""

    def __init__(self, root: str | Path, allowed: tuple[Path, ...] = ()) -> None:
        """Open the place."""
        self.folder, self.allowed = Path(root).resolve(), allowed
        self.root = Group(self.folder, self)

    def __getitem__(self, path: str) -> Group | Array:
        """Return a node by its path, through links."""
        return self.find(path)

    def find(self, path: str, group: Group | None = None, hops: int = 0) -> Group | Array:
        """Return a node; more than 64 links in a row are a circle."""
        node: Group | Array = group or self.root
        for name in filter(None, path.split("/")):
            if not isinstance(node, Group):
                raise KeyError(path)
            if name in node.names:
                folder = node.folder / name
                node = _open(folder, node.dataset)
            elif name in node.links and hops < 64:
                node = node.dataset.resolve(node.links[name], hops + 1)
            else:
                raise KeyError(path)
        return node

    def resolve(self, reference: Reference, hops: int = 0) -> Group | Array:
        """Return what a link or reference leads to."""
        dataset = self._find_dataset(reference)
        try:
            return dataset.find(reference.path, None, hops)
        except KeyError:
            found = [node for node in dataset.walk() if node.attrs.get("object_id") == reference.object_id]
            if len(found) != 1 or not reference.object_id:
                raise
            return found[0]

    def _find_dataset(self, reference: Reference) -> Dataset:
        source, around = reference.source, self.folder.parent
        if source in (".", "", None):
            return self
        for place in ((self.folder / source).resolve(), (around / source).resolve()):
            inside = any(place.is_relative_to(allowed) for allowed in (around, *self.allowed))
            if "://" in source or (place.exists() and not inside):
                raise PermissionError(f"{source} leads out of the folder")
            if any((place / name).exists() for name in _DOCUMENTS):
                return self if place == self.folder else Dataset(place, self.allowed)
        for folder in (self.folder, *sorted(around.iterdir())):
            ids = _load_attributes(folder).get("object_id")
            wanted = reference.source_object_id
            if ids == wanted if wanted else folder.name == Path(source).name:
                return Dataset(folder, self.allowed)
        raise KeyError(source)

    def walk(self, group: Group | None = None) -> list[Group | Array]:
        """Return all nodes below a group, links left out."""
        found: list[Group | Array] = []
        for name in (group := group or self.root).names:
            node = self.find(name, group)
            found += [node, *(self.walk(node) if isinstance(node, Group) else ())]
        return found

    def read_specifications(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the schemas by namespace, version and source."""
        where = self.root.plain.get(".specloc", "specifications")
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for node in self.walk(self.find(where)):  # type: ignore[arg-type]
            if isinstance(node, Array):
                namespace, version, source = node.folder.parts[-3:]
                found.setdefault(namespace, {}).setdefault(version, {})[source] = json.loads(node.read().ravel()[0])
        return found
