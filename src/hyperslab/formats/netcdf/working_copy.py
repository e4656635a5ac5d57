"""A netCDF file while it is written: the new file under a temporary name, and what it holds so far.

Others see the file whole, when it is closed, or never. netCDF4 and h5py take turns at it: two HDF5 libraries must not
have one file open for writing.
"""

from __future__ import annotations

import mmap
import os
import shutil
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hyperslab.chunks.settings import Settings
from hyperslab.errors import AlreadyExists, Conflict, CorruptChunk, HyperslabError, Invalid, StorageError
from hyperslab.formats.base import Reader
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.format_errors import file_not_found
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.hdf5.types import Place
from hyperslab.formats.netcdf import classic, library
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, Enum, Extension, NumpyDType, Opaque, VlenArray, numpy_dtype, tag_of
from hyperslab.model.paths import is_within, outward
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.atomic_file import copy_bytes
from hyperslab.stores.building import already_exists
from hyperslab.stores.files import open_folder, sync_and_close, sync_folder, write_error
from hyperslab.stores.keys import temporary_name
from hyperslab.stores.locks import hold_folder
from hyperslab.stores.system import ALWAYS, replace_file
from hyperslab.stores.unexpected_files import remove_leftovers

if TYPE_CHECKING:
    import h5py

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
        self._version_at_start: Version | None
        self._version_at_start = find_version(self._target, url) if of is None else of._version_at_start
        if mode == "x" and self._version_at_start is not None:
            raise already_exists(url)
        self._removal = weakref.finalize(self, _remove, self.path, os.getpid())
        self._abandoned: weakref.finalize[..., WorkingCopy] | None = None
        self._dataset: Any = None
        self._hdf5: Any = None
        try:
            self._make(copy=mode == "r+" and of is None)
        except BaseException:
            self.discard()
            raise

    def require_version(self, version: Version | None) -> None:
        """Raise Conflict, without a working copy, where the file is not the version that was read before."""
        if self._version_at_start != version:
            self.discard()
            raise Conflict("the file changed while it was opened", url=self._url, remedy="open it again")

    def renewed(self, model: str) -> WorkingCopy:
        """Return an empty working copy for the same place, to be published in place of this one."""
        return WorkingCopy(self._target, self._url, self._mode, model, self._settings, of=self)

    def _make(self, *, copy: bool) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | ALWAYS, 0o666))
            if copy:
                copy_bytes(self._target, self.path)
                shutil.copymode(self._target, self.path)
                if find_version(self._target, self._url) != self._version_at_start:
                    raise Conflict("the file changed while it was copied", url=self._url)
        except OSError as error:
            if isinstance(error, HyperslabError):
                raise
            if isinstance(error, FileNotFoundError) and copy:
                raise file_not_found(self._url) from None
            raise write_error(error, self._url, os.path.basename(self._target)) from error
        if not copy:
            self._dataset = self._close_when_abandoned(
                library.open_dataset(self.path, "w", self._url, format=self.model)[0]
            )

    def cache_bytes(self, chunk: int) -> int:
        """Return the bytes of decoded chunks that the library may keep of a variable until it encodes and writes them,
        where one takes ``chunk`` bytes: a share of the cache, but room for one chunk if there is a cache.

        By itself it keeps 64 MiB of each until the file is closed (netCDF-C 4.10), also where it is told to keep 0.
        """
        cache = int(self._settings.cache_bytes or 0)
        return max(cache // max(self.variables, 1), min(chunk, cache), 1)

    def netcdf(self) -> Any:
        """Return the library's dataset of the working copy."""
        if self._dataset is None:
            self._close_handles()
            self._dataset = self._close_when_abandoned(library.open_dataset(self.path, "r+", self._url)[0])
        return self._dataset

    def hdf5(self) -> h5py.File:
        """Return h5py's file of the working copy; MissingLibrary without h5py."""
        if self._hdf5 is None:
            module = library.require_h5py("opaque and structured values", self._url)
            self._close_handles()
            self._hdf5 = self._close_when_abandoned(module.File(self.path, "r+"))
        return self._hdf5

    def header(self) -> classic.ClassicHeader:
        """Return the header of a netCDF-3 working copy, which is closed."""
        self._close_handles()
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return classic.parse_header(data)

    def patch(self, pieces: Mapping[int, bytes]) -> None:
        """Write bytes at their places into the working copy, which is closed."""
        with open(self.path, "r+b") as file:
            for start, data in pieces.items():
                file.seek(start)
                file.write(data)

    def _close_when_abandoned(self, handle: object) -> Any:
        """Return the handle, which is closed under the lock once the working copy is abandoned."""
        self._abandoned = weakref.finalize(self, LOCK.close_later, handle)
        self._abandoned.atexit = False
        return handle

    def _close_handles(self) -> None:
        dataset, self._dataset = self._dataset, None
        hdf5, self._hdf5 = self._hdf5, None
        if self._abandoned is not None:
            self._abandoned.detach()
        with library.write_locked(self._url, ""):
            if hdf5 is not None:
                hdf5.close()
            if dataset is not None:
                dataset.close()

    def publish(self) -> None:
        """Make the file complete and durable, then give it its name; Conflict when the old one changed meanwhile."""
        try:
            self._close_handles()
            # On the disk are first the bytes, then the name, then the folder: after a power failure the name is that of
            # the old file or of the new one whole. The folder's lock keeps others from the place between the look at
            # its version and the rename.
            if self._settings.durable:
                sync_and_close(os.open(self.path, os.O_RDWR | ALWAYS))
            with hold_folder(lambda: os.path.dirname(self._target), self._settings.lock_timeout):
                now = find_version(self._target, self._url)
                if self._mode == "x" and now is not None:
                    raise AlreadyExists("another writer made the target meanwhile", url=self._url)
                if self._mode == "r+" and now != self._version_at_start:
                    remedy = "open it again and repeat the changes"
                    raise Conflict("another writer changed the file meanwhile", url=self._url, remedy=remedy)
                replace_file(self.path, self._target)
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
        self._removal.detach()
        remove_leftovers(self._target)

    def discard(self) -> None:
        """Close and remove the working copy; the old file, or nothing, stays."""
        with suppress(HyperslabError):
            self._close_handles()
        self._removal()


def find_version(path: str, url: str) -> Version | None:
    """Return what tells the file at a path from what others put there; None where there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"cannot look at the file: {error.strerror}", url=url) from error
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _remove(path: str, owner: int) -> None:
    """Remove the temporary file, in the process that made it."""
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)


# -- Dimensions and types in scope -------------------------------------------------------------------------------------
# By the rule of netCDF-4: declared in a group, seen in it and below; the nearest one counts.

T = TypeVar("T")


@dataclass
class Declarations(Generic[T]):
    """Dimensions or types that groups declare, in order."""

    items: dict[Place, T] = field(default_factory=dict)

    def find(self, group: str, name: str) -> Place | None:
        """Return where ``name`` is declared, as seen from ``group``."""
        return next(((above, name) for above in outward(group) if (above, name) in self.items), None)

    def of(self, group: str) -> dict[str, T]:
        """Return what this group itself declares."""
        return {name: item for (owner, name), item in self.items.items() if owner == group}

    def forget(self, group: str) -> None:
        """Forget what this group declares."""
        self.items = {place: item for place, item in self.items.items() if place[0] != group}


class Dimensions(Declarations[Dimension]):
    """The dimensions of a file; unlimited ones grow."""

    def find_of(self, group: str, name: str, size: int) -> Place | None:
        """Return where the dimension of an array is declared: the one whose suffix tells it from others, else the
        nearest of this name and length, else the nearest of this name."""
        places = [(above, name) for above in outward(group) if (above, name) in self.items]
        if not places:
            return None
        suffixed = self.find(group, add_suffix(name, size))
        return suffixed or next((place for place in places if self.items[place].size == size), places[0])

    def place_of(self, group: str, name: str, size: int) -> tuple[Place, Dimension | None]:
        """Return where an array in ``group`` finds its dimension, and the new one when it brings it along.

        An unlimited one takes a longer array (and grows) or one of length 0 (which is as long as it is). One of another
        length further out is hidden by a new one; in the same group that is Invalid.
        """
        place = self.find(group, name)
        if place is not None:
            known = self.items[place]
            if known.size == size or (known.unlimited and (known.size < size or not size)):
                return place, None
            if place[0] == group:
                raise Invalid(
                    f"dimension {name!r} has length {known.size} here, not {size}",
                    remedy="arrays of a netCDF file share their dimensions: give it another name",
                )
        return (group, name), Dimension(name, size)


class Types(Declarations[Extension]):
    """The named types of a file."""

    def place_of(self, group: str, name: str, kind: Extension) -> tuple[Place, bool]:
        """Return where an array in ``group`` finds its type, and True if it must be made there first."""
        for above in outward(group):
            for known, other in self.of(above).items():
                if other == kind:
                    return (above, known), False
        if (group, name) in self.items:
            raise Invalid(f"the group has another type named {name!r}", remedy="give the type another name")
        return (group, name), True

    def kind_of(self, group: str, dtype: NumpyDType) -> Extension:
        """Return the type of an attribute's values: the one that they are tagged with; else one of such cells that is
        seen from the group; else a new one, ``attribute_<n>_t``."""
        kind = tag_of(dtype)
        if kind is not None and getattr(kind, "name", None) != "":
            return kind
        for above in outward(group):
            for known in self.of(above).values():
                if isinstance(known, Opaque | Compound) and numpy_dtype(known) == dtype:
                    return known
        number = 1
        while self.find(group, name := f"attribute_{number}_t") is not None:
            number += 1
        if isinstance(kind, Enum | Opaque | VlenArray | Compound):
            return replace(kind, name=name)
        return Opaque(dtype.itemsize, name) if dtype.names is None else Compound(dtype, name)


# -- What the file holds so far ----------------------------------------------------------------------------------------

Spec = GroupSpec | ArraySpec


@dataclass
class Contents:
    """Specs by path; arrays are as long as their dimensions, which belong to the file.

    ``written_lengths``: how far an array was given cells, where that may be less than its dimensions are long.
    ``dimension_places``: where the dimensions of each array are declared. ``with_new_attributes``: the nodes whose
    attributes were written since the file was opened.
    """

    specs: dict[str, Spec] = field(default_factory=lambda: {"": GroupSpec()})
    children: dict[str, list[str]] = field(default_factory=lambda: {"": []})
    dims: Dimensions = field(default_factory=Dimensions)
    types: Types = field(default_factory=Types)
    dimension_places: dict[str, tuple[Place, ...]] = field(default_factory=dict)
    written_lengths: dict[str, tuple[int, ...]] = field(default_factory=dict)
    with_new_attributes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, reader: Reader) -> Contents:
        """Return all that a file holds."""
        found = cls()
        found._load_group(reader, "")
        return found

    def _load_group(self, reader: Reader, path: str) -> None:
        spec = reader.node(path)
        if not spec.is_group:
            raise Invalid("an array stands where a group should", node=path)
        self.specs[path] = spec
        self.children[path] = list(reader.children(path))
        self.dims.items.update({(path, dim.name): dim for dim in spec.dims})
        self.types.items.update({(path, name): kind for name, kind in spec.types.items()})
        for name in self.children[path]:
            child = f"{path}/{name}" if path else name
            node = reader.node(child)
            if not node.is_array:  # netCDF has no links
                self._load_group(reader, child)
                continue
            self.specs[child] = node
            axes = zip(node.dims, node.shape, strict=True)
            found = (self.dims.find_of(path, dim or "", size) for dim, size in axes)
            self.dimension_places[child] = tuple(place for place in found if place is not None)

    def node(self, path: str) -> Spec | None:
        """Return the group or array at ``path`` now: an array grows with its unlimited dimensions, whoever made them
        grow."""
        spec = self.specs.get(path)
        if spec is not None and spec.is_group:
            return replace(spec, dims=tuple(self.dims.of(path).values()), types=self.types.of(path))
        if spec is None or len(self.dimension_places[path]) != len(spec.shape):
            return spec
        return spec.evolve(shape=tuple(self.dims.items[place].size for place in self.dimension_places[path]))

    def array(self, path: str) -> ArraySpec:
        """Return the array at ``path``."""
        spec = self.node(path)
        if spec is None or not spec.is_array:
            raise Invalid("there is no such array", node=path)
        return spec

    def add(self, path: str, spec: Spec) -> None:
        """Add a node as the last one of its group."""
        parent, _, name = path.rpartition("/")
        self.specs[path] = spec
        self.children[parent].append(name)
        if spec.is_group:
            self.children[path] = []

    def rename_array(self, path: str, new: str) -> None:
        """Give an array another name in its group, in which it keeps its place."""

        def with_new_name(known: Mapping[str, T]) -> dict[str, T]:
            return {new if at == path else at: each for at, each in known.items()}

        self.specs = with_new_name(self.specs)
        self.dimension_places = with_new_name(self.dimension_places)
        self.written_lengths = with_new_name(self.written_lengths)
        self.with_new_attributes = {new if at == path else at for at in self.with_new_attributes}
        parent, _, name = path.rpartition("/")
        names = self.children[parent]
        names[names.index(name)] = new.rpartition("/")[2]

    def rename_dimension(self, place: Place, name: str) -> None:
        """Give a dimension another name, and the arrays along it."""
        new = (place[0], name)
        dims = self.dims.items
        self.dims.items = {new if at == place else at: dim for at, dim in dims.items()}
        self.dims.items[new] = replace(dims[place], name=name)
        for path, places in self.dimension_places.items():
            spec = self.specs[path]
            if place in places and spec.is_array:
                self.dimension_places[path] = tuple(new if at == place else at for at in places)
                named = zip(spec.dims, places, strict=True)
                self.specs[path] = spec.evolve(dims=tuple(name if at == place else dim for dim, at in named))

    def remove(self, path: str) -> None:
        """Forget a node with all below it; the root stays, empty."""
        for other in [other for other in self.specs if is_within(other, path)]:
            del self.specs[other]
            if self.children.pop(other, None) is not None:
                self.dims.forget(other)
                self.types.forget(other)
            self.dimension_places.pop(other, None)
            self.written_lengths.pop(other, None)
            self.with_new_attributes.discard(other)
        if path:
            parent, _, name = path.rpartition("/")
            self.children[parent].remove(name)
        else:
            self.specs[""], self.children[""] = GroupSpec(), []
