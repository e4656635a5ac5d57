"""From codecs as a document or a user names them to the chain of an array.

:func:`build_chain` takes codecs as documents list them, :func:`parse_codec` a user's word: ``"blosc:lz4:5"``,
``"zstd:3"``, ``"shuffle+zlib:1"``, ``"none"``, ``"default"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import REGISTRY, Chain, Maker, assemble, canonical
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.sharding import ShardIndex, Sharding
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import ArraySpec, Codec

INDEX_CODECS = (Codec("bytes", {"endian": "little"}), Codec("crc32c"))
"""How the index of a shard is stored unless its document says otherwise."""
# Shards within shards: each level is a chain that is built beforehand, and a document may ask for any number of them.
_NESTED = 8


def build_chain(codecs: Sequence[Codec], cells: ChunkLayout) -> Chain:
    """Compile the codecs of an array for chunks of these cells.

    Unsupported names a codec that is unknown, unsafe or lacks its library; Invalid says what is wrong with a
    configuration. ``cells.dtype`` is the dtype in memory, ``endian`` of ``bytes`` how it is stored. Zarr v2 lists have
    no ``bytes``: give the cells in the stored dtype then, as its filters see memory in that byte order.
    """
    return assemble(codecs, cells, MAKERS)


def try_chain(spec: ArraySpec) -> None:
    """Complain of an array's codecs now, not when its first chunk is written. Errors as of :func:`build_chain`."""
    build_chain(spec.codecs, ChunkLayout(spec.dtype, longest_chunk(spec.chunks), spec.fill_value))


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
    index = ShardIndex.of(counts, index_codecs, config.get("index_location", "end"))
    return Sharding(cells, inner, index)


MAKERS: dict[str, Maker] = {**REGISTRY, "sharding_indexed": make_sharding}


def as_codecs(value: object) -> tuple[Codec, ...]:
    """Return codecs from our own values, or from Zarr v3's JSON (an object with name and configuration, or a bare
    name)."""
    if not isinstance(value, list | tuple):
        raise Invalid(f"codecs are {value!r}", remedy="a list")
    return tuple(_as_codec(item) for item in value)


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

PARAMETERS: dict[str, tuple[str, ...]] = {
    "blosc": ("cname", "clevel", "shuffle"),
    "zstd": ("level", "checksum"),
    "gzip": ("level",),
    "zlib": ("level",),
    "bz2": ("level",),
    "lzma": ("preset",),
    "lz4": ("acceleration",),
    "shuffle": ("elementsize",),
    "bitround": ("keepbits",),
    "pcodec": ("level",),
    "crc32c": (),
    "crc32": (),
    "adler32": (),
    "fletcher32": (),
    "jenkins_lookup3": (),
}
"""What the numbers behind a word's colons mean."""


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
    if keys is None:
        raise Invalid(f"codec {name!r} needs its parameters by name", remedy='{"name": …, "configuration": {…}}')
    if len(values) > len(keys):
        raise Invalid(f"codec {word!r} has too many parameters", remedy=":".join((name, *keys)))
    config = {key: _value(value) for key, value in zip(keys, values, strict=False) if value}
    return _complete(Codec(canonical(name), config), itemsize)


def _complete(codec: Codec, itemsize: int) -> Codec:
    """Fill in what depends on the cells or has a better default for people than for documents."""
    parameters = {key: value for key, value in codec.config.items() if value is not None}
    match canonical(codec.name):
        case "blosc":
            shuffle = "bitshuffle" if itemsize == 1 else "shuffle"
            return Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "typesize": itemsize} | parameters)
        case "shuffle":
            return Codec("shuffle", {"elementsize": itemsize} | parameters)
        case "zstd":
            return Codec("zstd", {"level": 3, "checksum": False} | parameters)
        case _:
            return codec


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
    others = ", ".join(sorted(set(MAKERS) - set(PARAMETERS)))
    return f"words: default, none, {words}; by name and configuration: {others}"
