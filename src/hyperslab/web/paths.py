"""The path of an address, taken apart without a way out of the places that are served."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from hyperslab.errors import Invalid

_NO_LETTER = re.compile(r"[\x00-\x1f/\\\x7f\ud800-\udfff]")
"""A character that no name in a path has: a slash, a control character, a byte of a file's name that is no UTF-8."""


def is_name(part: str) -> bool:
    """Return True for what can be a part of a path: a text that is neither empty nor a way up, without a slash, a
    backslash or a control character."""
    return part not in ("", ".", "..") and _NO_LETTER.search(part) is None


def as_name(text: str) -> str:
    """Return a text with each letter replaced that no name has."""
    return _NO_LETTER.sub("_", text)


def split_path(raw: bytes, skip: int) -> list[str]:
    """Return the segments of a path behind ``skip`` parts (``/zarr/`` has two), each decoded once.

    Invalid for one that is no name, however it is spelled.
    """
    segments = raw.partition(b"?")[0].split(b"/")[skip:]
    if segments and not segments[-1]:
        del segments[-1]  # a slash at the end
    parts = []
    for segment in segments:
        try:
            part = unquote_to_bytes(segment).decode()
        except UnicodeDecodeError:
            raise Invalid("the path is no UTF-8", remedy="escape it as UTF-8") from None
        if not is_name(part):
            raise Invalid("a part of the path is no name", remedy="names have no slash, and are neither . nor ..")
        parts.append(part)
    return parts
