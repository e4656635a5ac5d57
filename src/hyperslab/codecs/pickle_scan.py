"""Which operations a pickle asks for, before any of them is run: only those of data, and no more than its cells need.

The standard library's reader trusts numbers that it finds: a place in its memory far beyond all others takes gigabytes,
sets of nothing take two hundred times their bytes. So every operation is looked at here first.
"""

from __future__ import annotations

import re

from hyperslab.errors import UnsafePickle

_AT_ONCE = 64
_SHORT = b"|".join(b"%s.{%d}" % (re.escape(bytes([length])), length) for length in range(256))
_RUN = re.compile(  # operations of fixed length, and those whose length is one byte; the most frequent ones first
    rb"(?s:[()\]NtaesubR012\x81\x85-\x89\x93\x94]|h.|\x8c(?:%s)|K.|[q\x80].|M..|j.{4}|J.{4}|[G\x95].{8}|[CU\x8a](?:%s)){1,%d}+"
    % (_SHORT, _SHORT, _AT_ONCE)
)
_STOP, _EMPTY_DICT, _LONG_BINPUT, _PUT = b".}rp"
_SIZES = {**dict.fromkeys(b"XBT\x8b", 4), **dict.fromkeys(b"\x8d\x8e\x96", 8)}  # bytes of the length that follows
_LINES = {**dict.fromkeys(b"SVILFgp", 1), **dict.fromkeys(b"c", 2)}  # lines of text that follow


def scan(data: bytes, most: int) -> list[int]:
    """Where the pickle makes dictionaries.

    UnsafePickle for an operation that is none of data, for more than about ``most`` of them, for a pickle that is cut
    off and for bytes behind one.
    """
    at, count, end = 0, 0, len(data)
    found: list[int] = []
    while at < end:
        run = _RUN.match(data, at)
        if run is not None:
            count += min(run.end() - at, _AT_ONCE)
            at = run.end()
        elif data[at] == _STOP:
            if at + 1 < end:
                raise UnsafePickle(f"a pickle with {end - at - 1} bytes behind it")
            return found
        else:
            count += 1
            if data[at] == _EMPTY_DICT:
                found.append(at)
            at = _behind(data, at, most)
        if count > most:
            raise UnsafePickle(f"a pickle of more than {most} operations, far more than its cells need")
    raise UnsafePickle("a pickle that is cut off")


def _behind(data: bytes, at: int, most: int) -> int:
    """Where the next operation is."""
    operation = data[at]
    if operation == _EMPTY_DICT:
        return at + 1
    if size := _SIZES.get(operation):
        return at + 1 + size + int.from_bytes(data[at + 1 : at + 1 + size], "little")
    if operation == _LONG_BINPUT:
        _require_near(int.from_bytes(data[at + 1 : at + 5], "little"), most)
        return at + 5
    if lines := _LINES.get(operation):
        stop = at
        for _ in range(lines):
            stop = data.find(b"\n", stop + 1)
            if stop < 0:
                return len(data)
        if operation == _PUT:
            _require_near(_number(data[at + 1 : stop]), most)
        return stop + 1
    raise UnsafePickle(f"a pickle with the operation 0x{operation:02x}, which data do not need")


def _number(digits: bytes) -> int:
    return int(digits) if digits.isdigit() and len(digits) < 10 else -1


def _require_near(place: int, most: int) -> None:
    if not 0 <= place <= most:
        raise UnsafePickle("a pickle that uses a place of its memory far beyond the others")
