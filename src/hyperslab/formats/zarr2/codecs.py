"""Zarr v2's ``order``, ``filters`` and ``compressor`` as one chain of codecs, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.codecs.registry import VIEWING, canonical
from hyperslab.errors import Unsupported
from hyperslab.formats.codec_kinds import ARRAY, BYTES, COMPRESSORS, SERIAL, unknown
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.model.spec import Codec

_NAMES = {"packbits": "numcodecs.packbits"}
_IDS = {name: id for id, name in _NAMES.items()}
_OF_OTHERS = frozenset(
    {"transpose", "packbits", "sharding_indexed", "cast_value", "scale_offset"}
    | {"fixed_utf8", "utf8_bytes", "iso_time", "enum_members", "record_text", "reference_pickle", "reference_text"}
)
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


def read_codecs(doc: Mapping[str, Any], ndim: int, problems: Problems) -> tuple[Codec, ...]:
    """The chain in the order of writing: axes reversed (``order`` "F"), filters, compressor, with ``bytes`` between.

    The cells lie in the byte order of the dtype, so ``bytes`` needs none.
    """
    filters = doc.get("filters")
    steps = _transposed(doc.get("order", "C"), ndim, problems)
    if isinstance(filters, list) and any(map(_is_nested, filters)):
        steps = []
    if not (filters is None or isinstance(filters, list)):
        problems.fatal("filters", f"filters is {brief(filters)}, not a list")
        filters = None
    compressor = doc.get("compressor")
    for said in [*(filters or []), *([] if compressor is None else [compressor])]:
        if isinstance(said, dict) and isinstance(said.get("id"), str):
            steps.append(_read_codec(said))
        else:
            problems.fatal("codec", f"{brief(said)} is no codec: an object with an 'id'")
    for reason in unknown(steps):
        problems.undecodable("unknown-codec", reason)
    return _whole(steps, problems)


def _transposed(order: Any, ndim: int, problems: Problems) -> list[Codec]:
    if order not in ("C", "F"):
        problems.fatal("order", f"order is {brief(order)}, not 'C' or 'F'")
    return [Codec("transpose", {"order": list(reversed(range(ndim)))})] if order == "F" and ndim > 1 else []


def _is_nested(said: Any) -> bool:
    """Return whether the cells stand in lists of lists, by their axes, whatever the order in which others lie in
    memory.
    """
    return isinstance(said, dict) and isinstance(said.get("id"), str) and canonical(said["id"]) == "json2"


def _read_codec(said: Mapping[str, Any]) -> Codec:
    name = _NAMES.get(said["id"]) or canonical(said["id"])
    return Codec(name, {key: _number(value) for key, value in said.items() if key != "id"})


def _number(value: Any) -> Any:
    """netCDF-C 4.9.3 writes the numbers of codecs as text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else value


def _whole(steps: Sequence[Codec], problems: Problems) -> tuple[Codec, ...]:
    """The chain with its step from cells to bytes; filters on cells behind filters on bytes cannot be."""
    at = next((i for i, step in enumerate(steps) if step.name not in ARRAY), len(steps))
    if late := [step.name for step in steps[at:] if step.name in ARRAY - set(VIEWING)]:
        problems.undecodable(
            "codec-order", f"codec {late[0]!r} works on cells but stands behind one that works on bytes"
        )
    if at < len(steps) and steps[at].name in SERIAL:
        return tuple(steps)
    return (*steps[:at], Codec("bytes"), *steps[at:])


def write_codecs(codecs: Sequence[Codec], ndim: int) -> dict[str, Any]:
    """``order``, ``filters`` and ``compressor`` of a chain; Unsupported names what Zarr v2 cannot say."""
    order = "C"
    steps = list(codecs)
    if steps and steps[0].name == "transpose":
        if list(steps[0].config["order"]) != list(reversed(range(ndim))):
            raise Unsupported("format zarr2 has no axis order but C and F", remedy="use format zarr3")
        order = "F" if ndim > 1 and all(step.name != "json2" for step in steps) else "C"
        del steps[0]
    written = [_write_codec(step) for step in steps if step.name != "bytes"]
    compressor = written.pop() if steps and steps[-1].name in COMPRESSORS else None
    return {"order": order, "filters": written or None, "compressor": compressor}


def _write_codec(codec: Codec) -> dict[str, Any]:
    name = codec.name
    known = (ARRAY | SERIAL | BYTES) - _OF_OTHERS
    if name not in known:
        raise Unsupported(f"format zarr2 has no codec {name!r}", remedy="choose another codec, or format zarr3")
    config = dict(codec.config)
    if name == "blosc":
        config.pop("typesize", None)
        config["shuffle"] = _SHUFFLES.get(config.get("shuffle", 1), config.get("shuffle", 1))
        config = {"cname": "lz4", "clevel": 5, "blocksize": 0} | config
    if name == "zstd" and config.get("checksum") is False:
        del config["checksum"]  # what absence means, and tensorstore knows no such key
    return {"id": _IDS.get(name, name), **config}
