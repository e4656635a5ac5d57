"""A store that takes only what it has: writing a dataset over itself shows every bit that differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hyperslab.codecs.checksums import WORDS
from hyperslab.conversion.unpublished import ABILITIES
from hyperslab.errors import CorruptChunk
from hyperslab.model.spec import Codec
from hyperslab.stores.base import Buffer

_REMEDY = "the medium is at fault, or another program wrote here: convert again"


class Comparing:
    """``store`` as if it could be written; CorruptChunk when a value is not the one that lies there."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.read_only = False
        self.url = store.url
        self.get, self.list, self.list_dir, self.close = store.get, store.list, store.list_dir, store.close

    def __getattr__(self, name: str) -> Any:
        """Reading is the store's."""
        if name not in ABILITIES:
            raise AttributeError(name)
        return getattr(self._store, name)

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

    def delete(self, key: str) -> None:
        """What should not be there."""
        self._refuse(key, "a stored value should not be there", None, None)

    def _refuse(self, key: str, message: str, expected: int | None, found: int | None) -> NoReturn:
        sizes = {} if found is None else {"expected": f"{expected} bytes", "found": f"{found} bytes"}
        raise CorruptChunk(message, url=self._store.url, key=key, remedy=_REMEDY, **sizes)


def is_checksummed(codecs: Iterable[Codec | Mapping[str, Any]]) -> bool:
    """Whether every stored byte of a chunk (shard) is under a checksum, so that reading it proves it."""
    names, configs = [], []
    for codec in codecs:
        plain = isinstance(codec, Codec)
        names.append(codec.name if plain else codec["name"])  # type: ignore[union-attr,index]
        configs.append(codec.config if plain else codec.get("configuration", {}))  # type: ignore[union-attr]
    if not names:
        return False
    if names[-1] == "sharding_indexed":
        return is_checksummed(configs[-1]["codecs"]) and is_checksummed(configs[-1].get("index_codecs", ()))
    return names[-1] in WORDS
