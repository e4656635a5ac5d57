"""Where the parts of a collection lie below the root.

Names and values never lead elsewhere: ids are checked UUIDs, keys are hashes, names of collections were checked.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from hyperslab.formats.metadata_json.records import key_text
from hyperslab.model.schemas.arrays import ArraySchema
from hyperslab.model.schemas.records import Record, Values

COLLECTIONS = "collections"
DOCUMENT = "collection.json"
ARRAY = "zarr.json"
INDEX = "index"
LARGEST_INDEX = 1 << 26
"""Bytes of an index that is stored."""
ARRAYS, KEYS, GENERATIONS, UNSETTLED = "arrays", "keys", "generations", "unsettled"
JOURNAL, STAGED, CREATING, BATCHES = "journal", "staged", "creating", "batches"
FOLDERS = (ARRAYS, KEYS, GENERATIONS, UNSETTLED, JOURNAL, STAGED, CREATING, BATCHES)
"""All that a collection holds besides its document and its index."""
PART = 2
"""Characters of an id by which arrays are listed together."""

is_entry = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch
"""A match when a name may be that of a key entry."""


@dataclass(frozen=True, slots=True)
class Places:
    """The keys of the collection of this name."""

    name: str

    @property
    def base(self) -> str:
        """The folder of the collection."""
        return f"{COLLECTIONS}/{self.name}"

    def folder(self, name: str) -> str:
        """One of :data:`FOLDERS`."""
        return f"{COLLECTIONS}/{self.name}/{name}"

    @property
    def document(self) -> str:
        """What the collection is."""
        return f"{COLLECTIONS}/{self.name}/{DOCUMENT}"

    @property
    def index(self) -> str:
        """A cache of what the documents say."""
        return f"{COLLECTIONS}/{self.name}/{INDEX}"

    def array(self, id: str) -> str:
        """The folder of an array."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{id[:PART]}/{id}"

    def array_document(self, id: str) -> str:
        """The document of an array."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{id[:PART]}/{id}/{ARRAY}"

    def part(self, part: str) -> str:
        """The folder of the arrays that are listed together."""
        return f"{COLLECTIONS}/{self.name}/{ARRAYS}/{part}"

    def generation(self, part: str) -> str:
        """What changes when one of those arrays does."""
        return f"{COLLECTIONS}/{self.name}/{GENERATIONS}/{part}"

    def unsettled(self, id: str) -> str:
        """What is there while an array's document changes."""
        return f"{COLLECTIONS}/{self.name}/{UNSETTLED}/{id}"

    def batch(self, txn: str) -> str:
        """Return the key of the value that tells what became of the arrays made together under this name."""
        return f"{COLLECTIONS}/{self.name}/{BATCHES}/{txn}"

    def entry(self, schema: ArraySchema, values: Record | Values) -> str:
        """The key entry of primary values: BLAKE2b of 16 bytes of their canonical JSON."""
        digest = hashlib.blake2b(key_text(schema, values), digest_size=16).hexdigest()
        return f"{COLLECTIONS}/{self.name}/{KEYS}/{digest}"


def part_of(id: str) -> str:
    """The part that an array is listed in."""
    return id[:PART]
