"""A netCDF file open for reading: the library's dataset, h5py's view of the same file, and a descriptor for pread.

Where netCDF4 does not open the file, :class:`ScaleTree` has its groups and dimensions as h5py sees them.
"""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import Conflict, FormatError, HyperslabError, Unsupported
from hyperslab.formats.base import PROVENANCE
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.hdf5.file import (
    HDF5_MAGIC,
    check_heaps,
    check_links,
    find_outside,
    find_unopened,
    iter_members,
    keeps_order,
)
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.hdf5.types import NamedTypes, Place, is_misread
from hyperslab.formats.netcdf import classic, library
from hyperslab.model.dims import is_made_up
from hyperslab.model.paths import child
from hyperslab.model.refs import Link
from hyperslab.stores.files import read_error, version_of
from hyperslab.stores.system import ALWAYS

if TYPE_CHECKING:
    import h5py

# -- Groups and dimensions as h5py sees them ---------------------------------------------------------------------------
# HDF5 attaches the axes of a dataset to dimension scales, wherever these lie. netCDF4 looks for the dimensions of a
# variable in its group and further out alone, and fails where one lies elsewhere. Here such a dimension is one of the
# variable's own group, too: by its name, or by <name>_<length> where another of this name can be seen from there.

NON_COORDINATE = "_nc4_non_coord_"
"""The prefix of the stored name of a variable that is called like a dimension and does not run along it."""


@dataclass(eq=False)
class ScaleDimension:
    """A dimension, with the methods of netCDF4's own."""

    owner: ScaleGroup
    name: str
    size: int
    unlimited: bool

    def __len__(self) -> int:
        return self.size

    def isunlimited(self) -> bool:
        """Return True if the dimension grows."""
        return self.unlimited

    def group(self) -> ScaleGroup:
        """Return the group that declares the dimension."""
        return self.owner


class ScaleGroup:
    """A group, with the members of netCDF4's own; it has no variables and no types, which h5py reads."""

    data_model = "NETCDF4"
    variables: Mapping[str, Any] = {}
    cmptypes: Mapping[str, object] = {}
    enumtypes: Mapping[str, object] = {}
    vltypes: Mapping[str, object] = {}

    def __init__(self, parent: ScaleGroup | None = None) -> None:
        self.parent = parent
        self.groups: dict[str, ScaleGroup] = {}
        self.dimensions: dict[str, ScaleDimension] = {}

    def outward(self) -> Iterator[ScaleGroup]:
        """Yield the group and those around it, the nearest first."""
        group: ScaleGroup | None = self
        while group is not None:
            yield group
            group = group.parent

    def close(self) -> None:
        """Do nothing: the h5py file has an owner of its own."""


Axes = list[ScaleDimension | None]


class ScaleTree(ScaleGroup):
    """The root of a file. ``axes``: by the path of a dataset, the dimension of each axis, None for a nameless one."""

    def __init__(self, file: h5py.File, outside: Mapping[str, Link]) -> None:
        super().__init__()
        self._outside = outside
        self._by_object: dict[int, ScaleDimension] = {}
        self._by_number: dict[int, ScaleDimension] = {}
        datasets = list(self._read_group(self, file))
        axes = {dataset.name: (group, self._axes_of(dataset)) for group, dataset in datasets}
        for _, dataset in datasets:
            for dim, size in zip(axes[dataset.name][1], dataset.shape, strict=True):
                if dim is not None and dim.isunlimited():  # as long as the longest dataset along it
                    dim.size = max(dim.size, size)
        self.axes: dict[str, Axes] = {
            path: [dim and _visible_from(group, dim) for dim in dims] for path, (group, dims) in axes.items()
        }

    def _read_group(self, group: ScaleGroup, stored: h5py.Group) -> Iterator[tuple[ScaleGroup, h5py.Dataset]]:
        """Yield the datasets below a group of h5py, each with its group."""
        from h5py import Dataset, Group

        for name, node in iter_members(stored, self._outside):
            match node:
                case Dataset() if node.shape is not None:
                    if node.is_scale and node.ndim:
                        self._declare(group, name.removeprefix(NON_COORDINATE), node)
                    yield group, node
                case Group():
                    group.groups[name] = ScaleGroup(group)
                    yield from self._read_group(group.groups[name], node)

    def _declare(self, group: ScaleGroup, name: str, scale: Any) -> None:
        dim = ScaleDimension(group, name, scale.shape[0], scale.maxshape[0] is None)
        group.dimensions[name] = self._by_object[hash(scale.id)] = dim
        if "_Netcdf4Dimid" in scale.attrs:
            self._by_number[int(scale.attrs["_Netcdf4Dimid"])] = dim

    def _axes_of(self, dataset: h5py.Dataset) -> Axes:
        """Return the dimensions of a dataset. A scale is attached to none: it is its own dimension, and where it has
        several, netCDF keeps their numbers."""
        if not dataset.is_scale:
            scales = (dataset.dims[axis].values() for axis in range(dataset.ndim))
            return [self._by_object.get(hash(found[0].id)) if found else None for found in scales]
        if dataset.ndim > 1 and "_Netcdf4Coordinates" in dataset.attrs:
            return [self._by_number.get(int(number)) for number in dataset.attrs["_Netcdf4Coordinates"]]
        own: Axes = [self._by_object.get(hash(dataset.id))]
        return [*own, *[None] * (dataset.ndim - 1)][: dataset.ndim]


def _visible_from(group: ScaleGroup, dim: ScaleDimension) -> ScaleDimension:
    """Return the dimension itself, or what stands for it in a group from which it cannot be seen."""
    if any(above is dim.group() for above in group.outward()):
        return dim
    numbered = (f"{dim.name}_{dim.size}_{number}" for number in count(2))
    for name in chain((dim.name, f"{dim.name}_{dim.size}"), numbered):
        seen = next((above.dimensions[name] for above in group.outward() if name in above.dimensions), None)
        if seen is None:
            seen = group.dimensions[name] = ScaleDimension(group, name, dim.size, dim.unlimited)
        if seen.size == dim.size:
            return seen
    raise AssertionError


# -- Open files --------------------------------------------------------------------------------------------------------

# HDF5's signature stands at byte 0, or behind a user block of 512 bytes or of 512 doubled some times.
_HDF5_OFFSETS = (0, *(512 << n for n in range(12)))
# The descriptor, h5py and the library open the file one after the other. Another writer may replace it meanwhile: then
# all are opened anew, so that they are of one version.
_OPEN_ATTEMPTS = 5


def file_kind(descriptor: int) -> str | None:
    """Return ``classic`` or ``hdf5`` by the magic bytes (HDF5's also behind a user block), None for anything else."""
    if _bytes_at(descriptor, 0)[:4] in classic.MAGICS:
        return "classic"
    size = os.fstat(descriptor).st_size
    found = (_bytes_at(descriptor, place) == HDF5_MAGIC for place in _HDF5_OFFSETS if place < size)
    return "hdf5" if any(found) else None


def _bytes_at(descriptor: int, place: int) -> bytes:
    os.lseek(descriptor, place, os.SEEK_SET)
    return os.read(descriptor, len(HDF5_MAGIC))


class OpenNetcdfFile:
    """One version of a netCDF file, seen through the library, h5py (None for netCDF-3 or without h5py) and pread.

    All ``users`` in the process share it: HDF5 2.2.0, as the wheels of netCDF4 have it, reads freed memory once a file
    that is open is opened again, text is read from it, and it is closed and opened a third time.

    ``outside``: by path the links that lead to other files, which nothing here follows. ``incomplete``: the library
    leaves variables out. ``limit``: why it does not open the file at all; then all comes from h5py, and ``dataset`` is
    the tree ``scales``.
    """

    def __init__(self, path: str, url: str) -> None:
        self.url = url
        self.descriptor = -1
        self.dataset: Any = None
        self.hdf5: Any = None
        self.header: classic.ClassicHeader | None = None
        self.incomplete = False
        self.scales: ScaleTree | None = None
        self.limit: Unsupported | None = None
        self.is_overwritten = False
        self.is_kept_open = False
        self.version: tuple[int, int, int] = (0, 0, 0)
        self.types = NamedTypes()
        self.outside: Mapping[str, Link] = {}
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        # To find a node by its path takes as long as to read all that is known of it.
        self._groups: dict[str, h5py.Group] = {}
        self._datasets: dict[str, h5py.Dataset | None] = {}
        self._is_changeable: bool | None = None
        self._finish: weakref.finalize[..., OpenNetcdfFile] | None = None
        try:
            self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str) -> None:
        for _ in range(_OPEN_ATTEMPTS):
            self.close()
            self.descriptor = _open_plain(path, self.url)
            kind = file_kind(self.descriptor)
            if kind is None:
                message = "the file has the mark of neither netCDF-3 nor HDF5"
                raise FormatError(message, url=self.url, remedy="give the format that it has")
            self.version = version_of(os.fstat(self.descriptor))
            # HDF5 tells files by their inode, and shares what it remembers of a file that is open already: one that was
            # overwritten in place would be read by its old layout, so what is open of older versions is closed.
            with LOCK:
                for other in _list_open_files():
                    is_open = other.descriptor >= 0 and not other.is_overwritten and other.version != self.version
                    if is_open and os.path.sameopenfile(other.descriptor, self.descriptor):
                        other.close_overwritten()
            if kind == "classic":
                self.header = _read_header(self.descriptor, self.url)
            else:
                check_heaps(self.descriptor, self.url)
                self.hdf5 = self._open_confined(path)
            self._open_dataset(path)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.descriptor), os.stat(path)):
                    self._finish = _close_at_collection(self)
                    _OPEN_FILES[id(self)] = self
                    return
        raise Conflict("the file was replaced again and again while it was opened", url=self.url)

    def _open_dataset(self, path: str) -> None:
        """Open the library's dataset; where it opens no such file, take what h5py sees for one without variables."""
        self.scales = self.limit = None
        if self.outside:
            message = f"the netCDF library follows links to other files, such as /{next(iter(self.outside))}"
            remedy = "convert it to a new one, or change it with h5py"
            self._take_scales(Unsupported(message, url=self.url, remedy=remedy))
            return
        try:
            self.dataset, self.incomplete = library.open_dataset(path, "r", self.url)
        except (Unsupported, FormatError) as error:
            limit = library.limit_by(error, find_unopened(self.hdf5) if self.hdf5 is not None else None)
            if limit is None or self.hdf5 is None:
                raise
            self._take_scales(limit)

    def _take_scales(self, limit: Unsupported) -> None:
        """Take what h5py sees in place of the library's dataset, which has this limit."""
        with library.read_locked(self.url, ""):
            self.dataset = self.scales = ScaleTree(self.hdf5, self.outside)
        self.incomplete, self.limit = True, limit

    def _open_confined(self, path: str) -> Any:
        """Return the file through h5py, of which links to other files are known; None when h5py is missing or cannot
        read it."""
        with LOCK:
            module = library.h5py()
            if module is None:
                return None
            try:
                file = module.File(path, "r")
            except (OSError, RuntimeError, ValueError):
                return None
            try:
                survey = check_links(file, self.url)
                self.types, self.outside = NamedTypes(file, survey.types), survey.outside
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

    @cached_property
    def has_netcdf_texts(self) -> bool:
        """Return True for a file by netCDF's rule, that an attribute of one string is the string: netCDF-C stores it as
        an array of one. That a file is such a one its provenance tells (since netCDF-C 4.4.1), or its dimensions."""
        if PROVENANCE in self.hdf5.attrs:
            return True
        waiting = [self.dataset]
        while waiting:
            group = waiting.pop()
            if not all(map(is_made_up, group.dimensions)):
                return True
            waiting += group.groups.values()
        return False

    def list_made_up(self) -> Iterator[Place]:
        """Yield the dimensions that have names by the library alone: there is no scale of them in the file."""
        waiting = [("", self.dataset)]
        while waiting:
            path, group = waiting.pop()
            stored = self.hdf5_group(path)
            yield from ((path, name) for name in group.dimensions if is_made_up(name) and name not in stored)
            waiting += [(child(path, name), inner) for name, inner in group.groups.items()]

    @cached_property
    def repeated_dimensions(self) -> frozenset[str]:
        """Return the names that several groups declare dimensions by."""
        seen: set[str] = set()
        repeated: set[str] = set()
        waiting = [self.dataset]
        while waiting:
            group = waiting.pop()
            repeated |= seen & group.dimensions.keys()
            seen |= group.dimensions.keys()
            waiting += group.groups.values()
        return frozenset(repeated)

    def group(self, path: str) -> Any:
        """Return the library's group at ``path``, or None."""
        found = self.dataset
        for name in path.split("/") if path else ():
            found = found.groups.get(name)
            if found is None:
                return None
        return found

    def variable(self, path: str) -> Any:
        """Return the library's variable at ``path``, or None; also where the library takes its cells for others, which
        would overwrite memory."""
        parent, _, name = path.rpartition("/")
        group = self.group(parent)
        found = None if group is None else group.variables.get(name)
        if found is None:
            return None
        if type(found.datatype).__name__ == "VLType" and found.dtype == np.dtype("S1"):
            return None  # chars of any length are no string: neither library gives its cells
        if found.dtype is not str and not hasattr(found.datatype, "dtype_view"):
            return found  # of what it misreads it shows numbers as text, and rows as rows
        stored = self.hdf5_dataset(path)
        return None if stored is not None and is_misread(stored.id.get_type()) else found

    def is_now(self, path: str) -> bool:
        """Return True if this is what lies at ``path`` at this moment, and can be read."""
        if self.descriptor < 0 or self.is_overwritten:
            return False
        try:
            found = os.stat(path)
        except OSError:
            return False
        return self.version == version_of(found) and os.path.samestat(os.fstat(self.descriptor), found)

    def leave(self, user: object) -> None:
        """Close the file unless others use it; leaving twice is fine."""
        with LOCK:
            self.users.discard(user)
            if not self.users:
                self.close()

    def hdf5_group(self, path: str) -> h5py.Group:
        """Return h5py's group at ``path``, or None."""
        if self.hdf5 is None:
            return None
        if path not in self._groups:
            self._groups[path] = self.hdf5[f"/{path}"]
        return self._groups[path]

    def hdf5_dataset(self, path: str) -> h5py.Dataset:
        """Return h5py's dataset of the variable at ``path``, or None. A variable named like a dimension that it does
        not run along is stored under a name with a prefix."""
        if self.hdf5 is None:
            return None
        if path not in self._datasets:
            parent, _, name = path.rpartition("/")
            group = self.hdf5_group(parent)
            hidden = NON_COORDINATE + name
            stored = hidden if name in self.group(parent).dimensions and hidden in group else name
            is_outside = self.outside and find_outside(group.id, stored.encode()) is not None
            self._datasets[path] = None if is_outside else group.get(stored, None)
        return self._datasets[path]

    def close(self) -> None:
        """Let go of all handles; closing twice is fine."""
        descriptor, self.descriptor = self.descriptor, -1
        self._close_libraries()
        if descriptor >= 0:
            os.close(descriptor)

    def is_changeable(self) -> bool:
        """Return True if the library can change the file. All groups are looked at, once."""
        if self._is_changeable is None:
            with library.read_locked(self.url, ""):
                has_order = self.hdf5 is None or keeps_order(self.hdf5)
            self._is_changeable = self.limit is None and has_order
        return self._is_changeable

    def keep_open(self) -> None:
        """Keep the library's dataset from ever being closed (:func:`~.library.keep_open`)."""
        with LOCK:
            if not self.is_kept_open and self._finish is not None:
                self.is_kept_open = True
                library.keep_open(self.dataset, os.fstat(self.descriptor))
                self._finish.detach()
                self._finish = _close_at_collection(self)

    def close_overwritten(self) -> None:
        """Let go of the libraries' handles, since the file was overwritten. The descriptor may be in use by threads, so
        it stays, of an empty file: what they read by the old layout would be other cells."""
        self.is_overwritten = True
        self._close_libraries()
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, self.descriptor, inheritable=False)
        os.close(empty)
        self._finish = _close_at_collection(self)

    def _close_libraries(self) -> None:
        if self._finish is not None:
            self._finish.detach()
        dataset, self.dataset = self.dataset, None
        hdf5, self.hdf5 = self.hdf5, None
        self._groups, self._datasets = {}, {}
        with library.read_locked(self.url, ""), suppress(HyperslabError, RuntimeError):
            if hdf5 is not None:
                hdf5.close()
            if dataset is not None and not self.is_kept_open:
                dataset.close()


class FileDescriptor(int):
    """The descriptor of a file, for cells that are read when nobody has the reader any more: it keeps the file open."""

    file: OpenNetcdfFile

    @classmethod
    def of(cls, file: OpenNetcdfFile) -> FileDescriptor:
        """Return that of a file."""
        found = cls(file.descriptor)
        found.file = file
        return found


def _close_at_collection(opened: OpenNetcdfFile) -> weakref.finalize[..., OpenNetcdfFile]:
    """Return what closes a file that nobody closed."""
    dataset = None if opened.is_kept_open else opened.dataset
    finish = weakref.finalize(opened, _close_abandoned, opened.descriptor, opened.hdf5, dataset)
    finish.atexit = False
    return finish


def _close_abandoned(descriptor: int, *handles: object) -> None:
    """Close a file; called by the garbage collector, which must not wait for the libraries."""
    LOCK.close_later(*handles)
    os.close(descriptor)


_OPEN_FILES: weakref.WeakValueDictionary[int, OpenNetcdfFile] = weakref.WeakValueDictionary()
"""By their ``id``."""


def _list_open_files() -> list[OpenNetcdfFile]:
    """Return those that are open. Whoever holds the lock, the garbage collector may take one out in another thread, at
    which an iteration would fail: the list of references is made by one call."""
    return [opened for reference in _OPEN_FILES.valuerefs() if (opened := reference()) is not None]


def share_open_file(user: object, path: str, url: str) -> OpenNetcdfFile:
    """Return the file at ``path`` as it is open in this process, else open it; ``user`` is to leave it."""
    with LOCK:
        opened = next((each for each in _list_open_files() if each.is_now(path)), None) or OpenNetcdfFile(path, url)
        opened.users.add(user)
        return opened


def _open_plain(path: str, url: str) -> int:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FormatError("this is no plain file", url=url, remedy="give the format that it has")
        return os.open(path, os.O_RDONLY | ALWAYS)
    except FileNotFoundError:
        raise file_not_found(url) from None
    except OSError as error:
        raise read_error(error, url, path.rpartition(os.sep)[2]) from error


def _read_header(descriptor: int, url: str) -> classic.ClassicHeader:
    """Return the header of a netCDF-3 file whose cells are all there."""
    size = os.fstat(descriptor).st_size
    try:
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            header = classic.parse_header(data)
    except FormatError as error:
        raise error.locate(url=url) from None
    if size < header.size:
        message = f"the file is cut off: it has {size} bytes, its variables need {header.size}"
        raise FormatError(message, url=url, remedy="restore the file from a copy")
    return header
