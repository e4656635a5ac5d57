"""Cells and attributes as plain values: what JSON holds, and what people read."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.codecs.references import spelled
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import Codec


def to_json_value(value: object) -> Any:
    """Return the value as JSON has it: NaN and infinities become null, bytes text, arrays lists, references objects."""
    match value:
        case ObjectReference() | RegionReference():
            return spelled(value)
        case dict():
            return {str(name): to_json_value(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_value(item) for item in value]
        case np.ndarray():
            return to_json_value((value.astype(str) if value.dtype.kind in "mM" else value).tolist())
        case np.datetime64() | np.timedelta64():
            return str(value)
        case np.generic():
            return to_json_value(value.item())
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case complex():
            return [to_json_value(value.real), to_json_value(value.imag)]
        case float():
            return value if np.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def cell_text(cell: object) -> str:
    """Return one cell for people and for CSV: no type names, times to the second where that is exact."""
    match cell:
        case np.datetime64():
            text = str(cell)
            return text.rstrip("0").rstrip(".") if "." in text else text
        case np.void() if cell.dtype.hasobject:
            return f"({', '.join(map(cell_text, cell.item()))})"
        case None:  # no reference
            return ""
        case bytes():
            return cell.decode("utf-8", "backslashreplace")
        case np.floating():
            return repr(cell.item()) if cell.dtype.itemsize == 8 else str(cell)
    return str(cell)


def codec_text(codecs: tuple[Codec, ...]) -> str:
    """Return the chain in a few words: ``bytes, zstd(level=3)``; a shard's inner chain in brackets."""
    texts = []
    for codec in codecs:
        if codec.name == "sharding_indexed":
            texts.append(f"sharding[{codec_text(tuple(codec.config['codecs']))}]")
            continue
        simple = [f"{name}={value}" for name, value in codec.config.items() if isinstance(value, str | int | float)]
        texts.append(f"{codec.name}({', '.join(simple)})" if simple else codec.name)
    return ", ".join(texts) or "none"
