"""How the pieces of an array lie along its axes."""

from __future__ import annotations

from dataclasses import dataclass

Place = tuple[int, ...]
"""Which piece along each dimension that is joined."""


@dataclass(frozen=True)
class JoinAxis:
    """One axis of an array: ``lengths`` of its pieces, cut into chunks of ``sizes`` each, of which the last may reach
    past a piece's end. ``joint``: which joined dimension it is; None for one that all pieces have alike."""

    lengths: tuple[int, ...]
    sizes: tuple[int, ...]
    joint: int | None = None

    @property
    def length(self) -> int:
        """Cells along the whole axis."""
        return sum(self.lengths)

    def cells_at(self, place: Place) -> slice:
        """Return the cells of a piece among those of the whole axis."""
        if self.joint is None:
            return slice(0, self.length)
        start = sum(self.lengths[: place[self.joint]])
        return slice(start, start + self.lengths[place[self.joint]])

    def length_at(self, place: Place) -> int:
        """Return the cells of a piece along the axis."""
        return self.lengths[0 if self.joint is None else place[self.joint]]

    def size_at(self, place: Place) -> int:
        """Return the cells of a chunk of a piece along the axis."""
        return self.sizes[0 if self.joint is None else place[self.joint]]

    def counts(self) -> list[int]:
        """Return the chunks of each piece."""
        return [-(-length // size) for length, size in zip(self.lengths, self.sizes, strict=True)]

    def chunks(self) -> int | tuple[int, ...]:
        """Return how the whole axis is cut: one number where all chunks but the last are equal."""
        size = self.sizes[0]
        if all(other == size for other in self.sizes) and all(length % size == 0 for length in self.lengths[:-1]):
            return size
        cuts: list[int] = []
        for length, size in zip(self.lengths, self.sizes, strict=True):
            whole, rest = divmod(length, size)
            cuts += [size] * whole + [rest] * bool(rest)
        return tuple(cuts)
