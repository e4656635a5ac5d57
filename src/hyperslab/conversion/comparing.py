"""A store that takes only what it has: writing a dataset over itself shows every bit that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hyperslab.codecs.chain import as_codecs
from hyperslab.codecs.checksums import WORDS
from hyperslab.conversion.unpublished import lend
from hyperslab.errors import CorruptChunk
from hyperslab.stores.base import Buffer

_REMEDY = "the medium is at fault, or another program wrote here: convert again"


class Comparing:
    """``store`` as if it could be written; CorruptChunk when a value is not the one that lies there."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read_only = False
        self.url = store.url
        self.get, self.list, self.list_dir, self.close = store.get, store.list, store.list_dir, store.close
        lend(store, self)

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Compare."""
        found = self._store.get(key)
        if found is None:
            self._refuse(key, "a stored value is missing", len(memoryview(value)), None)
        if memoryview(found) != memoryview(value).cast("B"):
            self._refuse(key, "stored bytes differ from what was written", len(memoryview(value)), len(found))

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Compare one after another."""
        for key, value in pairs:
            self.put(key, value)

    def delete(self, key: str, *, durable: bool = False) -> None:
        """What should not be there."""
        self._refuse(key, "a stored value should not be there", None, None)

    def _refuse(self, key: str, message: str, expected: int | None, found: int | None) -> NoReturn:
        sizes = {} if found is None else {"expected": f"{expected} bytes", "found": f"{found} bytes"}
        raise CorruptChunk(message, url=self._store.url, key=key, remedy=_REMEDY, **sizes)


_LOSSY = frozenset(
    {"astype", "bitround", "cast_value", "delta", "fixedscaleoffset", "quantize", "scale_offset", "zfpy"}
)
"""Codecs that may give other cells than they were given."""


def is_checksummed(codecs: Iterable[Any]) -> bool:
    """Return whether every stored byte of a chunk (shard) is under a checksum, so that reading it proves it."""
    steps = _steps(codecs)
    if not steps:
        return False
    name, config = steps[-1]
    if name == "sharding_indexed":
        return is_checksummed(config["codecs"]) and is_checksummed(config.get("index_codecs", ()))
    return name in WORDS


def is_lossy(codecs: Iterable[Any]) -> bool:
    """Return whether a chunk may be read as other cells than were written, for that is what the caller asked for."""
    return any(name in _LOSSY or is_lossy(config.get("codecs", ())) for name, config in _steps(codecs))


def _steps(codecs: Iterable[Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Names and configurations of codecs, of the model or as documents have them."""
    found = [as_codecs([codec])[0] for codec in codecs]
    return [(codec.name, codec.config) for codec in found]
