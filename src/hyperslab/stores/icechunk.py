"""A version of a repository of icechunk as a store of keys, which is changed by commits.

What is read is one snapshot: that of the version that the place means, or the newest of a branch when the store was
opened or last written to. A :meth:`~RepositoryStore.transaction` begins at the newest snapshot of the branch, and its
changes become one commit, or nothing. A write outside of any is a transaction of its own. icechunk's calls are
awaited in zarr-python's event loop, those of many keys in one go.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hyperslab.errors import Conflict, FormatError, Invalid, StorageError, Unsupported
from hyperslab.stores import counting
from hyperslab.stores.base import Buffer, ProcessStore, Share, Stamp, Store, StoreTraits
from hyperslab.stores.building import sync_medium
from hyperslab.stores.credentials import plain_options
from hyperslab.stores.keys import below, check_key, check_prefix, split_names
from hyperslab.stores.ranges import span
from hyperslab.stores.repositories import (
    RepositoryPlace,
    find_branch,
    find_snapshot,
    library,
    reason,
    translate_errors,
)
from hyperslab.stores.repository_expiry import LONGEST_IN_BUCKET
from hyperslab.stores.repository_keys import CHUNK, DOCUMENT, describe_changes, find_written, is_scalar, node_of_key
from hyperslab.stores.requests import IN_FLIGHT
from hyperslab.stores.turns import ChunkLocks, TransactionTurn

if TYPE_CHECKING:
    from icechunk import ForkSession, Session

Result = TypeVar("Result")

# Bytes that are on their way to icechunk at once, where a writer has many chunks: each is copied for it.
_BYTES_IN_FLIGHT = 64 << 20
# Keys of which it is remembered that they have values, and those of which, what wrote them: a bound on memory alone.
_MOST_KNOWN = 100_000
# Times that a commit is tried again because another writer was faster, where what they changed does not clash.
_MOST_REBASES = 100


class RepositoryStore(ProcessStore):
    """The keys of one version; of one that is open for writing of the branch that its place names."""

    def __init__(self, place: RepositoryPlace, *, read_only: bool = False, create: bool = False) -> None:
        self._prepare(place.name, read_only=read_only, is_local=place.folder is not None)
        self._place = place
        self._repository = place.open(create=create)
        self._branch = "" if read_only else find_branch(self._repository, place)
        self._message: str | None = None
        self._metadata: Mapping[str, Any] | None = None
        self._begin()

    def _prepare(self, url: str, *, read_only: bool, is_local: bool) -> None:
        super().__init__(url, read_only=read_only)
        from zarr.core.buffer import default_buffer_prototype
        from zarr.core.sync import sync

        self._sync, self._prototype = sync, default_buffer_prototype()
        self._turn = TransactionTurn()
        self._chunk_locks = ChunkLocks()
        self._counter = count(1)
        # Each request suits a thread where they go over a network; files are read as fast by few.
        concurrency = None if is_local else IN_FLIGHT
        self.traits = StoreTraits(stamped=True, ranges=True, gathers=True, transacts=True, concurrency=concurrency)

    def _begin(self, snapshot: str | None = None) -> None:
        """Go to the newest snapshot of the branch, or to that of the version that is read."""
        repository = self._repository
        if self.read_only:
            snapshot = snapshot or find_snapshot(repository, self._place)
            with translate_errors(self._url):
                self._use(repository.readonly_session(snapshot_id=snapshot))
            return
        with translate_errors(self._url):
            self._use(repository.writable_session(self._branch))

    def _use(self, session: Session) -> None:
        self._session = session
        self._use_store(session)
        self.version = self._snapshot if self.read_only else None
        try:
            self._sync(self._exists("zarr.json"))  # lookup_snapshot reads none from version 2 of icechunk on
        except library().IcechunkError as error:
            message = f"the snapshot {self._snapshot} cannot be read: {reason(error)}"
            remedy = "open another version (at=, hyperslab history), or restore the repository from a copy"
            raise FormatError(message, url=self._url, remedy=remedy) from None

    def _use_store(self, session: Session) -> None:
        """Read and write in a session: that of the store, or a fork of it."""
        self._fork = session
        self._knows_writes = True
        self._store = session.store
        self._snapshot = str(session.snapshot_id)
        self._known: set[str] = set()
        self._written: dict[str, int] = {}
        """By key: which of all writes put or removed it since the session began, or since all keys were changed."""
        self._least_written = 0
        """The write that any other key counts as changed by; 0: by none."""
        self._gone: set[str] = set()
        """Nodes whose documents were removed since, and not put again."""

    @property
    def is_transacting(self) -> bool:
        return self._turn.owner is not None and self._turn.is_shared

    # -- reading ----------------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Result], key: str | None = None, doing: str = "read") -> Result:
        """Return the result of a coroutine, which zarr-python's loop awaits."""
        try:
            with translate_errors(self._url, key, doing=doing):
                result: Result = self._sync(work)
                return result
        finally:
            work.close()

    async def _get(self, key: str, part: Any = None) -> bytes | None:
        try:
            found = await self._store.get(key, self._prototype, part)
        except library().IcechunkError:
            if await self._exists(key):
                raise
            found = None  # a chunk of a node that is not there, or of a group
        if found is not None:
            return bytes(found.to_bytes())
        await self._exists(key)
        return None

    async def _exists(self, key: str) -> bool:
        """Return False for a key without a value. Of a document that is missing because the snapshot cannot be read,
        icechunk's other calls say that it is missing; this one fails."""
        return bool(await self._store.exists(key))

    def _note(self, values: Mapping[str, bytes | None]) -> None:
        """Remember which keys have values."""
        self._remember(key for key, value in values.items() if value is not None)
        if counting.traces:
            counting.count(len(values), read=sum(len(value) for value in values.values() if value is not None))

    def _remember(self, keys: Iterable[str]) -> None:
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known.update(keys)

    def get(self, key: str) -> bytes | None:
        if node_of_key(check_key(key)) is None:
            return None
        value = self._run(self._get(key), key)
        self._note({key: value})
        return value

    def get_many(self, keys: Sequence[str]) -> list[bytes | StorageError | None]:
        """Return the values of the keys, all of them on their way at once; requests fail as a whole."""
        wanted = list(dict.fromkeys(key for key in keys if node_of_key(check_key(key)) is not None))

        async def fetch() -> list[bytes | None]:
            return list(await asyncio.gather(*map(self._get, wanted)))

        found = dict(zip(wanted, self._run(fetch(), wanted[0]), strict=True)) if wanted else {}
        self._note(found)
        return [found.get(key) for key in keys]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes] | None:
        if node_of_key(check_key(key)) is None:
            return None
        from zarr.abc.store import RangeByteRequest

        async def fetch() -> list[bytes] | None:
            size = await self._size(key)
            if size is None:
                return None
            # Of an empty range, and of one from before the first byte, icechunk fails.
            spans = [span(start, stop, size) for start, stop in ranges]
            filled = {each for each in spans if each[0] < each[1]}
            found = await asyncio.gather(*(self._get(key, RangeByteRequest(*each)) for each in filled))
            values = dict(zip(filled, found, strict=True))
            return [values.get(each) or b"" for each in spans]

        parts = self._run(fetch(), key)
        self._note({key: None if parts is None else b"".join(parts)})
        return parts

    async def _size(self, key: str) -> int | None:
        try:
            size = int(await self._store.getsize(key))
        except (KeyError, library().IcechunkError):
            if await self._exists(key):
                raise
            return None
        # Of a chunk that was never written icechunk says the same as of an empty one.
        return size if size or await self._exists(key) else None

    def size(self, key: str) -> int | None:
        return None if node_of_key(check_key(key)) is None else self._run(self._size(key), key)

    def stamp(self, key: str) -> Stamp | None:
        """Return the snapshot that the value is of, and which write changed it since; None when missing."""
        if key not in self._known:
            if node_of_key(check_key(key)) is None or not self._run(self._exists(key), key):
                return None
            self._known.add(key)
        return self._snapshot, self._written.get(key, self._least_written)

    # -- names ------------------------------------------------------------------------------------------------------

    def list(self, prefix: str = "") -> Iterator[str]:
        node, inner = self._node_above(check_prefix(prefix))
        if node is None:
            return iter(())
        start = below(prefix)
        keys = self._run(_collect(self._store.list_prefix(node)), prefix or None, "list")
        return iter(sorted(key for key in keys if not inner or key.startswith(start)))

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        node, inner = self._node_above(check_prefix(prefix))
        if node is None:
            return [], []
        if inner:
            return split_names(self.list(prefix), prefix)
        names = self._run(_collect(self._store.list_dir(prefix)), prefix or None, "list")
        document = self.get(f"{below(prefix)}{DOCUMENT}") if not names or "c" in names else None
        keys = [name for name in names if name == DOCUMENT or (name == "c" and is_scalar(document))]
        return sorted(keys), sorted({*names}.difference(keys))

    def _node_above(self, prefix: str) -> tuple[str | None, bool]:
        """Return the node at a prefix, or the array among whose chunks it is (then True); None where neither is."""
        if not prefix or self.stamp(f"{prefix}/{DOCUMENT}") is not None:
            return prefix, False
        chunk = CHUNK.fullmatch(prefix)
        node = None if chunk is None else chunk["node"] or ""
        if node is not None and self.stamp(f"{below(node)}{DOCUMENT}") is not None:
            return node, True
        return None, False

    # -- writing ----------------------------------------------------------------------------------------------------

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        """Store the value, in the transaction that runs or in one of its own."""
        self.put_many([(key, value)], durable=durable)

    def put_many(self, pairs: Iterable[tuple[str, Buffer]], *, durable: bool = False) -> None:
        """Store all values, many on their way at once."""
        self._require_writable()
        with self._own_transaction():
            waiting: dict[str, bytes] = {}
            nbytes = 0
            for key, value in pairs:
                self._require_key(check_key(key))
                waiting[key] = bytes(value)
                nbytes += len(waiting[key])
                if nbytes > _BYTES_IN_FLIGHT or key.endswith(DOCUMENT):  # a node is there before what it holds
                    self._put(waiting)
                    waiting, nbytes = {}, 0
            self._put(waiting)

    def _put(self, values: Mapping[str, bytes]) -> None:
        if not values:
            return
        buffer = self._prototype.buffer.from_bytes

        async def store() -> None:
            await asyncio.gather(*(self._store.set(key, buffer(value)) for key, value in values.items()))

        self._run(store(), next(iter(values)), "write")
        self._change(values)
        self._gone.difference_update(map(node_of_key, values))
        self._remember(values)
        if counting.traces:
            counting.count(len(values), written=sum(map(len, values.values())))

    def _require_key(self, key: str) -> None:
        if node_of_key(key) is None:
            remedy = "use format zarr3, whose keys these are"
            raise Unsupported("a repository holds the keys of Zarr v3 alone", url=self._url, key=key, remedy=remedy)

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._require_writable(check_key(key))
        with self._own_transaction():
            if self.stamp(key) is not None:
                self._run(self._store.delete(key), key, "remove")
                self._forget([key])

    def delete_prefix(self, prefix: str, *, durable: bool = False) -> None:
        self._require_writable(check_prefix(prefix))
        with self._own_transaction():
            gone = [*self.list(prefix), *([prefix] if prefix and self.stamp(prefix) is not None else [])]
            node, inner = self._node_above(prefix)
            if node is not None and not inner:
                self._run(self._store.delete_dir(prefix), prefix or None, "remove")
            else:
                for key in gone:
                    self._run(self._store.delete(key), key, "remove")
            self._forget(gone)

    def _forget(self, keys: Collection[str]) -> None:
        self._change(keys)
        self._known.difference_update(keys)
        self._gone.update(node_of_key(key) or "" for key in keys if key.endswith(DOCUMENT))

    def _change(self, keys: Collection[str]) -> None:
        """Give keys that were put or removed a new stamp."""
        if len(self._written) > _MOST_KNOWN:
            self._change_all()
        self._written.update(dict.fromkeys(keys, next(self._counter)))

    def _change_all(self) -> None:
        """Give every key a new stamp, where it is not known which ones were changed, or too many to remember."""
        self._knows_writes = False
        self._least_written = next(self._counter)
        self._written.clear()
        self._known.clear()

    def refer(self, node: str, chunks: Iterable[tuple[Sequence[int], str, int, int, str | datetime | None]]) -> None:
        """Have chunks of an array lie in other files: for each its coordinates, the URL of the file, the first byte,
        the number of bytes, and the ETag or time of change of the file. Invalid where the repository does not name
        their place."""
        self._require_writable()
        spec = library().VirtualChunkSpec
        wanted = [
            spec(list(coords), url, offset, size, *_checksum(version)) for coords, url, offset, size, version in chunks
        ]
        with self._own_transaction():
            work = self._store.set_virtual_refs_async(f"/{node}", wanted)
            refused = self._run(work, doing="refer to") if wanted else None
            if refused:
                message = f"{len(refused)} chunks lie where the repository names no place of virtual chunks"
                raise Invalid(message, url=self._url, node=node, remedy="name the place when the repository is made")
            self._change_all()

    # -- transactions -----------------------------------------------------------------------------------------------

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        """Run the block in the transaction that runs, be it of another thread: the threads of one write are such. Else
        in one of its own."""
        try:
            is_part = self._turn.join()
        except StorageError as error:
            raise error.locate(url=self._url) from None
        if is_part:
            try:
                yield
            finally:
                self._turn.leave()
            return
        with self.transaction():
            yield

    @contextmanager
    def transaction(self, timeout: float | None = None, *, shared: bool = False) -> Iterator[None]:
        """Make one commit of what the block writes, if it ends well; else nothing of it is there.

        One that is not ``shared`` holds a repository in the file system from its beginning, so that what it reads is
        the newest; a shared one, which may take long, only to commit. Conflict names the nodes that another writer has
        changed since it began.
        """
        self._require_writable()
        try:
            begins = self._turn.take(shared, timeout)
        except (Conflict, StorageError) as error:
            raise error.locate(url=self._url) from None
        if not begins:
            try:
                yield
            finally:
                self._turn.leave()
            return
        try:
            with ExitStack() as stack:
                stack.enter_context(self._place.unexpired() if shared else self._place.exclusive(timeout))
                began = time.monotonic()
                self._follow()
                if shared:  # other processes may get a part of it, which they can only of one that begins as a fork
                    with translate_errors(self._url):
                        self._use_store(self._session.fork())
                try:
                    yield
                    self._turn.wait_for_parts()
                    if shared:
                        stack.enter_context(self._place.exclusive(timeout))
                    self._require_recent(time.monotonic() - began)
                    self._commit()
                except BaseException:
                    try:
                        self._turn.fail()
                    finally:
                        self._begin()
                        self._least_written = next(self._counter)  # who read meanwhile has cells of what failed
                    raise
        finally:
            self._message = self._metadata = None
            self._turn.end()

    def describe_commit(self, message: str | None, metadata: Mapping[str, Any] | None = None) -> None:
        """Say what the history is to tell of the transaction that runs: without a message, which nodes were written.
        The first who says something is heard."""
        self._message, self._metadata = self._message or message, self._metadata or metadata

    def _require_recent(self, seconds: float) -> None:
        """Refuse to commit to a bucket what ran longer than an expiry leaves what is not committed. Conflict."""
        if self._place.folder is None and seconds > LONGEST_IN_BUCKET.total_seconds():
            message = f"the commit took {seconds / 86400:.1f} days: what it stored may have expired"
            raise Conflict(message, url=self._url, remedy="nothing of it is there: make several commits of it")

    def _follow(self) -> None:
        """Go to the newest snapshot, where another writer has committed."""
        with translate_errors(self._url):
            tip = str(self._repository.lookup_branch(self._branch))
        if tip != self._snapshot:
            self._begin()

    def _commit(self) -> None:
        """Commit what was changed, on top of what others have committed meanwhile; Conflict where that clashes."""
        message, metadata = self._message, self._metadata
        with translate_errors(self._url, doing="commit"):
            written: Iterable[str] = self._written
            gone = self._gone
            if not self._knows_writes and not message:
                written = find_written(self._fork.status())
            if self._fork is not self._session:
                self._session.merge(cast("ForkSession", self._fork))
            if not self._session.has_uncommitted_changes:
                self._begin()
                return
            icechunk = library()
            message = message or describe_changes(written, gone)
            try:
                self._commit_durably(message, metadata)
            except (icechunk.IcechunkError, icechunk.RebaseFailedError) as error:
                if not self._is_on_branch():
                    moved = f"the branch {self._branch} was moved since, or its history has expired"
                    remedy = "nothing of this commit is there: repeat it on top of what the branch is now"
                    raise Conflict(moved, url=self._url, remedy=remedy) from None
                if isinstance(error, icechunk.RebaseFailedError):
                    raise self._clash(error) from None
                raise
        self._begin()

    def _is_on_branch(self) -> bool:
        """Return True if the branch leads to the snapshot that the transaction began at."""
        return any(info.id == self._snapshot for info in self._repository.ancestry(branch=self._branch))

    def _commit_durably(self, message: str, metadata: Mapping[str, Any] | None) -> None:
        """Commit; in a file system so that no power cut takes it back.

        There the snapshot is stored first, then brought to the medium with all that it leads to, and only then does the
        branch lead to it: icechunk flushes nothing itself.
        """
        icechunk = library()
        solver, session = icechunk.ConflictDetector(), self._session
        more = None if metadata is None else dict(metadata)
        folder = self._place.folder
        if folder is None:
            session.commit(message, metadata=more, rebase_with=solver, rebase_tries=_MOST_REBASES)
            return
        tip = self._repository.lookup_branch(self._branch)
        if tip != session.snapshot_id:
            session.rebase(solver)
            tip = session.snapshot_id
        snapshot = session.flush(message, metadata=more)
        sync_medium(folder)
        self._repository.reset_branch(self._branch, snapshot, from_snapshot_id=tip)
        sync_medium(folder)

    def share(self) -> Share | None:
        """Return the transaction that runs, for other processes; None where none runs that is shared. Invalid where
        they would need secrets that only this one has."""
        if not self.is_transacting or self._fork is self._session:
            return None
        options = self._place.options
        if plain_options(options) != options:
            remedy = "leave secrets out, and set them in the environment of every process"
            raise Invalid("secrets are not sent to other processes", url=self._url, remedy=remedy)
        return SharedTransaction(self._url, self._place.folder is not None, pickle.dumps(self._fork))

    def merge(self, changes: Iterable[bytes]) -> None:
        with translate_errors(self._url, doing="merge"):
            for each in changes:
                self._fork.merge(pickle.loads(each))
        self._change_all()

    def _clash(self, error: Any) -> Conflict:
        """Return the error for changes that clash with those of another writer, which names the nodes."""
        nodes = sorted({str(each.path).strip("/") for each in error.conflicts})
        names = ", ".join(f"/{name}" for name in nodes) or reason(error)
        message = f"another writer has committed other changes of {names} since"
        remedy = "nothing of this commit is there: repeat it on top of the other one"
        return Conflict(message, url=self._url, node=nodes[0] if len(nodes) == 1 else None, remedy=remedy)

    # -- locks ------------------------------------------------------------------------------------------------------

    @contextmanager
    def lock_chunks(
        self, folder: str, slots: Sequence[int], timeout: float | None, guard: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Hold chunks against other threads that write through this store; other writers are met when it commits."""
        with self._chunk_locks.hold({(folder, slot) for slot in slots}, timeout):
            yield


@dataclass(frozen=True, slots=True)
class SharedTransaction(Share):
    """A session of icechunk with what was changed in it so far, as icechunk sends it to other processes."""

    url: str
    is_local: bool
    session: bytes

    def open(self) -> Store:
        return _ShareStore(self)


class _ShareStore(RepositoryStore):
    """A part of a transaction of another process."""

    def __init__(self, share: SharedTransaction) -> None:
        self._prepare(share.url, read_only=False, is_local=share.is_local)
        with translate_errors(share.url):
            self._use_store(pickle.loads(share.session))

    @property
    def is_transacting(self) -> bool:
        """Return True: nothing of it is seen before the other process commits."""
        return True

    @contextmanager
    def transaction(self, timeout: float | None = None, *, shared: bool = False) -> Iterator[None]:
        """Run the block: the other process commits."""
        yield

    def share(self) -> Share | None:
        """Return None: what is a part has none."""
        return None

    def changes(self) -> bytes:
        """Return the session."""
        with translate_errors(self._url):
            return pickle.dumps(self._fork)


def _checksum(version: str | datetime | None) -> tuple[str | None, datetime | None]:
    return (version, None) if isinstance(version, str) else (None, version)


async def _collect(names: Any) -> list[str]:
    return [name async for name in names]
