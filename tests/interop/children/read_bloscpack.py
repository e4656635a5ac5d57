"""bloscpack 0.16 unpacks every file of a manifest, or packs one. Runs on Python 3.9."""

from __future__ import annotations

from typing import Any

import bloscpack
import numpy as np
from canonical import answer


def read(task: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The array of a file; with ``pack`` once it has packed that one."""
    if "pack" in task:
        bloscpack.pack_ndarray_to_file(np.load(task["pack"]), task["path"], chunk_size=task["chunk_size"])
    return bloscpack.unpack_ndarray_from_file(task["path"]), {}


if __name__ == "__main__":
    answer(read)
