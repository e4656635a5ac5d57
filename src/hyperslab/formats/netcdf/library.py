"""The netCDF and HDF5 libraries as they are used here: imported on use, one call at a time, their errors in our words.

netCDF-C and HDF5 are not safe for threads: who calls them holds :data:`~.hdf5.lock.LOCK`, in the whole process.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block, SourceTraits
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingLibrary, StorageError, Unsupported
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.hdf5.filters import load_filter_plugin
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.library_array import Part, SlicedArray, join_parts
from hyperslab.formats.netcdf.data_model import is_h5py_only
from hyperslab.model.dtypes import Enum, NumpyDType, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.files import version_of

_FAILURES = (OSError, RuntimeError, UnicodeError, ValueError, KeyError, AttributeError, IndexError)
"""The errors by which the libraries refuse or fail."""
_NOT_CHANGED = -103  # NC_ECANTWRITE of netcdf.h
_INSTALL = "pip install 'hyperslab[netcdf]'"
Version = tuple[int, int, int]


def netcdf4() -> Any:
    """Return the module netCDF4; MissingLibrary names the extra.

    Filters of hdf5plugin that are loaded after it find its HDF5 library instead of h5py's, and fail: they come first.
    """
    load_filter_plugin()
    try:
        import netCDF4
    except ImportError as error:
        raise MissingLibrary("format netcdf needs the netCDF library", remedy=_INSTALL) from error
    return netCDF4


def has_filter(dataset: Any, codec: str) -> bool:
    """Return True if the library compresses by a codec: some wheels of netCDF4 (1.7.3, 1.7.5) lack zstd and bzip2."""
    match codec:
        case "zstd":
            return bool(dataset.has_zstd_filter())
        case "bz2":
            return bool(dataset.has_bzip2_filter())
    return True


def h5py() -> Any | None:
    """Return the module h5py, or None when it is missing."""
    try:
        import h5py as module
    except ImportError:
        return None
    return module


def require_h5py(what: str, url: str) -> Any:
    """Return the module h5py; MissingLibrary names the extra and says that ``what`` need it."""
    module = h5py()
    if module is None:
        raise MissingLibrary(f"{what} need h5py", url=url, remedy=_INSTALL)
    return module


def open_dataset(path: str, mode: str, url: str, **options: Any) -> tuple[Any, bool]:
    """Return the library's dataset with raw cells (no masks, scales or joined chars), and True if it left variables
    out."""
    module = netcdf4()
    with LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _raise_if_kept_open(path, url)
        dataset = module.Dataset.__new__(module.Dataset)
        try:
            dataset.__init__(path, mode, **options)
        except (*_FAILURES, TypeError) as error:
            if dataset.isopen() and _limit_of(error) is None:
                with suppress(OSError):  # of a file that is gone
                    keep_open(dataset, os.stat(path), str(error))
            raise open_error(error, url) from error
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    return dataset, bool(caught)


_KEPT_OPEN: dict[tuple[int, int], tuple[Version, str]] = {}
"""By device and inode: the version of each file that stays open, and the library's error if it cannot be opened."""


def keep_open(dataset: object, found: os.stat_result, message: str = "") -> None:
    """Keep a file open for ever, also when the process ends: once an attribute could not be decoded, the library frees
    memory twice when it closes the file, which ends the process (netCDF 4.10.1). ``message``: why it cannot be
    opened."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dataset))
    _KEPT_OPEN[found.st_dev, found.st_ino] = version_of(found), message


def _raise_if_kept_open(path: str, url: str) -> None:
    """Raise what was raised of a file that stays open, whose old bytes the library would give if it was changed."""
    try:
        found = os.stat(path)
    except OSError:
        return
    version, message = _KEPT_OPEN.get((found.st_dev, found.st_ino), (version_of(found), ""))
    if version != version_of(found):
        message = "the netCDF library found this file damaged and has it open as it was before it was changed"
        raise StorageError(message, url=url, remedy="open it in another process, or give its bytes to a new file")
    if message:
        raise _open_failure(message, url)


def open_error(error: Exception, url: str) -> HyperslabError:
    """Return the error of a file that the library cannot open: damage, or the medium's failure."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return StorageError(f"cannot open: {os.strerror(number)}", url=url)
    if (limit := _limit_of(error)) is not None:
        return Unsupported(limit, url=url, remedy=_LIMIT_REMEDY)
    if number == _NOT_CHANGED:
        remedy = (
            "convert it to a new file: the library changes none whose groups do not keep the order of their members"
        )
        return Unsupported("the netCDF library cannot change this HDF5 file", url=url, remedy=remedy)
    return _open_failure(str(error), url)


_LIMIT_REMEDY = "the Python library of netCDF opens no such file: convert it to a new one, or change it with h5py"


def limit_by(error: Unsupported | FormatError, found: str | None) -> Unsupported | None:
    """Return why the library does not open a sound file: the error itself, or what h5py ``found``; None for damage."""
    if isinstance(error, Unsupported):
        return error
    return None if found is None else Unsupported(found, url=error.url, remedy=_LIMIT_REMEDY)


def _open_failure(message: str, url: str) -> FormatError:
    message = f"the netCDF library cannot open this file: {message}"
    remedy = "restore the file from a copy; it is damaged, cut off, or no netCDF file"
    return document_error("netcdf-open", message, url=url, remedy=remedy)


def _limit_of(error: Exception) -> str | None:
    """Return what a sound file has that netCDF4 opens no file with; None for any other failure."""
    # Python's own errors, raised by netCDF4 without a code: only their text tells these two from damage.
    match error:
        case TypeError() if "nested structured dtype arrays" in str(error):
            return "a compound type has a field that is an array of compounds"
        case AttributeError() if "'dimensions'" in str(error):  # which it looked for up to the root
            return "a variable runs along a dimension of a group that is not above its own"
    return None


def read_locked(url: str, node: str) -> AbstractContextManager[None]:
    """Hold the lock; what the library cannot read is damage of this node."""
    return _locked_call(lambda error: CorruptChunk(f"the netCDF library cannot read this: {error}", url=url, node=node))


def write_locked(url: str, node: str) -> AbstractContextManager[None]:
    """Hold the lock; what the library cannot write is a failure of the medium."""
    return _locked_call(
        lambda error: StorageError(f"the netCDF library cannot write this: {error}", url=url, node=node)
    )


@contextmanager
def _locked_call(to_error: Callable[[Exception], HyperslabError]) -> Iterator[None]:
    with LOCK:
        try:
            yield
        except HyperslabError:
            raise
        except _FAILURES as error:
            raise to_error(error) from error


# -- Cells of one variable ---------------------------------------------------------------------------------------------
# Through the netCDF library, and through h5py where netCDF4 has no such cells.

FindVariable = Callable[[], Any]
"""Gives the library's variable (h5py's dataset where netCDF4 has none) of the file that is open at that moment."""
ChangeGuard = Callable[[], AbstractContextManager[None]]
"""Guards a change of the working copy: holds the lock, and remembers a failure."""
OnWrite = Callable[[tuple[int, ...]], None]
"""Is told where a chunk ends that was written."""


class LibraryChunks(SlicedArray):
    """Chunks as slices of the variable that ``find`` gives. Read-only."""

    def __init__(self, find: FindVariable, spec: ArraySpec, url: str, node: str) -> None:
        super().__init__(spec)
        self._find = find
        self._url = url
        self._node = node

    def take(self, coords: Coords, part: Part, out: Block) -> None:
        """Read a part of the variable as cells of the model."""
        with read_locked(self._url, self._node):
            cells = from_library(self._find()[part or ...], self._spec)
        if (
            cells.ndim == out.ndim and cells.shape != out.shape
        ):  # h5py's dataset ends before its dimension, which others made longer
            out[...] = self._spec.fill_cell()
            out = out[tuple(slice(size) for size in cells.shape)]
        out[...] = cells


class WorkingChunks(LibraryChunks):
    """The same of a working copy."""

    traits = SourceTraits(locks=True, joins_writes=True)

    def __init__(
        self, find: FindVariable, spec: ArraySpec, url: str, node: str, changing: ChangeGuard, wrote: OnWrite
    ) -> None:
        super().__init__(find, spec, url, node)
        self._changing = changing
        self._wrote = wrote

    def give(self, part: Part, cells: Block) -> None:
        """Put cells into the working copy."""
        with self._changing():
            write_cells(self._find(), part, cells, self._spec)
            self._wrote(tuple(cut.stop for cut in part))

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Put chunks into the working copy, neighbours by one call of the library, which takes 0.1 ms."""
        if self._spec.numpy_dtype.hasobject:  # how much they take is not known
            super().write_batch(pairs, durable=durable)
            return
        for part, cells in join_parts(self.extent_of(coords, block) for coords, block in pairs):
            self.give(part, cells)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the working copy, which no other process knows of, against other threads."""
        return LOCK


def from_library(cells: Any, spec: ArraySpec) -> Block:
    """Return what the library gives for a slice as cells of the model."""
    if isinstance(spec.dtype, VlenArray | VlenBytes):
        found = cells
        if not (isinstance(cells, np.ndarray) and cells.dtype == object):
            found = np.empty((), object)
            found[()] = np.atleast_1d(cells)  # the library gives a lone number for a lone cell of one
        return found if isinstance(spec.dtype, VlenArray) else _each(found, lambda cell: cell.tobytes())
    values = np.asarray(cells)
    if spec.numpy_dtype.names is not None and spec.numpy_dtype.hasobject:
        return _rows_with_text(values, spec.numpy_dtype)
    return values if values.dtype == spec.numpy_dtype else values.astype(spec.numpy_dtype)


def _rows_with_text(values: Block, dtype: NumpyDType) -> Block:
    """Return rows of h5py, in whose fields text of any length is bytes, None where none was written."""
    rows = np.empty(values.shape, dtype)
    for name in dtype.names or ():
        is_text = dtype[name].hasobject
        rows[name] = _each(values[name], _text_of) if is_text else values[name]
    return rows


def _text_of(cell: bytes | str | None) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell or ""


def write_cells(variable: Any, extent: Part, cells: Block, spec: ArraySpec) -> None:
    """Put cells of the model into a slice of the library's variable, as the library wants them."""
    if not cells.size:
        return
    match spec.dtype:
        case VlenString():
            texts = cells.astype(object)
            if (cut := next((text for text in texts.flat if "\0" in str(text)), None)) is not None:
                remedy = "leave the NUL out, or use format zarr3, which keeps it"
                raise Unsupported(f"text in netCDF ends at its first NUL: {cut!r:.60}", remedy=remedy)
            variable[extent or ...] = texts if cells.ndim else str(cells[()])
        case VlenArray() | VlenBytes():
            arrays = _each(cells, _array_of(spec.dtype))
            variable[extent or ...] = arrays if cells.ndim else arrays[()]
        case Enum(base=base):
            # assignment refuses values without a name, such as the fill value of unwritten cells
            start = [part.start for part in extent]
            variable._put(np.ascontiguousarray(cells, base), start, list(cells.shape), [1] * cells.ndim)
        case np.dtype(kind="b"):
            start = [part.start for part in extent]
            variable._put(np.ascontiguousarray(cells, np.int8), start, list(cells.shape), [1] * cells.ndim)
        case kind if is_h5py_only(kind):
            _write_hidden(variable, extent, cells)
        case _:
            variable[extent or ...] = cells if cells.ndim else cells[()]


def _write_hidden(dataset: Any, extent: Part, cells: Block) -> None:
    """Put the bytes of cells into a slice of an h5py dataset as they are: netCDF's chars are text of HDF5 that ends
    with a NUL, and HDF5, asked to convert, has no room for one."""
    from h5py import h5s

    place, memory = dataset.id.get_space(), h5s.create(h5s.SCALAR)
    if extent:
        place.select_hyperslab(tuple(part.start for part in extent), cells.shape)
        memory = h5s.create_simple(cells.shape)
    dataset.id.write(memory, place, np.ascontiguousarray(cells, dataset.dtype), mtype=dataset.id.get_type())


def _array_of(dtype: VlenArray | VlenBytes) -> Callable[[Any], Block]:
    """Return the function that makes the 1-D array that the library wants of a cell; None counts as empty."""
    if isinstance(dtype, VlenBytes):
        return lambda cell: np.frombuffer(cell or b"", np.uint8)
    base = dtype.base
    return lambda cell: np.empty(0, base) if cell is None else np.atleast_1d(np.asarray(cell, base))


def _each(cells: Block, change: Callable[[Any], Any]) -> Block:
    """Return object cells, each changed."""
    out = np.empty(cells.shape, object)
    for place, cell in np.ndenumerate(cells):
        out[place] = change(cell)
    return out
