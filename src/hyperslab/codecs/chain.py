"""A chain of codecs, compiled once for one kind of chunk.

Writing goes through the chain from the cells to the bytes, reading back. Where the first bytes codec behind plain
``bytes`` can decode into given memory, a read decodes straight into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from hyperslab.chunks.engine import (
    UNCOMPRESSED_UNCACHED,
    EngineCodecs,
    EngineEncoder,
    ShardLayout,
    SingleChunks,
    make_single_reads,
)
from hyperslab.codecs import config as read
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import check_size, contiguous, flat_bytes, from_bytes, most_stored
from hyperslab.codecs.bytes import Bytes, Shuffle, Transpose
from hyperslab.codecs.config import Config
from hyperslab.codecs.libblosc2 import load_library
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType

# -- an array -> array codec behind bytes, as Zarr v2 allows: the bytes are viewed as a flat array ---------------------


class ViewedBytes(BytesToBytes):
    """``make``'s codec over bytes seen as a 1-D array of the dtype that parameter ``key`` names (none: booleans)."""

    def __init__(self, make: Callable[[Config, ChunkLayout], Any], config: Config, key: str | None) -> None:
        self._make = make
        self._config = config
        self._dtype = np.dtype(np.bool_) if key is None else read.dtype("filter", config, key)
        self._stored: NumpyDType = make(config, ChunkLayout(self._dtype, (0,))).cells.numpy_dtype

    def encoded_size(self, size: int) -> int | None:
        """Return what the codec makes of so many cells."""
        count, rest = divmod(size, self._dtype.itemsize)
        return None if rest else self._codec(count).cells.nbytes

    def encode(self, data: Buffer) -> Buffer:
        """Return the bytes of the encoded array."""
        count, rest = divmod(len(data), self._dtype.itemsize)
        if rest:
            raise Invalid(f"{len(data)} bytes are no whole number of {self._dtype}", remedy="another order of filters")
        return flat_bytes(contiguous(self._codec(count).encode(from_bytes(data, self._dtype, (count,)))))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes of the decoded array."""
        if size is None and self._stored.itemsize and self._dtype.kind != "b":
            size = len(data) // self._stored.itemsize * self._dtype.itemsize
        elif size is None:
            size = 8 * (len(data) - 1) - (data[0] if len(data) else 0)
        if size < 0 or size % self._dtype.itemsize:
            raise CorruptChunk("a filter's bytes have a wrong size", expected=f"whole {self._dtype}", found=len(data))
        codec = self._codec(size // self._dtype.itemsize)
        check_size("filter", data, codec.cells.nbytes)
        out = codec.decode(from_bytes(data, self._stored, codec.cells.shape))
        return flat_bytes(contiguous(out))

    def _codec(self, count: int) -> Any:
        return self._make(self._config, ChunkLayout(self._dtype, (count,)))


# Bytes of a chunk that documents may say and the engine's numbers of 64 bits hold, whatever is added; no machine has so
# much memory.
_MOST_BYTES = 1 << 48
# Layouts of shards for which one chain has what reads single chunks: it may live as long as the process.
_LAYOUTS = 16


def _find_engine_codecs(
    cells: ChunkLayout, arrays: Sequence[ArrayToArray], serial: ArrayToBytes, tail: Sequence[BytesToBytes]
) -> EngineCodecs | None:
    """Return the codecs where they are at most one order of axes, cells as they lie in memory or with their bytes
    turned around, items shuffled, one compressor and then CRC-32C."""
    size, most = cells.nbytes, most_stored(cells)
    if not isinstance(serial, Bytes) or serial.swap is None or len(arrays) > 1:
        return None
    if not size or most is None or most > _MOST_BYTES:
        return None
    order = arrays[0].order if arrays and isinstance(arrays[0], Transpose) else None
    shuffle = tail[0].width if tail and isinstance(tail[0], Shuffle) else 0
    steps = tail[1:] if shuffle else tail
    names = [codec.engine_name for codec in steps]
    checksum = names[-1:] == ["crc32c"]
    compressors = names[:-1] if checksum else names
    if len(arrays) != (order is not None) or len(compressors) > 1 or None in compressors or "crc32c" in compressors:
        return None
    first = steps[0] if compressors else None
    limit = None if first is None else first.most_for_engine(size, shuffled=shuffle > 1)
    library = load_library()
    return EngineCodecs(
        cells.numpy_dtype,
        size,
        most if limit is None else limit,
        compressors[0] if compressors else None,
        UNCOMPRESSED_UNCACHED if first is None else first.most_uncached,
        shuffle,
        checksum,
        serial.swap,
        order,
        None if library is None else library.for_engine,
        cache(lambda: EngineEncoder() if first is None else first.engine_encoder(size)),
    )


class Chain:
    """Cells to stored bytes and back. ``direct``: the stored bytes are exactly the cells as they lie in memory.

    ``size`` is the number of stored bytes where it is the same for every chunk, else None, ``unpacked_size`` that
    before the bytes -> bytes codecs; ``most_stored`` is more than any sound chunk takes, None where the cells are of
    variable length.
    """

    def __init__(
        self, cells: ChunkLayout, arrays: Sequence[ArrayToArray], serial: ArrayToBytes, tail: Sequence[BytesToBytes]
    ) -> None:
        self.cells = cells
        self.most_stored = most_stored(cells)
        self._shape = cells.shape
        self._dtype = cells.numpy_dtype
        self._arrays = tuple(arrays)
        self._serial = serial
        self.unpacked_size = serial.size
        self._tail = tuple(tail)
        sizes: list[int | None] = []
        self.size = serial.size
        for codec in tail:
            sizes.append(self.size)
            self.size = None if self.size is None else codec.encoded_size(self.size)
        self._decoders = tuple(reversed(list(zip(tail, sizes, strict=True))))
        self._undo = tuple(reversed(self._arrays))
        plain = serial if isinstance(serial, Bytes) and not arrays and cells.nbytes else None
        self.direct = plain is not None and plain.as_in_memory and not tail
        first = tail[0] if tail else None
        # The bytes codec next to plain cells, where it can decode into their own memory ("straight", without a copy).
        self._final_decoder = first if plain is not None and first is not None and first.can_decode_into else None
        self._settle = plain.settle if plain is not None and not plain.as_in_memory else None
        self._fills = serial if serial.can_fill_array and not arrays else None
        self._single_reads: dict[ShardLayout | None, SingleChunks | None] = {}

    @cached_property
    def engine_codecs(self) -> EngineCodecs | None:
        """The codecs, where the engine in C has all of them."""
        return _find_engine_codecs(self.cells, self._arrays, self._serial, self._tail)

    def single_reads(self, shard: ShardLayout | None = None) -> SingleChunks | None:
        """Return what reads one chunk alone, perhaps of such shards, by the engine in C; None where that lacks one of
        the codecs."""
        known = self._single_reads
        if shard in known:
            return known[shard]
        single = make_single_reads(self.engine_codecs, self._shape, shard)
        self._single_reads = {**(known if len(known) < _LAYOUTS else {}), shard: single}
        return single

    def encode(self, block: Values) -> Buffer:
        """Return the stored bytes of a block of the chunk's shape; a view of ``block`` where nothing has to change."""
        if block.shape != self._shape:
            raise Invalid(f"a block of shape {block.shape} for a chunk of shape {self._shape}")
        array = block if block.dtype == self._dtype else self._cast(block)
        for codec in self._arrays:
            array = codec.encode(array)
        data = self._serial.encode(array)
        for step in self._tail:
            data = step.encode(data)
        return data

    def decode(self, data: Buffer) -> Values:
        """Return the cells, in memory of their own or as a (perhaps read-only) view of ``data``; CorruptChunk if
        damaged."""
        data = _plain(data)
        for codec, size in self._decoders:
            data = codec.decode(data, size)
        array = self._serial.decode(data)
        for step in self._undo:
            array = step.decode(array)
        return array

    def unpack(self, data: Buffer) -> Buffer:
        """Return what the bytes -> bytes codecs give, of whatever length; CorruptChunk where one of them refuses its
        bytes."""
        data = _plain(data)
        for codec, _ in self._decoders:
            data = codec.decode(data, None)
        return data

    def decode_into(self, data: Buffer, out: Values, flat: memoryview | None = None) -> None:
        """Decode into ``out``: C-contiguous, of the cells' shape and dtype; CorruptChunk if damaged.

        ``flat``: its bytes, where it is known to fit, as flat ``data`` is.
        """
        if flat is None:
            data = data if isinstance(data, bytes) else memoryview(data).cast("B")
            same = out.shape == self._shape and out.dtype == self._dtype and out.flags.c_contiguous
            if self._final_decoder is None or not same:  # elsewhere first, or refused
                self.decoder(out)(data)
                return
            flat = out.reshape(-1).view(np.uint8).data
        final = self._final_decoder
        if final is None:  # nobody gives ``flat`` then
            self._decode_elsewhere(data, out)
            return
        for codec, size in self._decoders[:-1]:
            data = codec.decode(data, size)
        final.decode_into(data, flat)  # the codec next to the cells decodes into their memory
        if self._settle is not None:
            self._settle(out)

    def decoder(self, out: Values) -> Callable[[Buffer], None]:
        """Return what decodes flat bytes into ``out``, again and again; what depends on ``out`` alone is done here."""
        if out.shape != self._shape or out.dtype != self._dtype or not out.flags.c_contiguous:
            raise Invalid(
                f"decoding {self._dtype} {self._shape} into {out.dtype} {out.shape}",
                remedy="give a C-contiguous array of the chunk's dtype and shape",
            )
        if self._final_decoder is None:
            return partial(self._decode_elsewhere, out=out)
        flat = out.reshape(-1).view(np.uint8).data
        if len(self._decoders) == 1 and self._settle is None:
            return partial(self._final_decoder.decode_into, out=flat)
        return partial(self.decode_into, out=out, flat=flat)

    def _decode_elsewhere(self, data: Buffer, out: Values) -> None:
        """Decode into memory of its own, then copy; or have the array -> bytes codec fill ``out``, if it can."""
        if self._fills is None:
            out[...] = self.decode(data)
            return
        for codec, size in self._decoders:
            data = codec.decode(data, size)
        self._fills.decode_to(data, out)

    def _cast(self, block: Values) -> Values:
        try:
            if self._dtype.kind in "TO":
                return np.asarray(block, dtype=self._dtype)
            return block.astype(self._dtype, casting="same_kind")
        except (TypeError, ValueError) as error:
            raise Invalid(f"a block of {block.dtype} for cells of {self._dtype}", remedy="cast the block") from error


def _plain(data: Buffer) -> Buffer:
    return data if isinstance(data, bytes) else memoryview(data).cast("B")
