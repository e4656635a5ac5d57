"""The kinds of place that a store can be opened at: one table from the scheme of a URL to what knows the kind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from hyperslab.errors import Invalid, NotFound, ReadOnly, Unsupported
from hyperslab.stores.base import Store
from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.store_base import StoreBase


class Scheme(Protocol):
    """One kind of place. ``target`` is what is left of the URL without the scheme, or a store that the user gave."""

    def exists(self, target: Any) -> bool:
        """Return whether anything is there."""
        ...

    def open(self, target: Any, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        """The store; ``NotFound`` where nothing is and nothing is to be made."""
        ...


class _Folder:
    def exists(self, target: str) -> bool:
        return os.path.exists(target)

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        _take_none(options, target)
        store = DirectoryStore(target, read_only=read_only)
        if not create and not os.path.isdir(target):
            raise NotFound("there is no such folder", url=store.url)
        return store


class _Archive:
    def exists(self, target: str) -> bool:
        return os.path.exists(target)

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.zip import ZipStore

        _take(options, {"limit": int}, target)
        if not create and not os.path.exists(target):
            raise NotFound("there is no such file", url=f"zip://{os.path.abspath(target)}")
        return ZipStore(target, read_only=read_only, **options)


class _Memory:
    def exists(self, target: str) -> bool:
        return MemoryStore.exists(target)

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        _take_none(options, f"memory://{target}")
        if not create and not MemoryStore.exists(target):
            raise NotFound("nothing is stored under this name in this process", url=f"memory://{target}")
        return MemoryStore(target, read_only=read_only)


class _ReferenceScheme:
    def exists(self, target: str) -> bool:
        return os.path.exists(target)

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.references import ReferenceStore

        if not read_only:
            raise ReadOnly("references are only read", url=f"reference://{target}", remedy="convert them to zarr3")
        _take(
            options, {"allow_external": bool | str | Sequence, "remote_options": Mapping | None, "limit": int}, target
        )
        return ReferenceStore(target, **options)


class _Given:
    def exists(self, target: Store) -> bool:
        return next(iter(target.list()), None) is not None

    def open(self, target: Store, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        _take_none(options, target.url)
        if target.read_only and not read_only:
            raise ReadOnly("the store was opened for reading", url=target.url, remedy="open it for writing")
        return target


class _Objects:
    def exists(self, target: str) -> bool:
        """To know would cost a request; whoever reads finds out."""
        return True

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        from hyperslab.stores.buckets import open_objects

        return open_objects(target, options, read_only=read_only)


class _Several:
    """The places of a list; what lies on them together only a format knows."""

    def exists(self, target: Any) -> bool:
        return all(place.exists() for place in target.places)

    def open(self, target: Any, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:

        return SeveralStore([place.url for place in target.places], read_only=read_only)


class _Database:
    def exists(self, target: str) -> bool:
        """To know would cost a request; whoever reads finds out."""
        return True

    def open(self, target: str, options: Mapping[str, Any], *, read_only: bool, create: bool) -> Store:
        raise Unsupported("a database is no store of keys", remedy="leave format= out, or give format='mongo'")


def _take_none(options: Mapping[str, Any], url: str) -> None:
    _take(options, {}, url)


def _take(options: Mapping[str, Any], known: Mapping[str, Any], url: str) -> None:
    """Invalid for options that are not ``known`` by these names and types."""
    for name, kind in known.items():
        if name in options and not isinstance(options[name], kind):
            message = f"the storage option {name} is a {type(options[name]).__name__}"
            raise Invalid(message, url=url, remedy=_REMEDIES[name])
    if not options.keys() <= known.keys():
        names = ", ".join(sorted(options.keys() - known.keys()))
        raise Invalid(f"storage options that mean nothing here: {names}", url=url, remedy="leave them out")


_REMEDIES = {
    "limit": "give a whole number of bytes (--storage-option limit:=BYTES)",
    "allow_external": "give True, a folder or URL prefix, or a list of them",
    "remote_options": "give a mapping of the storage options of the servers (--storage-option remote_options:=JSON)",
}

REMOTE = ("s3", "gs", "az", "http", "https")
"""The schemes of buckets and web servers."""

PLACES: dict[str, Scheme] = {
    "file": _Folder(),
    "zip": _Archive(),
    "memory": _Memory(),
    "reference": _ReferenceScheme(),
    "store": _Given(),
    "several": _Several(),
    **dict.fromkeys(REMOTE, _Objects()),
    **dict.fromkeys(("mongodb", "mongodb+srv"), _Database()),
}
"""Every scheme that a URL may have. A new kind of place is one more line."""


# -- ------------------------------------------------------------------------------------------------------------------
# Several places named together: no keys of their own; a format that lies on several stores opens each of them.


class SeveralStore(StoreBase):
    """The places by their numbers, without anything in them."""

    def __init__(self, urls: Sequence[str], *, read_only: bool) -> None:
        url = " + ".join(urls)
        if not read_only:
            remedy = "open one of them, or gather them into one dataset (hs.gather)"
            raise Unsupported("places that are named together are only read", url=url, remedy=remedy)
        super().__init__(url, read_only=True)
        self._count = len(urls)

    def get(self, key: str) -> bytes | None:
        """Nothing."""
        return None

    def list(self, prefix: str = "") -> Iterator[str]:
        """Nothing."""
        return iter(())

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        """A folder for each place."""
        return [], [] if prefix else [str(number) for number in range(self._count)]
