"""One open dataset, as its groups and arrays share it, and its pickled form."""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4
from weakref import WeakValueDictionary, finalize, ref

from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.settings import Settings
from hyperslab.errors import FormatError, HyperslabError, Invalid, NodeNotFound, ReadOnly, Unsupported
from hyperslab.formats import get_format
from hyperslab.formats.base import Feature, Format, Reader, Writer
from hyperslab.formats.opening import FormatChoice, UserMode, allow_places, choose_format, options_of_format
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp
from hyperslab.stores.credentials import HIDDEN, function_option, plain_options
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.location import Location, Probe

# -- the pickled form of an open dataset -------------------------------------------------------------------------------
# Its place, its options, and the state that was known of it.


class _ThisProcess:
    """This process among all others, and the order of what happens in it. A forked child is another one."""

    name: str
    state_numbers: count[int]

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Take a name that no other process has, as a forked child does."""
        self.name = uuid4().hex
        self.state_numbers = count()


_process = _ThisProcess()


def this_process() -> str:
    """Return a name that no other process has."""
    return _process.name


DatasetState = tuple[str, int]
"""A state of a dataset, as one process knew it: the name of the process, and which of its states it was."""


class DatasetVersion:
    """Which state of a dataset an open one knows at least: ``now``, and by process what it has ``seen`` of others."""

    def __init__(self, seen: Mapping[str, int] | None = None) -> None:
        self.seen = dict(seen or {})
        self.now = (_process.name, next(_process.state_numbers))

    def renew(self) -> None:
        """Note that the dataset was changed or read again: what is pickled from now on is newer."""
        self.now = (_process.name, next(_process.state_numbers))

    def knows(self, state: DatasetState) -> bool:
        """Return True if that state, or a later one, is known."""
        process, number = state
        return self.seen.get(process, -1) >= number


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """How a dataset was opened: enough to open it again, in this process or another one. Secrets are not pickled."""

    where: Location
    format: str
    mode: Literal["r", "r+"]
    settings: Settings
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    process: str = field(default_factory=this_process, compare=False)

    @property
    def lives_here(self) -> bool:
        """Return True if it is in the memory of this process."""
        return self.where.scheme in ("memory", "store")

    def __reduce__(self) -> tuple[object, ...]:
        where = self.where
        options = {name: value for name, value in where.options.items() if name not in function_option(where.options)}
        secret = sorted(name for name in options if plain_options({name: options[name]}) != {name: options[name]})
        if (secret or HIDDEN in where.url) and not function_option(where.options):
            raise Invalid(
                f"secrets ({', '.join(secret) or 'in the URL'}) are not sent to other processes",
                url=where.url,
                remedy="leave them out and set them in the environment of every process, or give "
                "storage_options={'credentials': 'module:function'}, which each process calls for itself",
            )
        return DatasetRef, (where, self.format, self.mode, self.settings, dict(self.options), self.process)

    def check_process(self) -> None:
        """Raise Unsupported for a dataset in the memory of another process."""
        if self.where.scheme == "memory" and self.process != _process.name:
            remedy = "save it under a path or URL that every process reaches"
            raise Unsupported("a dataset in memory is in that of another process", url=self.where.url, remedy=remedy)


call_after_fork(_process.begin)


# -- linked datasets ---------------------------------------------------------------------------------------------------
# Those that links and references lead to: each is opened once, kept, and closed with the first of them.


class LinkedDatasets:
    """Open datasets by their place, shared by a dataset and those that it leads to; several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._first: Callable[[], OpenDataset | None] | None = None
        self._others: dict[str, OpenDataset] = {}

    def get_or_open(self, source: OpenDataset, place: Location, open_place: Callable[[], OpenDataset]) -> OpenDataset:
        """Return the dataset at a place that a link in ``source`` leads to; the first source is where all start."""
        key = _key(place)
        with self._lock:
            if self._first is None:
                self._first = ref(source)
            first = self._first()
            if first is not None and first.origin is not None and _key(first.origin.where) == key:
                return first
            if key not in self._others:
                self._others[key] = open_place()
            return self._others[key]

    def close_after(self, session: OpenDataset) -> None:
        """Close all others if the first one was closed; another one is opened again when it is needed."""
        first = None if self._first is None else self._first()
        if first is not None and first.reader is session.reader:
            self.close()
        else:
            self.keep(session)

    def close(self) -> None:
        """Let go of all that were opened for links."""
        with self._lock:
            others, self._others = self._others, {}
        for other in others.values():
            other.reader.close()

    def keep(self, session: OpenDataset) -> None:
        """Let a dataset go on by itself: it is not closed with the others."""
        with self._lock:
            self._others = {key: other for key, other in self._others.items() if other.reader is not session.reader}


def close_readers(reader: Reader, linked: LinkedDatasets) -> None:
    """Let go of a dataset that was only read, which has nothing to lose, and of those that its links lead to."""
    for each in (reader, linked):
        with suppress(HyperslabError):
            each.close()


def file_stamp(where: Location) -> Stamp | None:
    """Return the version of the file that a dataset is; None where it is none."""
    path = where.path
    if path is None or where.scheme == "reference":
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    # a folder's own time says nothing of what lies deeper
    is_file = where.scheme != "file" or stat.S_ISREG(status.st_mode)
    return (status.st_size, status.st_mtime_ns, status.st_ino) if is_file else None


def _key(place: Location) -> str:
    return place.url if place.path is None else f"{place.scheme}://{os.path.realpath(place.path)}"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OpenDataset:
    """A reader with the settings that its arrays are read and written by.

    ``origin``: how it was opened, which is what is pickled. One that was unpickled is opened when it is first used, and
    not before: messages are read where nothing may fail, or wait, such as in a scheduler. ``shared`` is then what this
    process has open for all that it unpickles, ``pickled_state`` the state of the dataset when it was pickled.
    ``linked``: the other datasets that its links and references lead to, as far as they were followed.
    """

    reader: Reader
    format: Format
    url: str
    writable: bool
    settings: Settings
    cache: BlockCache | None
    origin: DatasetRef | None = None
    version: DatasetVersion = field(default_factory=DatasetVersion)
    shared: OpenDataset | None = None
    pickled_state: DatasetState | None = None
    linked: LinkedDatasets = field(default_factory=LinkedDatasets)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Open a dataset that was unpickled when it is first used."""
            if name not in _OPENED:
                raise AttributeError(f"no attribute {name!r}")
            opened = _REGISTER.get_or_open(self.origin, self.pickled_state, _open_again)
            object.__setattr__(self, "shared", opened)
            for each in _OPENED:
                object.__setattr__(self, each, getattr(opened, each))
            return getattr(opened, name)

    @property
    def is_unopened(self) -> bool:
        """Return True if it was unpickled and not used yet."""
        return self.pickled_state is not None and self.shared is None

    @property
    def has_links(self) -> bool:
        """Return True if a node may be a link."""
        return Feature.LINKS in self.format.features or self.reader.has_links

    @property
    def is_written_whole(self) -> bool:
        """Return True if what is written is there when it is closed, and not before, as in a zip or a netCDF file;
        others can then not write to it, unless it has a place of its own until then.
        """
        zipped = self.origin is not None and self.origin.where.scheme == "zip"
        store = self.reader.store
        return zipped or self.reader.is_written_whole or (store is not None and store.is_transacting)

    @property
    def stored_format(self) -> Format:
        """Return the format that its cells are stored in: that of the pieces where it shows others as one."""
        return self.reader.stored_format or self.format

    @property
    def transacts(self) -> bool:
        """Return True if changes that are made together show together, as in a repository."""
        return self.reader.store is not None and self.reader.store.traits.transacts

    def writer(self) -> Writer:
        """Return the reader as a writer; ReadOnly before anything is touched."""
        if not self.writable:
            raise ReadOnly("the dataset is open read-only", url=self.url, remedy="open it with mode='r+'")
        if not isinstance(self.reader, Writer):
            remedy = "convert it to a format that can, such as zarr3"
            raise Unsupported(f"format {self.format.name} cannot be written", url=self.url, remedy=remedy)
        self.version.renew()
        return self.reader

    def array(self, path: str) -> ArraySpec:
        """Return the spec of the array at ``path``, as the reader has it now; NodeNotFound when it is none any more."""
        spec = self.reader.node(path)
        if not spec.is_array:
            raise NodeNotFound("the array is gone", url=self.url, node=path)
        return spec

    def arrays(self, group: str) -> Iterator[tuple[str, ArraySpec]]:
        """Yield name and spec of the arrays right below a group; damage in one never keeps the others from being
        read."""
        for name in self.reader.children(group):
            try:
                spec = self.reader.node(child(group, name))
            except (FormatError, NodeNotFound, Unsupported):
                continue
            if spec.is_array:
                yield name, spec

    def lock_node(self, path: str) -> AbstractContextManager[None]:
        """Hold a node's documents, where the format can."""
        return self.reader.lock_node(path) if isinstance(self.reader, Writer) else nullcontext()

    def refresh(self, path: str) -> None:
        """Forget what is remembered of a node's documents, where the format remembers."""
        self.version.renew()
        self.reader.refresh(path)

    def stamp(self, path: str) -> object:
        """Return what identifies the present version of a node's documents; None where the format cannot tell."""
        return self.reader.stamp(path)

    def state(self, path: str) -> tuple[Any, ...]:
        """Return what tells the present state of a node from others: its dataset, how that was opened, and its
        versions."""
        origin = self.origin
        fixed = origin is not None and not origin.lives_here and not self.writable
        options = None if origin is None else repr(sorted(plain_options(origin.where.options).items()))
        return self.url, options, self.stamp(path), None if fixed else self.version.now

    def require(self, feature: Feature, what: str) -> None:
        """Raise Unsupported unless the format holds ``feature``."""
        if feature not in self.format.features:
            raise Unsupported(f"format {self.format.name} has no {feature.value}: {what}", url=self.url)

    def add_place(self, error: HyperslabError, node: str) -> HyperslabError:
        """Return the error with this dataset's place."""
        return error.locate(url=self.url, node=node)

    @contextmanager
    def add_place_to_errors(self, node: str | None = None) -> Iterator[None]:
        """Have errors in the block name this dataset's place, and the node's."""
        try:
            yield
        except HyperslabError as error:
            error.locate(url=self.url, node=node)
            raise

    def close(self) -> None:
        """Write what is pending and let go of handles. What is shared is closed when nobody holds it any more."""
        self._end(self.reader.close)

    def discard(self) -> None:
        """Let go of handles without publishing what is pending, where the format can."""
        self._end(self.reader.discard)

    def _end(self, close: Callable[[], None]) -> None:
        if self.pickled_state is None:
            with self.add_place_to_errors():
                close()
            self.linked.close_after(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        if self.origin is None:
            remedy = "open it with hyperslab.open"
            raise Unsupported(
                "a dataset that was not opened by its place cannot be pickled", url=self.url, remedy=remedy
            )
        if self.is_unopened:
            return _restore_session, (self.origin, self.pickled_state, self.settings)
        if self.writable and self.is_written_whole:
            message = "what is written whole when it is closed cannot be written by several processes"
            raise Unsupported(
                message, url=self.url, remedy="close it and open it with mode='r', or write a .zarr folder"
            )
        return _restore_session, (self.origin, self.version.now, self.settings)


def open_session(
    where: Location, mode: UserMode, format: str | None, settings: Settings, options: Mapping[str, object]
) -> OpenDataset:
    """Open the dataset at a place, or make it, and read its root. ``format``: None where it is to be found out.

    An array that lies there is the whole of its dataset. ``options``: those of the format. Errors as for ``open``.
    """
    where = allow_places(where, options)
    session = open_chosen(where, choose_format(where, mode, format), settings, options)
    session.reader.node(session.reader.main or "")
    return session


def open_chosen(
    where: Location,
    choice: FormatChoice,
    settings: Settings,
    options: Mapping[str, object],
    *,
    version: DatasetVersion | None = None,
    linked: LinkedDatasets | None = None,
) -> OpenDataset:
    """Open the dataset at a place in the format and the mode that are chosen.

    ``version`` and ``linked``: those of the dataset, where there are some already.
    """
    chosen, mode, probe = choice
    if options:
        options = options_of_format(chosen, where, options)
    origin = DatasetRef(where, chosen.name, "r" if mode == "r" else "r+", settings, dict(options))
    known = {"remembered": probe} if probe.seen and mode == "r" else {}  # another writer may have come since
    try:
        reader = chosen.open(where, mode, settings=settings, **options, **known)
    except HyperslabError as error:
        raise error.locate(url=where.url) from error.__cause__
    if reader.store is not None and (version_read := reader.store.version) is not None:
        origin = replace(origin, where=replace(where, moment=version_read))  # whoever opens it again reads the same
    return OpenDataset(
        reader,
        reader.variant or chosen,
        where.url,
        mode != "r",
        settings,
        BlockCache(settings.cache_bytes) if settings.cache_bytes else None,
        origin if reader.location is None else replace(origin, where=reader.location),
        version=version or DatasetVersion(),
        linked=linked or LinkedDatasets(),
    )


class Closable:
    """The base of groups and arrays: their place, and ``with``, which closes their dataset in the end."""

    _session: OpenDataset
    _path: str

    @property
    def path(self) -> str:
        """The path in the dataset, without leading slash; empty for the root."""
        return self._path

    @property
    def name(self) -> str:
        """The last part of the path; empty at the root."""
        return self._path.rpartition("/")[2]

    @property
    def url(self) -> str:
        """Where the dataset is, without secrets."""
        return self._session.url

    def close(self) -> None:
        """Write what is pending and let go of handles of the whole dataset; closing twice is fine."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._session.discard()


# -- datasets that were unpickled -----------------------------------------------------------------------------------

# Datasets that stay open though nobody holds them.
_KEPT = 4
_OPENED = ("reader", "format", "cache", "version", "linked")


class _Register:
    """One open dataset per origin; several threads may ask. A forked child starts with an empty one.

    A process opens a dataset once for all that it unpickles of it, as long as the one that it has is no older than what
    was pickled. Of those that nobody holds any more the last few stay open: a task comes, goes, the next one wants the
    same.
    """

    def __init__(self) -> None:
        self._begin()
        call_after_fork(self._begin)

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._gates: WeakValueDictionary[DatasetRef, Any] = WeakValueDictionary()
        self._open: WeakValueDictionary[DatasetRef, OpenDataset] = WeakValueDictionary()
        self._kept: OrderedDict[DatasetRef, OpenDataset] = OrderedDict()

    def get_or_open(
        self, origin: DatasetRef, state: DatasetState, open_again: Callable[[DatasetRef, DatasetVersion], OpenDataset]
    ) -> OpenDataset:
        """Return what is open of this origin, if it knows that state or a later one; else what ``open_again`` opens."""
        # To open a dataset may take long. Each has a lock of its own, so that others need not wait for it, and the lock
        # over all of them is never held meanwhile.
        with self._mutex:
            gate = self._gates.setdefault(origin, threading.Lock())
        with gate:
            found = self._open.get(origin)
            if found is None or not found.version.knows(state):
                version = DatasetVersion(found.version.seen if found is not None else None)
                version.now = state
                version.seen[state[0]] = state[1]
                found = open_again(origin, version)
                self._open[origin] = found
        with self._mutex:
            dropped = [self._kept.pop(origin, None)]  # it is closed when this function ends, when nothing is held
            self._kept[origin] = found
            while len(self._kept) > _KEPT:
                dropped.append(self._kept.popitem(last=False)[1])
        return found


_REGISTER = _Register()


def _restore_session(origin: DatasetRef, state: DatasetState, settings: Settings) -> OpenDataset:
    """Return the dataset that was pickled, to be opened once per process."""
    session = object.__new__(OpenDataset)
    known = {"origin": origin, "pickled_state": state, "settings": settings, "shared": None}
    known |= {"url": origin.where.url, "writable": origin.mode != "r"}
    for name, value in known.items():
        object.__setattr__(session, name, value)
    return session


def _close(reader: Reader, linked: LinkedDatasets, process: str) -> None:
    """Let go of what nobody holds any more; in a forked child it is the parent's."""
    if process == this_process():
        reader.close()
        linked.close()


def _open_again(origin: DatasetRef, version: DatasetVersion) -> OpenDataset:
    origin.check_process()
    choice: FormatChoice = get_format(origin.format), origin.mode, Probe(origin.where)
    linked = LinkedDatasets()
    session = open_chosen(origin.where, choice, origin.settings, origin.options, version=version, linked=linked)
    finalize(version, _close, session.reader, linked, this_process())
    return session
