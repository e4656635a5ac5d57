"""Writing a directory: documents are replaced one by one, at once; chunks before the sizes that tell of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource, SourceTraits
from hyperslab.errors import Invalid, NodeNotFound, Unsupported
from hyperslab.formats.base import Writer
from hyperslab.formats.blaze import document
from hyperslab.formats.blaze.dataset import BlazeReader
from hyperslab.formats.blaze.document import (
    ATTRIBUTES,
    DATA,
    LABELS,
    SIZES,
    STORAGE,
    SUPERCHUNKS,
    BlazeOptions,
    ColumnStorage,
    render_documents,
    with_whole_rows,
)
from hyperslab.formats.blaze.folder import ArrayFolder, publish
from hyperslab.formats.format_errors import node_not_found
from hyperslab.formats.metadata_json.attributes import encode_attrs
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.document import Document, LabelledArray, StoredCoordinate, text_not_main
from hyperslab.formats.single_array.draft import SingleArrayDraft, main_array, main_array_or_none
from hyperslab.formats.single_array.reader import (
    CoordinateChunk,
    check_size,
    coordinate_spec,
    may_be_coordinate,
    read_all_cells,
    store_cells,
)
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import VlenString
from hyperslab.model.paths import normalize
from hyperslab.model.refs import Link
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store


class BlazeWriter(BlazeReader, Writer):
    """A dataset open for writing. ``new``: it holds nothing yet; arrays are made as ``options`` say."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        options: BlazeOptions,
        *,
        new: bool = False,
        remembered: Mapping[str, bytes | None] | None = None,
    ) -> None:
        self._local = threading.local()
        self._written = False
        super().__init__(store, settings, remembered)
        self._writable_store = store
        self._options = options
        self._empty = new
        self._has_been_empty = new
        # What no document holds yet: arrays of which it is open whose coordinates they are; the group of no arrays.
        self._waiting = SingleArrayDraft()
        self._unplaced_cells: dict[str, Values] = {}
        self._first_incomplete: int | None = None
        self._closed = False

    def _open_folder(self, root: str, remembered: Mapping[str, bytes | None] | None = None) -> ArrayFolder:
        return ArrayFolder(
            self.store, root, self._settings, remembered, hold=lambda timeout: self._locked(), on_write=self._on_write
        )

    def _on_write(self) -> None:
        self._written = True

    # -- what is there ----------------------------------------------------------------------------------------------

    @property
    def table(self) -> Mapping[str, ArrayFolder] | None:
        """The columns of a table by name; None for an array."""
        return None if self._has_been_empty else super().table

    @property
    def main(self) -> str | None:
        """The name of the array; None for a table, and while there is none."""
        return None if self._empty else super().main

    def _names(self) -> list[str]:
        return [*([] if self._empty else super()._names()), *self._waiting.specs]

    def node(self, path: str) -> GroupSpec | ArraySpec:
        if path in self._waiting.specs:
            return self._waiting.specs[path]
        if not self._empty:
            return super().node(path)
        if path:
            raise node_not_found(path, self.store.url)
        return self._waiting.group

    def refresh(self, path: str) -> None:
        if not self._empty:
            super().refresh(path)

    def chunks(self, path: str) -> ChunkSource:
        if path in self._waiting.specs:
            return self.coordinate_chunks(path, self._waiting.specs[path])
        return super().chunks(path)

    def coordinate_chunks(self, path: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of a coordinate. New ones of a shape that is not put yet are kept until it is."""

        def get() -> Values:
            if path in self._unplaced_cells:
                return self._unplaced_cells[path]
            if path in self._waiting.specs:
                return self._waiting.cells[path]
            return self.labelled.coords[path].cells

        def put(cells: Values) -> None:
            now = self.node(path)
            if now.is_array and now.shape != spec.shape:
                self._unplaced_cells[path] = cells
            elif path in self._waiting.specs:
                self._waiting.cells[path] = cells
            else:
                labelled = self.labelled
                coordinate = StoredCoordinate(labelled.coords[path].spec, cells)
                self._write(replace(labelled, coords={**labelled.coords, path: coordinate}))

        traits = SourceTraits(locks=self.store.traits.locks_nodes)
        return CoordinateChunk(spec, get, put, lambda: self.lock_node(path), traits)

    def chunks_as(self, path: str, spec: ArraySpec) -> ChunkSource:
        if self.table is not None:
            raise _fixed_length_error(path)
        if path == self.main:
            self._check_growth(path, spec)
            return self.folder.source(with_whole_rows(spec), exact=True)
        if path not in self._names():
            raise _field_error(path)
        return self.coordinate_chunks(path, spec)

    def new_array(self, spec: ArraySpec) -> ArraySpec:
        return document.new_array(spec, self._options)

    def auto_chunks(self, shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
        return document.auto_chunks(shape, itemsize, self._options.layout)

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield every problem of the data files, with what mends it; afterwards the sizes are written anew."""
        self._on_write()
        yield from super().find_damage(deep=deep, workers=workers)

    # -- changes ----------------------------------------------------------------------------------------------------

    def put(self, path: str, spec: GroupSpec | ArraySpec | Link) -> None:
        """Make or change the array, a coordinate, or what is said of all.

        Unsupported for groups below, for other lengths but along the first dimension, and for text that is no
        coordinate; Invalid for a second array that is no coordinate.
        """
        path = normalize(path)
        if spec.is_link or "/" in path or (spec.is_group and path):
            if not self._empty and self.table is None and self.folder.field(tuple(path.split("/"))) is not None:
                raise _field_error(path)
            remedy = "use zarr3, or one dataset for each"
            raise Unsupported("format blaze holds one array, no groups and links", node=path, remedy=remedy)
        with self.lock_node(path):
            if self.table is not None:
                self._put_in_table(path, spec)
            elif spec.is_group:
                self._waiting.group = spec
                if not self._empty:
                    self._write(replace(self.labelled, group=spec))
            elif not self._empty and path == self.labelled.name:
                self._put_main(spec)
            elif path in self._names():
                self._put_coordinate(path, spec)
            else:
                self._put_new(path, spec)

    def _put_main(self, spec: ArraySpec) -> None:
        labelled = self.labelled
        self._check_growth(labelled.name, spec)
        if spec.shape and spec.shape[0] > labelled.spec.shape[0]:
            # Superchunks from the last old one on may be missing or short until the dataset is closed.
            storing = ColumnStorage.of(labelled.spec)
            first = labelled.spec.shape[0] // (storing.rows * storing.per)
            self._first_incomplete = first if self._first_incomplete is None else min(self._first_incomplete, first)
        self._write(replace(labelled, spec=with_whole_rows(spec)))

    def _check_growth(self, path: str, spec: ArraySpec) -> None:
        old = self.labelled.spec
        if spec.dtype != old.dtype:
            raise Invalid(f"cells of {spec.dtype} in an array of {old.dtype}", node=path, remedy="make a new array")
        if len(spec.shape) != len(old.shape) or spec.shape[1:] != old.shape[1:]:
            message = f"{old.shape} cannot become {spec.shape}: format blaze grows along the first dimension"
            raise Unsupported(message, node=path, remedy="convert it to zarr3")

    def _put_coordinate(self, path: str, spec: ArraySpec) -> None:
        draft = self._waiting if path in self._waiting.specs else SingleArrayDraft.of(self.labelled)
        draft.put_coordinate(path, coordinate_spec(spec), self._unplaced_cells.pop(path, None))
        if draft is not self._waiting:
            self._write(replace(self.labelled, coords=draft.coords))

    def _draft(self) -> SingleArrayDraft:
        """Return all arrays: those that the documents hold now, which others may have changed, and those that wait."""
        if self._empty:
            return self._waiting.copy()
        draft = SingleArrayDraft.of(self.labelled)
        draft.specs |= self._waiting.specs
        draft.cells |= self._waiting.cells
        return draft

    def _put_new(self, path: str, spec: ArraySpec) -> None:
        """Make an array that was not there: the one, or a coordinate of it."""
        if not self._empty and self.folder.field((path,)) is not None:
            raise _field_error(path)
        draft = self._draft()
        draft.specs[path] = spec
        if self._empty:
            if isinstance(spec.dtype, VlenString):
                self._wait(path, spec)
            elif main_array_or_none(draft.specs) == path:
                self._store_draft(draft, path)
            else:
                self._make(path, spec, {}, draft.group)
            return
        try:
            main = main_array(draft.specs)
        except Invalid:
            stored = self.labelled
            if not self._has_been_empty or not (
                may_be_coordinate(path, spec) or may_be_coordinate(stored.name, stored.spec)
            ):
                raise
            self._wait(path, spec)  # of which array it is a coordinate will be seen
            return
        if main != path:
            check_size(path, spec, "blaze")
            draft.put_coordinate(path, coordinate_spec(spec))
        self._store_draft(draft, main)

    def _wait(self, path: str, spec: ArraySpec) -> None:
        check_size(path, spec, "blaze")
        self._waiting.put_coordinate(path, coordinate_spec(spec))

    def _store_draft(self, draft: SingleArrayDraft, main: str) -> None:
        """Store all arrays of ``draft``: ``main``, which may be another one than before, and its coordinates."""
        if main == self.main:
            self._write(replace(self.labelled, coords=draft.coords))
        else:
            if not self._empty:  # the array that was put first becomes a coordinate
                labelled = self.labelled
                check_size(labelled.name, labelled.spec, "blaze")
                cells = read_all_cells(self.folder.source(labelled.spec), labelled.spec)
                draft.put_coordinate(labelled.name, coordinate_spec(labelled.spec), cells)
            cells_of_main = draft.cells.pop(main, None)
            spec = draft.specs[main]
            # One that waited was planned as a coordinate, which has no chunks and codecs.
            self._make(main, spec if cells_of_main is None else self.new_array(spec), draft.coords, draft.group)
            if cells_of_main is not None:
                store_cells(self.folder.source(self.labelled.spec), cells_of_main)
        self._waiting = SingleArrayDraft(group=self._waiting.group)

    def _make(self, path: str, spec: ArraySpec, coords: Mapping[str, StoredCoordinate], group: GroupSpec) -> None:
        """Write the documents of the one array."""
        if isinstance(spec.dtype, VlenString):
            raise text_not_main("blaze", path)
        if ColumnStorage.of(spec).layout == "bcolz" and not spec.shape:
            raise Unsupported("bcolz holds no arrays without dimensions", node=path, remedy="use layout='blaze'")
        for folder in (DATA, "meta"):  # what a writer left who died before it wrote all documents
            self._writable_store.delete_prefix(folder, durable=self._settings.durable)
        self._first_incomplete = 0
        self._empty = False
        self.folder.take(LabelledArray(path, spec), {})
        self._write(LabelledArray(path, with_whole_rows(spec), coords, group))

    def _put_in_table(self, path: str, spec: GroupSpec | ArraySpec) -> None:
        if spec.is_group:
            doc, _ = encode_attrs(spec.attrs)
            self._put_docs({ATTRIBUTES["bcolz"]: doc}, {})
            return
        folder = self._column(path)
        labelled = folder.labelled
        if spec.shape != labelled.spec.shape:
            raise _fixed_length_error(path)
        self._write(replace(labelled, spec=with_whole_rows(spec)), folder)

    def move(self, source: str, target: str) -> bool:
        """Give the array, or a coordinate, another name."""
        with self.lock_node(source):
            if self.table is not None or "/" in source or "/" in target:
                raise Unsupported("format blaze has no groups and renames no columns", node=source)
            if source in self._waiting.specs:
                self._waiting.rename(source, target)
                return True
            labelled = self.labelled
            if source == labelled.name:
                self._write(replace(labelled, name=target))
            else:
                self.node(source)
                coords = {target if name == source else name: each for name, each in labelled.coords.items()}
                self._write(replace(labelled, coords=coords))
        return True

    def drop(self, path: str) -> None:
        """Remove a coordinate, or the array: then its coordinates wait for another one."""
        path = normalize(path)
        with self.lock_node(path):
            if self.table is not None:
                raise Unsupported("columns of a table of bcolz are not removed", node=path)
            if path in self._waiting.specs:
                self._waiting.drop(path)
            elif not self._empty and path in self.labelled.coords:
                draft = SingleArrayDraft.of(self.labelled)
                draft.drop(path)
                self._write(replace(self.labelled, coords=draft.coords))
            elif not self._empty and path in ("", self.labelled.name):
                if path:
                    self._waiting = self._draft()
                    self._waiting.drop(path)
                for name in (SIZES, STORAGE, SUPERCHUNKS, LABELS, *ATTRIBUTES.values()):
                    self._writable_store.delete(name, durable=self._settings.durable)
                self._writable_store.delete_prefix(DATA, durable=self._settings.durable)
                self._empty = self._has_been_empty = True
                self.folder.forget()
            else:
                self.node(path)

    # -- documents --------------------------------------------------------------------------------------------------

    def _write(self, labelled: LabelledArray, folder: ArrayFolder | None = None) -> None:
        """Store the documents that are other than before; the sizes last."""
        folder = folder or self.folder
        before = folder.docs
        cbytes = before.get(SIZES, {}).get("cbytes", 0)
        docs = render_documents(labelled, cbytes if isinstance(cbytes, int) else 0)
        self._put_docs({folder.key(name): doc for name, doc in docs.items() if before.get(name) != doc}, before)
        folder.take(labelled, {name: doc for name, doc in {**before, **docs}.items() if doc is not None})

    def _put_docs(self, docs: Mapping[str, Document | None], before: Document) -> None:
        publish(self._writable_store, docs, before, durable=self._settings.durable)

    # -- locks, end -------------------------------------------------------------------------------------------------

    @contextmanager
    def lock_node(self, path: str) -> Iterator[None]:
        """Hold all documents against other writers; afterwards reads see the newest."""
        with self._locked():
            if not self._empty:
                self.refresh(path)
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A thread that holds the lock takes it once: a change may make others.
        if getattr(self._local, "depth", 0):
            yield
            return
        store, lock = self._writable_store, self._mutex
        with lock if self._empty or not store.traits.locks_nodes else store.lock_node("", self._settings.lock_timeout):
            self._local.depth = 1
            try:
                yield
            finally:
                self._local.depth = 0

    def close(self) -> None:
        """Complete what is missing in the data, say how much is stored, let go of the store."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._waiting.specs:
                draft = self._draft()
                # A coordinate that is left alone is the array; Invalid for several of which none is one of the others.
                self._store_draft(draft, main_array(draft.specs))
            # What another reader would find missing or short is written before the sizes are.
            if not self._empty and self.table is None and (self._written or self._first_incomplete is not None):
                self._complete()
        finally:
            super().close()

    def _complete(self) -> None:
        with self.lock_node(""), suppress(NodeNotFound):  # another writer may have removed it
            source = self.folder.source(self.labelled.spec, exact=True)
            if self._first_incomplete is not None:
                source.complete(self._first_incomplete)
            cbytes = source.nbytes_stored()
            sizes = self.folder.docs[SIZES]
            if sizes.get("cbytes") != cbytes:
                self._put_docs({SIZES: {**sizes, "cbytes": cbytes}}, {})


def _field_error(path: str) -> Unsupported:
    message = "a field grows, and has attributes, with the array that it is of"
    return Unsupported(message, node=path, remedy="change the array; cells of a field can be written")


def _fixed_length_error(path: str) -> Unsupported:
    return Unsupported("columns of a table of bcolz keep their length", node=path, remedy="make a new table")
