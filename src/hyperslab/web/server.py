"""The server: one thread with an event loop for the connections, a pool of threads that read.

It listens at this machine alone unless another host is named, and everybody needs its token.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from hyperslab import api
from hyperslab.bridges.extras import library
from hyperslab.stores.location import Location
from hyperslab.web.places import ServedPlace, name_places
from hyperslab.web.zarr_view import EncodedChunks

if TYPE_CHECKING:
    from hyperslab.web.application import Application
    from hyperslab.web.connections import HttpListener
    from hyperslab.web.guard import Limits

# Threads that read values. Those that wait for a server, or for a chunk that another one makes, take no processor.
_READERS = 16
# Bytes of encoded chunks that are kept.
CACHE_BYTES = 256 << 20


class DataServer:
    """Datasets over HTTP until it is closed: ``url`` is the page that shows them, with the ``token`` in it."""

    def __init__(
        self,
        places: Mapping[str, ServedPlace],
        listener: HttpListener,
        pool: ThreadPoolExecutor,
        application: Application,
    ) -> None:
        self._places = places
        self._application = application
        self._listener = listener
        self._pool = pool
        self.token = listener.token
        self.address = listener.address

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"{self.address}/" + (f"?token={quote(self.token, safe='')}" if self.token else "")

    @property
    def zarr_urls(self) -> dict[str, str]:
        """The address of each place by its name; readers give the token as ``Authorization: Bearer TOKEN``."""
        return {name: f"{self.address}/zarr/{quote(name, safe='')}" for name in self._places}

    @property
    def headers(self) -> dict[str, str]:
        """The headers that a reader of Zarr sends along."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def wait(self) -> None:
        """Wait until the server is closed."""
        self._listener.wait()

    def close(self) -> None:
        """Answer nobody any more, and let go of the datasets; closing twice is fine."""
        self._listener.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._application.close()
        for place in self._places.values():
            place.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<DataServer {self.address}: {', '.join(self._places)}>"


def serve(
    *targets: api.Target,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allow_origin: str | Iterable[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> DataServer:
    """Give datasets of any format out as Zarr v3 over HTTP, read-only, until the server that is returned is closed.

    ``targets``: files, folders (of datasets too) and URLs. ``host``: other machines reach it under another than the
    default. ``port``: 0 for any free one. ``token``: what everybody has to know, a random one by default; empty for
    none, on this machine alone. ``allow_origin``: sites whose pages may read, and by whose names the server may be
    known (behind a proxy), ``"*"`` for all of them. NotFound, Invalid, MissingLibrary, StorageError where nobody can
    listen there.
    """
    locations = [Location.of(target, storage_options) for target in targets]
    return start_server(locations, host, port, token, allow_origin)


def start_server(
    locations: Sequence[Location],
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allow_origin: str | Iterable[str] = (),
    *,
    frames: bool = False,
    limits: Limits | None = None,
) -> DataServer:
    """Start a server of places, as for :func:`serve`. ``frames``: pages of other sites may show the explorer in a
    frame, as notebooks do; it shows nothing without the token, which is a random one then. ``limits``: what clients may
    take, by default as ``Limits`` has it."""
    for name in ("starlette", "uvicorn", "httptools"):
        library(name)
    from hyperslab.web.application import Application
    from hyperslab.web.connections import HttpListener
    from hyperslab.web.guard import Admission, Guard, Limits

    admission = Admission.of(host, secrets.token_urlsafe(24) if token is None else token, allow_origin, frames=frames)
    places = name_places(locations, EncodedChunks(CACHE_BYTES, at_once=os.cpu_count() or 1))
    pool = ThreadPoolExecutor(_READERS, "hyperslab_web")
    application = Application(places, admission, pool)
    listener = HttpListener(Guard(application.app, admission, limits or Limits()), host, port, admission.token)
    return DataServer(places, listener, pool, application)
