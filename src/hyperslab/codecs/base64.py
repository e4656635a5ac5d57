"""``base64``: bytes as text (RFC 4648, with padding)."""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import check_size, damaged
from hyperslab.codecs.config import Config, only


class Base64:
    """Four characters for three bytes."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("base64", config)

    def encoded_size(self, size: int) -> int:
        """A third more."""
        return (size + 2) // 3 * 4

    def encode(self, data: Buffer) -> Buffer:
        """Text without line breaks."""
        return b2a_base64(data, newline=False)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The bytes; CorruptChunk at the first character that is not base64."""
        try:
            out = a2b_base64(data, strict_mode=True)
        except (Error, ValueError) as error:
            raise damaged("base64", error, size) from error
        check_size("base64", out, size)
        return out
