"""zarr-python of this environment reads every array of a manifest."""

from __future__ import annotations

from typing import Any

import zarr
from canonical import answer


def read(task: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The cells and attributes of one array."""
    array = zarr.open(task["path"], mode="r")
    attrs = dict(array.attrs)
    attrs.pop("_ARRAY_DIMENSIONS", None)
    return array[...], {"attrs": {name: attrs[name] for name in attrs if not name.startswith("_")}}


if __name__ == "__main__":
    answer(read)
