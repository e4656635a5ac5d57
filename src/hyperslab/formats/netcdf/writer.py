"""The Writer of netCDF files: a working copy and what it holds so far; the file is replaced on close."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.errors import (
    AlreadyExists,
    CorruptChunk,
    HyperslabError,
    Invalid,
    Problem,
    StorageError,
    Unsupported,
)
from hyperslab.formats.base import Writer
from hyperslab.formats.format_errors import dataset_closed, node_not_found, require_array
from hyperslab.formats.hdf5.types import Place
from hyperslab.formats.netcdf import data_model, definitions, library
from hyperslab.formats.netcdf.data_model import is_h5py_only, plan_storage
from hyperslab.formats.netcdf.library import LibraryChunks, WorkingChunks, write_cells
from hyperslab.formats.netcdf.reader import NetcdfReader
from hyperslab.formats.netcdf.working_copy import Contents, Spec, WorkingCopy, find_version
from hyperslab.model.attrs import equal
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Compound, tagged, tagged_fields
from hyperslab.model.paths import child, is_within, outward, split
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.unclosed import Unclosed

# -- Unlimited dimensions ----------------------------------------------------------------------------------------------
# They get longer by writing: netCDF then fills every variable that runs along them. Where the library would fill with
# something else than the array's fill value, the cells are written here.

Shape = tuple[int, ...]


def grow(work: WorkingCopy, contents: Contents, path: str, shape: Shape, *, new: bool) -> None:
    """Make the array at ``path`` as long as ``shape`` says; ``new`` when none of its cells exist yet.

    A length of 0 along an unlimited dimension of a new array means: as long as the dimension is.
    """
    known = contents.array(path)
    places = contents.dimension_places[path]
    if new:
        contents.written_lengths[path] = shape
        shape = tuple(size or old for size, old in zip(shape, known.shape, strict=True))
        _fill_new_cells(work, path, known, (0,) * len(shape), known.shape, contents)
    if known.shape == shape:
        return
    for place, old, size in zip(places, known.shape, shape, strict=True):
        if size < old:
            raise Unsupported("an array of a netCDF file cannot shrink", remedy="convert a part of it to a new file")
        if size > old and not contents.dims.items[place].unlimited:
            remedy = "convert to a new file; a dimension that begins with length 0 is made unlimited"
            raise Unsupported(f"dimension {place[1]!r} is not unlimited and cannot grow", remedy=remedy)
    # An array that is made longer itself was written up to there.
    contents.written_lengths[path] = tuple(
        size if size != old else written
        for written, old, size in zip(contents.written_lengths.get(path, known.shape), known.shape, shape, strict=True)
    )
    before = {other: contents.array(other).shape for other in contents.dimension_places}
    for place, size in zip(places, shape, strict=True):
        contents.dims.items[place] = replace(contents.dims.items[place], size=size)
    _write_last_cell(work, path, contents.array(path))
    for other, old_shape in before.items():
        now = contents.array(other)
        if now.shape != old_shape:
            contents.written_lengths.setdefault(other, old_shape)
            _fill_new_cells(work, other, now, old_shape, now.shape, contents)


def _write_last_cell(work: WorkingCopy, path: str, spec: ArraySpec) -> None:
    if 0 in spec.shape:
        return
    variable = definitions.find_variable(work, path, spec)
    if is_h5py_only(spec.dtype):
        variable.resize(spec.shape)
        return
    last = tuple(slice(length - 1, length) for length in spec.shape)
    write_cells(variable, last, spec.filled((1,) * len(last)), spec)


def _fill_new_cells(work: WorkingCopy, path: str, spec: ArraySpec, old: Shape, new: Shape, contents: Contents) -> None:
    """Write the fill value into the cells inside ``new`` and outside ``old``, unless the library does."""
    if is_h5py_only(spec.dtype) and old != new:
        variable = definitions.find_variable(work, path, spec)
        if variable.shape != new:
            variable.resize(new)
    if definitions.library_fills(spec, str(work.model)):
        return
    variable = definitions.find_variable(work, path, spec)
    for extent in _extents_outside(spec, old):
        shape = tuple(part.stop - part.start for part in extent)
        write_cells(variable, extent, spec.filled(shape), spec)


def _extents_outside(spec: ArraySpec, old: Shape) -> list[tuple[slice, ...]]:
    """Return the parts of chunks that cover the cells outside ``old``."""
    if not spec.shape:
        return [()]
    parts = []
    grid = Grid.of(spec.shape, spec.chunks)
    for coords in grid:
        extent = grid.extent(coords)
        for axis, part in enumerate(extent):
            start = max(part.start, old[axis])
            if start < part.stop:
                parts.append((*extent[:axis], slice(start, part.stop), *extent[axis + 1 :]))
            if start == part.start:
                break
    return parts


class NetcdfWriter(Writer):
    """A netCDF file being made (modes ``w``, ``x``) or changed (``r+``); seen by others when it is closed.

    Specs are kept in memory: h5py, which tells char from string, cannot look while the library writes.
    """

    has_omissions = True

    is_written_whole = True

    def __init__(self, path: str, url: str, mode: str, model: str, settings: Settings = DEFAULTS) -> None:
        self._url = url
        self._path = path
        self._model = model
        self._omissions: list[Problem] | None = None if mode == "r+" else []
        self._settings = settings
        self._closed = False
        self._failed = False
        self._needs_rewrite = False
        self._contents = Contents()
        self._nameless: set[Place] = set()
        self._named_bools: set[str] = set()
        unreadable: dict[str, CorruptChunk] = {}
        version = find_version(path, url)
        if mode == "r+":
            reader = NetcdfReader(path, url)
            try:
                if reader.limit is not None:
                    raise reader.limit
                self._model, self._contents = reader.model, Contents.of(reader)
                self._nameless, self._named_bools = reader.made_up_dimensions(), reader.named_bools()
                unreadable = reader.unreadable()
            finally:
                reader.close()
        self._work = WorkingCopy(path, url, mode, data_model.library_model(self._model), settings)
        if mode == "r+":
            self._work.require_version(version)
        self._work.variables = len(self._contents.dimension_places)
        self._work.unreadable = unreadable
        self._unclosed = Unclosed(self, url)
        self._unclosed.changed = mode != "r+"

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """netCDF's name of the data model, such as ``NETCDF4``."""
        return self._model

    def children(self, path: str) -> list[str]:
        """Return the names of the variables and groups right below a group, in the order in which they were made."""
        if path not in self._contents.children:
            self.node(path)
            return []
        return list(self._contents.children[path])

    def node(self, path: str) -> Spec:
        """Return the group or array at ``path``; an array is as long as its unlimited dimensions, which others may have
        made grow."""
        spec = self._contents.node(path)
        if spec is None:
            raise node_not_found(path, self._url)
        return spec

    def chunks(self, path: str) -> WorkingChunks:
        """Return the chunks of the array at ``path``, as slices of the working copy."""
        spec = require_array(path, self.node(path), self._url)
        if spec.problem is not None:
            raise Unsupported(spec.problem, url=self._url, node=path)
        changing, wrote = lambda: self._changing(path), lambda stops: self._wrote(path, stops)
        return WorkingChunks(lambda: self._find(path), spec, self._url, path, changing, wrote)

    def written_length(self, path: str, axis: int) -> int:
        """Return how far the array was given cells along ``axis``, itself: others may have made its dimension
        longer."""
        return self._contents.written_lengths.get(path, self._contents.array(path).shape)[axis]

    def appended(self, path: str, axis: int, stop: int) -> None:
        """Note that the array was lengths cells up to ``stop``, though the chunk that holds them may reach further."""
        lengths = self._contents.written_lengths.get(path, self._contents.array(path).shape)
        self._contents.written_lengths[path] = (*lengths[:axis], stop, *lengths[axis + 1 :])

    def _wrote(self, path: str, stops: tuple[int, ...]) -> None:
        lengths = self._contents.written_lengths.get(path)
        if lengths is not None:
            self._contents.written_lengths[path] = tuple(map(max, lengths, stops))

    def _find(self, path: str) -> object:
        self._check_open()
        if path not in self._contents.dimension_places:
            raise node_not_found(path, self._url)
        return definitions.find_variable(self._work, path, self._contents.array(path))

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self, node: str) -> Iterator[None]:
        """Hold the lock; after a failure of the library nothing will be published."""
        self._check_open()
        self._unclosed.changed = True
        try:
            with library.write_locked(self._url, node):
                yield
        except StorageError:
            self._failed = True
            raise
        except HyperslabError as error:
            raise error.locate(url=self._url, node=node) from error.__cause__

    def _check_open(self) -> None:
        if self._closed:
            raise dataset_closed(self._url)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        """Return a user's wish with named dimensions and typed attributes; Unsupported names what this file cannot
        hold, Invalid a dimension whose name netCDF does not take."""
        self._raise_if_unsupported(spec, None)  # the group knows its name
        for dim in spec.dims:
            if dim is not None and "/" in dim:
                remedy = "a name holds no slash: name the dimension otherwise"
                raise Invalid(f"{dim!r} is no name of a dimension in netCDF", url=self._url, remedy=remedy)
        if not data_model.is_netcdf3(self._model):
            plan_storage(spec, (False,) * len(spec.shape))
        return spec.evolve(
            dims=data_model.to_netcdf_dims(spec, self._model), attrs=data_model.to_netcdf_attrs(spec, self._model)
        )

    def _raise_if_unsupported(self, spec: Spec, node: str | None) -> None:
        problems = data_model.find_problems(spec, node or "", self._model)
        if problems:
            message = "; ".join(problem.message for problem in problems)
            raise Unsupported(message, url=self._url, node=node, remedy="convert the values, or use another format")

    def put(self, path: str, spec: Spec | Link) -> None:
        """Make a node, or change its attributes and the length of its unlimited dimensions.

        Nothing else of a variable can be changed in netCDF: Unsupported.
        """
        if spec.is_link:
            raise Unsupported("format netcdf has no links", url=self._url, node=path)
        if not path and spec.is_array:
            raise Unsupported(
                "a netCDF file is a group, no array can stand in its place",
                remedy="convert the dataset that holds the array, or write the array with get -o",
            )
        self._raise_if_unsupported(spec, path)
        with self._changing(path):
            known = self._contents.specs.get(path)
            if known is not None and type(known) is not type(spec):
                raise Invalid("a group and an array cannot replace one another", remedy="delete the old one first")
            if known is None and self._needs_rewrite:
                self._rewrite()
            if spec.is_group:
                self._put_group(path, spec)
            elif known is None:
                self._make_array(path, spec)
            else:
                self._change_array(path, spec)

    def _put_group(self, path: str, spec: GroupSpec) -> None:
        self._make_groups(path)
        for name, kind in spec.types.items():
            if (path, name) not in self._contents.types.items:
                self._make_type(path, name, data_model.named_type(kind, name))
        for dim in spec.dims:
            known = self._contents.dims.items.get((path, dim.name))
            if known is None:
                self._make_dimension(path, dim)
            elif known.size != dim.size and not known.unlimited:
                raise Invalid(f"dimension {dim.name!r} has length {known.size}, not {dim.size}")
        self._put_attributes(path, data_model.to_netcdf_attrs(spec, self._model))

    def _make_groups(self, path: str) -> None:
        for above in reversed(list(outward(path))):
            found = self._contents.specs.get(above)
            if found is not None and found.is_array:
                raise Invalid(f"/{above} is an array and holds no other nodes")
            if found is None:
                parent, _, name = above.rpartition("/")
                definitions.find_group(self._work.netcdf(), parent).createGroup(name)
                self._contents.add(above, GroupSpec())

    def _make_dimension(self, group: str, dim: Dimension) -> None:
        """Make a dimension. An unlimited one begins with length 0, and one of length 0 can only be unlimited."""
        unlimited = dim.unlimited or not dim.size
        made = Dimension(dim.name, 0 if unlimited else dim.size, unlimited)
        definitions.define_dimension(self._work, group, made)
        self._contents.dims.items[group, dim.name] = made

    def _put_attributes(self, path: str, attrs: dict[str, Any]) -> None:
        """Write attributes: what is equal at the beginning stays, all after it is written anew, in the order of
        ``wanted``."""
        spec = self._contents.specs[path]
        group = path if spec.is_group else path.rpartition("/")[0]
        # Values of user types are tagged with a type of the file; ``types`` says where that lies.
        types: dict[str, Place] = {}
        for name, value in list(attrs.items()):
            if data_model.is_bool_value(value):
                types[name] = definitions.define_bools(self._work)
            elif data_model.is_h5py_only_value(value):
                kind = self._contents.types.kind_of(group, value.dtype)
                types[name] = self._place_of_type(group, kind)
                tagged_value = np.asarray(value, tagged(value.dtype, kind))
                attrs[name] = data_model.to_netcdf_value(tagged_value, self._model)
        kept = 0
        for (old, value), (new, other) in zip(spec.attrs.items(), attrs.items(), strict=False):
            if old != new or not equal(value, other):
                break
            kept += 1
        definitions.remove_attributes(self._work, path, spec, list(spec.attrs)[kept:])
        definitions.set_attributes(self._work, path, spec, dict(list(attrs.items())[kept:]), types)
        if kept < len(attrs):
            self._contents.with_new_attributes.add(path)
        self._contents.specs[path] = replace(spec, attrs=attrs)

    def _check_free(self, group: str, name: str) -> None:
        """Raise Invalid for a name that a type, variable or group has already: in HDF5 they share their names."""
        if (group, name) in self._contents.types.items or child(group, name) in self._contents.specs:
            message = f"a type of the group, or a variable with a type of its own, is called {name!r} already"
            raise Invalid(message, remedy="give another name")

    def _make_array(self, path: str, wish: ArraySpec) -> None:
        group, _, name = path.rpartition("/")
        self._make_groups(group)
        spec = data_model.to_netcdf_spec(wish, name, self._model)
        self._check_free(group, name)
        places = []
        for dim, size in zip(spec.dims, spec.shape, strict=True):
            place, new = self._contents.dims.place_of(group, dim or "", size)
            if new is not None:
                self._make_dimension(group, new)
            places.append(place)
        kind = self._place_of_type(group, spec.dtype) if data_model.type_name(spec.dtype) else None
        unlimited = tuple(self._contents.dims.items[place].unlimited for place in places)
        storage = None if data_model.is_netcdf3(self._model) else plan_storage(spec, unlimited)
        if storage is not None and storage.compressor is not None:
            storage = storage.only_with(partial(library.has_filter, self._work.netcdf()))
        itemsize = spec.numpy_dtype.itemsize
        made = spec.evolve(
            chunks=(storage and storage.chunks) or data_model.virtual_chunks(spec.shape, itemsize),
            codecs=storage.codecs(itemsize) if storage is not None else (),
            layout=({} if storage is not None and storage.chunks is not None else {"contiguous": True})
            | ({data_model.NO_FILL: True} if data_model.is_never_filled(spec) else {}),
        )
        definitions.define_variable(self._work, path, made, tuple(places), kind, storage)
        done = dict(list(spec.attrs.items())[:1]) if definitions.has_leading_fill(spec) else {}
        self._contents.add(path, made.evolve(attrs=done))
        self._contents.dimension_places[path] = tuple(places)
        self._work.variables = len(self._contents.dimension_places)
        self._put_attributes(path, dict(spec.attrs))
        grow(self._work, self._contents, path, spec.shape, new=True)

    def _place_of_type(self, group: str, kind: Any) -> Place:
        name = data_model.type_name(kind)
        place, new = self._contents.types.place_of(group, name, kind)
        if new:
            self._make_type(group, name, kind)
        return place

    def _make_type(self, group: str, name: str, kind: Any) -> None:
        """Make a type of a group, after those of its fields."""
        self._check_free(group, name)
        for _, inner in tagged_fields(kind.base) if isinstance(kind, Compound) else ():
            self._place_of_type(group, inner)
        definitions.define_type(self._work, group, name, kind)
        self._contents.types.items[group, name] = kind

    def _change_array(self, path: str, wish: ArraySpec) -> None:
        known = self._contents.array(path)
        spec = data_model.to_netcdf_spec(wish, path.rpartition("/")[2], self._model)
        if spec.numpy_dtype != known.numpy_dtype or spec.dims != known.dims:
            what = "the type" if spec.dims == known.dims else "the dimensions"
            raise Unsupported(f"netCDF cannot change {what} of a variable", remedy="delete it and make it anew")
        self._put_attributes(path, dict(spec.attrs))
        grow(self._work, self._contents, path, spec.shape, new=False)

    # -- removing and ending ----------------------------------------------------------------------------------------

    def drop(self, path: str) -> None:
        """Remove a node with all below it; before it is published the file is written anew without it."""
        self._check_open()
        if self._contents.node(path) is None:
            raise node_not_found(path, self._url)
        self._raise_if_rewriting_loses(besides=path)
        self._contents.remove(path)
        self._work.unreadable = {at: error for at, error in self._work.unreadable.items() if not is_within(at, path)}
        self._needs_rewrite = True
        self._omissions = [problem for problem in self._find_omissions() if not is_within(problem.node, path)]

    def move(self, source: str, target: str) -> bool:
        """Rename a node with all below it: where the library does it, else by a copy."""
        self._check_open()
        if self._can_rename(source, target):
            with self._changing(source):
                self._check_free(*split(target))
                definitions.rename_variable(self._work, source, split(target)[1])
                self._contents.rename_array(source, target)
            return True
        self._raise_if_rewriting_loses()
        waiting = [(source, target)]
        while waiting:
            old, new = waiting.pop()
            spec = self.node(old)
            self.put(new, spec)
            if spec.is_array:
                self._copy_cells(self._work, old, new, self._contents.array(old))
            below = reversed(self.children(old))
            waiting += [(child(old, name), child(new, name)) for name in below]
        self.drop(source)
        return True

    def _can_rename(self, source: str, target: str) -> bool:
        """Return True for an array that gets another name in its group and stays what it was: of variables in HDF5
        that are called as a dimension, before or then, netCDF-C loses cells."""
        spec = self.node(source)
        if not spec.is_array or split(source)[0] != split(target)[0] or self._needs_rewrite:
            return False
        if definitions.is_out_of_reach(self._work, source, spec):
            return False
        names = {split(source)[1], split(target)[1]}
        return data_model.is_netcdf3(self._model) or not any(name in names for _, name in self._contents.dims.items)

    def rename_dimension(self, group: str, old: str, new: str) -> bool:
        """Give a dimension another name: in netCDF-3 by the library, else the file is written anew before it is
        published, as after a drop."""
        self._check_open()
        if (group, old) not in self._contents.dims.items:
            message = f"dimension {old!r} has several lengths here, so that the file has other names of it"
            raise Unsupported(message, url=self._url, node=group, remedy="convert it, and edit that")
        if (group, new) in self._contents.dims.items:
            raise AlreadyExists(f"there is a dimension {new!r}", url=self._url, node=group, remedy="rename that first")
        if data_model.is_netcdf3(self._model) and not self._needs_rewrite:
            with self._changing(group):
                definitions.rename_dimension(self._work, old, new)
                self._contents.rename_dimension((group, old), new)
            return True
        self._raise_if_rewriting_loses()
        self._contents.rename_dimension((group, old), new)
        self._needs_rewrite = self._unclosed.changed = True
        return True

    def omitted(self, path: str) -> list[Problem]:
        """Return what the file that was opened has at a node, or right below it, and is not shown."""
        problems = [problem for problem in self._find_omissions() if problem.kind != "cells"]  # which the spec tells
        is_shown = {problem.node: self._contents.node(problem.node) is not None for problem in problems}
        return [
            problem
            for problem in problems
            if path == (problem.node if is_shown[problem.node] else split(problem.node)[0])
        ]

    def _find_omissions(self) -> list[Problem]:
        if self._omissions is None:
            reader = NetcdfReader(self._path, self._url)
            try:
                self._omissions = reader.lost_by_rewriting()
            finally:
                reader.close()
        return self._omissions

    def _raise_if_rewriting_loses(self, besides: str | None = None) -> None:
        """Raise an error if the file cannot be written anew, since it holds, outside of the node ``besides``, what is
        not shown or cannot be read."""
        for path, error in self._work.unreadable.items():
            if besides is None or not is_within(path, besides):
                raise error
        lost = [
            problem for problem in self._find_omissions() if besides is None or not is_within(problem.node, besides)
        ]
        if lost:
            message = f"the file would be written anew without what is not shown: {'; '.join(map(str, lost))}"
            remedy = "convert what is shown to a new file (allow_loss=True), or change the file with h5py"
            raise Unsupported(message, url=self._url, node=besides, remedy=remedy)

    def _rewrite(self) -> None:
        """Copy what is left into a new working copy: netCDF itself removes nothing."""
        work, contents = self._work, self._contents
        self._work, self._contents, self._needs_rewrite = work.renewed(work.model), Contents(), False
        try:
            for path in list(contents.specs):
                spec = contents.node(path)
                if spec is not None:
                    self.put(path, spec)
                if spec is not None and spec.is_array:
                    self._copy_cells(work, path, path, spec)
            self._contents.written_lengths = contents.written_lengths
        except BaseException:
            self._failed = True
            raise
        finally:
            work.discard()

    def _copy_cells(self, work: WorkingCopy, path: str, new: str, spec: ArraySpec) -> None:
        source = LibraryChunks(lambda: definitions.find_variable(work, path, spec), spec, self._url, path)
        target = self.chunks(new)
        for part in source.parts():
            cells = np.empty([cut.stop - cut.start for cut in part], spec.numpy_dtype)
            source.take((), part, cells)
            target.give(part, cells)

    def close(self) -> None:
        """Write what is pending and put the file in its place; closing twice is fine. After a failed write the old
        file, or nothing, stays: StorageError."""
        if self._closed:
            return
        try:
            if self._needs_rewrite and not self._failed:
                with self._changing(""):
                    self._rewrite()
            if self._failed:
                message = "a write failed, so nothing was published"
                raise StorageError(message, url=self._url, remedy="repeat the changes")
            for path, spec in self._contents.specs.items():
                if texts := data_model.texts_that_end_with_nul(spec.attrs):
                    with self._changing(path):
                        definitions.write_nuls(self._work, path, spec.is_group, texts)
            if not data_model.is_netcdf3(self._model) and library.h5py() is not None:
                for path in self._contents.with_new_attributes:
                    with self._changing(path):
                        definitions.write_string_shapes(self._work, path, self._contents.specs[path])
            dims = set(self._contents.dims.items) if self._model == data_model.PLAIN else self._nameless
            if dims or self._model == data_model.PLAIN:
                with self._changing(""):
                    along = self._contents.dimension_places
                    definitions.remove_names(self._work, dims, self._named_bools, along)
        except BaseException:
            self.discard()
            raise
        self._closed, self._unclosed.changed = True, False
        self._work.publish()

    def discard(self) -> None:
        """Close without publishing: the old file, or nothing, stays."""
        self._closed, self._unclosed.changed = True, False
        self._work.discard()
