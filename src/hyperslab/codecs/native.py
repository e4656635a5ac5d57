"""The C functions of Blosc, Zstandard and LZ4 that ship inside numcodecs' wheels, called without Python in between.

numcodecs' own wrappers spend ten to fifty Python calls on each chunk and cannot say how much they decoded; called
directly, a chunk decodes into memory that is already there, with the GIL released. numcodecs itself is not imported.
"""

from __future__ import annotations

from ctypes import CDLL, addressof, c_char, c_int
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer
from hyperslab.errors import Unsupported


@cache
def function(library: str, name: str, *types: Any, result: Any = c_int) -> Any:
    """The C function ``name`` of numcodecs' extension module ``library``; Unsupported where there is none."""
    try:
        found = getattr(_load(library), name)
    except (OSError, AttributeError) as error:
        raise Unsupported(
            f"this build of numcodecs does not offer {name}", remedy="install numcodecs from its wheel on PyPI"
        ) from error
    found.argtypes = types
    found.restype = result
    return found


def address(data: Buffer) -> int:
    """Where the bytes lie; valid while ``data`` lives."""
    if not isinstance(data, bytes):
        try:
            return addressof(c_char.from_buffer(data))  # an eighth of what asking NumPy takes
        except (TypeError, ValueError):  # read-only, or empty
            pass
    pointer: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return pointer


@cache
def _load(library: str) -> CDLL:
    spec = find_spec("numcodecs")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for suffix in EXTENSION_SUFFIXES:
            path = Path(folder, library + suffix)
            if path.exists():
                return CDLL(str(path))
    raise OSError(f"numcodecs has no module {library}")
