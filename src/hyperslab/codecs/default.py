"""From a user's word to codecs: ``"blosc:lz4:5"``, ``"zstd:3"``, ``"shuffle+zlib:1"``, ``"none"``, ``"default"``."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from hyperslab.codecs.chain import MAKERS, as_codecs
from hyperslab.codecs.registry import canonical
from hyperslab.errors import Invalid
from hyperslab.model.spec import Codec

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


def parse_codec(codec: Any, dtype: np.dtype[Any] | None = None) -> tuple[Codec, ...]:
    """The codecs that a user asks for, behind ``bytes`` (which formats add); Invalid lists what exists.

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
    said = {"codecs": (), **codec.config}
    chains: dict[str, Any] = {
        key: tuple(map(_with_inner, as_codecs(said[key]))) for key in ("codecs", "index_codecs") if key in said
    }
    return Codec(codec.name, {**said, **chains})


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
    given = {key: value for key, value in codec.config.items() if value is not None}
    match canonical(codec.name):
        case "blosc":
            shuffle = "bitshuffle" if itemsize == 1 else "shuffle"
            return Codec("blosc", {"cname": "lz4", "clevel": 5, "shuffle": shuffle, "typesize": itemsize} | given)
        case "shuffle":
            return Codec("shuffle", {"elementsize": itemsize} | given)
        case "zstd":
            return Codec("zstd", {"level": 3, "checksum": False} | given)
        case _:
            return codec


def _value(text: str) -> Any:
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
