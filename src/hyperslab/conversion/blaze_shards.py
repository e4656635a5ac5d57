"""Split a Blaze directory over several places by superchunk, and join such shards: files are copied as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from os import PathLike

from hyperslab.api import Target
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError, Invalid, Unsupported
from hyperslab.formats import get_format
from hyperslab.formats.blaze.dataset import BlazeReader, cut_labels, join_labels
from hyperslab.formats.blaze.document import ColumnStorage, render_documents
from hyperslab.formats.blaze.folder import ArrayFolder, Columns, publish
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.opening import is_occupied
from hyperslab.formats.single_array.document import LabelledArray
from hyperslab.stores.base import Store
from hyperslab.stores.building import already_exists, building
from hyperslab.stores.location import REMOTE, Location, Several

Files = list[tuple[Store, str, str]]
"""Which keys are copied: the store, the key there, the key in the target."""


def shard(
    url: Target,
    targets: Sequence[Target],
    *,
    storage_options: Mapping[str, object] | None = None,
    workers: int | None = None,
) -> None:
    """Split the Blaze directory at ``url`` into as many as there are ``targets``, by superchunk.

    Each holds some rows and is a dataset of its own; ``open`` of the list reads all as one. Files are copied as they
    are, by ``workers`` threads; ``storage_options`` are for places on servers. AlreadyExists for a target that is
    taken, Invalid when there are fewer superchunks than targets, FormatError when it is no Blaze directory.
    """
    _require_several(targets)
    settings = Settings(workers=workers, cache_bytes=0)
    (source,) = _open_shards([_place(url, storage_options)], settings)
    try:
        labelled = source.labelled
        chunks = source.folder.source(labelled.spec)
        count, places = len(targets), chunks.places
        if not 1 <= count <= max(places, 1) or not labelled.spec.shape:
            remedy = "give fewer targets, or convert it with smaller superchunks"
            raise Invalid(f"{count} shards of {places} superchunks", url=source.store.url, remedy=remedy)
        # Superchunk edges of the targets: as equal as whole superchunks allow, in the order of the rows.
        edges = [number * places // count for number in range(count + 1)]
        storage = ColumnStorage.of(labelled.spec)
        rows = storage.rows * storage.per
        old = _superchunk_columns(source.folder, labelled)
        for target, first, last in zip(targets, edges, edges[1:], strict=False):
            part = cut_labels(labelled, first * rows, min(last * rows, labelled.spec.shape[0]))
            with _new_dataset(_place(target, storage_options)) as store:
                new = _superchunk_columns(ArrayFolder(store, "", settings), part)
                _write_dataset(store, part, _list_files(old, new, range(first, last), -first), settings)
    finally:
        source.close()


def gather(
    urls: Sequence[Target],
    target: Target,
    *,
    storage_options: Mapping[str, object] | None = None,
    workers: int | None = None,
) -> None:
    """Join Blaze directories into one at ``target``: the rows of one after those of the other, in the order given.

    What :func:`shard` has split becomes what it was, without being decoded. AlreadyExists when the target is taken;
    Invalid when the directories do not go on from one another: other cells, other chunks, or superchunks that are not
    full before the last directory.
    """
    _require_several(urls)
    settings = Settings(workers=workers, cache_bytes=0)
    parts = _open_shards([_place(url, storage_options) for url in urls], settings)
    try:
        names = [part.store.url for part in parts]
        labels = [part.labelled for part in parts]
        whole = join_labels(labels, names)
        storing = ColumnStorage.of(whole.spec)
        for label, name in zip(labels, names, strict=True):
            now = ColumnStorage.of(label.spec)
            if (now.per, now.layout) != (storing.per, storing.layout):
                remedy = "open the list, and convert that"
                raise Invalid("superchunks of one shard do not go on in the next", url=name, remedy=remedy)
        with _new_dataset(_place(target, storage_options)) as store:
            new = _superchunk_columns(ArrayFolder(store, "", settings), whole)
            files: Files = []
            done = 0
            for part in parts:
                old = _superchunk_columns(part.folder, part.labelled)
                files += _list_files(old, new, range(old[0].places), done)
                done += old[0].places
            _write_dataset(store, whole, files, settings)
    finally:
        for part in parts:
            part.close()


def _require_several(places: Sequence[Target]) -> None:
    """Raise Invalid for text, whose letters would be places."""
    if isinstance(places, str | PathLike):
        raise Invalid("one place where a list is meant", url=Location.of(places).url, remedy="write [place]")


def _place(target: Target, options: Mapping[str, object] | None) -> Location:
    where = Location.of(target)
    if isinstance(where.target, Several):
        raise Invalid("a list where one place is meant", url=where.url, remedy="gather takes a list")
    return Location.of(target, options) if options and where.scheme in REMOTE else where


def _open_shards(places: Sequence[Location], settings: Settings) -> list[BlazeReader]:
    """Open the directories. Unsupported for those whose superchunks cannot be moved as they are."""
    readers: list[BlazeReader] = []
    try:
        for where in places:
            reader = get_format("blaze").open(where, "r", settings=settings)
            assert isinstance(reader, BlazeReader)
            readers.append(reader)
            if reader.table is not None:
                raise Unsupported("a table of bcolz has no superchunks", url=where.url, remedy="convert its columns")
            if reader.folder.is_uneven:
                remedy = "convert it into a new dataset first"
                raise Unsupported("superchunks of different lengths are not moved", url=where.url, remedy=remedy)
        if not readers:
            raise Invalid("there are no shards", remedy="give their places")
    except BaseException:
        for reader in readers:
            reader.close()
        raise
    return readers


def _superchunk_columns(folder: ArrayFolder, labelled: LabelledArray) -> list[Superchunks]:
    source = folder.source(labelled.spec)
    return [column for _, column in source.columns] if isinstance(source, Columns) else [source]


def _list_files(old: Sequence[Superchunks], new: Sequence[Superchunks], places: range, shift: int) -> Files:
    """Return the superchunks that are there, and what they are called in the target."""
    files: Files = []
    for theirs, ours in zip(old, new, strict=True):
        there = set(theirs.keys.places()[0])
        pairs = ((theirs.keys.key(place), ours.keys.key(place + shift)) for place in places if place in there)
        files += [(theirs.keys.store, key, target) for key, target in pairs]
    return files


def _write_dataset(store: Store, labelled: LabelledArray, files: Files, settings: Settings) -> None:
    """Write the data, then the documents: a reader finds none before its cells are there."""
    # The documents say how many bytes all superchunks are together.
    sizes: list[int] = []

    def copy_file(file: tuple[Store, str, str]) -> None:
        source, key, target = file
        data = source.get(key)
        if data is None:
            remedy = "try again while nobody changes the dataset"
            raise FormatError("a superchunk is gone while it is copied", url=source.url, key=key, remedy=remedy)
        store.put(target, data, durable=settings.durable)
        sizes.append(len(data))

    each_batch(copy_file, files, settings.threads)
    publish(store, render_documents(labelled, sum(sizes)), {}, durable=settings.durable)


@contextmanager
def _new_dataset(where: Location) -> Iterator[Store]:
    """Yield a store for a new dataset, which is in its place, whole, when the block ends, or not there at all."""
    if is_occupied(where):
        raise already_exists(where.url, "choose another, or remove it")
    if where.scheme in ("file", "zip") and where.path is not None:
        with building(where.path, overwrite=where.exists()) as temporary:
            beside = Location.of(temporary if where.scheme == "file" else f"zip://{temporary}")
            store = beside.store(read_only=False, create=True)
            try:
                yield store
            finally:
                store.close()
        return
    store = where.store(read_only=False, create=True)
    try:
        yield store
    except BaseException:
        with suppress(HyperslabError):
            store.delete_prefix("")
        raise
    finally:
        store.close()
