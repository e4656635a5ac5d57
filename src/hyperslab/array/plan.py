"""What a selection costs, as told to users before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hyperslab.model.amounts import counted


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The price of a selection: its result's ``shape`` and ``nbytes``, and what must be touched to make it."""

    shape: tuple[int, ...]
    nbytes: int
    """Bytes of the result in memory."""
    chunks: int
    """Chunks touched."""
    chunk_nbytes: int
    """Decoded bytes of all touched chunks."""
    stored_nbytes: int | None
    """Bytes of the touched chunks where they are stored; None where the format cannot tell without reading."""
    requests: int
    """Requests to the store: one per chunk; one per shard of which half or more is wanted, else its index and parts."""

    def as_json(self) -> Mapping[str, object]:
        """Return the same as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        stored = "?" if self.stored_nbytes is None else f"{self.stored_nbytes:,}"
        return (
            f"{counted(self.chunks, 'chunk')} in {counted(self.requests, 'request')}: {stored} bytes stored, "
            f"{self.chunk_nbytes:,} decoded, {self.nbytes:,} in the result of shape {self.shape}"
        )
