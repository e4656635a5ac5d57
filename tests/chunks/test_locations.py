"""Where chunks lie: bare cells are cut into smaller chunks as NumPy cuts them."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.locations import ChunkLocations, concatenate
from hyperslab.model.spec import Codec
from hyperslab.stores.stored_file import StoredFile

FILE = StoredFile("/a", 1000, 1)


def stored(shape: tuple[int, ...], chunk: tuple[int, ...]) -> tuple[ChunkLocations, np.ndarray, bytes]:
    """An array whose chunks lie one after the other in a file, behind a head of 8 bytes."""
    cells = np.arange(np.prod(shape), dtype="<i4").reshape(shape)
    counts = tuple(-(-length // size) for length, size in zip(shape, chunk, strict=True))
    data, coords, offsets = b"\xff" * 8, [], []
    for each in product(*map(range, counts)):
        block = np.zeros(chunk, "<i4")
        inside = tuple(slice(n * size, (n + 1) * size) for n, size in zip(each, chunk, strict=True))
        part = cells[inside]
        block[tuple(map(slice, part.shape))] = part
        coords.append(each)
        offsets.append(len(data))
        data += block.tobytes()
    n = len(coords)
    size = np.full(n, int(np.prod(chunk)) * 4)
    places = np.array(coords).reshape(n, len(shape))
    located = ChunkLocations(
        (FILE,),
        chunk,
        cells.dtype,
        (Codec("bytes"),),
        places,
        np.zeros(n, np.int32),
        np.array(offsets),
        size,
        places[:0],
    )
    return located, cells, data


def read(located: ChunkLocations, shape: tuple[int, ...], data: bytes) -> np.ndarray:
    """The array that the chunks make."""
    out = np.full(tuple(-(-length // size) * size for length, size in zip(shape, located.shape, strict=True)), -1)
    for coords, offset, size in zip(located.coords.tolist(), located.offsets, located.sizes, strict=True):
        inside = tuple(slice(n * cut, (n + 1) * cut) for n, cut in zip(coords, located.shape, strict=True))
        out[inside] = np.frombuffer(data[offset : offset + size], "<i4").reshape(located.shape)
    return out[tuple(map(slice, shape))]


axes = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=3)


@given(axes)
def test_smaller_chunks_hold_the_same_cells(sizes: list[tuple[int, int, int]]) -> None:
    """Each axis: cells of a new chunk, new chunks in an old one, cells that the array lacks of whole chunks."""
    new = tuple(part for part, _, _ in sizes)
    chunk = tuple(part * count for part, count, _ in sizes)
    shape = tuple(max(1, 2 * size - lack) for size, (_, _, lack) in zip(chunk, sizes, strict=True))
    located, cells, data = stored(shape, chunk)
    np.testing.assert_array_equal(read(located, shape, data), cells)
    cut = [axis for axis, size in enumerate(new) if size != chunk[axis]]
    fits = not cut or all(size == 1 for size in new[: cut[-1]])
    assert located.can_recut(new) == fits
    if fits:
        smaller = located.recut(new, tuple(-(-length // size) for length, size in zip(shape, new, strict=True)))
        assert smaller.shape == new
        np.testing.assert_array_equal(read(smaller, shape, data), cells)


def test_compressed_chunks_stay_as_they_are() -> None:
    located, _, _ = stored((4, 4), (2, 4))
    assert not ChunkLocations(**{**located.__dict__, "codecs": (Codec("bytes"), Codec("zlib"))}).can_recut((1, 4))


def test_pieces_behind_each_other() -> None:
    first, cells, data = stored((4, 3), (2, 3))
    other, more, behind = stored((3, 3), (2, 3))
    both = concatenate([first, other.moved((2, 0), 1)], (4, 1))
    assert both.numbers.tolist() == [0, 0, 1, 1] and len(both.files) == 2
    moved = ChunkLocations(**{**both.__dict__, "offsets": both.offsets + len(data) * both.numbers})
    np.testing.assert_array_equal(read(moved, (7, 3), data + behind), np.concatenate([cells, more]))
