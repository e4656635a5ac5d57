"""Run by test_hostile.py under a memory limit: damages small encoded chunks in every place and decodes them by the
library that the first argument names, in each place or, as the second says, each second, third and so on.

Prints one line of JSON per case: how many damaged chunks gave other cells, and what went wrong.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from chains import Case, cases

from hyperslab.codecs import libblosc2
from hyperslab.errors import CorruptChunk, HyperslabError

_ROOM = 128 << 20


def damaged(data: bytes, step: int) -> Iterator[bytes]:
    """The chunk with each byte of its head and each ``step``-th of the rest changed in four ways, cut, or longer."""
    for place in sorted({*range(min(16, len(data))), *range(0, len(data), step)}):
        for change in (0x01, 0x80, 0xFF, data[place]):
            if change:
                yield data[:place] + bytes([data[place] ^ change]) + data[place + 1 :]
        yield data[:place]
    yield data + b"\0"
    yield data + data


def try_all(case: Case, step: int) -> tuple[int, list[str]]:
    """How many damaged chunks gave other cells, and errors that are not ours or took too long."""
    data = bytes(case.chain.encode(case.block))
    other, wrong = 0, []
    out = np.empty(case.block.shape, case.block.dtype)
    for broken in damaged(data, step):
        start = time.monotonic()
        try:
            found = case.chain.decode(broken)
            case.chain.decode_into(broken, out)
            other += repr(found.tolist()) != repr(case.block.tolist())
        except CorruptChunk as error:
            if not str(error) or error.expected is None:
                wrong.append(f"no expectation: {error!r}")
        except HyperslabError as error:
            if "snappy" not in str(error):
                wrong.append(repr(error))
        except BaseException as error:
            wrong.append(f"{type(error).__name__}: {error}")
        if time.monotonic() - start > 2:
            wrong.append("took more than 2 seconds")
    return other, wrong


def limit_memory() -> None:
    """No more than 128 MiB beyond what is mapped now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    decoder, step, *names = sys.argv[1:]
    if decoder == "numcodecs":
        libblosc2.load_library = lambda: None
    made = cases()
    for case in made.values():
        case.chain.decode(case.chain.encode(case.block))
    limit_memory()
    for name in names or made:
        other, wrong = try_all(made[name], int(step))
        print(json.dumps({"name": name, "other": other, "wrong": wrong[:5]}), flush=True)
