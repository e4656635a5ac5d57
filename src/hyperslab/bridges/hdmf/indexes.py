"""Ragged columns of tables in a writable file: their indexes count rows as far as they get, in wider cells if need be.

hdmf itself gives an index that it read 255 rows, and fails at the next one, when a part of the row was added already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.common import VectorIndex

from hyperslab.array import Array
from hyperslab.formats.codec_kinds import ARRAY, COMPRESSORS
from hyperslab.group import Group
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, Codec

_HIDDEN = "{}~widened"


def let_grow(container: Any) -> Any:
    """The container of a file, all of whose indexes take any number of rows: their data widen themselves."""
    below = [container]  # hdmf's all_children would remember what there is now as all that there ever is
    for each in below:
        below += each.children
        if isinstance(each, VectorIndex):
            each._VectorIndex__uint = np.uint64  # hdmf has no public way
            each._VectorIndex__maxval = np.iinfo(np.uint64).max
    return container


def with_room(array: Array, cells: np.ndarray[Any, Any]) -> Array:
    """The array, put anew with the narrowest cells that hold those to be added, where it has no room for them."""
    if array.dtype.kind != "u" or cells.dtype.kind not in "iu" or not cells.size or cells.min() < 0:
        return array
    dtype = np.min_scalar_type(cells.max())
    return array if dtype.itemsize <= array.dtype.itemsize else _put_anew(array, dtype)


def _put_anew(array: Array, dtype: np.dtype[Any]) -> Array:
    above, name = split(array.path)
    parent = Group(array._session, above)
    hidden = _HIDDEN.format(name)
    with parent.batch():
        parent.create_array(
            hidden,
            data=array[...].astype(dtype),
            dims=array.dims,
            chunks=array.chunks,
            shards=array.shards,
            codec=_codec_for(array.spec, dtype),
            attrs=dict(array.attrs),
        )
        del parent[name]
        parent.move(hidden, name)
    found = parent[name]
    if not isinstance(found, Array):
        raise TypeError(f"/{array.path} is no array")
    return found


def _codec_for(spec: ArraySpec, dtype: np.dtype[Any]) -> Any:
    """How the cells are compressed, for cells of another width; the default where they are made others first."""
    codecs = next((each.config["codecs"] for each in spec.codecs if each.name == "sharding_indexed"), spec.codecs)
    if any(each.name in ARRAY for each in codecs):
        return "default"
    widths = {"typesize": dtype.itemsize, "elementsize": dtype.itemsize}
    steps = [each for each in codecs if each.name in COMPRESSORS or each.name == "shuffle"]
    return [Codec(each.name, {key: widths.get(key, each.config[key]) for key in each.config}) for each in steps]
