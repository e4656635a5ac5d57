"""The path of an address, taken apart without a way out of the places that are served."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from hyperslab.errors import Invalid


def split_path(raw: bytes, skip: int) -> list[str]:
    """Return the segments of a path behind ``skip`` parts (``/zarr/`` has two), each decoded once.

    Invalid for one that is no name: it is empty, ``.`` or ``..``, or has a slash, a backslash or a control character in
    it, however it is spelled.
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
        if part in ("", ".", "..") or any(letter in "/\\\x7f" or letter < " " for letter in part):
            raise Invalid("a part of the path is no name", remedy="names have no slash, and are neither . nor ..")
        parts.append(part)
    return parts
