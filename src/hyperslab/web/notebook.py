"""The explorer in a notebook: the page in a frame, and the static picture where no server answers any more."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Mapping
from html import escape
from urllib.parse import quote

from hyperslab.array import Array
from hyperslab.errors import Invalid
from hyperslab.group import Group
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.location import Location
from hyperslab.web.server import DataServer, start_server

# Servers of this process by their place: a cell that is run again shows the page of the server that is there.
_servers: dict[tuple[str, object, str], DataServer] = {}
_mutex = threading.Lock()
call_after_fork(_servers.clear)  # they are those of the process that was forked
# Where a notebook server forwards requests to a port of its machine (jupyter-server-proxy), as JupyterHub tells it.
_PREFIX = "JUPYTERHUB_SERVICE_PREFIX"
_HEIGHT = 640
# How the address of a proxy begins: a path of the notebook's own server, or that of another one.
_ADDRESSES = ("/", "http://", "https://")


class NotebookExplorer:
    """The explorer of one node: a notebook shows it in a frame, ``url`` opens it in a browser.

    The server runs until the process ends, or it is closed. A notebook that is opened later shows the static picture.
    """

    def __init__(self, server: DataServer, node: Group | Array, proxy: str | None, height: int) -> None:
        self._server = server
        self._node = node
        self._proxy = proxy
        self._height = height

    @property
    def url(self) -> str:
        """The address of the page, with the token behind ``#``, where no server sees it."""
        base = f"{self._server.address}/" if self._proxy is None else self._proxy
        (place,) = self._server.zarr_urls
        token, name = (quote(text, safe="") for text in (self._server.token, place))
        return f"{base}#token={token}&/{name}?node=/{quote(self._node.path)}"

    def close(self) -> None:
        """End the server of the dataset; closing twice is fine."""
        with _mutex:
            for place in [place for place, server in _servers.items() if server is self._server]:
                del _servers[place]
        self._server.close()

    def __repr__(self) -> str:
        """Return the address without the token, since notebooks keep this as text."""
        base, _, place = self.url.partition("#")
        return f"<explorer of {self._node.url} at {base}#{place.partition('&')[2]}>"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Mapping[str, str]:
        """Return what a notebook shows. The picture within the frame is what a browser shows where nothing answers."""
        style = f"width:100%;height:{self._height}px;border:1px solid #8886"
        address = escape(self.url, quote=True)
        frame = f'<object type="text/html" data="{address}" style="{style}">{self._node._repr_html_()}</object>'
        return {"text/plain": repr(self), "text/html": frame}


def explore(node: Group | Array, *, proxy: str | None = None, height: int = _HEIGHT) -> NotebookExplorer:
    """Return the explorer of a group or array, served from this process for the notebook that shows it.

    ``proxy``: the address under which a notebook server forwards to a port of its machine, with ``{port}`` in it, such
    as ``"/proxy/{port}/"`` of jupyter-server-proxy; by default this machine's own address, in JupyterHub that of the
    proxy. ``height``: of the frame, in pixels. Invalid for a dataset that has no place, such as one in this process
    alone; MissingLibrary.
    """
    if not isinstance(height, int) or height < 1:
        raise Invalid(f"height={height!r}", remedy="give a number of pixels")
    if proxy is not None and (not isinstance(proxy, str) or "{port}" not in proxy or not proxy.startswith(_ADDRESSES)):
        raise Invalid(f"proxy={proxy!r} is no address", remedy='give one with {port} in it, such as "/proxy/{port}/"')
    origin = node._session.origin
    if origin is None:
        raise Invalid("this dataset has no place of its own", url=node.url, remedy="save it, and explore that")
    prefix = os.environ.get(_PREFIX)
    if proxy is None and prefix is not None:
        proxy = f"{prefix.rstrip('/')}/proxy/{{port}}/"
    server = _server_of(origin.where)
    port = server.address.rpartition(":")[2]
    return NotebookExplorer(server, node, None if proxy is None else proxy.replace("{port}", port), height)


def _server_of(where: Location) -> DataServer:
    """Return the server of a place, begun with the first look at it."""
    with _mutex:
        if where.identity not in _servers:
            _servers[where.identity] = start_server([where], frames=True)
        return _servers[where.identity]


def _close_all() -> None:
    with _mutex:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


atexit.register(_close_all)
