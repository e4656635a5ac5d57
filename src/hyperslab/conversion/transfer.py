"""``copy`` and ``sync``: the objects of a dataset moved as bytes between folders, archives and buckets, never decoded.

What is equal on both sides is not sent: what has one size and one MD5. Buckets tell that in their listing, as the ETag
of what was stored by one request; of files it is computed. Of what tells none the bytes are sent again.

Cells go first, then documents, those of the root last, and what the source does not have is removed at the end: who
opens a new target before that finds none, and a transfer that was broken off is completed by the next one. While a
target that is there is brought up to date its readers see old and new objects.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from hashlib import md5

from hyperslab import api
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.progress import Progress, ProgressCallback, reporting
from hyperslab.errors import AlreadyExists, Conflict, CorruptChunk, Invalid, StorageError, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.formats.opening import check_replaceable, check_room, choose_format, has_keys, is_occupied
from hyperslab.model.amounts import counted, size_text
from hyperslab.stores.base import Buffer, Stamp, Store, Unversioned
from hyperslab.stores.endpoints import Options, two_sides
from hyperslab.stores.files import read_error
from hyperslab.stores.location import Location
from hyperslab.stores.requests import each_request

# Bytes of the objects of one batch, which are in memory together, and their number: a bucket takes 32 requests at once,
# and a folder makes so many files durable by one commit.
_BATCH_BYTES, _BATCH = 64 << 20, 256

# Bytes from which on an object is mapped and not read: by pieces of so many bytes, which are fetched together.
_LARGE, _PIECE = 64 << 20, 8 << 20

# Threads that compute checksums: they wait for the disk, and MD5 leaves the lock of Python.
_THREADS = 8

# Looks at a source whose objects change while they are copied.
_LOOKS = 3

# Names of documents, in any format whose objects lie under keys: without them there is no dataset.
_DOCUMENT = re.compile(r"(^|/)(\.z\w+|\.nc\w+|[^/]*\.json)$")

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_KINDS = "a folder, an archive, a file or a bucket"


@dataclass(frozen=True, slots=True)
class TransferReport:
    """The outcome: ``objects`` of the source with their ``nbytes``; how many were ``sent``, with their bytes; how
    many others were ``removed`` from the target. ``verified``: how many of those that were sent have their checksum
    there, as the target tells or as was computed of what it gives; of the others it told the size."""

    source: str
    target: str
    objects: int
    nbytes: int
    sent: int
    sent_nbytes: int
    removed: int
    verified: int
    seconds: float
    dry_run: bool = False

    def __str__(self) -> str:
        does = ("to send", "to remove") if self.dry_run else ("sent", "removed")
        text = (
            f"{self.source} -> {self.target}: {counted(self.sent, 'object')} of {self.objects} {does[0]} "
            f"({size_text(self.sent_nbytes)} of {size_text(self.nbytes)})"
        )
        if self.removed:
            text += f", {self.removed} {does[1]}"
        return text if self.dry_run else f"{text}, {self.verified} verified by checksum, in {self.seconds:.2f} s"


def copy(
    src: api.Target,
    dst: api.Target,
    *,
    overwrite: bool = False,
    progress: bool | ProgressCallback | None = None,
    storage_options: Options | tuple[Options, Options] = None,
) -> TransferReport:
    """Copy the dataset ``src`` to ``dst`` byte by byte, in the same format, between folders, archives and buckets.

    ``progress``, ``storage_options``: as for ``convert``, which changes the format, the chunks or the codec.
    AlreadyExists unless ``overwrite``, which leaves at ``dst`` what the source has, and nothing else. Unsupported for
    places without objects of their own, such as MongoDB. Conflict for a source that others change meanwhile.
    """
    source, target = two_sides(src, dst, storage_options)
    _check_places(source, target)
    if not overwrite and is_occupied(target):
        raise AlreadyExists(
            "the target is there", url=target.url, remedy="name another place, or give overwrite=True (--overwrite)"
        )
    return _transfer(source, target, progress, "copying", keeps_format=False)


def sync(
    src: api.Target,
    dst: api.Target,
    *,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    storage_options: Options | tuple[Options, Options] = None,
) -> TransferReport:
    """Make ``dst`` the same as the dataset ``src``, byte by byte: send what differs, remove what the source lacks.

    ``dst``: nothing yet, a dataset of the same format, or what a transfer left that was broken off; Invalid for
    anything else. ``dry_run``: only tell what would be done. The rest as for :func:`copy`.
    """
    source, target = two_sides(src, dst, storage_options)
    _check_places(source, target)
    return _transfer(source, target, progress, "syncing", keeps_format=True, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Side:
    """The objects of one place: all of a store, or the one that is a dataset by itself (``name``)."""

    store: Store
    name: str | None

    def scan(self) -> dict[str, tuple[Stamp, int]]:
        """Return stamp and size of each object, by key."""
        if self.name is None:
            return {key: (stamp, size) for key, stamp, size in self.store.scan()}
        stamp, size = self.store.stamp(self.name), self.store.size(self.name)
        return {} if stamp is None or size is None else {self.name: (stamp, size)}


def _transfer(
    source: Location,
    target: Location,
    progress: bool | ProgressCallback | None,
    title: str,
    *,
    keeps_format: bool,
    dry_run: bool = False,
) -> TransferReport:
    began = time.perf_counter()
    with ExitStack() as stack:
        here = _open_source(source)
        there = _open_target(target, here.name, read_only=dry_run)
        for where, side in ((source, here), (target, there)):
            if where.scheme != "store":  # which is the caller's
                stack.callback(side.store.close)
        report = stack.enter_context(reporting(progress, title))
        job = _Transfer(here, there, source, target)
        job.compare()
        if job.surplus:
            _check_target(target, source if keeps_format else None)
        if not dry_run:
            for look in range(_LOOKS):
                job.send(report)
                if not job.look_again():
                    break
                if look == _LOOKS - 1:
                    remedy = "stop its writers, or copy a version of it"
                    raise Conflict("the source changes while it is copied", url=source.url, remedy=remedy)
            job.verify()
            job.remove()
    return TransferReport(
        source=source.url,
        target=target.url,
        objects=len(job.objects),
        nbytes=sum(size for _, size in job.objects.values()),
        sent=len(job.sent) + len(job.differing),
        sent_nbytes=job.sent_nbytes + sum(job.objects[key][1] for key in job.differing),
        removed=len(job.surplus),
        verified=job.verified,
        seconds=time.perf_counter() - began,
        dry_run=dry_run,
    )


def _check_places(source: Location, target: Location) -> None:
    """Raise NotFound or FormatError for a source that is no dataset; Unsupported, Invalid for other places."""
    for where in (source, target):
        if where.scheme in SCHEMES or where.makes_commits or where.scheme == "several":
            remedy = "use convert, which copies from and to any place"
            raise Unsupported(f"objects are copied between places that are {_KINDS} each", url=where.url, remedy=remedy)
    if source.identity == target.identity or _lies_in(source, target) or _lies_in(target, source):
        raise Invalid("one side lies in the other", url=target.url, remedy="name a place beside it")
    choose_format(source, "r", None)


def _check_target(target: Location, source: Location | None) -> None:
    """Raise FormatError unless what has other objects than the source is a dataset, so that what is removed belongs to
    nothing else; Invalid for one of another format than ``source``, if that is given."""
    check_replaceable(target)
    there, *here = (choose_format(where, "r", None)[0].name for where in (target, source) if where is not None)
    if here and here != [there]:
        remedy = "name another target, or copy with overwrite=True (--overwrite)"
        raise Invalid(f"the target is a dataset of {there}, the source one of {here[0]}", url=target.url, remedy=remedy)


def _lies_in(one: Location, other: Location) -> bool:
    if one.path is not None and other.path is not None:  # an archive lies in a folder, too
        inner, outer = (os.path.join(os.path.realpath(path), "") for path in (one.path, other.path))
        return inner.startswith(outer)
    inner, outer = (f"{where.url.rstrip('/')}/" for where in (one, other))
    return inner.startswith(outer) and one.scheme == other.scheme


def _open_source(where: Location) -> _Side:
    if where.scheme == "reference":  # the references, and not what they lead to
        where = replace(where, scheme="file", target=where.path)
    above = where.above()
    if above is not None and (where.is_file() or where.remote_file() is not None):
        return _Side(above.store(read_only=True), where.name)
    if where.scheme == "file" and where.path is not None:
        _refuse_links(where.path, where.url)
    return _Side(where.store(read_only=True), None)


def _open_target(where: Location, name: str | None, *, read_only: bool) -> _Side:
    if name is None:
        check_room(where)
        if where.is_file():
            raise Invalid("the target is a file", url=where.url, remedy="name a folder, an archive or a bucket")
        if where.remote_file() is not None:
            raise Invalid("the target is an object", url=where.url, remedy="name another place, or remove it")
        if read_only and not is_occupied(where):
            return _Side(_EmptyStore(where.url), None)
        return _Side(where.store(read_only=read_only, create=True), None)
    above = where.above()
    is_folder = has_keys(where.store(read_only=True)) if where.path is None else os.path.isdir(where.path)
    if above is None or is_folder:
        raise Invalid("the source is one file", url=where.url, remedy=f"name a file, such as {where.url}/{name}")
    return _Side(above.store(read_only=read_only, create=not read_only), where.name)


class _EmptyStore(Store):
    """A place where nothing is yet, to be compared with."""

    def get(self, key: str) -> bytes | None:
        return None

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(())


def _refuse_links(path: str, url: str) -> None:
    """Raise Unsupported for a folder with links, which in DEKER's layout are part of a dataset, and no objects."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(folder, name)):
                remedy = "use convert, or copy the folder by a program of the system"
                raise Unsupported("the dataset has links between its files", url=url, key=name, remedy=remedy)


class _Transfer:
    """``objects`` of the source; ``differing``: keys that are to be sent; ``surplus``: keys of the target that are to
    be removed; ``sent``: the MD5 of each that was; ``verified``: how many of them have it at the target."""

    def __init__(self, here: _Side, there: _Side, source: Location, target: Location) -> None:
        self._here, self._there = here, there
        self._source, self._target = source, target
        self.objects = here.scan()
        self.differing: list[str] = []
        self.surplus: list[str] = []
        self.sent: dict[str, str] = {}
        self.sent_nbytes = 0
        self.verified = 0

    def _name_there(self, key: str) -> str:
        return self._there.name or key

    def compare(self) -> None:
        """Find out what is to be sent and what is to be removed."""
        there = self._there.scan()
        alike = []
        for key, (stamp, size) in self.objects.items():
            found = there.pop(self._name_there(key), None)
            if found is not None and found[1] == size:
                alike.append((key, stamp, found[0], size))
            else:
                self.differing.append(key)
        changed: list[str] = []

        def look(each: tuple[str, Stamp, Stamp, int]) -> None:
            key, stamp, other, size = each
            mine = _checksum(self._here.store, key, stamp, size)
            if mine is None or mine != _checksum(self._there.store, self._name_there(key), other, size):
                changed.append(key)

        each_if_many(look, alike, _THREADS)
        self.differing = sorted([*self.differing, *changed], key=_order)
        self.surplus = sorted(there)

    def send(self, report: ProgressCallback) -> None:
        """Send what differs, cells first."""
        began = time.perf_counter()
        total = sum(self.objects[key][1] for key in self.differing)
        now = Progress(0, total, 0, len(self.differing))
        report(now)
        for batch in self._batches(self.differing):
            values = self._read(batch)
            if self._there.store.traits.concurrency is None:
                pairs = [(self._name_there(key), value) for key, value in values.items()]
                self._there.store.put_many(pairs, durable=True)
            else:
                put = partial(self._there.store.put, durable=True)
                each_request([partial(put, self._name_there(key), value) for key, value in values.items()])
            nbytes = sum(len(memoryview(value)) for value in values.values())
            each_if_many(lambda each: self.sent.update({each[0]: _md5(each[1])}), list(values.items()), _THREADS)
            self.sent_nbytes += nbytes
            now = now.advanced(nbytes, len(batch), time.perf_counter() - began)
            report(now)
        self.differing = []

    def _batches(self, keys: Sequence[str]) -> Iterator[list[str]]:
        """Yield keys of cells and then of documents, never both in one: the latter are to be seen later."""
        batch: list[str] = []
        nbytes = 0
        for key in keys:
            size = self.objects[key][1]
            if batch and (nbytes + size > _BATCH_BYTES or len(batch) == _BATCH or _order(key) != _order(batch[0])):
                yield batch
                batch, nbytes = [], 0
            batch.append(key)
            nbytes += size
        if batch:
            yield batch

    def _read(self, keys: Sequence[str]) -> dict[str, Buffer]:
        store = self._here.store
        small = [key for key in keys if self.objects[key][1] < _LARGE]
        values: dict[str, Buffer] = {}
        for key, value in zip(small, store.get_many(small), strict=True):
            if isinstance(value, Exception):
                raise value
            if value is not None:  # what is gone meanwhile is found by the next look
                values[key] = value
        for key in keys:
            if self.objects[key][1] >= _LARGE:
                values[key] = _map_large(store, key, self.objects[key][1])
        return values

    def look_again(self) -> bool:
        """Look at the source once more; return True if something is to be sent again."""
        before, self.objects = self.objects, self._here.scan()
        changed = (key for key, found in self.objects.items() if not _is_same(before.get(key), found))
        self.differing = sorted(changed, key=_order)
        gone = [self._name_there(key) for key in before.keys() - self.objects.keys()]
        self.surplus = sorted({*self.surplus, *gone} - {self._name_there(key) for key in self.objects})
        return bool(self.differing)

    def verify(self) -> None:
        """Compare what the target tells of each object that was sent; CorruptChunk."""
        there = self._there.scan() if self.sent else {}
        stamped = [(key, there.get(self._name_there(key))) for key in self.sent if key in self.objects]

        summed: list[str] = []

        def look(each: tuple[str, tuple[Stamp, int] | None]) -> None:
            key, found = each
            store, name, size = self._there.store, self._name_there(key), self.objects[key][1]
            if found is not None and found[1] == size:
                checksum = _checksum(store, name, found[0], size)
                if checksum not in (None, self.sent[key]):  # or an ETag that looks like one, of what is encrypted
                    checksum = _read_checksum(store, name, size)
                if checksum is None:
                    return
                if checksum == self.sent[key]:
                    summed.append(key)
                    return
            remedy = "run it again; if that does not help the target's disk or server changes what it stores"
            message = "the target does not give back what was sent"
            raise CorruptChunk(message, url=self._target.url, key=name, remedy=remedy)

        each_if_many(look, stamped, _THREADS)
        self.verified = len(summed)

    def remove(self) -> None:
        """Remove what the source does not have."""
        delete = partial(self._there.store.delete, durable=True)
        if self._there.store.traits.concurrency is not None and self.surplus:
            each_request([partial(delete, key) for key in self.surplus])
            return
        for key in self.surplus:
            delete(key)


def _is_same(before: tuple[Stamp, int] | None, now: tuple[Stamp, int]) -> bool:
    """Return True for one version of an object; where its store tells none, for one size."""
    return before == now or (before is not None and isinstance(now[0], Unversioned) and before[1] == now[1])


def _order(key: str) -> tuple[bool, int]:
    """Return what cells have less of than documents, and those less than documents of groups above."""
    is_document = _DOCUMENT.search(key) is not None
    return is_document, -key.count("/") if is_document else 0


def _checksum(store: Store, key: str, stamp: Stamp, size: int) -> str | None:
    """Return the MD5 of an object: as a bucket tells it; computed of a file; None where it would have to be fetched."""
    if store.traits.concurrency is None:
        return _read_checksum(store, key, size)
    tag = stamp[0] if isinstance(stamp, tuple) else stamp
    found = _MD5.fullmatch(tag) if isinstance(tag, str) else None
    return None if found is None else found[1]


def _read_checksum(store: Store, key: str, size: int) -> str:
    if size < _LARGE:
        return _md5(store.get(key) or b"")
    found = md5(usedforsecurity=False)
    for piece in _pieces(store, key, size):
        found.update(piece)
    return found.hexdigest()


def _md5(value: Buffer) -> str:
    return md5(value, usedforsecurity=False).hexdigest()


def _pieces(store: Store, key: str, size: int) -> Iterator[bytes]:
    """Yield the bytes of a large object, a few pieces being fetched together."""
    for start in range(0, size, 4 * _PIECE):
        ranges = [(first, min(first + _PIECE, size)) for first in range(start, min(start + 4 * _PIECE, size), _PIECE)]
        parts = store.get_ranges(key, ranges)
        if parts is None or any(len(part) != stop - first for part, (first, stop) in zip(parts, ranges, strict=True)):
            raise Conflict("the object changes while it is read", url=store.url, key=key, remedy="run it again")
        yield from parts


def _map_large(store: Store, key: str, size: int) -> Buffer:
    """Return the bytes of a large object in pages of a file without a name, which nobody else can shorten."""
    try:
        with tempfile.TemporaryFile() as file:
            for piece in _pieces(store, key, size):
                file.write(piece)
            file.flush()
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
    except StorageError:
        raise
    except OSError as error:
        raise read_error(error, tempfile.gettempdir(), key) from error
