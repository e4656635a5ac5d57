"""Places where bytes lie under keys. One small Protocol per operation (``base``), one file per kind of place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyperslab.stores.directory import DirectoryStore
from hyperslab.stores.keyvalue import KeyValueMap
from hyperslab.stores.memory import MemoryStore

if TYPE_CHECKING:
    from hyperslab.stores.zip import ZipStore

__all__ = ["DirectoryStore", "KeyValueMap", "MemoryStore", "ZipStore"]


def __getattr__(name: str) -> Any:
    if name == "ZipStore":
        from hyperslab.stores.zip import ZipStore

        return ZipStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
