"""The new file under a temporary name beside the old one: others see it whole, when it is closed, or never.

netCDF4 and h5py take turns: two HDF5 libraries must not have one file open for writing.
"""

from __future__ import annotations

import mmap
import os
import shutil
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, Conflict, CorruptChunk, HyperslabError, StorageError
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.netcdf import classic, library
from hyperslab.formats.opening import already_exists
from hyperslab.stores.files import open_folder, sync_and_close, sync_folder, write_error
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.leftovers import remove_leftovers
from hyperslab.stores.locks import hold_folder

Version = tuple[int, int, int, int]


class WorkingCopy:
    """A file that takes the place of ``path`` when published: new (of kind ``model``) or a copy of the old."""

    def __init__(
        self, path: str, url: str, mode: str, model: str, settings: Settings, *, of: WorkingCopy | None = None
    ) -> None:
        self._target = os.path.realpath(path)
        self.model = model
        self._url = url
        self._mode = mode
        self._settings = settings
        self.variables = 0
        self.unreadable: Mapping[str, CorruptChunk] = {}
        folder, name = os.path.split(self._target)
        self.path = os.path.join(folder, temporary_name(name))
        self._before: Version | None = of._before if of is not None else self._version()
        if mode == "x" and self._before is not None:
            raise already_exists(url)
        self._finish = weakref.finalize(self, _remove, self.path, os.getpid())
        self._abandoned: weakref.finalize[..., WorkingCopy] | None = None
        self._dataset: Any = None
        self._hdf5: Any = None
        try:
            self._make(copy=mode == "r+" and of is None)
        except BaseException:
            self.discard()
            raise

    def renewed(self, model: str) -> WorkingCopy:
        """An empty working copy for the same place, to be published in place of this one."""
        return WorkingCopy(self._target, self._url, self._mode, model, self._settings, of=self)

    def _make(self, *, copy: bool) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
            if copy:
                shutil.copyfile(self._target, self.path)
                shutil.copymode(self._target, self.path)
                if self._version() != self._before:
                    raise Conflict("the file changed while it was copied", url=self._url)
        except OSError as error:
            if isinstance(error, HyperslabError):
                raise
            if isinstance(error, FileNotFoundError) and copy:
                raise file_not_found(self._url) from None
            raise write_error(error, self._url, os.path.basename(self._target)) from error
        if not copy:
            self._dataset = self._kept(library.open_dataset(self.path, "w", self._url, format=self.model)[0])

    def cache_bytes(self, chunk: int) -> int:
        """Return the bytes of decoded chunks that the library may keep of a variable until it encodes and writes them,
        where one takes ``chunk`` bytes: a share of the cache, but room for one chunk if there is a cache.

        By itself it keeps 64 MiB of each until the file is closed (netCDF-C 4.10), also where it is told to keep 0.
        """
        cache = int(self._settings.cache_bytes or 0)
        return max(cache // max(self.variables, 1), min(chunk, cache), 1)

    def netcdf(self) -> Any:
        """The library's dataset of the working copy."""
        if self._dataset is None:
            self._close_handles()
            self._dataset = self._kept(library.open_dataset(self.path, "r+", self._url)[0])
        return self._dataset

    def hdf5(self) -> Any:
        """h5py's file of the working copy; MissingLibrary without h5py."""
        if self._hdf5 is None:
            module = library.needed_h5py("opaque and structured values", self._url)
            self._close_handles()
            self._hdf5 = self._kept(module.File(self.path, "r+"))
        return self._hdf5

    def header(self) -> classic.ClassicHeader:
        """Return the header of a netCDF-3 working copy, which is closed."""
        self._close_handles()
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return classic.parse(data)

    def patch(self, pieces: Mapping[int, bytes]) -> None:
        """Write bytes at their places into the working copy, which is closed."""
        with open(self.path, "r+b") as file:
            for start, data in pieces.items():
                file.seek(start)
                file.write(data)

    def _kept(self, handle: Any) -> Any:
        """The handle, which the garbage collector is not to close itself."""
        self._abandoned = weakref.finalize(self, LOCK.close_later, handle)
        self._abandoned.atexit = False
        return handle

    def _close_handles(self) -> None:
        dataset, self._dataset = self._dataset, None
        hdf5, self._hdf5 = self._hdf5, None
        if self._abandoned is not None:
            self._abandoned.detach()
        with library.writing(self._url, ""):
            if hdf5 is not None:
                hdf5.close()
            if dataset is not None:
                dataset.close()

    def publish(self) -> None:
        """Make the file complete and durable, then give it its name; Conflict when the old one changed meanwhile."""
        try:
            self._close_handles()
            if self._settings.durable:
                sync_and_close(os.open(self.path, os.O_RDWR))
            with hold_folder(lambda: os.path.dirname(self._target), self._settings.lock_timeout):
                self._rename()
            if self._settings.durable:
                with open_folder(os.path.dirname(self._target)) as folder:
                    sync_folder(folder)
        except OSError as error:
            self.discard()
            if isinstance(error, HyperslabError):
                raise
            raise write_error(error, self._url, os.path.basename(self._target)) from error
        except BaseException:
            self.discard()
            raise
        self._finish.detach()
        remove_leftovers(self._target)

    def _rename(self) -> None:
        now = self._version()
        if self._mode == "x" and now is not None:
            raise AlreadyExists("another writer made the target meanwhile", url=self._url)
        if self._mode == "r+" and now != self._before:
            remedy = "open it again and repeat the changes"
            raise Conflict("another writer changed the file meanwhile", url=self._url, remedy=remedy)
        os.replace(self.path, self._target)

    def _version(self) -> Version | None:
        try:
            found = os.stat(self._target)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot look at the file: {error.strerror}", url=self._url) from error
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def discard(self) -> None:
        """Close and remove the working copy; the old file, or nothing, stays."""
        with suppress(HyperslabError):
            self._close_handles()
        self._finish()


def _remove(path: str, owner: int) -> None:
    """Remove the temporary file, in the process that made it."""
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)
