"""The numbers of the chunks in the data files of a column: as many in each, or as many as each file's header says."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from hyperslab.errors import FormatError


@dataclass(frozen=True)
class Numbering:
    """``per`` chunks in each file; with ``edges`` file ``i`` begins with chunk ``edges[i]``, ``per`` is the most."""

    per: int
    edges: tuple[int, ...] | None = None

    @classmethod
    def of(cls, per: int, counts: Sequence[int] | None) -> Numbering:
        """Return the numbering of files with so many chunks each; None: all have ``per``."""
        return cls(per) if counts is None else cls(max(counts, default=1), (0, *accumulate(counts)))

    def find(self, number: int) -> tuple[int, int]:
        """Return the file of a chunk, and the chunk's number in it."""
        if self.edges is None:
            return divmod(number, self.per)
        place = bisect_right(self.edges, number) - 1
        return place, number - self.edges[place]

    def first(self, place: int) -> int:
        """Return the first chunk of a file."""
        if self.edges is None:
            return place * self.per
        return self.edges[min(place, len(self.edges) - 1)]

    def places(self, chunks: int) -> int:
        """Return how many files so many chunks take."""
        return self.find(chunks - 1)[0] + 1 if chunks else 0


def counts_of(found: Sequence[int | None], chunks: int, column: str) -> tuple[int, list[int] | None]:
    """Return the chunks in a file, and those in each file where they differ, of an array of so many chunks.

    ``found``: what the header of each file says, None where it cannot be read. FormatError where it must be known.
    """
    per = next((count for count in found if count is not None), 1)
    needed = found[: max(1, -(-chunks // per))]
    last = needed[-1] if needed else None
    if all(count in (None, per) for count in needed[:-1]) and (last is None or last <= per):
        return per, None
    counts: list[int] = []
    for count in found:
        if count is None or sum(counts) >= chunks:
            break
        counts.append(count)
    if sum(counts) != chunks:
        listed = ", ".join("?" if count is None else str(count) for count in found[:20])
        where = f" of {column}" if column else ""
        raise FormatError(
            f"the superchunks{where} hold {listed} chunks, the array has {chunks}: nobody can tell which are where",
            remedy="look for a file that is damaged or missing",
        )
    return max(counts), counts
