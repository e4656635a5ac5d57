"""How one dataset is to be stored: the wrapper that users put around its data."""

from __future__ import annotations

from typing import Any

from hdmf.data_utils import DataIO

from hyperslab.array import Array
from hyperslab.bridges.hdmf.lazy import lazy
from hyperslab.errors import Invalid


class HyperslabDataIO(DataIO):
    """Data with the way they are stored by :class:`~hyperslab.hdmf.HyperslabIO`.

    ``chunks``, ``shards`` (profile v3), ``codec`` (``"zstd:5"``, ``"none"``, a list …) and ``fill_value`` are what they
    are in ``Group.create_array``. ``data`` may be an :class:`~hyperslab.array.Array` of any format. ``link_data``: of
    data that are an array of an open HDMF dataset, whether a link to it is written rather than a copy (None: as
    ``write`` is told). Without data, ``shape`` and ``dtype`` make an array of
    nothing but fill values, to be filled by :attr:`dataset` once the file is written.
    """

    def __init__(
        self,
        data: Any = None,
        *,
        chunks: Any = "auto",
        shards: Any = None,
        codec: Any = "default",
        fill_value: Any = None,
        link_data: bool | None = None,
        dtype: Any = None,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        if isinstance(data, Array):
            data = lazy(data)
        super().__init__(
            data=data, **({} if dtype is None else {"dtype": dtype}), **({} if shape is None else {"shape": shape})
        )
        self._settings = {"chunks": chunks, "shards": shards, "codec": codec, "fill_value": fill_value}
        self._link_data = link_data
        self._dataset: Array | None = None

    @property
    def io_settings(self) -> dict[str, Any]:
        """``chunks``, ``shards``, ``codec`` and ``fill_value``."""
        return dict(self._settings)

    @property
    def link_data(self) -> bool | None:
        """Return whether a link is written to data that are an array; None: as ``write`` is told."""
        return self._link_data

    def get_io_params(self) -> dict[str, Any]:
        """The arguments, without the data: hdmf wraps converted data anew."""
        return {**self._settings, "link_data": self._link_data}

    @property
    def dataset(self) -> Array | None:
        """The array that was made of a wrapper without data; None before it is written."""
        return self._dataset

    @dataset.setter
    def dataset(self, array: Array) -> None:
        self._dataset = array


def settings_of(data: Any) -> dict[str, Any]:
    """What a wrapper says of storage, in our words. Of those of other backends the chunk lengths count, and the shape;
    their compression is HDF5's or zarr's, and the default codec of ours takes its place."""
    if isinstance(data, HyperslabDataIO):
        return data.io_settings
    said = getattr(data, "io_settings", None) or {}
    chunks = said.get("chunks")
    return {"chunks": tuple(chunks)} if isinstance(chunks, list | tuple) else {}


def shape_of(data: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and dtype of a wrapper without data; Invalid where it has none."""
    said = getattr(data, "io_settings", None) or {}
    shape, dtype = said.get("shape") or data.shape, said.get("dtype") or data.dtype
    if shape is None or dtype is None or None in shape:
        raise Invalid("a dataset without data needs a shape and a dtype", remedy="give shape= and dtype=")
    return tuple(shape), dtype
