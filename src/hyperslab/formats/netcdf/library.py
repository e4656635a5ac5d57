"""The netCDF and HDF5 libraries as they are used here: imported on use, one call at a time, their errors in our words.

netCDF-C and HDF5 are not safe for threads: who calls them holds :data:`~.hdf5_lock.LOCK`, in the whole process.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from hyperslab.errors import CorruptChunk, HyperslabError, MissingLibrary, StorageError
from hyperslab.formats.faults import flawed
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.formats.hdf5_plugin import load_plugin

_FAILURES = (OSError, RuntimeError, UnicodeError, ValueError, KeyError, AttributeError, IndexError)
"""What the libraries raise for what they cannot do."""
_INSTALL = "pip install 'hyperslab[netcdf]'"


def netcdf4() -> Any:
    """The module netCDF4; MissingLibrary names the extra.

    Filters of hdf5plugin that are loaded after it find its HDF5 library instead of h5py's, and fail: they come first.
    """
    load_plugin()
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
        try:
            dataset = module.Dataset(path, mode, **options)
        except _FAILURES as error:
            raise open_error(error, url) from error
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    return dataset, bool(caught)


def open_error(error: Exception, url: str) -> HyperslabError:
    """What a file that the library cannot open is raised as: damage, or the medium's failure."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None and number > 0:
        return StorageError(f"cannot open: {os.strerror(number)}", url=url)
    message = f"the netCDF library cannot open this file: {error}"
    remedy = "restore the file from a copy; it is damaged, cut off, or no netCDF file"
    return flawed("netcdf-open", message, url=url, remedy=remedy)


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
