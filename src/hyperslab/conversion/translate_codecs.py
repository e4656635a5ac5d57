"""How the source stores its chunks, said in words that a target may know: what a conversion keeps unless asked.

The algorithm, its level, the shuffle and shards are kept. Codecs that change cells (delta, scale and offset) are not
repeated: a conversion copies the cells that they decode to. Checksums are those that each format adds by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from hyperslab.codecs.blosc import config_of
from hyperslab.codecs.default import parse_codec
from hyperslab.conversion.adapt_to_target import Adapt, takes
from hyperslab.conversion.translate import Cutting
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Feature, Format
from hyperslab.formats.codec_kinds import COMPRESSORS, NamesCodecs, inner_codecs
from hyperslab.model.spec import ArraySpec, Codec

Chain = tuple[Codec, ...]

_BLOSC_LEVELS = (1, 9)


def stored_alike(planned: Planned, cutting: Cutting, format: Format, adapt: Adapt) -> Planned:
    """The array stored as the source's is, in what the caller left open and as far as the target takes it: in the same
    shards, with the first chain that compresses alike; with the codecs that were planned where it takes none."""
    spec, origin = planned.node, planned.item.node
    if planned.settled or not isinstance(spec, ArraySpec) or not isinstance(origin, ArraySpec):
        return planned
    chains = [spec.codecs]
    if cutting.codec is None and Feature.CODECS in format.features:
        alike = _the_common_first(spellings(origin.codecs), format)
        chains = [*(parse_codec(list(chain), spec.numpy_dtype) for chain in alike), spec.codecs]
    plain = spec if cutting.shards is not None else _without_shards(spec)
    try:
        wishes = (wish.evolve(codecs=chain) for wish, chain in product((spec, plain), chains))
        node = next((wish for wish in wishes if takes(wish.evolve(attrs={}), adapt)), plain)
    except HyperslabError as error:
        raise error.locate(node=planned.item.path) from error.__cause__
    return replace(planned, node=node)


def _without_shards(spec: ArraySpec) -> ArraySpec:
    return spec.evolve(layout={name: value for name, value in spec.layout.items() if name != "shards"})


def _the_common_first(chains: Iterator[Chain], format: Format) -> list[Chain]:
    """Those first of which every reader of the format knows all codecs."""
    if not isinstance(format, NamesCodecs):
        return list(chains)
    common = format.common_codecs
    return sorted(chains, key=lambda chain: not common.issuperset(codec.name for codec in chain))


def spellings(codecs: Sequence[Codec]) -> Iterator[Chain]:
    """Chains that compress as these codecs do, the nearest first."""
    steps = list(inner_codecs(codecs))
    compressor = next((step for step in reversed(steps) if step.name in COMPRESSORS), None)
    if compressor is None:
        return
    if compressor.name == "blosc":
        yield from _of_blosc(compressor)
    else:
        yield from _of_stream(compressor, shuffled=any(step.name == "shuffle" for step in steps))


def _of_blosc(codec: Codec) -> Iterator[Chain]:
    """Blosc with the same settings, without those that follow from the cells; its compressor alone, where the target
    has no Blosc. Nobody writes Snappy any more."""
    config = config_of([codec]) or {}
    if config.get("cname", "snappy") == "snappy":
        return
    yield (Codec("blosc", {key: config[key] for key in ("cname", "clevel", "shuffle") if key in config}),)
    if config["cname"] == "zlib":
        yield (Codec("gzip", {"level": config.get("clevel", 5)}),)


def _of_stream(codec: Codec, *, shuffled: bool) -> Iterator[Chain]:
    """One compressor for a whole chunk; inside Blosc, where it stands behind a shuffle or the target has no other."""
    inside = _inside_blosc(codec)
    if shuffled:
        yield Codec("shuffle"), codec
        if inside is not None:
            yield (Codec("blosc", {**inside, "shuffle": "shuffle"}),)
    yield (codec,)
    if codec.name in ("gzip", "zlib"):
        yield (Codec("zlib" if codec.name == "gzip" else "gzip", codec.config),)
    if inside is not None and not shuffled:
        yield (Codec("blosc", inside),)


def _inside_blosc(codec: Codec) -> Mapping[str, Any] | None:
    """The compressor as one of Blosc's, at the level that does the same there; None where Blosc has it not."""
    level = codec.config.get("level")
    low, high = _BLOSC_LEVELS
    match codec.name:
        case "gzip" | "zlib":
            return {"cname": "zlib", "clevel": level if isinstance(level, int) and low <= level <= high else low}
        case "zstd":  # Blosc's level n is zstd's 2 n - 1
            return {"cname": "zstd", "clevel": max(low, min(high, ((level or 3) + 1) // 2))}
        case "lz4":
            return {"cname": "lz4"}
        case _:
            return None
