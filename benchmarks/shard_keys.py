"""Shard keys for chunks in MongoDB, on paper: how one large object spreads over shards. Called by hand:

``python -m benchmarks.shard_keys``: a table in Markdown. No server is asked: ranges of a key are cut where they hold
128 documents of 1 MiB, as the server does at 128 MiB, never between equal values, and go to the shard that has least.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any

from bson import ObjectId

from hyperslab.formats.mongo.chunk_documents import DerivedIds

SHARDS, RANGE = 4, 128
# Objects beside the large one, of ten chunks each.
OTHERS = 1000
Document = tuple[ObjectId, int, int, Any]
"""Object, number of the chunk, n, id."""


def hashed(value: ObjectId | int) -> bytes:
    """Return the hash of a value; which one it is does not matter here."""
    return blake2b(repr(value).encode(), digest_size=8).digest()


KEYS: dict[str, Callable[[Document], Any]] = {
    '{meta_id: "hashed"}': lambda document: hashed(document[0]),
    "{meta_id: 1, n: 1}": lambda document: (document[0], document[2]),
    '{meta_id: "hashed", n: 1}': lambda document: (hashed(document[0]), document[2]),
    '{meta_id: 1, n: "hashed"}': lambda document: (document[0], hashed(document[2])),
    '{meta_id: "hashed", _id: 1}': lambda document: (hashed(document[0]), document[3]),
}


def make_documents(meta_id: ObjectId, chunks: int, per_chunk: int) -> list[Document]:
    """Return the documents of an object of one dimension, under derived ids."""
    ids = DerivedIds(meta_id)
    return [(meta_id, chunk, n, ids("v", (chunk,), n)) for chunk in range(chunks) for n in range(per_chunk)]


def place(documents: Sequence[Document], key: Callable[[Document], Any]) -> tuple[dict[Document, int], int]:
    """Return the shard of each document, and how many there are in the largest range."""
    ranges: list[list[Document]] = [[]]
    for _, same in groupby(sorted(documents, key=key), key):
        equal = list(same)
        if ranges[-1] and len(ranges[-1]) + len(equal) > RANGE:
            ranges.append([])
        ranges[-1] += equal
    free = [(0, shard) for shard in range(SHARDS)]
    shards: dict[Document, int] = {}
    for some in sorted(ranges, key=len, reverse=True):
        load, shard = heapq.heappop(free)
        shards |= dict.fromkeys(some, shard)
        heapq.heappush(free, (load + len(some), shard))
    return shards, max(map(len, ranges))


def main() -> None:
    """Print the table."""
    others = [one for _ in range(OTHERS) for one in make_documents(ObjectId(), 10, 1)]
    print(
        "| key | documents of a chunk | chunks | fullest shard | largest range | by derived ids | by place, or whole |"
    )
    print("|---|---|---|---|---|---|---|")
    for title, key in KEYS.items():
        for per_chunk, counts in ((1, (10, 1000, 100_000)), (16, (1000,))):
            for count in counts:
                mine = make_documents(ObjectId(), count, per_chunk)
                shards, largest = place([*others, *mine], key)
                share = Counter(shards[one] for one in mine)
                one = {shards[each] for each in mine if each[1] == count // 2}
                # A query that does not name all of the key goes to every shard that has something of the object.
                by_ids = len(one) if ", _id" in title else len(share)
                fullest = max(share.values()) / len(mine)
                cells = (title, str(per_chunk), f"{count:,}", f"{fullest:.0%}", f"{largest:,}", str(by_ids))
                print(f"| `{cells[0]}` | {' | '.join(cells[1:])} | {len(share)} |")


if __name__ == "__main__":
    main()
