"""What we write for others to read: every type under every codec, and the other choices of a layout with each type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from canonical import canonical

import hyperslab as hs
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.dtypes import DataType, VlenArray, VlenBytes, VlenString, as_data_type, numpy_dtype
from hyperslab.model.spec import Codec
from hyperslab.testing.samples import cells

SHAPE, CHUNKS, SHARDS = (7, 4), (2, 2), (4, 4)
FORMATS = ("zarr2", "zarr3")
_PAIR = np.dtype([("a", "i4"), ("b", "f8")])
CORE = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
EXTENDED = [">i4", ">f8", "M8[ns]", "M8[D]", "m8[25s]", "U3", "S5", "V4", "string", "bytes", "vlen<i4>", "struct"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"]
DTYPES = [*CORE, *EXTENDED, *SMALL]
_WIDE = {"string": VlenString(), "bytes": VlenBytes(), "vlen<i4>": VlenArray(np.dtype("i4")), "struct": _PAIR}

EVERYWHERE = ["none", "blosc:lz4:5", "blosc:zstd:3", "zstd:3", "gzip:1"]
OTHERS = ["zlib:1", "bz2:1", "lzma:1", "lz4", "shuffle+zlib:1", "blosc:blosclz:5", "blosc:lz4hc:5", "blosc:zlib:1"]
SUMS = ["crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3"]
NUMERIC = ["delta", "bitround", "quantize", "fixedscaleoffset", "astype", "packbits", "pcodec", "zfpy"]
CODECS = [*EVERYWHERE, *OTHERS, *SUMS, *NUMERIC]
WIDER = {"c": "<c16", "U": "<U4", "S": "|S6", "M": "<i8", "m": "<i8"}
FILLS = {"f": [0.0, -0.0, np.nan, np.inf, -np.inf], "c": [0.0, complex(np.nan, -1), complex(2.5, -0.5)]}
ONLY_3 = {
    "c": [complex(-0.0, np.inf)]
}  # zarr-python 2 reads an infinite imaginary part as a real one that is no number
UNDEFINED_2 = ("bytes", "vlen<i4>")  # Zarr v2 does not say how fill values of objects are spelled


@dataclass(frozen=True)
class Case:
    """One array: what is asked of ``create_array``, and how its chunks are named."""

    format: str
    dtype: str
    codec: str = "none"
    order: str = "C"
    separator: str = "/"
    sharded: bool = False
    fill: str = "none"

    @property
    def name(self) -> str:
        """Its place in the tree, told by its choices."""
        said = (self.format, self.dtype, self.codec, self.order, self.separator, self.sharded, self.fill)
        return "_".join(map(str, said)).translate(str.maketrans("/<>:+[] (),", "sLBcp______"))


def every_case(*, full: bool) -> Iterator[Case]:
    """Types x codecs, and types x each other choice; not ``full``: types and codecs once each."""
    seen: set[Case] = set()
    for format in FORMATS:
        for case in (*_pairs(format, full=full), *_choices(format, full=full)):
            if case not in seen:
                seen.add(case)
                yield case


def _pairs(format: str, *, full: bool) -> Iterator[Case]:
    for dtype in DTYPES:
        for codec in CODECS:
            if full or codec == "none" or dtype in ("f4", "i2"):
                yield Case(format, dtype, codec)


def _choices(format: str, *, full: bool) -> Iterator[Case]:
    for dtype in DTYPES if full else ("f4", "u8", "string"):
        yield Case(format, dtype, "zstd:3", order="F")
        yield Case(format, dtype, separator=".")
        if format == "zarr3":
            yield Case(format, dtype, sharded=True)
            yield Case(format, dtype, "blosc:lz4:5", order="F", sharded=True)
    for codec in CODECS if full and format == "zarr3" else ():
        yield Case(format, "f4", codec, sharded=True)
    for dtype in CORE + EXTENDED + SMALL if full else ("f4", "f8", "c8", "i8", "M8[ns]"):
        for fill in _fills(format, dtype):
            yield Case(format, dtype, fill=fill)


def data_type(name: str) -> DataType:
    """The type of a row."""
    if name in SMALL:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    return _WIDE[name] if name in _WIDE else as_data_type(name)


def _fills(format: str, dtype: str) -> list[str]:
    if format == "zarr2" and dtype in UNDEFINED_2:
        return []
    kind = "f" if "float" in dtype else numpy_dtype(data_type(dtype)).kind
    if kind in "fc":
        return [repr(complex(value)) for value in FILLS[kind] + (ONLY_3.get(kind, []) if format == "zarr3" else [])]
    return ["low", "high"] if kind in "iu" and dtype not in SMALL else ["cell"]


def _fill(case: Case, values: np.ndarray[Any, Any]) -> Any:
    if case.fill in ("none", "cell"):
        return None if case.fill == "none" else values.ravel()[-1]
    if case.fill in ("low", "high"):
        limits = np.iinfo(values.dtype)
        return limits.min if case.fill == "low" else limits.max
    number = complex(case.fill)
    return values.dtype.type(number if values.dtype.kind == "c" else number.real)


def values_of(dtype: str) -> np.ndarray[Any, Any]:
    """The cells of a row, the same each time; small integers within their range."""
    kind = data_type(dtype)
    memory = numpy_dtype(kind)
    if dtype in ("int4", "uint4"):
        return np.arange(28).reshape(SHAPE).__mod__(8).astype(memory)
    return cells(kind, 28).reshape(SHAPE)


def codec_of(case: Case) -> list[Any]:
    """The codecs to ask for; those that need parameters by name get them from the type."""
    memory = numpy_dtype(data_type(case.dtype))
    if case.format == "zarr3" and not memory.isnative:
        memory = memory.newbyteorder("=")  # byte order is the affair of the codec "bytes"
    given = {
        "delta": {"dtype": memory.str},
        "bitround": {"keepbits": 3},
        "quantize": {"digits": 3, "dtype": memory.str},
        "fixedscaleoffset": {"offset": 1, "scale": 2, "dtype": memory.str, "astype": memory.str},
        "astype": {"encode_dtype": WIDER.get(memory.kind, "<f8"), "decode_dtype": memory.str},
        "packbits": {},
        "zfpy": {"mode": 4, "tolerance": -1, "rate": -1, "precision": -1},
    }
    name = "numcodecs.packbits" if case.codec == "packbits" and case.format == "zarr2" else case.codec
    chain = [Codec(name, given[case.codec])] if case.codec in given else [case.codec]
    return [Codec("transpose", {"order": [1, 0]}), *chain] if case.order == "F" else chain


def write(root: hs.Group, place: Path, case: Case) -> dict[str, Any] | None:
    """Write the case into its own group; returns what is to be read, or None when we refuse to write such an array.

    The last chunks are never written where there is a fill value to read for them.
    """
    values = values_of(case.dtype)
    attrs = {"title": case.name}
    group = root.create_group(case.name)
    try:
        array = group.create_array(
            "a",
            shape=SHAPE,
            dtype=data_type(case.dtype),
            dims=("y", "x"),
            chunks=CHUNKS,
            shards=SHARDS if case.sharded else None,
            codec=codec_of(case),
            fill_value=_fill(case, values),
            attrs=attrs,
        )
    except (Unsupported, Invalid):
        del root[case.name]
        return None
    if case.separator == ".":
        _separate_by_dots(place / case.name / "a", case.format)
        array = hs.open_array(place, "r+", path=f"{case.name}/a", durable=False)
    if case.format == "zarr2" and case.fill == "none":
        array[...] = values  # without a fill value what is not written is not defined
    array[:4] = values[:4]
    found = canonical(hs.open_array(place, path=f"{case.name}/a")[...])
    if case.format == "zarr3" and case.dtype == "vlen<i4>":  # to others they are bytes
        found["cells"] = [cell.replace("array", "bytes") for cell in found["cells"]]
    return {**found, "attrs": attrs}


def _separate_by_dots(array: Path, format: str) -> None:
    document = array / ("zarr.json" if format == "zarr3" else ".zarray")
    said = json.loads(document.read_text())
    if format == "zarr3":
        said["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
    else:
        said["dimension_separator"] = "/"
    document.write_text(json.dumps(said))


def is_lossless(case: Case) -> bool:
    """Whether the codecs keep every bit: sums of differences do so for integers alone."""
    inexact = ("bitround", "quantize", "fixedscaleoffset", "astype", "zfpy")
    return case.codec not in (inexact if case.dtype == "i2" else (*inexact, "delta"))
