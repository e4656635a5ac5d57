"""What the chunks of a dataset that is open for reading refuse, in every format."""

from __future__ import annotations

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import ReadOnly


def read_only() -> ReadOnly:
    """The error for a change of a dataset that is open for reading."""
    return ReadOnly("this dataset is open for reading", remedy="open it with mode='r+'")


class ReadOnlyChunks:
    """The half of a source that writes."""

    def write(self, coords: Coords, block: Block) -> None:
        """Refused."""
        raise read_only()

    def erase(self, coords: Coords) -> None:
        """Refused."""
        raise read_only()
