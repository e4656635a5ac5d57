"""Read stores of NCZarr, in all dialects, from docs/formats/nczarr.md alone: nothing of hyperslab is used."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np

_WORDS = {
    "byte": "<i1", "ubyte": "<u1", "short": "<i2", "ushort": "<u2", "int": "<i4", "uint": "<u4", "int64": "<i8",
    "uint64": "<u8", "float": "<f4", "double": "<f8", "<i16": "<i2", "<u16": "<u2", "<i32": "<i4", "<u32": "<u4",
    "<i64": "<i8", "<u64": "<u8", "<f32": "<f4", "<f64": "<f8",
}  # fmt: skip
_CHARS = ("char", ">S1", "<U1")
_HIDDEN = re.compile("_nczarr_.*|_NCZARR_.*|_NCProperties|_ARRAY_DIMENSIONS")


def load(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file, {} where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _spell_values(text: str) -> dict[str, str]:
    """Return each value of a JSON object as the document spells it."""
    decoder, found, at = json.JSONDecoder(), {}, text.index("{") + 1
    while match := re.compile(r'[\s,]*(?=")').match(text, at):
        name, at = decoder.raw_decode(text, match.end())
        at = re.compile(r"\s*:\s*").match(text, at).end()  # type: ignore[union-attr]
        _, end = decoder.raw_decode(text, at)
        found[name], at = text[at:end], end
    return found


def decode_fields(fields: Any) -> np.dtype[Any]:
    """Return the type of cells that a document of Zarr v2 says."""
    if isinstance(fields, str):
        return np.dtype("S1" if fields == "<U1" else fields)
    return np.dtype([(name, decode_fields(kind), *map(tuple, shape)) for name, kind, *shape in fields])


def decode_fill(value: Any, dtype: np.dtype[Any], *, is_char: bool = False) -> Any:
    """Return what a cell is that nobody wrote: null is zero, text and structures are base64 of their bytes."""
    if value is None:
        return np.zeros((), dtype)[()]
    if is_char and dtype.kind == "S" and len(value) < 2:
        return np.array(value.encode("latin-1"), dtype)[()]
    if dtype.kind in "SV":
        return np.frombuffer(base64.b64decode(value).ljust(dtype.itemsize, b"\0"), dtype)[0]
    if dtype == ">f8" and value == 9.96921e36:
        value = 9.969209968386869e36
    return np.array(value if dtype.kind in "iu" else float(value)).astype(dtype)[()]


def read_cells(folder: Path, said: dict[str, Any], dtype: np.dtype[Any], fill: Any) -> np.ndarray[Any, Any]:
    """Return all cells of an array of Zarr v2."""
    shape, chunks = said["shape"], said["chunks"]
    made = np.full(shape, fill, dtype)
    codecs = [numcodecs.get_codec(dict(each)) for each in said.get("filters") or []]
    for each in codecs:
        if each.codec_id == "shuffle" and int(each.elementsize) == 0:
            each.elementsize = dtype.itemsize
    codecs += [numcodecs.get_codec(dict(said["compressor"]))] if said.get("compressor") else []
    for place in itertools.product(*(range(-(-size // step)) for size, step in zip(shape, chunks, strict=True))):
        path = folder / (said.get("dimension_separator", ".").join(map(str, place)) or "0")
        if not path.exists():
            continue
        data: Any = path.read_bytes()
        for codec in reversed(codecs):
            data = codec.decode(data)
        cells = np.frombuffer(bytes(data), dtype).reshape(chunks, order=said.get("order", "C"))
        here = [slice(at * step, min((at + 1) * step, n)) for at, step, n in zip(place, chunks, shape, strict=True)]
        made[tuple(here)] = cells[tuple(slice(part.stop - part.start) for part in here)]
    return made


def decode_text(cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return cells of fixed width as text."""
    flat = [bytes(cell).rstrip(b"\0").decode() for cell in cells.ravel().tolist()]
    return np.array(flat, np.dtypes.StringDType()).reshape(cells.shape)


class _Node:
    """A folder of the store, its attributes, and the group that it lies in."""

    def __init__(self, folder: Path, parent: Group | None) -> None:
        self.folder, self.parent, self.name = folder, parent, folder.name
        self.draft: bool = parent.draft if parent else is_draft(folder)
        zgroup = load(folder / ".zgroup")
        text = next((p.read_text() for key in (".zattrs", ".zattr") if (p := folder / key).exists()), None)
        text = json.dumps(zgroup.get(".zattrs", {})) if text is None else text
        self.plain = json.loads(text)
        self._spelled = _spell_values(text)
        self._types = load(folder / ".zattr_type") or load(folder / ".zattrs_type") if self.draft else self._say("attr")
        self._types = self._types.get("types", self._types) if not self.draft else self._types

    def _say(self, what: str) -> Any:
        """Return what netcdf-c says here: in ``.zattrs``, older ones in documents of Zarr, the oldest in its own."""
        places = [self.plain, load(self.folder / ".zgroup"), load(self.folder / ".zarray")]
        found = [d[key] for d in places for key in (f"_nczarr_{what}", f"_NCZARR_{what.upper()}") if key in d]
        return found[0] if found else load(self.folder / f".ncz{what}")

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of users, each of its type."""
        types = load(self.folder / ".ztypedefs")
        widths = {f"{kind}.{field[0]}" for kind, said in types.items() for field in said.get("fields", [])}
        shown = {
            name: value for name, value in self.plain.items() if name not in widths and not _HIDDEN.fullmatch(name)
        }
        return {name: self._decode(name, value) for name, value in shown.items()}

    def _decode(self, name: str, value: Any) -> Any:
        kind = self._types.get(name)
        if kind is None:
            kind = _guess(value)
        if name == "_FillValue" and kind in _CHARS:
            return np.bytes_(value.encode("latin-1"))
        if kind in _CHARS:
            return value if isinstance(value, str) else self._spelled[name]
        if kind == "string" or kind.startswith("|S"):
            return np.array(value) if isinstance(value, list) else np.str_(value)
        if kind.startswith("/"):
            return _decode_user(value, *(self.parent or self).find_type(kind))  # type: ignore[attr-defined]
        return np.array(value, np.float64 if "f" in kind or kind == "double" else None).astype(_WORDS.get(kind, kind))[
            ()
        ]


def _guess(value: Any) -> str:
    if isinstance(value, dict):
        return "char"
    cells = value if isinstance(value, list) else [value]
    if cells and all(isinstance(each, bool) for each in cells):
        return "ubyte"
    if cells and all(isinstance(each, int) for each in cells):
        limits = {"int": (-(2**31), 2**31), "uint": (0, 2**32), "int64": (-(2**63), 2**63), "uint64": (0, 2**64)}
        return next(name for name, (low, high) in limits.items() if low <= min(cells) and max(cells) < high)
    return "double" if cells and all(isinstance(each, int | float) for each in cells) else "char"


def _decode_user(value: Any, dtype: np.dtype[Any], said: dict[str, Any]) -> Any:
    """Return an attribute of a user type: a compound is an object by fields, an enum its number, opaque is base64."""

    def decode(cell: Any, kind: np.dtype[Any]) -> Any:
        if kind.subdtype:
            cells = np.empty(kind.shape, kind.base)
            for place, part in zip(np.ndindex(kind.shape), cell, strict=True):
                cells[place] = decode(part, kind.base)
            return cells
        if kind.names:
            return tuple(decode(cell[name], kind[name]) for name in kind.names)
        if kind.kind in "SV":
            return base64.b64decode(cell) if kind.kind == "V" else cell.encode()
        return float(cell) if kind.kind == "f" else cell

    if isinstance(value, list):
        made = np.empty(len(value), dtype)
        for index, cell in enumerate(value):
            made[index] = decode(cell, dtype)
        return made
    return np.array(decode(value, dtype), dtype)[()]


class Array(_Node):
    """One array: ``dims``, ``shape``, ``dtype``, ``fill_value``, ``attrs``, ``read()``."""

    def __init__(self, folder: Path, parent: Group) -> None:
        """Read the documents."""
        super().__init__(folder, parent)
        self.said = load(folder / ".zarray")
        ours = self.said if self.draft else self._say("array")
        refs = ours.get("dimensions", ours.get("dimension_references", ours.get("dimrefs")))
        self.scalar = not self.draft and (ours.get("scalar") == 1 or ours.get("storage") == "scalar")
        self.stored = decode_fields(self.said["dtype"])
        self.is_char = ours.get("nc_type") == "char" or self.said["dtype"] in (">S1", "<U1")
        self.is_text = self.stored.kind == "S" and not self.is_char
        self.dtype = np.dtype("S1") if self.is_char else self.stored
        self.type = ours.get("typedef")
        self.shape = () if self.scalar else tuple(self.said["shape"])
        form = "_anonymous{}" if self.draft else "_Anonymous_Dim_{}"
        names = refs or self.plain.get("_ARRAY_DIMENSIONS") or [form.format(size) for size in self.shape]
        self.dims = tuple(name.rpartition("/")[2] for name in names[: len(self.shape)])
        self.references = tuple(refs or ())
        fill = decode_fill(self.said["fill_value"], self.stored, is_char=self.is_char)
        self.fill_value = decode_text(np.array(fill))[()] if self.is_text else fill

    def read(self) -> np.ndarray[Any, Any]:
        """Return all cells; text as text."""
        fill = decode_fill(self.said["fill_value"], self.stored, is_char=self.is_char)
        cells = read_cells(self.folder, self.said, self.stored, fill)
        cells = cells.view("S1") if self.is_char else decode_text(cells) if self.is_text else cells
        assert self.parent
        if self.stored.byteorder == ">" and re.search(r"netcdf=4\.9\.[012]\b", self.parent.writer):
            cells = cells.byteswap()
        return cells.reshape(self.shape)


class Group(_Node):
    """A group: ``dims`` (a size and True if unlimited), ``types``, ``groups``, ``arrays``, ``attrs``."""

    def __init__(self, folder: str | Path, parent: Group | None = None) -> None:
        """Read the documents."""
        super().__init__(Path(folder), parent)
        self.writer: str = parent.writer if parent else self.plain.get("_NCProperties", "")
        said = {} if self.draft else self._say("group")
        sizes = load(self.folder / ".zdims") if self.draft else said.get("dimensions", said.get("dims", {}))
        self.dims = {
            n: (s["size"], bool(s.get("unlimited"))) if isinstance(s, dict) else (s, False) for n, s in sizes.items()
        }
        self.types = load(self.folder / ".ztypedefs")
        there = [path for path in self.folder.iterdir() if path.is_dir()]
        order = self._find_order(said)
        there.sort(key=lambda path: order.index(path.name) if path.name in order else len(order))
        self.arrays = {path.name: Array(path, self) for path in there if (path / ".zarray").exists()}
        self.groups = {path.name: Group(path, self) for path in there if (path / ".zgroup").exists()}

    def _find_order(self, said: dict[str, Any]) -> list[str]:
        if not self.draft:
            return [*said.get("arrays", said.get("vars", [])), *said.get("groups", [])]
        root, path = self, ""
        while root.parent:
            root, path = root.parent, f"{root.name}/{path}"
        names: Any = load(root.folder / ".zmetadata").get("nczarr", {}).get("order", {}).get(path.rstrip("/"), [])
        return list(names)

    def find_type(self, path: str) -> tuple[np.dtype[Any], dict[str, Any]]:
        """Return the type of cells, and the description, of a user type by its qualified name."""
        group, (*way, name) = self, path.strip("/").split("/")
        while group.parent:
            group = group.parent
        for each in way:
            group = group.groups[each]
        said = group.types[name]
        if said["class"] != "compound":
            return np.dtype(said["base"] if said["class"] == "enum" else f"V{said['size']}"), said
        fields = [
            (field, self.find_type(kind)[0] if kind.startswith("/") else np.dtype(kind), *map(tuple, shape))
            for field, kind, *shape in said["fields"]
        ]
        return np.dtype(fields), said

    def walk(self, path: str = "") -> Iterator[tuple[str, Group | Array]]:
        """Yield each node below by its path."""
        for name, array in self.arrays.items():
            yield f"{path}{name}", array
        for name, group in self.groups.items():
            yield f"{path}{name}", group
            yield from group.walk(f"{path}{name}/")


def is_draft(root: Path) -> bool:
    """Return True if a store is of the dialect of 2018."""
    if (root / ".zdataset").exists():
        return True
    own = any((root / name).exists() for name in (".zdims", ".ztypedefs", ".zattr_type", ".zattrs_type"))
    return own and "_NCProperties" in (load(root / ".zattrs") or load(root / ".zattr"))
