"""The schemas that a dataset keeps of its nodes: ``/specifications/<namespace>/<version>/<source>`` (R49 to R52)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hyperslab.errors import FormatError, HyperslabError, Invalid, NodeNotFound, UnsafePickle
from hyperslab.formats.documents import read_json
from hyperslab.formats.hdmf.attribute_names import OWN, PLACE
from hyperslab.formats.hdmf.objects import PICKLE
from hyperslab.formats.keyed_dataset import KeyedReader
from hyperslab.model.paths import child, is_within, normalize
from hyperslab.model.spec import ArraySpec, GroupSpec

_LEVELS = 3
_PARTS = re.compile(r"\d{1,18}|[A-Za-z]+")


def place_said(root: GroupSpec | ArraySpec | None) -> str | None:
    """The path that the root names for them; None where it names none, or one that is no path."""
    said = None if root is None else root.layout.get(OWN, {}).get(PLACE)
    try:
        return (normalize(said) or None) if isinstance(said, str) else None
    except Invalid:
        return None


def is_specification(path: str, place: str) -> bool:
    """Return whether a path is that of a source's schema, below the place of the specifications."""
    return path != place and is_within(path, place) and path.count("/") == place.count("/") + _LEVELS


def version_key(version: str) -> tuple[Any, ...]:
    """Sorts versions, the newest last: numbers as such, what has a suffix (``2.0-alpha``) before what has none."""
    parts = _PARTS.findall(version)
    if not version[:1].isdigit():
        return (0,)
    numbers = [int(part) if part.isdigit() else -1 for part in parts]
    return 1, [*numbers, 0] if -1 not in numbers else numbers, version


class Specifications(Mapping[str, Mapping[str, Any]]):
    """The namespaces below a group, their versions, their sources: nothing is read before it is taken out.

    ``level``: how many mappings lie in one another from here on; at the last the values are schemas.
    """

    def __init__(self, documents: KeyedReader, path: str, level: int = _LEVELS) -> None:
        self._documents = documents
        self._path = path
        self._level = level

    def __iter__(self) -> Iterator[str]:
        try:
            names = list(self._documents.children(self._path))
        except NodeNotFound:
            return iter(())
        return iter(sorted(names, key=version_key) if self._level == _LEVELS - 1 else names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(name)
        path = child(self._path, name)
        if self._level == 1:
            return read_schema(self._documents, path)
        return Specifications(self._documents, path, self._level - 1)

    def __repr__(self) -> str:
        return f"<{', '.join(self) or 'nothing'}>"


def read_schema(documents: KeyedReader, path: str) -> Any:
    """The JSON value of one source's schema. UnsafePickle where it is stored as a pickle, FormatError for no JSON."""
    try:
        return read_json(_text(documents, path))
    except HyperslabError as error:
        raise error.locate(url=documents.store.url, node=path) from error.__cause__


def _text(documents: KeyedReader, path: str) -> bytes:
    source = documents.chunks(path)
    spec = documents.node(path)
    if not isinstance(spec, ArraySpec) or len(spec.shape) > 1 or spec.shape == (0,):
        raise FormatError("a specification is one text")
    if any(codec.name == PICKLE for codec in spec.codecs):
        raise UnsafePickle("a specification is stored as a pickle", remedy="write it anew as JSON")
    block = source.read((0,) * len(spec.shape))
    cells = [] if block is None else block.reshape(-1).tolist()
    text = cells[0] if cells else None
    if not isinstance(text, str | bytes):
        raise FormatError("a specification is no text")
    return text.encode() if isinstance(text, str) else text
