"""The netCDF and HDF5 libraries as they are used here: imported on use, one call at a time, their errors in our words.

netCDF-C and HDF5 are not safe for threads: who calls them holds :data:`~.hdf5.lock.LOCK`, in the whole process.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingLibrary, StorageError, Unsupported
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.hdf5.filters import load_filter_plugin
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.stores.files import version_of

_FAILURES = (OSError, RuntimeError, UnicodeError, ValueError, KeyError, AttributeError, IndexError)
"""What the libraries raise for what they cannot do."""
_NOT_CHANGED = -103  # NC_ECANTWRITE
_INSTALL = "pip install 'hyperslab[netcdf]'"
Version = tuple[int, int, int]


def netcdf4() -> Any:
    """The module netCDF4; MissingLibrary names the extra.

    Filters of hdf5plugin that are loaded after it find its HDF5 library instead of h5py's, and fail: they come first.
    """
    load_filter_plugin()
    try:
        import netCDF4
    except ImportError as error:
        raise MissingLibrary("format netcdf needs the netCDF library", remedy=_INSTALL) from error
    return netCDF4


def h5py() -> Any | None:
    """The module h5py, or None when it is missing."""
    try:
        import h5py as module
    except ImportError:
        return None
    return module


def needed_h5py(what: str, url: str) -> Any:
    """The module h5py; MissingLibrary names the extra, and ``what`` cannot be without it."""
    module = h5py()
    if module is None:
        raise MissingLibrary(f"{what} need h5py", url=url, remedy=_INSTALL)
    return module


def open_dataset(path: str, mode: str, url: str, **options: Any) -> tuple[Any, bool]:
    """The library's dataset with raw cells (no masks, scales or joined chars), and whether it left variables out."""
    module = netcdf4()
    with LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _raise_if_held(path, url)
        dataset = module.Dataset.__new__(module.Dataset)
        try:
            dataset.__init__(path, mode, **options)
        except (*_FAILURES, TypeError) as error:
            if dataset.isopen() and _limit_of(error) is None:
                with suppress(OSError):  # of a file that is gone
                    hold(dataset, os.stat(path), str(error))
            raise open_error(error, url) from error
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    return dataset, bool(caught)


_HELD: dict[tuple[int, int], tuple[Version, str]] = {}
"""By device and inode: the version of each file that stays open, and what the library said of it."""


def hold(dataset: Any, found: os.stat_result, said: str = "") -> None:
    """Keep a file open for ever, also when the process ends: once an attribute could not be decoded, the library frees
    memory twice when it closes the file, which ends the process (netCDF 4.10.1). ``said``: why it cannot be opened."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dataset))
    _HELD[found.st_dev, found.st_ino] = version_of(found), said


def _raise_if_held(path: str, url: str) -> None:
    """Raise what was raised of a file that stays open, whose old bytes the library would give if it was changed."""
    try:
        found = os.stat(path)
    except OSError:
        return
    version, said = _HELD.get((found.st_dev, found.st_ino), (version_of(found), ""))
    if version != version_of(found):
        message = "the netCDF library found this file damaged and has it open as it was before it was changed"
        raise StorageError(message, url=url, remedy="open it in another process, or give its bytes to a new file")
    if said:
        raise _damaged(said, url)


def open_error(error: Exception, url: str) -> HyperslabError:
    """What a file that the library cannot open is raised as: damage, or the medium's failure."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return StorageError(f"cannot open: {os.strerror(number)}", url=url)
    if (limit := _limit_of(error)) is not None:
        remedy = "the Python library of netCDF opens no such file: convert it to a new one, or change it with h5py"
        return Unsupported(limit, url=url, remedy=remedy)
    if number == _NOT_CHANGED:
        remedy = (
            "convert it to a new file: the library changes none whose groups do not keep the order of their members"
        )
        return Unsupported("the netCDF library cannot change this HDF5 file", url=url, remedy=remedy)
    return _damaged(str(error), url)


def _damaged(said: str, url: str) -> FormatError:
    message = f"the netCDF library cannot open this file: {said}"
    remedy = "restore the file from a copy; it is damaged, cut off, or no netCDF file"
    return document_error("netcdf-open", message, url=url, remedy=remedy)


def _limit_of(error: Exception) -> str | None:
    """Return what a sound file has that netCDF4 opens no file with; None for any other failure."""
    if isinstance(error, TypeError) and "nested structured dtype arrays" in str(error):
        return "a compound type has a field that is an array of compounds"
    if isinstance(error, AttributeError) and "'dimensions'" in str(error):  # which it looked for up to the root
        return "a variable runs along a dimension of a group that is not above its own"
    return None


def reading(url: str, node: str) -> AbstractContextManager[None]:
    """Hold the lock; what the library cannot read is damage of this node."""
    return _calling(lambda error: CorruptChunk(f"the netCDF library cannot read this: {error}", url=url, node=node))


def writing(url: str, node: str) -> AbstractContextManager[None]:
    """Hold the lock; what the library cannot write is a failure of the medium."""
    return _calling(lambda error: StorageError(f"the netCDF library cannot write this: {error}", url=url, node=node))


@contextmanager
def _calling(said: Callable[[Exception], HyperslabError]) -> Iterator[None]:
    with LOCK:
        try:
            yield
        except HyperslabError:
            raise
        except _FAILURES as error:
            raise said(error) from error
