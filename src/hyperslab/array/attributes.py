"""``.attrs``: the attributes of a node as an ordered mapping that writes through; and the one that says what means
missing, where a format keeps that in the fill value alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from hyperslab.array import references
from hyperslab.array.session import OpenDataset
from hyperslab.errors import Invalid, NotFound
from hyperslab.formats.base import Reader
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.guessing import meant
from hyperslab.model.spec import ArraySpec, GroupSpec


class Attributes(MutableMapping[str, Any]):
    """Attributes of the node at ``path``; every change is read, changed and put back under the node's lock."""

    def __init__(self, session: OpenDataset, path: str) -> None:
        self._session = session
        self._path = path

    def _values(self) -> Mapping[str, object]:
        return self._spec(self._session.reader).attrs

    def _spec(self, reader: Reader) -> GroupSpec | ArraySpec:
        spec = reader.node(self._path)
        if spec.is_link:  # put there since the node was opened
            remedy = "open it again: that gives what the link leads to"
            raise Invalid("a link has no attributes", url=self._session.url, node=self._path, remedy=remedy)
        return spec

    def __getitem__(self, name: str) -> Any:
        spec = self._session.reader.node(self._path)
        try:
            value = (self._spec(self._session.reader) if spec.is_link else spec).attrs[name]
        except KeyError:
            remedy = meant(name, self)
            raise NotFound(f"no attribute {name!r}", url=self._session.url, node=self._path, remedy=remedy) from None
        return references.bound(value, self._session) if isinstance(value, references.REFERENCES) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        self[name]
        self._change({}, {name})

    def update(self, *args: object, **more: Any) -> None:
        """Set several attributes by one write."""
        self._change(dict(*args, **more), set())

    def clear(self) -> None:
        """Remove all attributes by one write."""
        self._change({}, set(self))

    def _change(self, new: Mapping[str, object], gone: set[str]) -> None:
        if not all(isinstance(name, str) for name in new):
            message = "an attribute's name that is no text"
            raise Invalid(message, url=self._session.url, node=self._path, remedy="str() it")
        writer = self._session.writer()
        with self._session.lock_node(self._path):
            self._session.refresh(self._path)
            spec = self._spec(writer)
            attrs = {name: value for name, value in spec.attrs.items() if name not in gone}
            attrs |= references.attrs_from(self._session, new)
            writer.put(self._path, spec.evolve(attrs=attrs))

    def _ipython_key_completions_(self) -> list[str]:
        """Return what IPython and Jupyter offer behind ``attrs["``."""
        return list(self)

    def __repr__(self) -> str:
        return repr(dict(self))


# -- missing cells -----------------------------------------------------------------------------------------------------


def with_missing(session: OpenDataset, spec: ArraySpec) -> Attrs:
    """Return the attributes of an array, with ``_FillValue`` where Zarr v2's fill value means missing.

    xarray and kerchunk write the marker into ``fill_value`` of ``.zarray`` and nowhere else. They name all dimensions:
    without names the fill value is what unwritten cells read as, as it is in every other format, HDMF's Zarr v2 too.
    """
    if session.format.traits.fill_value != "missing" or spec.fill_value is None or FILL_VALUE in spec.attrs:
        return spec.attrs
    if spec.numpy_dtype.kind not in "iufc" or None in spec.dims or spec.is_fill_plain:
        return spec.attrs
    return {**spec.attrs, FILL_VALUE: spec.fill_value}
