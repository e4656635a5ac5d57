"""``pcodec`` and ``zfpy``: numbers compressed by the libraries of these names (extra ``hyperslab[codecs]``)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs.base import ArrayToBytes, Buffer, ChunkLayout
from hyperslab.codecs.buffers import contiguous, damaged, wrong_size
from hyperslab.codecs.config import Config, choice, integer, number, only, unfit
from hyperslab.errors import CorruptChunk, Invalid, MissingLibrary
from hyperslab.model.cells import Values

_TYPES = ("uint16", "uint32", "uint64", "int16", "int32", "int64", "float16", "float32", "float64")
_PAGE = 262144  # numbers of a page, the default of numcodecs' ``equal_pages_up_to``
_MODES = 3
_MAGIC = b"pco!"


class PCodec(ArrayToBytes):
    """Integers and floats of 16 to 64 bits; ``level`` 0 to 12. The chunk is one standalone stream of pco."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        specs = ("mode_spec", "delta_spec", "paging_spec")
        only("pcodec", config, "level", *specs, "delta_encoding_order", "equal_pages_up_to")
        try:
            import pcodec
            from pcodec import standalone, wrapped
        except ImportError as error:
            message = "codec 'pcodec' needs the library pcodec"
            raise MissingLibrary(message, remedy="pip install 'hyperslab[codecs]'") from error
        self._library, self._standalone, self._wrapped = pcodec, standalone, wrapped
        self._dtype = cells.numpy_dtype
        if self._dtype.name not in _TYPES or not self._dtype.isnative:  # numcodecs' readers take the machine's order
            raise unfit("pcodec", "native numbers of 16 to 64 bits", self._dtype)
        self._shape = cells.shape
        self._level = integer("pcodec", config, "level", 8, 0, 12)
        self._page = integer("pcodec", config, "equal_pages_up_to", _PAGE, 1, 2**31 - 1)
        self._order = integer("pcodec", config, "delta_encoding_order", -1, 0, 7)
        self._mode = choice("pcodec", config, "mode_spec", "auto", ("auto", "classic"))
        words = ("auto", "none", "try_consecutive", "try_lookback")
        self._delta = choice("pcodec", config, "delta_spec", "auto", words)
        choice("pcodec", config, "paging_spec", "equal_pages_up_to", ("equal_pages_up_to",))

    def encode(self, array: Values) -> Buffer:
        """Return one standalone pco stream."""
        native = contiguous(array).astype(self._dtype, copy=False).reshape(-1)
        compressed: bytes = self._standalone.simple_compress(native, self._settings())
        return compressed

    def decode(self, data: Buffer) -> Values:
        """Return the cells; CorruptChunk when the stream holds another number or type of cells."""
        out = np.empty(self._shape, self._dtype)
        try:
            self._decode(bytes(data), out.reshape(-1))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise damaged("pcodec", error) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise damaged("pcodec", error) from error
        return out.astype(self._dtype, copy=False)

    def _decode(self, stream: bytes, flat: Values) -> None:
        """Read the standalone frame here and its parts by the library, which trusts the sizes of some of them."""
        at = _after_hint(stream)
        library, used = self._wrapped.FileDecompressor.new(stream[at:])
        at += used
        open_chunk = _either(library, "chunk_decompressor", "read_chunk_meta")
        name = f"{self._dtype.kind}{8 * self._dtype.itemsize}"
        done = 0
        while stream[at]:
            count = int.from_bytes(stream[at + 1 : at + 4], "little") + 1
            at += 4
            if stream[at] & 15 > _MODES or count > flat.size - done:
                wrong_size("pcodec", flat.nbytes, "more cells, or a mode that this codec does not write")
            chunk, used = open_chunk(stream[at:], name)
            at += used
            _, used = chunk.read_page_into(stream[at:], count, flat[done : done + count])
            at += used
            done += count
        if done != flat.size or at + 1 != len(stream):
            wrong_size("pcodec", flat.nbytes, f"{done} cells, {len(stream) - at - 1} bytes behind them")

    def _settings(self) -> Any:
        library = self._library
        delta = library.DeltaSpec
        if self._order >= 0 or self._delta == "try_consecutive":
            spec = delta.try_consecutive(max(self._order, 0))
        else:
            spec = {"auto": delta.auto, "none": _either(delta, "no_op", "none"), "try_lookback": delta.try_lookback}[
                self._delta
            ]()
        return library.ChunkConfig(
            compression_level=self._level,
            delta_spec=spec,
            mode_spec=getattr(library.ModeSpec, self._mode)(),
            paging_spec=library.PagingSpec.equal_pages_up_to(self._page),
        )


def _after_hint(stream: bytes) -> int:
    """Return where the header of a standalone stream begins: behind magic, version, common type and the hint of the
    count.

    https://github.com/pcodec/pcodec/blob/main/docs/format.md, standalone format 2 and 3.
    """
    version = stream[4]
    if stream[:4] != _MAGIC or version not in (2, 3):
        raise ValueError(f"no stream of pcodec: {stream[:5]!r}")
    at = 6 if version == 3 else 5
    return at + (7 + (stream[at] & 63) + 7) // 8


def _either(owner: Any, new: str, old: str) -> Any:
    """Return what pcodec 1 and pcodec 0.3 call by different names."""
    return getattr(owner, new, None) or getattr(owner, old)


# -- zfpy: mostly with loss --------------------------------------------------------------------------------------------
# zfp's decoder trusts its input: it reads past the end of a stream that is cut short. So the header must fit the cells
# (https://zfp.readthedocs.io, file header), and the stream is padded to the most that a decoder may read.


_HEADER = 24
_RATE, _PRECISION, _ACCURACY, _REVERSIBLE = 2, 3, 4, 5


class Zfpy(ArrayToBytes):
    """int32, int64, float32, float64 in 1 to 4 dimensions; ``mode`` 2 rate, 3 precision, 4 tolerance, 5 reversible."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("zfpy", config, "mode", "tolerance", "rate", "precision", "compression_kwargs")
        try:
            import zfpy
        except ImportError as error:
            message = "codec 'zfpy' needs the library zfpy"
            raise MissingLibrary(message, remedy="pip install 'hyperslab[codecs]'") from error
        self._library = zfpy
        self._dtype = cells.numpy_dtype
        known = self._dtype.name in ("int32", "int64", "float32", "float64") and self._dtype.isnative
        if not known or not 1 <= len(cells.shape) <= 4:
            raise Invalid(
                f"codec 'zfpy' works on native 32 and 64 bits in 1 to 4 dimensions, not on {self._dtype} {cells.shape}"
            )
        self._shape = cells.shape
        mode = integer("zfpy", config, "mode", _ACCURACY, _RATE, _REVERSIBLE)
        key = {_RATE: "rate", _PRECISION: "precision", _ACCURACY: "tolerance"}.get(mode)
        self._settings = {key: number("zfpy", config, key, -1)} if key else {}

    def encode(self, array: Values) -> Buffer:
        """Return one zfp stream with a full header."""
        native = contiguous(array).astype(self._dtype, copy=False)
        if native.size == 0:
            return b""
        compressed: bytes = self._library.compress_numpy(native, write_header=True, **self._settings)
        return compressed

    def decode(self, data: Buffer) -> Values:
        """Return the cells; CorruptChunk when the header speaks of another shape or type."""
        if prod(self._shape) == 0:
            return np.empty(self._shape, self._dtype)
        stream = bytes(data)
        self._check_header(stream)
        blocks = prod(-(-length // 4) for length in self._shape)
        room = _HEADER + 64 + -(-blocks * self._block_bits() // 64) * 8
        if len(stream) > room:
            raise CorruptChunk("zfpy: the chunk is too long", expected=f"at most {room} bytes", found=len(stream))
        try:
            out = self._library.decompress_numpy(stream.ljust(room, b"\0"))
        except (ValueError, RuntimeError) as error:
            raise damaged("zfpy", error) from error
        if out.shape != self._shape or out.dtype != self._dtype:
            raise CorruptChunk("zfpy: other cells", expected=(self._dtype, self._shape), found=(out.dtype, out.shape))
        return np.asarray(out.astype(self._dtype, copy=False))

    def _check_header(self, stream: bytes) -> None:
        if len(stream) < 12 or stream[:3] != b"zfp":
            raise CorruptChunk("zfpy: the chunk has no header", expected=b"zfp", found=stream[:3])
        try:
            header = self._library.header(stream.ljust(_HEADER, b"\0"))
        except (ValueError, RuntimeError) as error:
            raise damaged("zfpy", error) from error
        shape = tuple(header[axis] for axis in ("nw", "nz", "ny", "nx") if header[axis])
        if shape != self._shape or np.dtype(header["type"]) != self._dtype:
            found = (np.dtype(header["type"]), shape)
            raise CorruptChunk("zfpy: other cells", expected=(self._dtype, self._shape), found=found)
        limits = header["config"]["expert"]
        if limits["minbits"] > self._block_bits():
            raise CorruptChunk("zfpy: blocks are too long", expected=self._block_bits(), found=limits["minbits"])

    def _block_bits(self) -> int:
        """Return the most bits that one block of 4 ** ndim cells takes: exponent, flags, bit planes and group tests."""
        return 64 + (1 << 2 * len(self._shape)) * (8 * self._dtype.itemsize + 2)
