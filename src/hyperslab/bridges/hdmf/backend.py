"""The backend itself: what hdmf and pynwb call to read, write and export files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import BuildManager, ConstructError, GroupBuilder, TypeMap

from hyperslab import api
from hyperslab.array import Array
from hyperslab.bridges.hdmf import schemas
from hyperslab.bridges.hdmf.builder_reader import BuilderReader
from hyperslab.bridges.hdmf.builder_writer import BuilderWriter
from hyperslab.bridges.hdmf.datasets import widen_indexes
from hyperslab.bridges.hdmf.schemas import CORE, AttributeCasting, manager_for
from hyperslab.bridges.hdmf.write_plan import Pointers, WritePlan, path_of, reference_to, root_of, target_of
from hyperslab.chunks.progress import ProgressCallback, reporting
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats import get_format
from hyperslab.group import Group
from hyperslab.model.refs import ObjectReference
from hyperslab.stores.location import Location, Probe

_MODES = {"r": "r", "r-": "r", "r+": "r+", "a": "a", "w": "w", "w-": "x", "x": "x"}
_FORMAT = "hdmf"
_HDF5 = "netcdf"


class HyperslabIO(HDMFIO):
    """Read and write files of hdmf and pynwb as Zarr datasets of format ``hdmf``.

    ``path``: a path, a URL or a store, as for ``hyperslab.open``. ``mode``: ``r``, ``r+`` (append), ``a``, ``w``, ``x``
    (``w-``); a new file is built beside its place and stands there once it is written whole. ``manager``: a
    BuildManager or TypeMap; without one that of pynwb for its files, else hdmf's, with the schemas that the file keeps
    (``load_namespaces``).

    Of a new file: ``profile`` ``"v2"`` or ``"v3"``; ``object_codec`` ``"json2"`` or ``"pickle"``, which hdmf-zarr up to
    0.13 needs for rows with references (``object_codec_class``: the same by a class of numcodecs, which is never
    called); ``region_attributes``; ``write_doc``: give nodes the schema's words as attribute ``doc``.
    ``allow_external``: where links may lead besides the folder of the file. ``progress``: True for a bar, or a
    function. ``durable``, ``workers``, ``storage_options`` as for ``hyperslab.open``. Links and references that lead
    nowhere are left out when reading, with a warning.
    """

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        manager: BuildManager | TypeMap | None = None,
        *,
        profile: str = "v2",
        object_codec: str | None = None,
        object_codec_class: Any = None,
        region_attributes: bool = False,
        allow_external: Sequence[str] | bool = (),
        write_doc: bool = False,
        load_namespaces: bool = True,
        progress: bool | ProgressCallback | None = None,
        storage_options: Mapping[str, Any] | None = None,
        workers: int | None = None,
        durable: bool = True,
        herd_path: str | None = None,
    ) -> None:
        if mode not in _MODES:
            raise Invalid(f"mode {mode!r}", remedy=f"a mode is one of {', '.join(_MODES)}")
        self._path = path
        self._mode = mode
        self._where = Location.of(path, storage_options)
        self._root: Group | None = None
        self._builders: BuilderReader | None = None
        self._whole: GroupBuilder | None = None
        self._write_doc = write_doc
        self._progress = progress
        self._written_builders = WriteStatusTracker()
        self._opening: dict[str, Any] = {
            "storage_options": storage_options,
            "workers": workers,
            "allow_external": allow_external,
            "durable": durable,
        }
        self._options_for_new = {
            "profile": profile,
            "object_codec": parse_object_codec(object_codec, object_codec_class),
            "region_attributes": region_attributes,
        }
        self._is_new = _MODES[mode] in ("w", "x") or (mode == "a" and not self._where.exists())
        self.open()
        self._has_manager = manager is not None
        session = None if self._root is None else self._root._session
        manager = manager_for(manager, session, load=load_namespaces)
        super().__init__(manager, source=self._where.path or self._where.url, herd_path=herd_path)

    # -- the open file ------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Any:
        """Return the path, URL or store that the file was opened by."""
        return self._path

    @property
    def mode(self) -> str:
        """Return the mode that the file was opened with."""
        return self._mode

    @property
    def root(self) -> Group:
        """Return the open dataset; UnsupportedOperation while there is none."""
        if self._root is None:
            raise UnsupportedOperation(f"{self._where.url} is not open, or was not written yet")
        return self._root

    @property
    def _file(self) -> Group | None:
        """Return the dataset, which ``pynwb.validate`` hands to ``load_namespaces``."""
        return self._root

    def is_open(self) -> bool:
        """Return True if the file is open."""
        return self._root is not None

    @staticmethod
    def can_read(path: Any) -> bool:
        """Return True if a dataset of format ``hdmf`` lies there."""
        with suppress(HyperslabError, OSError, ValueError):
            return get_format(_FORMAT).sniff(Probe(Location.of(path)))
        return False

    def open(self) -> None:
        """Open the file, if it is there and was closed."""
        if self._root is None and not self._is_new:
            mode: Any = "r" if _MODES[self._mode] == "r" else "r+"
            if self._where.is_file() and get_format(_HDF5).sniff(Probe(self._where)):
                remedy = "pynwb.NWBHDF5IO (of hdmf HDF5IO) reads it, and export of HyperslabIO converts what that read"
                raise Invalid("this is an HDF5 file, and no Zarr", url=self._where.url, remedy=remedy)
            self._root = api.open_group(self._path, mode, format=_FORMAT, **self._opening)

    def close(self) -> None:
        """Close the file, and those that its links lead to."""
        root, self._root = getattr(self, "_root", None), None
        if root is not None:
            root.close()

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Return the container of the whole file, without what cannot be made since a link leads nowhere."""
        self._require_readable()
        container = construct(self, lambda: HDMFIO.read(self, **kwargs))
        return widen_indexes(container) if self.root._session.writable else container

    def read_builder(self) -> GroupBuilder:
        """Return the builder of the whole file; the same one each time."""
        self._require_readable()
        if self._whole is None:
            self._whole = self._open_reader().root()
            AttributeCasting(self.manager.namespace_catalog).cast(self._whole)
        return self._whole

    def _require_readable(self) -> None:
        if self._root is None or _MODES[self._mode] in ("w", "x"):
            if _MODES[self._mode] in ("w", "x") or self._is_new:
                why = f"cannot be read in mode {self._mode!r}: open it with mode 'r', 'r+' or 'a'"
            else:
                why = "is closed: open it again"
            raise UnsupportedOperation(f"{self._where.url} {why}")

    def _open_reader(self) -> BuilderReader:
        if self._builders is None:
            self._builders = BuilderReader(self.root, self.source, self.manager, self._written_builders.set_written)
        return self._builders

    @property
    def incomplete(self) -> list[Any]:
        """Return the builders that lack a link, a reference or a node since it cannot be read."""
        return [] if self._builders is None else self._builders.incomplete

    def builder_of(self, array: Array, reference: ObjectReference) -> Any:
        """Return the builder that a reference in an array leads to; BrokenLink where there is nothing."""
        return self._open_reader().builder_of(array, reference)

    def container_of(self, array: Array, reference: ObjectReference) -> Any:
        """Return the container that a reference in an array leads to."""
        return self._open_reader().container_of(array, reference)

    def reference_to(self, container: Any) -> ObjectReference:
        """Return the reference to a container of this file; UnsupportedOperation for one that was not written yet."""
        return reference_to(container, self.manager, self.source)

    def get_written(self, builder: Any) -> bool:
        """Return True if a builder was written, or read, by this object."""
        return bool(self._written_builders.get_written(builder))

    # -- schemas ----------------------------------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: Any,
        path: Any = None,
        namespaces: list[str] | None = None,
        io: Any = None,
        *,
        file: Group | None = None,
        storage_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the schemas that a file keeps (a path, an open ``io`` or its ``file``) into a catalogue or type map."""
        if file is None and io is not None:
            file = io.root
        if file is not None:
            return schemas.load_schemas(namespace_catalog, file._session, namespaces)
        with api.open_group(path, format=_FORMAT, storage_options=storage_options) as root:
            return schemas.load_schemas(namespace_catalog, root._session, namespaces)

    def load_namespaces_io(self, namespace_catalog: Any, namespaces: list[str] | None = None) -> dict[str, Any]:
        """Load the schemas that this file keeps into a catalogue or type map."""
        return schemas.load_schemas(namespace_catalog, self.root._session, namespaces)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, container: Any, *, cache_spec: bool = True, **kwargs: Any) -> None:
        """Write a container, or what was added to one that was read (mode ``r+``).

        ``cache_spec``: keep the schemas in the file. ``link_data``: write links to arrays that are open, rather than
        copies. ``exhaust_dci``: read iterators one after the other, rather than in turns.
        """
        super().write(container=container, cache_spec=cache_spec, **kwargs)

    def write_builder(
        self,
        builder: GroupBuilder,
        *,
        link_data: bool = True,
        exhaust_dci: bool = True,
        export_source: str | None = None,
        cache_spec: bool = False,
        catalogs: Sequence[Any] = (),
    ) -> None:
        """Write a tree of builders, as :meth:`write` does; ``catalogs``: the schemas to keep besides the manager's."""
        if _MODES[self._mode] == "r":
            remedy = "open it with mode 'r+', 'a' or 'w'"
            raise UnsupportedOperation(f"{self._where.url} cannot be written in mode {self._mode!r}: {remedy}")
        pointers = Pointers(self.source, export_source, builder.attributes.get("object_id"))
        plan = WritePlan(pointers, self.get_written, link_data)
        with reporting(self._progress, f"writing {self._where.name}") as report, self._place() as root, root.batch():
            mark = self._written_builders.set_written
            manager = self.manager if self._write_doc else None
            writing = BuilderWriter(root, pointers, mark, manager, report)
            plan.add_tree(builder)
            writing.run(plan, in_turns=not exhaust_dci)
            if cache_spec:
                own = self.manager.namespace_catalog
                names = own.namespaces if self._has_manager else schemas.used_namespaces(own, builder, CORE)
                others = ((catalog, catalog.namespaces) for catalog in catalogs)
                schemas.cache_schemas(root._session, [(own, names), *others])
        for path, wrapper in writing.unfilled:
            wrapper.dataset = self.root[path]

    @contextmanager
    def _place(self) -> Iterator[Group]:
        """Yield the dataset to write into: the open one, or a new one that is at its place when the block ends."""
        if not self._is_new:
            yield self.root
            return
        options = {**self._opening, **self._options_for_new}
        with api.build_dataset(self._path, _FORMAT, overwrite=_MODES[self._mode] == "w", **options) as root:
            yield root
        self._is_new = False
        self.open()

    def export(
        self,
        src_io: HDMFIO,
        container: Any = None,
        write_args: Mapping[str, Any] | None = None,
        *,
        cache_spec: bool = True,
        nwbfile: Any = None,
    ) -> None:
        """Write what another backend has read, of any kind, into this new file.

        ``container`` (``nwbfile``): what to export where it was changed, else all. ``write_args``: arguments of
        :meth:`write_builder`; with ``link_data=False`` nothing is linked to the other file.
        """
        if not self._is_new:
            raise UnsupportedOperation(f"{self._where.url} is no new file: export with mode 'w' or 'x'")
        source = src_io.source
        arguments = {
            **(write_args or {}),
            "export_source": source if source is None or "://" in source else os.path.abspath(source),
            "cache_spec": cache_spec,
            "catalogs": [] if src_io.manager is None else [src_io.manager.namespace_catalog],
        }
        container = nwbfile if container is None else container
        clear = not arguments.get("link_data", True)
        super().export(src_io=src_io, container=container, write_args=arguments, clear_cache=clear)


def parse_object_codec(name: str | None, codec_class: Any) -> str:
    """Return ``json2`` or ``pickle``, also by the class of numcodecs that hdmf-zarr takes: only its id is read."""
    if codec_class is None:
        return name or "json2"
    codec_id = str(getattr(codec_class, "codec_id", ""))
    if codec_id not in ("json2", "pickle") or name not in (None, codec_id):
        remedy = "give numcodecs.JSON or numcodecs.Pickle, or object_codec='json2' or 'pickle'"
        raise Invalid(f"object_codec_class={codec_class!r}", remedy=remedy)
    return codec_id


# -- a file some of whose links lead nowhere: what cannot be made without them is left out ----------------------------


def construct(file: HyperslabIO, read: Callable[[], Any]) -> Any:
    """Construct by `read`, again without a builder that cannot be made since it lacks a link or reference."""
    while True:  # each round leaves out one builder at least, else the error is raised
        try:
            return read()
        except ConstructError as error:
            builder, why = error.args
            if not _leave_out(builder, file.incomplete):
                raise
            message = f"{path_of(builder)} is left out, it lacks what cannot be read: {why}"
            warnings.warn(message, BrokenLinkWarning, stacklevel=3)
            file.manager.clear_cache()


def _leave_out(builder: Any, incomplete: list[Any]) -> bool:
    """Take a builder, and what leads to it, out of the tree, if it or something below it is incomplete."""
    if builder.parent is None or not any(_is_within(each, builder) for each in incomplete):
        return False
    places = list(_places(root_of(builder), builder))
    for holder, names, name in places:
        del names[name]
        if isinstance(holder, GroupBuilder):
            del holder.obj_type[name]
        incomplete.append(holder)
    return bool(places)


def _places(group: Any, wanted: Any) -> Iterator[tuple[Any, dict[str, Any], str]]:
    """Yield where a tree has a builder: the holder, which of its mappings, and the name there."""
    for holder in (group, *group.datasets.values()):
        mappings = [holder.attributes]
        if holder is group:
            mappings += [group.groups, group.datasets, group.links]
        for names in mappings:
            yield from [(holder, names, name) for name, each in names.items() if target_of(each) is wanted]
    for below in group.groups.values():
        if below is not wanted:
            yield from _places(below, wanted)


def _is_within(builder: Any, above: Any) -> bool:
    while builder is not None and builder is not above:
        builder = builder.parent
    return builder is not None
