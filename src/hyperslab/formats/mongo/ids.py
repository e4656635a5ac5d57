"""The ``_id`` of a chunk document: the same for the same document, however often it is written (reference 4.2, 4.3)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from hashlib import blake2b

from bson import ObjectId

Chunk = tuple[int, ...] | None
"""Indices of a chunk, None for a variable that is stored whole."""


def _key(name: str, chunk: Chunk, n: int) -> bytes:
    where = b"\xff" if chunk is None else b"".join(index.to_bytes(8, "little") for index in chunk)
    return name.encode() + b"\0" + where + n.to_bytes(8, "little", signed=True)


@dataclass(frozen=True, slots=True)
class Derived:
    """Computed from the key alone: whoever knows the key knows the ``_id``."""

    meta_id: ObjectId

    def __call__(self, name: str, chunk: Chunk, n: int) -> ObjectId:
        return ObjectId(blake2b(self.meta_id.binary + _key(name, chunk, n), digest_size=12).digest())


@dataclass(frozen=True, slots=True)
class Salted:
    """Ordinary to look at: the seconds of the moment, then a hash of the key and of a salt that the writer carries."""

    moment: int = field(default_factory=lambda: int(time.time()))
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def __call__(self, name: str, chunk: Chunk, n: int) -> ObjectId:
        digest = blake2b(_key(name, chunk, n), digest_size=8, key=self.salt).digest()
        return ObjectId((self.moment & 0xFFFFFFFF).to_bytes(4, "big") + digest)


Ids = Derived | Salted
