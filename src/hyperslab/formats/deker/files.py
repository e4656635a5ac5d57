"""New HDF5 files of Arrays and tiles, object by object as the peer makes them; each takes an old one's place whole.

``meta`` is a scalar of fixed length with room for 33 bytes more, ``empty_cells`` the true number of cells that hold the
fill value, ``data`` is absent while that is all of them. A file is written under a temporary name, flushed, renamed: a
reader sees the old or the new one, and nothing is ever left in it that nobody refers to.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import Chain, build_chain
from hyperslab.errors import Unsupported
from hyperslab.formats.deker.flat import block_shape
from hyperslab.formats.deker.opened import library
from hyperslab.formats.deker.stored import need_plugin
from hyperslab.formats.hdf5 import codec_of_filter, filters_of
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.model.schemas.options import HDF5Options
from hyperslab.model.spec import Codec
from hyperslab.stores.files import create, discard, open_folder, sync_and_close, sync_folder
from hyperslab.stores.keys import temporary_name

_PADDING = 33
_ATTEMPTS = 100
Made = TypeVar("Made")


@dataclass(frozen=True)
class Form:
    """How the ``data`` of a collection's files is cut and compressed: what ``create_dataset`` is told, and what it made
    of that. ``chunks`` is None for data in one piece."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    how: tuple[tuple[str, Any], ...]
    chunks: tuple[int, ...] | None
    codecs: tuple[Codec, ...]

    @cached_property
    def grid(self) -> Grid:
        """The pieces that the cells are read and written by: the chunks, or blocks of rows."""
        return Grid.of(self.shape, self.pieces)

    @property
    def pieces(self) -> tuple[int, ...]:
        """The shape of one of them."""
        return self.chunks or block_shape(self.shape, self.dtype.itemsize)

    @cached_property
    def chain(self) -> Chain | None:
        """What makes a chunk's bytes; None where the library has to."""
        if self.chunks is None:
            return None
        try:
            return build_chain(self.codecs, ChunkLayout(self.dtype, self.chunks, None))
        except Unsupported:
            return None

    def create(self, file: Any) -> Any:
        """Make ``data`` in an h5py file; Unsupported for what the library, as it is in this process, cannot make."""
        if isinstance(dict(self.how).get("compression"), int):
            need_plugin()
        return _made(file, self.shape, self.dtype, self.how)

    def rehearse(self) -> None:
        """Make ``data`` in memory: what :meth:`create` would refuse is refused now."""
        with _in_memory() as file:
            self.create(file)


def form_of(options: HDF5Options | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Form:
    """The form of arrays of this shape and type under the options of their collection; Unsupported for a filter."""
    if options is None:
        return Form(shape, dtype, (), None, ())
    how: dict[str, Any] = {}
    if options.chunks is not None:
        how["chunks"] = options.chunks
    filters = options.compression_opts
    if filters.compression is not None:
        how["compression"] = filters.compression
        if filters.compression_opts is not None:
            how["compression_opts"] = filters.compression_opts
    return _form(shape, dtype, tuple(how.items()))


@lru_cache(maxsize=256)
def _form(shape: tuple[int, ...], dtype: np.dtype[Any], how: tuple[tuple[str, Any], ...]) -> Form:
    """The form that the library makes of it, asked in memory.

    A filter that has a number is one of a plug-in, which reading does not need: how it cuts the cells is asked without.
    """
    options = dict(how)
    number = options.get("compression")
    if not isinstance(number, int):
        with _in_memory() as file:
            data = _made(file, shape, dtype, how)
            return Form(shape, dtype, how, data.chunks, filters_of(data))
    codec = codec_of_filter(number, tuple(options.get("compression_opts") or ()))
    with _in_memory() as file:
        data = _made(file, shape, dtype, (("chunks", options.get("chunks", True)),))
        return Form(shape, dtype, how, data.chunks, (codec,))


def _made(file: Any, shape: tuple[int, ...], dtype: np.dtype[Any], how: tuple[tuple[str, Any], ...]) -> Any:
    try:
        return file.create_dataset("data", shape, dtype, **dict(how))
    except (ValueError, TypeError, RuntimeError) as error:
        remedy = "choose other collection_options"
        if "netCDF4" in sys.modules and isinstance(dict(how).get("compression"), int):
            remedy = "import hdf5plugin before netCDF4, whose HDF5 library its filters take for h5py's"
        raise Unsupported(f"HDF5 with {dict(how)}: {error}", remedy=remedy) from error


@contextmanager
def _in_memory() -> Iterator[Any]:
    """An h5py file that is nowhere, under the library's lock."""
    h5py = library()
    with LOCK, h5py.File(temporary_name("form"), "w", driver="core", backing_store=False) as file:
        yield file


def empty_file(text: str, count: int) -> bytes:
    """A file without ``data``, for an array of ``count`` cells."""
    return _filled(text, count, None, b"")


def small_file(text: str, count: int, form: Form, cells: Block) -> bytes:
    """A file whose ``data`` lies in one piece, of which ``count`` cells hold the fill value."""
    return _filled(text, count, form, cells.tobytes())


def _filled(text: str, count: int, form: Form | None, cells: bytes) -> bytes:
    meta = text.encode("ascii")
    places, image = _image(len(meta) + _PADDING, form and form.shape, form and form.dtype)
    whole = bytearray(image)
    for place, part in zip(places, (meta, count.to_bytes(8, "little"), cells), strict=False):
        whole[place : place + len(part)] = part
    return bytes(whole)


@lru_cache(maxsize=64)
def _image(size: int, shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None) -> tuple[list[int], bytes]:
    """A file with ``size`` zero bytes as its ``meta``, and where in it ``meta``, ``empty_cells`` and ``data`` begin."""
    h5py = library()
    name = temporary_name("image")
    with LOCK, h5py.File(name, "w", driver="core", backing_store=False, libver="earliest") as file:
        made = [_meta(file, b"", size), file.create_dataset("empty_cells", data=np.int64(0))]
        if shape is not None:
            made.append(file.create_dataset("data", data=np.zeros(shape, dtype)))
        file.flush()
        return [part.id.get_offset() for part in made], file.id.get_file_image()


def _meta(file: Any, text: bytes, size: int) -> Any:
    return file.create_dataset("meta", data=np.array(text, f"S{size}"))


@contextmanager
def new_file(path: str, text: str, *, durable: bool, old: str | None = None) -> Iterator[Any]:
    """An h5py file with ``meta`` that takes the place of ``path`` when the block ends well.

    What the file ``old`` holds besides the objects of the format is copied. When the block fails nothing is left.
    """
    h5py = library()
    temporary = beside(path)
    try:
        with LOCK:
            file = h5py.File(temporary, "w-", libver="earliest", locking=False)
        try:
            meta = text.encode("ascii")
            with LOCK:
                _meta(file, meta, len(meta) + _PADDING)
                file.create_dataset("empty_cells", data=np.int64(0))
                if old is not None:
                    _copy_others(h5py, old, file)
            yield file
        finally:
            with LOCK:
                file.close()
        put_in_place(temporary, path, durable=durable)
    finally:
        discard(temporary)


def _copy_others(h5py: Any, old: str, file: Any) -> None:
    """Objects and attributes of others, as far as they can be read."""
    with suppress(OSError, RuntimeError, ValueError, KeyError), h5py.File(old, "r", locking=False) as source:
        for name in source:
            if name not in ("meta", "empty_cells", "data"):
                source.copy(name, file)
        for name, value in source.attrs.items():
            file.attrs[name] = value


def put_file(path: str, data: bytes, *, durable: bool) -> None:
    """Replace a small file whole."""
    temporary = write_beside(path, data, durable=durable)
    try:
        put_in_place(temporary, path, durable=durable, flushed=True)
    finally:
        discard(temporary)


def write_beside(path: str, data: bytes, *, durable: bool) -> str:
    """A new file beside ``path``, which is to become that; its temporary name."""
    temporary = beside(path)
    descriptor = create(temporary, data)
    if durable:
        sync_and_close(descriptor)
    else:
        os.close(descriptor)
    return temporary


def put_in_place(temporary: str, path: str, *, durable: bool, flushed: bool = False) -> None:
    """Give a complete file its name."""
    if durable and not flushed:
        sync_and_close(os.open(temporary, os.O_RDWR))
    os.replace(temporary, path)
    if durable:
        sync_entries(os.path.dirname(path))


def sync_entries(folder: str) -> None:
    """Have the medium keep the names in a folder."""
    with open_folder(folder) as descriptor:
        sync_folder(descriptor)


def sync_removal(folder: str) -> None:
    """Have the medium keep that something in a folder is gone: by that folder, or by the nearest one that is left."""
    while True:
        try:
            return sync_entries(folder)
        except (FileNotFoundError, NotADirectoryError):
            folder = os.path.dirname(folder)


def beside(path: str) -> str:
    """A temporary name in the folder of ``path``."""
    folder, name = os.path.split(path)
    return os.path.join(folder, temporary_name(name))


def in_folder(folder: str, work: Callable[[], Made]) -> Made:
    """Do what needs a folder, which others remove whenever they see it empty: it is made until that succeeds."""
    for _ in range(_ATTEMPTS):
        try:
            _make(folder)
            return work()
        except FileNotFoundError:
            continue
    _make(folder)
    return work()


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError as error:
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder) from error
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder) from error
