"""From the header and the metalayers of a frame to specs, and back. Pure.

Of ``vlmeta`` the keys in ``KEYS`` are the document of :mod:`hyperslab.formats.one_array`; every other key, and one of
these whose value is of another kind than ours, is an attribute if its value is text, a number, bytes, nothing, a list
or a mapping, and stays at its place when the file is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.codecs.default import parse_codec
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats import one_array
from hyperslab.formats.b2nd.frame import MOST_BYTES, MOST_DIMENSIONS, Frame
from hyperslab.formats.base import Feature
from hyperslab.formats.one_array import KEYS, Labelled, is_label, labels_from_json, labels_to_json, no_text
from hyperslab.model.dtypes import VlenString, describe
from hyperslab.model.spec import ArraySpec, Codec

FEATURES = one_array.FEATURES - {Feature.CHECKSUMS}
CODECS = {"BLOSCLZ": "blosclz", "LZ4": "lz4", "LZ4HC": "lz4hc", "ZLIB": "zlib", "ZSTD": "zstd"}
"""blosc2's names of the compressors that Blosc has too."""
_SHUFFLES = {"SHUFFLE": "shuffle", "BITSHUFFLE": "bitshuffle"}


def parse(found: Frame, compression: Mapping[str, Any], vlmeta: Mapping[str, Any]) -> Labelled:
    """The array with its labels. ``compression``: the names of codec and filters and the level."""
    spec = ArraySpec(
        shape=found.shape,
        dtype=found.dtype,
        chunks=tuple(max(cut, 1) for cut in found.chunks),
        codecs=_codecs(compression, found.dtype.itemsize),
        layout={"blocks": found.blocks, "codec": compression["codec"].lower(), "filters": compression["filters"]},
    )
    labelled = labels_from_json({key: value for key, value in vlmeta.items() if is_label(key, value)}, spec)
    extra = {key: as_lists(value) for key, value in vlmeta.items() if not is_label(key, value) and is_plain(value)}
    main = labelled.spec.evolve(attrs={**extra, **labelled.spec.attrs})
    return Labelled(labelled.name, main, labelled.coords, labelled.group)


def render(labelled: Labelled, foreign: frozenset[str]) -> dict[str, Any]:
    """The metalayers. ``foreign``: the keys that another program wrote; such attributes stand there again."""
    attrs = labelled.spec.attrs
    kept = {key: attrs[key] for key in attrs if key in foreign and key not in KEYS and is_plain(attrs[key])}
    own = {key: value for key, value in attrs.items() if key not in kept}
    main = labelled.spec.evolve(attrs=own)
    return labels_to_json(Labelled(labelled.name, main, labelled.coords, labelled.group)) | kept


def is_plain(value: Any) -> bool:
    """Return whether a metalayer's value can be an attribute: text, a number, bytes, nothing, or lists and mappings
    of all but bytes.
    """
    return type(value) is bytes or _is_json(value)


def as_lists(value: Any) -> Any:
    """Return the same value with lists for tuples, which a metalayer tells apart from them."""
    match value:
        case list() | tuple():
            return [as_lists(each) for each in value]
        case dict():
            return {key: as_lists(each) for key, each in value.items()}
    return value


def _is_json(value: Any) -> bool:
    match value:
        case None:
            return True
        case bool() | int() | float() | str():
            return type(value) in (bool, int, float, str)
        case list() | tuple():
            return all(map(_is_json, value))
        case dict():
            return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
        case _:
            return False


def _codecs(compression: Mapping[str, Any], itemsize: int) -> tuple[Codec, ...]:
    cname = CODECS.get(compression["codec"])
    if cname is None:
        return ()
    shuffle = next((_SHUFFLES[name] for name in compression["filters"] if name in _SHUFFLES), "noshuffle")
    config = {"cname": cname, "clevel": compression["clevel"], "shuffle": shuffle, "typesize": itemsize}
    return (Codec("blosc", config),)


def compression_of(codecs: tuple[Codec, ...]) -> dict[str, Any]:
    """blosc2's words for a codec chain: ``codec``, ``clevel``, ``filters``. Without codecs nothing is compressed."""
    config = codecs[0].config if codecs else {"clevel": 0, "shuffle": "noshuffle"}
    words = {ours: theirs for theirs, ours in CODECS.items()}
    shuffle = config.get("shuffle", "shuffle")
    if isinstance(shuffle, int):
        shuffle = {0: "noshuffle", 2: "bitshuffle"}.get(shuffle, "shuffle")
    filters = {ours: theirs for theirs, ours in _SHUFFLES.items()}
    return {
        "codec": words[str(config.get("cname", "lz4"))],
        "clevel": config.get("clevel", 5),
        "filters": [filters[shuffle]] if shuffle in filters else [],
    }


def new_array(spec: ArraySpec) -> ArraySpec:
    """A user's wish as b2nd holds it; Unsupported names what it cannot hold."""
    dtype = spec.dtype
    text = isinstance(dtype, VlenString)
    if not (isinstance(dtype, np.dtype) and dtype.kind not in "OT" and not dtype.hasobject) and not text:
        raise Unsupported(f"format b2nd has no cells of type {describe(dtype)}", remedy="convert the values")
    if text and len(spec.shape) > 1:
        raise no_text("b2nd", "")
    if len(spec.shape) > MOST_DIMENSIONS:
        raise Unsupported(f"format b2nd has at most {MOST_DIMENSIONS} dimensions, not {len(spec.shape)}")
    if "shards" in spec.layout:
        raise Unsupported("format b2nd has no shards", remedy="leave shards= out; its chunks are cut in blocks")
    if any(not isinstance(cut, int) for cut in spec.chunks):
        raise Unsupported("format b2nd has one chunk length per dimension, no varying ones", remedy="chunks='auto'")
    itemsize = spec.numpy_dtype.itemsize
    if not isinstance(dtype, VlenString) and itemsize * prod(_plain(spec)) > MOST_BYTES:
        raise Invalid(f"chunks of {_plain(spec)} cells take 2 GiB or more", remedy="smaller chunks, or chunks='auto'")
    return spec.evolve(codecs=_new_codecs(spec), layout={}, chunks=spec.chunks or auto_chunks(spec.shape, itemsize))


def _plain(spec: ArraySpec) -> tuple[int, ...]:
    return tuple(cut for cut in spec.chunks if isinstance(cut, int))


def _new_codecs(spec: ArraySpec) -> tuple[Codec, ...]:
    if spec.layout.get("checksum"):
        raise Unsupported("format b2nd has no checksums", remedy="leave checksum= out, or use zarr3 or bloscpack")
    found = parse_codec(list(spec.codecs), spec.numpy_dtype)
    if not found:
        return ()
    if len(found) > 1 or found[0].name != "blosc" or found[0].config.get("cname") not in CODECS.values():
        names = "+".join(codec.name for codec in found)
        raise Unsupported(f"format b2nd has no codec {names}", remedy="codec='blosc:zstd:5', say, or codec='none'")
    return found
