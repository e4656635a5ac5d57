"""A client of a place that holds collections: it makes, finds and checks them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self
from weakref import WeakSet

from hyperslab.chunks.memory import installed, require
from hyperslab.database.collection import Collection
from hyperslab.database.connection import Connection, OpenCollection, place_of
from hyperslab.errors import (
    ClientError,
    CollectionNotFound,
    FormatError,
    HyperslabError,
    Invalid,
    Problem,
    ReadOnly,
    SchemaError,
    Unsupported,
)
from hyperslab.formats.collections.base import (
    INDEX_KINDS,
    KEEP_VERSIONS,
    VERSION,
    CollectionDocument,
    CollectionStore,
    IndexKind,
    LayoutName,
    complete_document,
    parse_document,
)
from hyperslab.formats.collections.tree import CollectionTreeReader
from hyperslab.integrity.report import Report
from hyperslab.model.amounts import is_whole_number, parse_retention
from hyperslab.model.guessing import nearest
from hyperslab.model.schemas import ArraySchema, HDF5Options, VArraySchema
from hyperslab.model.schemas.arrays import check_collection_name

LOGGER = logging.getLogger("hyperslab.database")


ADAPTER = "HDF5StorageAdapter"


_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")


class StorageSize(NamedTuple):
    """How much something takes where it is stored."""

    bytes: int
    human: str


class Client:
    """The collections of a place: a folder, ``file://``, ``s3://``, ``memory://`` ... It opens when it is made.

    ``with Client(uri) as client:`` closes it; a closed one is opened again by ``with client:``. ``workers``: threads;
    ``write_lock_timeout``: whole seconds that a writer waits for another; ``memory_limit``: bytes, or text such as
    ``"8G"``, that one subset may take (0: what the machine has); ``mode="r"`` makes and changes nothing;
    ``durable=False``: what is written need not survive a power cut. ``loglevel`` is that of ``hyperslab.database``,
    whose warnings name what is passed over. Of an ``executor`` the number of threads is taken, and
    ``write_lock_check_interval`` changes nothing: both are there for DEKER's callers, as is
    ``skip_collection_create_memory_check``, which lets collections of arrays beyond the limit be made. Other keywords
    are kept in ``kwargs``. ``?at=2026-11-01T00:00`` at the end of the place: the collections as they were then, to be
    read, as of ``get_collection(at=...)``. ClientError for arguments that make no sense.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        *,
        executor: Executor | None = None,
        workers: int | None = None,
        write_lock_timeout: int = 60,
        write_lock_check_interval: int = 1,
        loglevel: str = "ERROR",
        memory_limit: int | str = 0,
        skip_collection_create_memory_check: bool = False,
        mode: Literal["r", "a"] = "a",
        storage_options: Mapping[str, Any] | None = None,
        durable: bool = True,
        **kwargs: Any,
    ) -> None:
        _check_counts(workers, write_lock_timeout, write_lock_check_interval)
        if mode not in ("r", "a"):
            raise ClientError(f"mode={mode!r}", remedy='give "r" to read, or "a" to change and make')
        self.memory_limit = parse_memory_limit(memory_limit)
        self._skips_check = bool(skip_collection_create_memory_check)
        _set_level(loglevel)
        # DEKER takes, and keeps, any keyword. One that is nearly one of these is a slip.
        for name in kwargs:
            meant_name = {"at": "at= belongs to get_collection(), or behind ? of the place"}.get(name) or nearest(
                name, _OPTIONS
            )
            if meant_name is not None:
                raise ClientError(f"a client has no option {name!r}", remedy=meant_name)
        self.kwargs = kwargs
        place, moment = place_of(uri)
        if moment is not None and mode != "r":
            remedy = "open it with mode='r', or leave at= out"
            raise ReadOnly("an older state of collections is only read", url=place, remedy=remedy)
        options = {
            "storage_options": storage_options,
            "at": moment,
            "workers": workers or getattr(executor, "_max_workers", None),
            "lock_timeout": float(max(write_lock_timeout, 0)),
            "memory_limit": self.memory_limit if self.memory_limit < parse_memory_limit(0) else None,
            "durable": durable,
        }
        self._connection = Connection(place, mode, self.memory_limit, options)
        self._past_connections = WeakSet[Connection]()
        self._connection.open()

    # -- opening and closing ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of what is open; closing twice is fine. What is used afterwards raises ClientError."""
        for connection in (*self._past_connections, self._connection):
            connection.close()

    def __enter__(self) -> Self:
        if self.is_closed:
            self._connection.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Return True if it can be used."""
        return not self.is_closed

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed."""
        return self._connection.opened is None

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def meta_version(self) -> str:
        """The version of the documents that it writes."""
        return VERSION

    @property
    def url(self) -> str:
        """The place, without secrets."""
        return self._connection.url

    @property
    def root_path(self) -> Path | str:
        """The folder of the collections; a URL where there are no folders."""
        return self._connection.folder

    def _collection_stores(self, name: str | None = None) -> Iterator[CollectionStore]:
        """Yield all collections, or the one that is named; those that are damaged are passed over, with a warning."""
        for found in self._connection.collection_stores(name):
            if isinstance(found, HyperslabError):
                LOGGER.warning("a collection is passed over: %s", found)
            else:
                yield found

    def _of(self, store: CollectionStore) -> Collection:
        return Collection(OpenCollection(self._connection, store.document, (self._connection.session, store)))

    # -- collections ------------------------------------------------------------------------------------------------

    def create_collection(
        self,
        name: str,
        schema: ArraySchema | VArraySchema,
        collection_options: HDF5Options | None = None,
        storage_adapter_type: str | type | None = None,
        *,
        layout: LayoutName = "hyperslab",
        strict: bool = True,
        relative_links: bool = False,
        index: IndexKind | None = None,
        keep_versions: bool | float | timedelta = False,
    ) -> Collection:
        """Make a new collection of arrays that follow ``schema``.

        ``layout``: our own, or DEKER's, whose options are ``collection_options`` and ``relative_links`` (links that
        stay right when the store moves; DEKER's own check wants absolute ones). ``strict=False`` lets datetime
        attributes be None. ``index``: where the index of queries is kept, ``"stored"`` beside the collection, on a
        disk or in a bucket (DEKER's layout: among the caches of each user), ``"memory"`` nowhere; None means stored for
        our own layout, memory for DEKER's. ``keep_versions``: what changes replace and remove is kept for so many
        seconds, or a timedelta (True: for ever), so that the collection can be read as of a moment. SchemaError,
        AlreadyExists, MemoryLimit where one array (or tile) is too large, Unsupported.
        """
        self._connection.require_writable()
        if not isinstance(schema, ArraySchema):
            raise SchemaError(f"{schema!r} is no schema", remedy="give an ArraySchema or a VArraySchema")
        if collection_options is not None and not isinstance(collection_options, HDF5Options):
            raise SchemaError(f"collection_options={collection_options!r}", remedy="give HDF5Options, or None")
        adapter = getattr(storage_adapter_type, "__name__", storage_adapter_type) or ADAPTER
        if adapter != ADAPTER:
            raise Unsupported(f"the storage adapter {adapter!r}", url=self.url, remedy=f"there is {ADAPTER}")
        try:
            document = CollectionDocument(
                check_collection_name(name),
                schema,
                collection_options,
                layout=_layout(layout),
                strict=bool(strict),
                extra=_extra(self.url, layout, relative_links, index, parse_retention(keep_versions)),
            )
        except HyperslabError as error:
            raise error.locate(url=self.url) from error.__cause__
        return self._create(document)

    def _create(self, document: CollectionDocument) -> Collection:
        self._connection.require_writable()
        schema = document.schema
        if not self._skips_check:
            nbytes = schema.tile_nbytes if isinstance(schema, VArraySchema) else schema.nbytes
            require(nbytes, self.memory_limit, f"one array of the collection {document.name!r}")
        if not schema.primary_attributes:
            LOGGER.warning("the collection %r has no primary attributes: its arrays have no key", document.name)
        return self._of(self._connection.create(document))

    def get_collection(self, name: str, *, at: date | str | None = None) -> Collection | None:
        """Return the collection of this name; None when there is none. FormatError when its document is damaged or
        newer.

        ``at``: a moment (a datetime, UTC unless it says otherwise, or ISO text): the collection as it was then, to be
        read, where it was made with ``keep_versions``. Invalid for one that is to come, or too long ago; Unsupported.
        """
        connection = self._connection
        if at is not None:
            connection.require_open()
            if connection.options.get("at") is not None:
                raise Invalid("the client is of a moment already", url=self.url, remedy="leave at= out of one of them")
            options = {**connection.options, "at": at}
            connection = Connection(connection.place, "r", self.memory_limit, options)
            connection.open()
            self._past_connections.add(connection)
        found = connection.find_collection(name)
        if found is None:
            return None
        return Collection(OpenCollection(connection, found.document, (connection.session, found)))

    def collection_from_dict(self, document: Mapping[str, object], *, layout: LayoutName | None = None) -> Collection:
        """Make a new collection of what :attr:`Collection.as_dict` said of another.

        A fill value, attributes, labels, scales and options that are left out are those of a schema without them.
        FormatError lists what is wrong with the document.
        """
        if not isinstance(document, Mapping):
            raise SchemaError(f"{document!r} is no document", remedy="give a mapping such as Collection.as_dict")
        chosen = layout or document.get("layout") or "hyperslab"
        name = check_collection_name(document.get("name"))
        return self._create(parse_document({**complete_document(document), "layout": _layout(chosen)}, name))

    def __iter__(self) -> Iterator[Collection]:
        self._connection.require_open()
        return map(self._of, self._collection_stores())

    def __contains__(self, name: object) -> bool:
        return self._connection.find_collection(name) is not None

    # -- looking after them -----------------------------------------------------------------------------------------

    def check_integrity(
        self,
        level: int = 1,
        stop_on_error: bool = True,
        to_file: bool | str | os.PathLike[str] = False,
        collection: str | None = None,
    ) -> Report:
        """Return the problems of the collections, or of one of them: a list of problems, empty when they are sound.

        Levels: 1 documents of collections, 2 also those of all arrays, 3 also links and keys, 4 also every cell.
        ``stop_on_error``: FormatError at the first problem. ``to_file``: the report as text, in a file of this name or
        (True) of one in the working directory. CollectionNotFound.
        """
        reader = self._connection.reader
        if not is_whole_number(level) or level < 1:
            raise ClientError(f"level={level!r}", remedy="levels are 1 to 4")
        if collection is not None and collection not in reader.collections():
            raise CollectionNotFound(f"no collection {collection!r}", url=self.url)
        problems = _find_problems(reader, level, collection)
        report = Report(islice(problems, 1) if stop_on_error else problems, url=self.url, deep=level >= _CELLS)
        if to_file:
            now = f"integrity_report_{datetime.now(UTC):%Y%m%dT%H%M%SZ}.txt"
            lines = [str(problem) for problem in report] or ["no problems"]
            path = Path(now if isinstance(to_file, bool) else os.fspath(to_file))
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        if stop_on_error and report:
            raise FormatError(report[0].message, problems=report, url=self.url, node=report[0].node)
        return report

    def calculate_storage_size(self, collection_name: str = "") -> StorageSize:
        """Return the bytes that the collections, or one of them, take where they are stored. CollectionNotFound."""
        size = sum(store.nbytes_stored() for store in self._collection_stores(collection_name))
        power = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
        return StorageSize(size, f"{size / 1024**power:.2f} {_UNITS[power]}" if power else f"{size} bytes")

    def clear_locks(self, collection_name: str | None = None) -> None:
        """Remove the lock files that a dead DEKER process left; our own locks die with their process."""
        self._connection.require_writable()
        for store in self._collection_stores(collection_name):
            store.clear_locks()

    def relink(self, collection_name: str | None = None, *, relative: bool | None = None) -> None:
        """Make the links of DEKER's layout lead to where its files are now, after a store was moved or copied."""
        self._connection.require_writable()
        for store in self._collection_stores(collection_name):
            store.relink(relative=relative)

    def __repr__(self) -> str:
        return f"<hyperslab Client of {self._connection.folder}{', closed' if self.is_closed else ''}>"


_OPTIONS = [name for name, each in signature(Client.__init__).parameters.items() if each.kind is Parameter.KEYWORD_ONLY]
"""The names of the options of a client."""


def _check_counts(workers: object, timeout: object, interval: object) -> None:
    for name, value in (("workers", workers), ("write_lock_timeout", timeout), ("write_lock_check_interval", interval)):
        if value is None and name == "workers":
            continue
        if not is_whole_number(value):
            raise ClientError(f"{name}={value!r}", remedy="give a whole number")
        if name == "workers" and value < 1:
            raise ClientError(f"{name}={value!r}", remedy="give a number of threads from 1 on")


def _set_level(name: object) -> None:
    level = logging.getLevelNamesMapping().get(name.upper()) if isinstance(name, str) else None
    if level is None:
        raise ClientError(f"loglevel={name!r}", remedy="give DEBUG, INFO, WARNING, ERROR or CRITICAL")
    LOGGER.setLevel(level)


def _extra(
    url: str, layout: object, relative_links: bool, index: object, keep_versions: float | None
) -> dict[str, object]:
    """Return the keys of a document that one layout alone knows."""
    if keep_versions is not None and layout == "deker":
        remedy = 'choose layout="hyperslab"'
        raise Unsupported("older versions of arrays in DEKER's layout", url=url, remedy=remedy)
    if relative_links and layout != "deker":
        raise Unsupported(f"links in the layout {layout!r}", url=url, remedy='they are those of layout="deker"')
    if index is not None and index not in INDEX_KINDS:
        raise SchemaError(f"index={index!r}", url=url, remedy='give "stored" or "memory", or None')
    chosen: dict[str, object] = {"index": index, KEEP_VERSIONS: keep_versions, "relative_links": relative_links or None}
    return {name: value for name, value in chosen.items() if value is not None}


def _layout(name: object) -> LayoutName:
    match name:
        case "hyperslab" | "deker":
            return name
        case _:
            raise Unsupported(f"layout {name!r}", remedy="there are hyperslab and deker")


# -- limits of memory -------------------------------------------------------------------------------------------------


_LIMIT_TEXT = re.compile(r"\s*(\d+)\s*([kKmMgGtT])\s*")


_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_memory_limit(limit: object) -> int:
    """Return the limit in bytes: as it is where it is above 0 and the machine has so much, else all that the machine
    has."""
    wanted: int | None = None
    match limit:
        case str() if parts := _LIMIT_TEXT.fullmatch(limit):
            wanted = int(parts[1]) * 1024 ** _POWERS[parts[2].lower()]
        case int() if not isinstance(limit, bool):
            wanted = limit
    if wanted is None:
        remedy = 'give bytes, or a number with k, m, g or t, such as "8G"'
        raise ClientError(f"memory_limit={limit!r}", remedy=remedy)
    whole = installed()
    return wanted if 0 < wanted < whole else whole


# -- checks -----------------------------------------------------------------------------------------------------------


# Levels of check_integrity, as DEKER numbers them.
_CELLS = 4


_ARRAYS = 2


def _find_problems(reader: CollectionTreeReader, level: int, collection: str | None) -> Iterator[Problem]:
    """Yield every problem that a check of this level finds, of all collections or of one."""
    names = reader.collections() if collection is None else [collection]
    if level >= _ARRAYS and collection is None:
        found = reader.find_damage(deep=level >= _CELLS, workers=1)
        yield from (finding.problem for finding in found if not finding.is_note)
        return
    for name in names:
        try:
            store = reader.collection_store(name)
        except FormatError as error:
            known = error.problems or [Problem(name, "invalid-document", error.said)]
            yield from (replace(problem, node=problem.node or name) for problem in known)
            continue
        except HyperslabError as error:
            yield Problem(name, "unreadable-node", error.said)
            continue
        if store is None:  # it was removed meanwhile
            continue
        if level < _ARRAYS:
            yield from store.document_problems()
        else:
            yield from (finding.problem for finding in store.find_damage(deep=level >= _CELLS) if not finding.is_note)
