"""The table of all codecs, and the chain that documents and users name by it.

:data:`CODECS` has one entry per codec: adding one is a class in the file of its family and an entry here.
:func:`build_chain` takes codecs as documents list them, :func:`parse_codec` a user's word: ``"blosc:lz4:5"``,
``"zstd:3"``, ``"shuffle+zlib:1"``, ``"none"``, ``"default"``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkLayout
from hyperslab.codecs.blosc import Blosc
from hyperslab.codecs.bytes import Bytes, Shuffle, Transpose
from hyperslab.codecs.chain import Chain, ViewedBytes
from hyperslab.codecs.checksums import Checksum, make_checksum, make_jenkins
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.numbers import (
    AsType,
    BitRound,
    CastValue,
    Delta,
    FixedScaleOffset,
    PackBits,
    PackBools,
    Quantize,
    ScaleOffset,
)
from hyperslab.codecs.pcodec_zfpy import PCodec, Zfpy
from hyperslab.codecs.plain_cells import Categorize, EnumMembers, IsoTime
from hyperslab.codecs.reference_pickle import ReferencePickle
from hyperslab.codecs.references import ReferenceText
from hyperslab.codecs.sharding import INDEX_CODECS, ShardIndex, Sharding
from hyperslab.codecs.streams import Deflate, Lz4, Streams, make_bz2, make_gzip, make_lzma, make_zlib
from hyperslab.codecs.text import Base64, FixedUtf8, RecordText, Utf8Bytes
from hyperslab.codecs.vlen import Json2, Vlen, make_array, make_bytes, make_utf8
from hyperslab.codecs.zstd import Zstd
from hyperslab.errors import FormatError, HyperslabError, Invalid, Unsupported
from hyperslab.model.bounded_memo import BoundedMemo
from hyperslab.model.dtypes import DataType, NumpyDType
from hyperslab.model.spec import ArraySpec, Codec

# Shards within shards: each level is a chain that is built beforehand, and a document may ask for any number of them.
_NESTED = 8


def make_sharding(config: Config, cells: ChunkLayout) -> Sharding:
    """Make the codec of ``chunk_shape``, ``codecs``, ``index_codecs`` (little-endian with crc32c), ``index_location``
    (``end``)."""
    only("sharding_indexed", config, "chunk_shape", "codecs", "index_codecs", "index_location")
    shape = config.get("chunk_shape")
    if (
        not isinstance(shape, list | tuple)
        or len(shape) != len(cells.shape)
        or not all(isinstance(n, int) and n > 0 for n in shape)
        or any(whole % part for whole, part in zip(cells.shape, shape, strict=True))
    ):
        raise Invalid(
            f"codec 'sharding_indexed': chunk_shape={shape!r} does not divide a shard of {cells.shape}",
            remedy="a whole number of inner chunks along each axis",
        )
    codecs = as_codecs(config.get("codecs", ()))
    if _depth(codecs) > _NESTED:
        raise Invalid("codec 'sharding_indexed': shards within shards", remedy=f"at most {_NESTED} deep")
    inner = build_chain(codecs, ChunkLayout(cells.dtype, tuple(shape), cells.fill_value))
    counts = tuple(whole // part for whole, part in zip(cells.shape, shape, strict=True))
    index_codecs = as_codecs(config.get("index_codecs", INDEX_CODECS))
    index = shard_index(counts, index_codecs, config.get("index_location", "end"))
    return Sharding(cells, inner, index)


# -- every codec by its name: Zarr v3's where it has one; other spellings are aliases ----------------------------------
# Nothing here runs code found in data: codecs that would (``pickle``) have no maker.

AnyCodec = ArrayToArray | ArrayToBytes | BytesToBytes
Kind = type[ArrayToArray] | type[ArrayToBytes] | type[BytesToBytes]
Maker = Callable[[Mapping[str, Any], ChunkLayout], AnyCodec]

_KINDS: tuple[Kind, ...] = (ArrayToArray, ArrayToBytes, BytesToBytes)

OWN, NUMCODECS = "{}", "numcodecs.{}"
"""How a document spells a codec: by the codec's own name, or as Zarr v3 spells those that numcodecs alone has."""


# a plain class, since a dataclass or named tuple takes a third of a millisecond to make, at each import
class CodecEntry:
    """The properties of a codec. A new codec is spelled in no document unless its entry says how.

    ``make``: its class, or a function that makes it; None: it is known and never decoded, and ``refused`` says why.
    ``made``: the class that a function makes.
    ``parameters``: what the values behind a word's colons mean; None where a user must name the parameters.
    ``defaults``: parameters of a user's codec by the size of a cell, where people want others than documents.
    ``zarr3``, ``zarr2``: its name in documents, :data:`OWN`, :data:`NUMCODECS` or a name; None: the format lacks it.
    ``view``: of an array -> array codec that Zarr v2 allows behind one that made bytes, such as ``delta`` behind
    ``zlib``: the parameter with the dtype as which it sees these bytes.
    ``is_compressor``: Zarr v2 has it as the ``compressor`` where it comes last, and a conversion keeps it.
    ``is_lossy``: it may give other cells than it was given.
    ``is_implied``: formats add it, by the type of the cells; nobody names it in a word.
    ``is_checked``: it notices when its bytes are others: what it decodes is what was encoded.
    ``is_measured``: it stores the length of what it packed, and notices when it is another.
    ``is_self_describing``: its bytes begin with what those of no other codec begin with.
    """

    def __init__(
        self,
        *,
        make: Maker | None,
        made: Kind | None = None,
        parameters: tuple[str, ...] | None = None,
        defaults: Callable[[int], Mapping[str, object]] | None = None,
        zarr3: str | None = None,
        zarr2: str | None = None,
        view: str | None = None,
        is_compressor: bool = False,
        is_lossy: bool = False,
        is_implied: bool = False,
        is_checked: bool = False,
        is_measured: bool = False,
        is_self_describing: bool = False,
        refused: str = "",
    ) -> None:
        self.make, self.made = make, made
        self.parameters, self.defaults = parameters, defaults
        self.zarr3, self.zarr2, self.view = zarr3, zarr2, view
        self.is_compressor, self.is_lossy, self.refused = is_compressor, is_lossy, refused
        self.is_implied, self.is_checked, self.is_measured = is_implied, is_checked, is_measured
        self.is_self_describing = is_self_describing

    @property
    def kind(self) -> Kind | None:
        """Return the base class: ArrayToArray, ArrayToBytes or BytesToBytes; None of a refused codec of no known
        kind."""
        made: object = self.made or self.make
        if made is None:
            return None
        bases = made.__mro__ if isinstance(made, type) else ()
        for kind in _KINDS:
            if kind in bases:
                return kind
        raise TypeError(f"{made!r} is of no kind of codec; say in its entry which class it makes")


def _blosc_defaults(itemsize: int) -> Mapping[str, object]:
    shuffle = "bitshuffle" if itemsize == 1 else "shuffle"
    return {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "typesize": itemsize}


def _checksum_entry(make: Maker, zarr3: str = NUMCODECS) -> CodecEntry:
    return CodecEntry(make=make, made=Checksum, parameters=(), zarr3=zarr3, zarr2=OWN, is_checked=True)


def _stream_entry(make: Maker, made: type, parameter: str, zarr3: str = NUMCODECS) -> CodecEntry:
    return CodecEntry(
        make=make,
        made=made,
        parameters=(parameter,),
        zarr3=zarr3,
        zarr2=OWN,
        is_compressor=True,
        is_checked=True,
        is_self_describing=True,
    )


CODECS: dict[str, CodecEntry] = {
    # compressors, and what helps them
    "blosc": CodecEntry(
        make=Blosc,
        parameters=("cname", "clevel", "shuffle"),
        defaults=_blosc_defaults,
        zarr3=OWN,
        zarr2=OWN,
        is_compressor=True,
        is_measured=True,
        is_self_describing=True,
    ),
    "zstd": CodecEntry(
        make=Zstd,
        parameters=("level", "checksum"),
        defaults=lambda _: {"level": 3, "checksum": False},
        zarr3=OWN,
        zarr2=OWN,
        is_compressor=True,
        is_measured=True,
        is_self_describing=True,
    ),
    "gzip": _stream_entry(make_gzip, Deflate, "level", zarr3=OWN),
    "zlib": _stream_entry(make_zlib, Deflate, "level"),
    "bz2": _stream_entry(make_bz2, Streams, "level"),
    "lzma": _stream_entry(make_lzma, Streams, "preset"),
    "lz4": CodecEntry(
        make=Lz4, parameters=("acceleration",), zarr3=NUMCODECS, zarr2=OWN, is_compressor=True, is_measured=True
    ),
    "shuffle": CodecEntry(
        make=Shuffle,
        parameters=("elementsize",),
        defaults=lambda itemsize: {"elementsize": itemsize},
        zarr3=NUMCODECS,
        zarr2=OWN,
    ),
    # numbers
    "bitround": CodecEntry(make=BitRound, parameters=("keepbits",), zarr3=NUMCODECS, zarr2=OWN, is_lossy=True),
    "pcodec": CodecEntry(make=PCodec, parameters=("level",), zarr3=NUMCODECS, zarr2=OWN),
    "zfpy": CodecEntry(make=Zfpy, zarr3=NUMCODECS, zarr2=OWN, is_lossy=True),
    "astype": CodecEntry(make=AsType, zarr3=NUMCODECS, zarr2=OWN, view="decode_dtype", is_lossy=True),
    "delta": CodecEntry(make=Delta, zarr3=NUMCODECS, zarr2=OWN, view="dtype", is_lossy=True),
    "fixedscaleoffset": CodecEntry(make=FixedScaleOffset, zarr3=NUMCODECS, zarr2=OWN, view="dtype", is_lossy=True),
    "quantize": CodecEntry(make=Quantize, zarr3=NUMCODECS, zarr2=OWN, view="dtype", is_lossy=True),
    "cast_value": CodecEntry(make=CastValue, zarr3=OWN, is_lossy=True),
    "scale_offset": CodecEntry(make=ScaleOffset, zarr3=OWN, is_lossy=True),
    # numcodecs' packbits and the Zarr extension of the same name are two codecs
    "numcodecs.packbits": CodecEntry(make=PackBools, zarr3=OWN, zarr2="packbits"),
    "packbits": CodecEntry(make=PackBits, zarr3=OWN),
    # checksums
    "crc32c": _checksum_entry(make_checksum("crc32c"), zarr3=OWN),
    "crc32": _checksum_entry(make_checksum("crc32")),
    "adler32": _checksum_entry(make_checksum("adler32")),
    "fletcher32": _checksum_entry(make_checksum("fletcher32")),
    "jenkins_lookup3": _checksum_entry(make_jenkins),
    # cells as bytes; the order of axes; Zarr v2 has neither ``bytes`` nor ``transpose`` among its filters
    "bytes": CodecEntry(make=Bytes, zarr3=OWN, is_implied=True),
    "transpose": CodecEntry(make=Transpose, zarr3=OWN),
    "sharding_indexed": CodecEntry(make=make_sharding, made=Sharding, zarr3=OWN),
    # text, and cells of variable length
    "base64": CodecEntry(make=Base64, zarr3=NUMCODECS, zarr2=OWN),
    "categorize": CodecEntry(make=Categorize, zarr2=OWN),
    "json2": CodecEntry(make=Json2, zarr2=OWN),
    "msgpack2": CodecEntry(
        make=None,
        made=ArrayToBytes,
        refused="object codecs other than json2 and vlen-* are not read",
        zarr3=NUMCODECS,
        zarr2=OWN,
    ),
    "vlen-array": CodecEntry(make=make_array, made=Vlen, zarr2=OWN, is_implied=True),
    "vlen-bytes": CodecEntry(make=make_bytes, made=Vlen, zarr3=OWN, zarr2=OWN, is_implied=True),
    "vlen-utf8": CodecEntry(make=make_utf8, made=Vlen, zarr3=OWN, zarr2=OWN, is_implied=True),
    # what HDMF and NCZarr make of stored cells: their documents say it in other words
    "enum_members": CodecEntry(make=EnumMembers),
    "fixed_utf8": CodecEntry(make=FixedUtf8),
    "iso_time": CodecEntry(make=IsoTime),
    "record_text": CodecEntry(make=RecordText),
    "reference_pickle": CodecEntry(make=ReferencePickle),
    "reference_text": CodecEntry(make=ReferenceText),
    "utf8_bytes": CodecEntry(make=Utf8Bytes),
    # never decoded
    "pickle": CodecEntry(make=None, refused="it would run code found in the data"),
    "szip": CodecEntry(make=None, refused="there is no free decoder for it here"),
}

# What follows from the table, once, since chains are built for every array.
MAKERS: dict[str, Maker] = {name: entry.make for name, entry in CODECS.items() if entry.make is not None}
REFUSED = {name: entry.refused for name, entry in CODECS.items() if entry.refused}
PARAMETERS = {name: entry.parameters for name, entry in CODECS.items() if entry.parameters is not None}
VIEWING = {name: entry.view for name, entry in CODECS.items() if entry.view is not None}
ZARR3_NAMES = {name: entry.zarr3.format(name) for name, entry in CODECS.items() if entry.zarr3 is not None}
ZARR2_NAMES = {name: entry.zarr2.format(name) for name, entry in CODECS.items() if entry.zarr2 is not None}
IMPLIED = frozenset(name for name, entry in CODECS.items() if entry.is_implied)
ALIASES = {"endian": "bytes", "vlen_utf8": "vlen-utf8"} | {
    f"numcodecs.{name}": name
    for name, entry in CODECS.items()
    if entry.make is not None and (entry.zarr2 == OWN or entry.zarr3 == NUMCODECS)
}
"""Other spellings of a name: Zarr v2 and ``numcodecs.`` have those of numcodecs alone."""


def canonical(name: str) -> str:
    """Return the table's name for a codec, whatever its spelling."""
    return ALIASES.get(name, name)


def names_of_kind(kind: Kind) -> frozenset[str]:
    """Return the names of all codecs of one kind."""
    return frozenset(name for name, entry in CODECS.items() if entry.kind is kind)


# -- chains ------------------------------------------------------------------------------------------------------------


def build_chain(codecs: Sequence[Codec], cells: ChunkLayout, *, of_index: bool = False) -> Chain:
    """Compile the codecs of an array for chunks of these cells.

    Unsupported names a codec that is unknown, unsafe or lacks its library; Invalid says what is wrong with a
    configuration. ``cells.dtype`` is the dtype in memory, ``endian`` of ``bytes`` how it is stored. Zarr v2 lists have
    no ``bytes``: give the cells in the stored dtype then, as its filters see memory in that byte order. ``of_index``:
    the cells are the index of a shard, which is in no shard itself.
    """
    return _assemble_once(codecs, cells, of_index)


# Long configurations (labels, say) differ from one another, and would only take memory.
_LONGEST_KEY = 1 << 12
_name_and_config = attrgetter("name", "config")


def _chain_key(codecs: Sequence[Codec], cells: ChunkLayout, of_index: bool = False) -> Hashable | None:
    """Return what tells one chain of plain cells from another; None for other cells, and configurations that are long
    or hold arrays, whose text is not all of them."""
    dtype, fill = cells.dtype, cells.fill_value
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biufc":
        return None
    words = repr([*map(_name_and_config, codecs)])  # 1, 1.0 and true are three values here
    if len(words) > _LONGEST_KEY or "array(" in words:
        return None
    filled = fill.tobytes() if isinstance(fill, np.generic | np.ndarray) else repr(fill)
    return words, dtype.str, cells.shape, type(fill), filled, of_index


# A chain never changes, and most of a dataset's many arrays have the same.
_assemble_once = BoundedMemo(
    lambda codecs, cells, of_index: _assemble(codecs, cells, _WITHOUT_SHARDS if of_index else MAKERS),
    _chain_key,
    most=256,
)


def try_chain(spec: ArraySpec) -> None:
    """Complain of an array's codecs now, not when its first chunk is written. Errors as of :func:`build_chain`."""
    build_chain(spec.codecs, ChunkLayout(spec.dtype, longest_chunk(spec.chunks), spec.fill_value))


def shard_index(counts: tuple[int, ...], codecs: Sequence[Codec], location: str, most: int | None = None) -> ShardIndex:
    """Return a checked index of a shard; FormatError when its codecs give no fixed size or the location is unknown."""
    if location not in ("start", "end"):
        raise FormatError(f"index_location {location!r}", remedy="it is 'start' or 'end'")
    chain = build_chain(codecs, ChunkLayout(np.dtype("<u8"), (*counts, 2), 0), of_index=True)
    if chain.size is None:
        raise FormatError("the codecs of a shard's index must give a fixed size")
    return ShardIndex(counts, tuple(codecs), chain, "start" if location == "start" else "end", most)


_OF_ARRAYS = names_of_kind(ArrayToArray)
_WITHOUT_SHARDS: dict[str, Maker] = {name: make for name, make in MAKERS.items() if name != "sharding_indexed"}


def type_after(codec: Codec, dtype: DataType) -> DataType:
    """Return the type that a codec on cells gives; that of the cells where the codec cannot work on them."""
    if canonical(codec.name) not in _OF_ARRAYS:  # made for nothing: each opening asks for every codec
        return dtype
    try:
        made = _make(codec, ChunkLayout(dtype, (1,)), MAKERS)
    except HyperslabError:
        return dtype
    return made.cells.dtype if isinstance(made, ArrayToArray) else dtype


def _assemble(codecs: Sequence[Codec], cells: ChunkLayout, makers: Mapping[str, Maker]) -> Chain:
    """Compile codecs for these cells; ``bytes`` is put in where the list has no array -> bytes codec (Zarr v2).

    Without an ``endian`` the cells are stored as they lie in memory: Zarr v2 wants cells of the stored dtype here.
    """
    arrays: list[ArrayToArray] = []
    tail: list[BytesToBytes] = []
    serial: ArrayToBytes | None = None
    stage = cells
    for codec in codecs:
        name = canonical(codec.name)
        if (serial is not None or tail) and (name in VIEWING or name == "numcodecs.packbits"):
            tail.append(ViewedBytes(_maker(codec.name, makers), codec.config, VIEWING.get(name)))
            continue
        made = _make(codec, stage, makers)
        if isinstance(made, BytesToBytes):
            tail.append(made)
        elif tail or serial is not None:
            raise Invalid(
                f"codec {codec.name!r} works on cells, but the codecs before it made bytes", remedy="put it before them"
            )
        elif isinstance(made, ArrayToBytes):
            serial = made
        else:
            arrays.append(made)
            stage = made.cells
        serial = Bytes({}, stage) if tail and serial is None else serial
    return Chain(cells, arrays, serial or Bytes({}, stage), tail)


def _make(codec: Codec, cells: ChunkLayout, makers: Mapping[str, Maker]) -> AnyCodec:
    if not isinstance(codec.config, Mapping):
        raise Invalid(f"codec {codec.name!r}: its configuration is {codec.config!r}", remedy="an object")
    return _maker(codec.name, makers)(codec.config, cells)


def _maker(name: str, makers: Mapping[str, Maker]) -> Maker:
    known = canonical(name)
    if known in REFUSED:
        raise Unsupported(f"codec {name!r}: {REFUSED[known]}", remedy="store these cells with another codec")
    if known not in makers:
        raise Unsupported(f"unknown codec {name!r}", remedy=f"known are {', '.join(sorted(makers))}")
    return makers[known]


def as_codecs(value: object) -> tuple[Codec, ...]:
    """Return codecs from our own values, or from Zarr v3's JSON (an object with name and configuration, or a bare
    name)."""
    if not isinstance(value, list | tuple):
        raise Invalid(f"codecs are {value!r}", remedy="a list")
    return tuple(map(_as_codec, value))


def _as_codec(value: Any) -> Codec:
    match value:
        case Codec():
            return value
        case str():
            return Codec(value)
        case {"name": str(name)} if set(value) <= {"name", "configuration", "must_understand"}:
            config = value.get("configuration") or {}
            if isinstance(config, Mapping):
                return Codec(name, config)
    raise Invalid(f"no codec: {value!r:.200}", remedy="a name, or an object with name and configuration")


def _depth(codecs: Sequence[Codec]) -> int:
    """Return how many shards lie within each other."""
    inner = [c.config.get("codecs", ()) for c in codecs if c.name == "sharding_indexed"]
    return max((1 + _depth(as_codecs(value)) for value in inner), default=0)


# -- codecs as a user names them ---------------------------------------------------------------------------------------

DEFAULT = "blosc:lz4:5"
"""LZ4 at level 5 in Blosc, bytes shuffled (bits, for cells of one byte).

It decodes at 4 to 7 GB/s a core, several times as fast as zstd or zlib and faster than most disks, so compressing
never makes a read slower; shuffling gives numbers of several bytes most of the ratio that zstd would reach. Every Zarr
reader knows it.
"""


def parse_codec(codec: Any, dtype: NumpyDType | None = None) -> tuple[Codec, ...]:
    """Return the codecs that a user asks for, behind ``bytes`` (which formats add); Invalid lists what exists.

    ``codec`` is a word (names joined by ``+``, parameters after colons), None or ``"none"``, a ``Codec``, a dict (Zarr
    v3's ``name``/``configuration`` or numcodecs' ``id``), or a list of these. ``dtype`` decides the shuffle of Blosc.
    """
    itemsize = dtype.itemsize if dtype is not None and not dtype.hasobject and dtype.kind != "T" else 1
    match codec:
        case None | "" | "none":
            return ()
        case "default":
            return parse_codec(DEFAULT, dtype)
        case str():
            return tuple(_parse_word(word, itemsize) for word in codec.split("+"))
        case list() | tuple():
            return tuple(found for item in codec for found in parse_codec(item, dtype))
        case {"id": str(name)}:
            found = Codec(name, {key: value for key, value in codec.items() if key != "id"})
        case Codec() | Mapping():
            found = _with_inner(*as_codecs([codec]))
        case _:
            raise Invalid(f"no codec: {codec!r}", remedy=_what_exists())
    _check_name(found.name)
    return (_complete(found, itemsize),)


def _with_inner(codec: Codec) -> Codec:
    """Return a codec whose chains, those of shards, are ours too."""
    if codec.name != "sharding_indexed":
        return codec
    if not isinstance(codec.config.get("chunk_shape"), list | tuple):
        raise Invalid("codec 'sharding_indexed' has no chunk_shape", remedy="a length for each axis")
    config = {"codecs": (), **codec.config}
    chains: dict[str, object] = {
        key: tuple(map(_with_inner, as_codecs(config[key]))) for key in ("codecs", "index_codecs") if key in config
    }
    return Codec(codec.name, {**config, **chains})


def _parse_word(word: str, itemsize: int) -> Codec:
    name, *values = word.strip().split(":")
    _check_name(name)
    keys = PARAMETERS.get(canonical(name))
    if canonical(name) in IMPLIED:
        raise Invalid(f"codec {name!r} is not chosen by a word", remedy="leave it out: the format adds it")
    if keys is None:
        raise Invalid(f"codec {name!r} needs its parameters by name", remedy='{"name": …, "configuration": {…}}')
    if len(values) > len(keys):
        raise Invalid(f"codec {word!r} has too many parameters", remedy=":".join((name, *keys)))
    config = {key: _value(value) for key, value in zip(keys, values, strict=False) if value}
    return _complete(Codec(canonical(name), config), itemsize)


def _complete(codec: Codec, itemsize: int) -> Codec:
    """Fill in what depends on the cells or has a better default for people than for documents."""
    name = canonical(codec.name)
    defaults = CODECS[name].defaults
    if defaults is None:
        return codec
    return Codec(
        name, {**defaults(itemsize), **{key: value for key, value in codec.config.items() if value is not None}}
    )


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _check_name(name: str) -> None:
    if canonical(name) not in MAKERS:
        near = get_close_matches(name, MAKERS, 1)
        raise Invalid(f"no codec {name!r}", remedy=f"did you mean {near[0]!r}?" if near else _what_exists())


def _what_exists() -> str:
    words = ", ".join(":".join((name, *keys)) for name, keys in PARAMETERS.items())
    others = ", ".join(sorted((MAKERS.keys() & (ZARR2_NAMES.keys() | ZARR3_NAMES.keys())) - PARAMETERS.keys()))
    return f"words: default, none, {words}; by name and configuration: {others}"
