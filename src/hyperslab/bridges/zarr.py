"""A zarr-python store over a store of ours: what zarr or xarray write through it is atomic, durable and confined."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, default_buffer_prototype

from hyperslab.errors import Conflict, NotFound
from hyperslab.stores.location import Location

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import BufferPrototype


class ZarrStore(Store):
    """The store that ``hyperslab.zarr_store`` returns, for every place that hyperslab opens.

    ``url``: a path, a URL or a store of ours; ``read_only``; ``durable``: writes survive a power cut;
    ``storage_options`` as in ``hyperslab.open``. Pickles as its URL and options.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self,
        url: Any,
        *,
        read_only: bool = False,
        durable: bool = True,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(read_only=read_only)
        self._where = url if isinstance(url, Location) else Location.of(url, storage_options)
        self._durable = durable
        try:
            self._store: Any = self._where.store(read_only=self.read_only, create=True)
        except NotFound:  # zarr may open what is not there yet, for reading too
            self._store = self._where.store(read_only=False, create=True)

    @property
    def url(self) -> str:
        return self._where.url

    def with_read_only(self, read_only: bool = False) -> Self:
        """Return a store of the same place, to be changed or not."""
        return type(self)(self._where, read_only=read_only, durable=self._durable)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._where, self.read_only, self._durable)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and (self.url, self.read_only) == (other.url, other.read_only)
            and (self._where.scheme != "store" or self._store is other._store)
        )

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"ZarrStore({self.url!r}{', read_only=True' if self.read_only else ''})"

    def close(self) -> None:
        """Write what is pending (an archive becomes complete now); closing twice is fine."""
        self._store.close()
        super().close()

    # -- values -----------------------------------------------------------------------------------------------------

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value, or a range of it; None when missing."""
        span: tuple[int, int] | None
        match byte_range:
            case None:
                span = None
            case RangeByteRequest(start=start, end=end):
                span = start, end
            case OffsetByteRequest(offset=offset):
                span = offset, 2**62
            case SuffixByteRequest(suffix=suffix):
                span = -suffix, 0
            case _:
                raise TypeError(f"Unexpected byte_range, got {byte_range!r}")
        found = [self._store.get(key)] if span is None else self._store.get_ranges(key, [span])
        data = None if found is None else found[0]
        return None if data is None else (prototype or default_buffer_prototype()).buffer.from_bytes(data)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Store the value: old or new, never torn."""
        self._check_writable()
        self._store.put(key, _bytes(value), durable=self._durable)

    def delete_sync(self, key: str) -> None:
        """Remove the key; missing is fine."""
        self._check_writable()
        self._store.delete(key)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Do :meth:`get_sync` in a thread."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return ranges of several values, fetched at the same time."""
        wanted = [self.get(key, prototype, byte_range) for key, byte_range in key_ranges]
        return list(await asyncio.gather(*wanted))

    async def exists(self, key: str) -> bool:
        """Return True if there is a value."""
        return await asyncio.to_thread(lambda: self._store.size(key) is not None)

    async def set(self, key: str, value: Buffer) -> None:
        """Do :meth:`set_sync` in a thread."""
        await asyncio.to_thread(self.set_sync, key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store the value unless there is one."""
        self._check_writable()
        new = _bytes(value)

        def put_new() -> None:
            if self._store.traits.swaps:
                with suppress(Conflict):
                    self._store.put_if(key, new, None, durable=self._durable)
            elif self._store.size(key) is None:  # an archive has one writer
                self._store.put(key, new, durable=self._durable)

        await asyncio.to_thread(put_new)

    async def delete(self, key: str) -> None:
        """Do :meth:`delete_sync` in a thread."""
        await asyncio.to_thread(self.delete_sync, key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove every key below ``prefix``."""
        self._check_writable()
        await asyncio.to_thread(self._store.delete_prefix, prefix.strip("/"))

    async def getsize(self, key: str) -> int:
        """Return the bytes of a value; FileNotFoundError when missing, as zarr wants it."""
        size = await asyncio.to_thread(self._store.size, key)
        if size is None:
            raise FileNotFoundError(key)
        return int(size)

    # -- names ------------------------------------------------------------------------------------------------------

    async def list(self) -> AsyncIterator[str]:
        for key in await asyncio.to_thread(lambda: [*self._store.list("")]):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield every key that begins with ``prefix``."""
        folder = prefix.rpartition("/")[0]
        for key in await asyncio.to_thread(lambda: [*self._store.list(folder)]):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        keys, folders = await asyncio.to_thread(self._store.list_dir, prefix.rstrip("/"))
        for name in (*keys, *folders):
            yield name


def _reopened(kind: type[ZarrStore], where: Location, read_only: bool, durable: bool) -> ZarrStore:
    return kind(where, read_only=read_only, durable=durable)


def _bytes(value: Buffer) -> bytes:
    if not isinstance(value, Buffer):
        raise TypeError(f"`value` must be a Buffer instance, not {type(value).__name__}")
    return value.to_bytes()
