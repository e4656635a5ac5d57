"""Read the index of a collection in a bucket, from docs/formats/collections.md alone: obstore is the client."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import obstore

from second_readers.collections import parse_dtype


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Index:
    """An index: ``rows``, values of attributes by name, of each array by id; ``is_here``: it is no copy's."""

    def __init__(self, store: Any, url: str) -> None:
        """Read the collection's document, the head, and the manifests that it names."""
        self.store = store
        document = json.loads(obstore.get(store, "collection.json").bytes().to_bytes())
        stored = document.get("stored_attributes", document["schema"]["attributes"])
        self.attributes = [{key: value for key, value in each.items() if key != "now"} for each in stored]
        head = self._read("manifests/current", b"hyperslab-index 1")
        self.form, _, _, self.stamps, runs, tail, _, _ = head
        self.is_here = self.form == _hash(f"{_hash(json.dumps([1, self.attributes]))} {url}/manifests")
        self.parts = self._list("generations")
        self.unsettled = self._list("unsettled")
        self.rows: dict[str, dict[str, Any]] = {}
        pending: set[str] = set()
        manifests = [self._read(f"manifests/{name}", b"hyperslab-manifest 1") for run in runs for name, _ in run[2]]
        for ids, _marks, columns, awaited, gone, committed in [*manifests, *(rows for _, rows in tail)]:
            for id_ in gone:
                self.rows.pop(id_, None)
            for at, id_ in enumerate(ids):
                self.rows[id_] = self._decode_row([column[at] for column in columns])
            pending = (pending | set(awaited)) - set(committed)
        self.rows = {id_: row for id_, row in self.rows.items() if id_ not in pending}

    def _read(self, key: str, line: bytes) -> Any:
        first, _, rest = obstore.get(self.store, key).bytes().to_bytes().partition(b"\n")
        assert first == line
        return msgspec.msgpack.decode(zlib.decompress(rest))

    def _list(self, folder: str) -> dict[str, str]:
        """Return names and ETags."""
        found = [each for page in obstore.list(self.store, folder) for each in page]
        return {each["path"].rpartition("/")[2]: each["e_tag"] for each in found}

    def is_known(self, part: str) -> bool:
        """Return True if the index knows all arrays of a part."""
        digest = hashlib.blake2b(repr(self.parts[part]).encode(), digest_size=8).digest()
        return self.stamps.get(part) == int.from_bytes(digest, "big", signed=True)

    def _decode_row(self, columns: list[bytes]) -> dict[str, Any]:
        found = {}
        for at, each in enumerate(self.attributes):
            found[each["name"]] = _decode(columns[at], each["dtype"]) if at < len(columns) else each["default"]
        return found


def _decode(data: bytes, word: str) -> Any:
    """Return the value of bytes that compare as values do; a tuple as JSON has it."""
    mark, data = data[0], data[1:]
    if mark != 1:
        return {2: float("nan"), 3: None}[mark]
    if word in ("string", "tuple"):
        return data.decode() if word == "string" else json.loads(data)
    kind = {"float": "f", "complex": "c", "int": "i", "datetime": "i"}.get(word) or parse_dtype(word).kind
    if kind in "fc":
        parts = [_decode_float(data[at : at + 8]) for at in range(0, len(data), 8)]
        return parts[0] if kind == "f" else complex(*parts)
    below = data[0] < 0x80
    data = bytes(255 - byte for byte in data) if below else data
    assert data[0] - 0x80 == len(data) - 1
    number = int.from_bytes(data[1:], "big") * (-1 if below else 1)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=number) if word == "datetime" else number


def _decode_float(data: bytes) -> float:
    (bits,) = struct.unpack(">Q", data)
    above = bits >> 63
    return float(np.uint64(bits ^ (1 << 63 if above else (1 << 64) - 1)).view("f8"))
