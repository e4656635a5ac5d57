"""What a caller chooses of how objects are stored (reference 4.1), and what a layout chooses of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hyperslab.errors import Invalid
from hyperslab.formats.mongo.document_limits import MOST_BYTES

Layout = Literal["compatible", "extended"]
ChunkIds = Literal["objectid", "derived"]
Commit = Literal["meta_first", "meta_last"]
Positional = Literal[False, True, "unique"]

_HEAD = 128
"""Bytes that every chunk document has beside its cells, at least."""

COMPATIBLE: Mapping[str, Any] = {
    "chunk_size_bytes": 255 * 1024,
    "embed_threshold_bytes": 255 * 1024,
    "chunk_ids": "objectid",
    "positional_index": False,
    "verify": False,
    "read_index": True,
    "commit": "meta_first",
}
_LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "compatible": COMPATIBLE,
    "extended": {
        **COMPATIBLE,
        "chunk_size_bytes": 1024 * 1024 - 1024,
        "chunk_ids": "derived",
        "positional_index": "unique",
        "verify": True,
        "commit": "meta_last",
    },
}
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "chunk_ids": ("objectid", "derived"),
    "positional_index": (False, True, "unique"),
    "verify": (False, True),
    "read_index": (False, True),
    "commit": ("meta_first", "meta_last"),
    "durable": (False, True),
    "densify": (False, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOptions:
    """All choices, made."""

    chunk_size_bytes: int
    embed_threshold_bytes: int
    chunk_ids: ChunkIds
    positional_index: Positional
    verify: bool
    read_index: bool
    commit: Commit
    durable: bool = True
    densify: bool = False

    @classmethod
    def of(cls, layout: str, given: Mapping[str, Any]) -> PutOptions:
        """The choices of a layout but for those that are given (not None). Invalid for what is none."""
        if layout not in _LAYOUTS:
            raise Invalid(f"layout={layout!r}", remedy=f"it is one of {', '.join(_LAYOUTS)}")
        chosen = {**_LAYOUTS[layout], **{name: value for name, value in given.items() if value is not None}}
        for name, choices in _CHOICES.items():
            if name in chosen and not any(chosen[name] is one or chosen[name] == one for one in choices):
                raise Invalid(f"{name}={chosen[name]!r}", remedy=f"it is one of {', '.join(map(repr, choices))}")
        check_sizes(chosen["chunk_size_bytes"], chosen["embed_threshold_bytes"])
        return cls(**chosen)


def check_sizes(chunk_size: Any, threshold: Any) -> None:
    """Invalid for sizes that no document can have."""
    for name, size, least in (("chunk_size_bytes", chunk_size, 1), ("embed_threshold_bytes", threshold, 0)):
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise Invalid(f"{name}={size!r}", remedy=f"give a whole number of at least {least}")
    if chunk_size > MOST_BYTES - _HEAD:
        remedy = "the best are 1 to 2 MiB: 1_048_576 - 1024"
        raise Invalid(f"chunk_size_bytes={chunk_size}: no document is larger than {MOST_BYTES} bytes", remedy=remedy)
