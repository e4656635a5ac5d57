"""``pcodec``: numbers compressed by the library of that name (extra ``hyperslab[codecs]``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, Cells, Values
from hyperslab.codecs.bounds import damaged, wrong_size
from hyperslab.codecs.config import Config, choice, integer, only
from hyperslab.codecs.memory import contiguous
from hyperslab.errors import Invalid, Unsupported

_TYPES = ("uint16", "uint32", "uint64", "int16", "int32", "int64", "float16", "float32", "float64")
_PAGE = 262144


class PCodec:
    """Integers and floats of 16 to 64 bits; ``level`` 0 to 12."""

    def __init__(self, config: Config, cells: Cells) -> None:
        only(
            "pcodec",
            config,
            "level",
            "mode_spec",
            "delta_spec",
            "paging_spec",
            "delta_encoding_order",
            "equal_pages_up_to",
        )
        self._library = _load()
        self._dtype = cells.numpy_dtype
        self._native = self._dtype.newbyteorder("=")
        if self._dtype.name not in _TYPES:
            raise Invalid(f"codec 'pcodec' works on numbers of 16 to 64 bits, not on {self._dtype}")
        self._shape = cells.shape
        self._level = integer("pcodec", config, "level", 8, 0, 12)
        self._page = integer("pcodec", config, "equal_pages_up_to", _PAGE, 1, 2**31 - 1)
        self._order = integer("pcodec", config, "delta_encoding_order", -1, 0, 7)
        self._mode = choice("pcodec", config, "mode_spec", "auto", ("auto", "classic"))
        words = ("auto", "none", "try_consecutive", "try_lookback")
        self._delta = choice("pcodec", config, "delta_spec", "auto", words)
        choice("pcodec", config, "paging_spec", "equal_pages_up_to", ("equal_pages_up_to",))

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """One standalone pco stream."""
        native = contiguous(array).astype(self._native, copy=False).reshape(-1)
        compressed: bytes = self._library.standalone.simple_compress(native, self._settings())
        return compressed

    def decode(self, data: Buffer) -> Values:
        """The cells; CorruptChunk when the stream holds another number or type of cells."""
        out = np.empty(self._shape, self._native)
        flat = out.reshape(-1)
        try:
            progress = self._library.standalone.simple_decompress_into(bytes(data), flat)
        except (RuntimeError, ValueError, TypeError) as error:
            raise damaged("pcodec", error) from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise damaged("pcodec", error) from error
        if not progress.finished or progress.n_processed != flat.size:
            more = "more cells" if not progress.finished else f"{progress.n_processed} cells"
            wrong_size("pcodec", out.nbytes, more)
        return out.astype(self._dtype, copy=False)

    def _settings(self) -> Any:
        library = self._library
        delta = library.DeltaSpec
        if self._order >= 0 or self._delta == "try_consecutive":
            spec = delta.try_consecutive(max(self._order, 0))
        else:
            spec = {"auto": delta.auto, "none": delta.no_op, "try_lookback": delta.try_lookback}[self._delta]()
        return library.ChunkConfig(
            compression_level=self._level,
            delta_spec=spec,
            mode_spec=getattr(library.ModeSpec, self._mode)(),
            paging_spec=library.PagingSpec.equal_pages_up_to(self._page),
        )


def _load() -> Any:
    try:
        import pcodec
    except ImportError as error:
        raise Unsupported(
            "codec 'pcodec' needs the library pcodec", remedy="pip install 'hyperslab[codecs]'"
        ) from error
    return pcodec
