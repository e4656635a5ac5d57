"""A netCDF file open for reading: the library's dataset, h5py's view of the same file, and a descriptor for pread."""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from contextlib import suppress
from typing import Any

from hyperslab.errors import Conflict, FormatError, HyperslabError
from hyperslab.formats.asked import no_file
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.formats.netcdf import classic, library
from hyperslab.formats.netcdf.confined import check_links
from hyperslab.formats.netcdf.named import NamedTypes, holds_references
from hyperslab.stores.files import read_error

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_HDF5_PLACES = (0, *(512 << n for n in range(12)))
_TRIES = 5
NON_COORDINATE = "_nc4_non_coord_"


def file_kind(descriptor: int) -> str | None:
    """``classic`` or ``hdf5`` by the magic bytes (HDF5's also behind a user block), None for anything else."""
    if _bytes_at(descriptor, 0)[:4] in classic.MAGICS:
        return "classic"
    size = os.fstat(descriptor).st_size
    found = (_bytes_at(descriptor, place) == HDF5_MAGIC for place in _HDF5_PLACES if place < size)
    return "hdf5" if any(found) else None


def _bytes_at(descriptor: int, place: int) -> bytes:
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, len(HDF5_MAGIC))


class OpenedFile:
    """One version of a netCDF file, seen through the library, h5py (None for netCDF-3 or without h5py) and pread."""

    def __init__(self, path: str, url: str) -> None:
        self.url = url
        self.descriptor = -1
        self.dataset: Any = None
        self.hdf5: Any = None
        self.header: classic.Header | None = None
        self.incomplete = False
        self.types = NamedTypes()
        self._finish: weakref.finalize[..., OpenedFile] | None = None
        try:
            self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str) -> None:
        for _ in range(_TRIES):
            self.close()
            self.descriptor = _open_plain(path, self.url)
            kind = file_kind(self.descriptor)
            if kind is None:
                message = "the file has the mark of neither netCDF-3 nor HDF5"
                raise FormatError(message, url=self.url, remedy="give the format that it has")
            if kind == "classic":
                self.header = _checked_header(self.descriptor, self.url)
            else:
                self.hdf5 = self._confined(path)
            self.dataset, self.incomplete = library.open_dataset(path, "r", self.url)
            if _is_still(self.descriptor, path):
                self._finish = weakref.finalize(self, LOCK.leave, self.hdf5, self.dataset)
                self._finish.atexit = False
                return
        raise Conflict("the file was replaced again and again while it was opened", url=self.url)

    def _confined(self, path: str) -> Any:
        """The file through h5py, when no link leads out of it; None when h5py is missing or cannot read it."""
        with LOCK:
            file = _open_hdf5(path)
            try:
                if file is not None:
                    self.types = NamedTypes(file, check_links(file, self.url))
            except BaseException as error:
                file.close()
                if isinstance(error, HyperslabError) or not isinstance(error, Exception):
                    raise
                raise library.open_error(error, self.url) from error
        return file

    @property
    def model(self) -> str:
        """netCDF's name of the data model, such as ``NETCDF4``."""
        return str(self.dataset.data_model)

    def group(self, path: str) -> Any:
        """The library's group at ``path``, or None."""
        found = self.dataset
        for name in path.split("/") if path else ():
            found = found.groups.get(name)
            if found is None:
                return None
        return found

    def variable(self, path: str) -> Any:
        """The library's variable at ``path``, or None; also where the library overlooks references among the fields of
        its rows: reading those would overwrite memory."""
        parent, _, name = path.rpartition("/")
        group = self.group(parent)
        found = None if group is None else group.variables.get(name)
        if found is None or not hasattr(found.datatype, "dtype_view"):
            return found
        stored = self.hdf5_dataset(path)
        return None if stored is not None and holds_references(stored.id.get_type()) else found

    def hdf5_group(self, path: str) -> Any:
        """h5py's group at ``path``, or None."""
        return None if self.hdf5 is None else self.hdf5[f"/{path}"]

    def hdf5_dataset(self, path: str) -> Any:
        """h5py's dataset of the variable at ``path``, or None. A variable named like a dimension that it does not
        run along is stored under a name with a prefix."""
        if self.hdf5 is None:
            return None
        parent, _, name = path.rpartition("/")
        group = self.hdf5_group(parent)
        hidden = NON_COORDINATE + name
        return group.get(hidden if name in self.group(parent).dimensions and hidden in group else name, None)

    def close(self) -> None:
        """Let go of all handles; closing twice is fine."""
        if self._finish is not None:
            self._finish.detach()
        dataset, self.dataset = self.dataset, None
        hdf5, self.hdf5 = self.hdf5, None
        descriptor, self.descriptor = self.descriptor, -1
        with library.reading(self.url, ""), suppress(HyperslabError, RuntimeError):
            if hdf5 is not None:
                hdf5.close()
            if dataset is not None:
                dataset.close()
        if descriptor >= 0:
            os.close(descriptor)


def _open_plain(path: str, url: str) -> int:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FormatError("this is no plain file", url=url, remedy="give the format that it has")
        return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise no_file(url) from None
    except OSError as error:
        raise read_error(error, url, path.rpartition(os.sep)[2]) from error


def _checked_header(descriptor: int, url: str) -> classic.Header:
    """The header of a netCDF-3 file whose cells are all there."""
    size = os.fstat(descriptor).st_size
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            header = classic.parse(data)
    except FormatError as error:
        raise error.locate(url=url) from None
    if size < header.size:
        message = f"the file is cut off: it has {size} bytes, its variables need {header.size}"
        raise FormatError(message, url=url, remedy="restore the file from a copy")
    return header


def _open_hdf5(path: str) -> Any:
    module = library.h5py()
    if module is None:
        return None
    try:
        return module.File(path, "r")
    except (OSError, RuntimeError, ValueError):
        return None


def _is_still(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
