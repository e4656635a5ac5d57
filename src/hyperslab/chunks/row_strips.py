"""Which chunks lie side by side in the result, so that few copies bring many of them there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.plan import Piece


def strips(pieces: Sequence[Piece], most: int) -> Iterator[Sequence[Piece]]:
    """Cut pieces into runs of up to ``most`` that follow each other as neighbours along the last axis."""
    places = [piece[0] for piece in pieces]
    start = 0
    for i in range(1, len(pieces)):
        *row, last = places[i - 1]
        if places[i] != (*row, last + 1) or i - start == most:
            yield pieces[start:i]
            start = i
    yield pieces[start:]


def full(strip: Sequence[Piece], width: int) -> slice:
    """Which pieces of a strip are whole chunks, ``width`` cells wide, taken forwards; only its ends can be others."""
    first, last = strip[0], strip[-1]
    if not strip[len(strip) // 2].whole or first.out[-1].step is not None:
        return slice(0, 0)
    span = last.out[-1]
    short = not last.whole or span.stop - span.start != width
    return slice(0 if first.whole else 1, len(strip) - short)


def lies_contiguous(shape: tuple[int, ...], out: np.ndarray[Any, Any]) -> bool:
    """Return whether a block of this shape within ``out`` is C-contiguous there."""
    step = out.itemsize
    for size, stride in zip(reversed(shape), reversed(out.strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
