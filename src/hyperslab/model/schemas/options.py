"""How HDF5 files of a collection are cut and compressed: options of ``layout="deker"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model.amounts import is_whole_number

# The filters of HDF5 that h5py knows by name.
_NAMED = ("gzip", "lzf", "szip")
FilterValues = int | tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True, init=False)
class HDF5CompressionOpts:
    """An HDF5 filter: ``gzip``, ``lzf``, ``szip`` or the number of a registered one (or None), and its values.

    The arguments are those of h5py's ``create_dataset``: ``HDF5CompressionOpts(**hdf5plugin.Zstd())`` works.
    """

    compression: str | int | None
    compression_opts: FilterValues

    def __init__(
        self, compression: str | int | None = None, compression_opts: int | Sequence[int | str] | None = None
    ) -> None:
        object.__setattr__(self, "compression", _check_filter(compression))
        object.__setattr__(self, "compression_opts", _check_values(compression_opts))
        if self.compression is None and self.compression_opts is not None:
            raise SchemaError("compression_opts without a compression", remedy="name the filter, or leave both out")
        if self.compression == "gzip" and self.compression_opts is not None:
            level = self.compression_opts
            if isinstance(level, tuple) and len(level) == 1 and isinstance(level[0], int):
                level = level[0]
            if not isinstance(level, int) or not 0 <= level <= 9:
                raise SchemaError(f"gzip takes no level {level!r}", remedy="give a level from 0 to 9")
            object.__setattr__(self, "compression_opts", level)

    @property
    def as_dict(self) -> dict[str, object]:
        """The filter as a collection document has it: every value is text."""
        if self.compression is None:
            return {"compression": "none", "options": []}
        values = self.compression_opts
        if values is None:
            return {"compression": str(self.compression), "options": None}
        return {
            "compression": str(self.compression),
            "options": [str(value) for value in (values if isinstance(values, tuple) else (values,))],
        }


@dataclass(frozen=True, slots=True, init=False)
class HDF5Options:
    """How the arrays of a collection are cut and compressed in their HDF5 files.

    ``chunks``: None (one block), True (the library chooses) or the lengths of a chunk.
    """

    chunks: tuple[int, ...] | Literal[True] | None
    compression_opts: HDF5CompressionOpts

    def __init__(
        self,
        chunks: Sequence[int] | Literal[True] | None = None,
        compression_opts: HDF5CompressionOpts | None = None,
    ) -> None:
        if compression_opts is not None and not isinstance(compression_opts, HDF5CompressionOpts):
            raise SchemaError(f"compression_opts is {compression_opts!r}", remedy="give HDF5CompressionOpts or None")
        object.__setattr__(self, "chunks", _check_chunks(chunks))
        object.__setattr__(self, "compression_opts", compression_opts or HDF5CompressionOpts())

    @property
    def as_dict(self) -> dict[str, object]:
        """The options as a collection document has them."""
        if self.chunks is None:
            mode: dict[str, Any] = {"mode": "none"}
        elif self.chunks is True:
            mode = {"mode": "true"}
        else:
            mode = {"mode": "manual", "size": list(self.chunks)}
        return {"chunks": mode, "compression": self.compression_opts.as_dict}


def options_from_json(document: object) -> HDF5Options | None:
    """Return the options of a collection document; SchemaError."""
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise SchemaError(f"options is {document!r}, not an object")
    return HDF5Options(_chunks_from_json(document.get("chunks")), _filter_from_json(document.get("compression")))


def check_options(options: HDF5Options, shape: Sequence[int]) -> None:
    """Refuse chunks that do not fit arrays (or tiles) of this shape."""
    if not isinstance(options.chunks, tuple):
        return
    fits = len(options.chunks) == len(shape) and all(
        length <= size for length, size in zip(options.chunks, shape, strict=True)
    )
    if not fits:
        raise SchemaError(
            f"chunks {options.chunks} do not fit arrays of shape {tuple(shape)}",
            remedy="give one length per dimension, none longer than the array or tile",
        )


def _chunks_from_json(document: object) -> Any:
    match document:
        case None | {"mode": "none"}:
            return None
        case {"mode": "true"}:
            return True
        case {"mode": "manual", "size": list() as size}:
            return size
        case _:
            raise SchemaError(f"options.chunks is {document!r}")


def _filter_from_json(document: object) -> HDF5CompressionOpts:
    match document:
        case None | {"compression": "none"}:
            return HDF5CompressionOpts()
        case {"compression": str() | int() as name, "options": list() | None as values}:
            found = None if values is None else [_number(value) for value in values]
            return HDF5CompressionOpts(_number(name), found)
        case _:
            raise SchemaError(f"options.compression is {document!r}")


def _number(text: Any) -> Any:
    """Return the whole number that a text is, else the text."""
    plain = isinstance(text, str) and text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    return int(text) if plain else text


def _check_filter(name: object) -> str | int | None:
    if name is None or name in _NAMED:
        return str(name) if name is not None else None
    if is_whole_number(name) and 0 < name < 2**16:
        return int(name)
    raise SchemaError(
        f"compression is {name!r}", remedy=f"choose {', '.join(_NAMED)} or the number of a registered filter"
    )


def _check_values(values: object) -> FilterValues:
    if values is None:
        return None
    if is_whole_number(values):
        return int(values)
    if not isinstance(values, list | tuple):
        raise SchemaError(f"compression_opts is {values!r}", remedy="give a whole number or a tuple of filter values")
    if any(isinstance(value, bool) or not isinstance(value, int | np.integer | str) for value in values):
        raise SchemaError(f"compression_opts is {values!r}", remedy="filter values are whole numbers or words")
    return tuple(value if isinstance(value, str) else int(value) for value in values)


def _check_chunks(chunks: object) -> tuple[int, ...] | Literal[True] | None:
    if chunks is None or chunks is True:
        return chunks if chunks is None else True
    if not isinstance(chunks, list | tuple) or not chunks:
        raise SchemaError(f"chunks is {chunks!r}", remedy="give None, True or the lengths of a chunk")
    if any(not is_whole_number(part) or part < 1 for part in chunks):
        raise SchemaError(f"chunks is {chunks!r}", remedy="lengths are whole numbers from 1 on")
    return tuple(int(part) for part in chunks)
