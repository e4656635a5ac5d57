"""Where the two collections are: a small value that tasks carry, which holds no secret once it leaves the process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakValueDictionary

from pymongo import WriteConcern
from pymongo.collection import Collection
from pymongo.mongo_client import MongoClient

from hyperslab.bridges.dask import check_travel
from hyperslab.errors import Invalid
from hyperslab.formats.mongo.bson_values import MutableDocument
from hyperslab.formats.mongo.server import get_client, uri_from_environment
from hyperslab.stores.credentials import OPTION, resolve
from hyperslab.stores.redaction import plain_options, redact

_USER = re.compile(r"^([a-z+]+://)(?:[^/?#]*@)?(.*)$", re.DOTALL)
_REMEDY = (
    "name an environment variable that holds the connection string in each process (uri_env=), "
    "or a function that gives user and password (credentials='module:function')"
)


class Collections(NamedTuple):
    """The two collections of a prefix, as this package uses them."""

    meta: Collection[Any]
    chunks: Collection[Any]


class _Local:
    """The caller's own collections, for tasks that run in the same process."""

    def __init__(self, meta: Collection[Any], chunks: Collection[Any]) -> None:
        self.collections = Collections(meta, chunks)
        self.token = uuid4().hex


_here: WeakValueDictionary[str, _Local] = WeakValueDictionary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_here.clear)


class ObjectOrigin:
    """Names of server, database and collections; in the process that made it also the caller's collections.

    In another process it opens them by that process' one client for the server: by the connection string in the
    environment variable ``uri_env``, with what the function ``credentials`` gives, or by the address alone.
    """

    def __init__(
        self,
        meta: Collection[Any],
        chunks: Collection[Any],
        *,
        durable: bool = True,
        uri_env: str | None = None,
        credentials: str | None = None,
    ) -> None:
        self._local: _Local | None = _Local(meta, chunks)
        self.token = self._local.token
        _here[self.token] = self._local
        self.database = meta.database.name
        self.names = meta.name, chunks.name
        self.durable = durable
        self.uri_env = uri_env
        self.credentials = credentials
        self.uri, self.settings, self._secret = _address(meta.database.client)

    def open(self) -> Collections:
        """Both collections, with write concern and kinds of documents of our own."""
        local = self._local or _here.get(self.token)
        if local is not None:
            return Collections(*(_own(collection, self.durable) for collection in local.collections))
        options = resolve({OPTION: self.credentials}) if self.credentials else {}
        uri = uri_from_environment(self.uri_env) if self.uri_env else self.uri
        settings = {} if self.uri_env else dict(self.settings)
        database = get_client(uri, {**settings, **options})[self.database]
        return Collections(*(_own(database[name], self.durable) for name in self.names))

    @property
    def url(self) -> str:
        """Where the objects lie, without secrets."""
        return f"{self.uri.partition('?')[0]}{self.database}"

    def check_travel(self) -> None:
        """Invalid where tasks are about to go to other processes and could not open the collections there."""
        check_travel(self)

    def __getstate__(self) -> MutableDocument:
        if self._secret and not (self.uri_env or self.credentials):
            raise Invalid("the client has a password, which tasks do not carry", url=self.uri, remedy=_REMEDY)
        return {**self.__dict__, "_local": None}

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return self.token, *self.names

    def __repr__(self) -> str:
        return f"<Origin {self.uri} {self.database} {' '.join(self.names)}>"


def _own(collection: Collection[Any], durable: bool) -> Collection[Any]:
    """Return the same collection; documents are dicts, and writes are journaled, by most members of a replica set."""
    codec = collection.codec_options.with_options(document_class=dict)
    if not durable:
        return collection.with_options(codec_options=codec)
    asked = collection.write_concern.document
    members = asked.get("w")
    several = isinstance(members, str) or (isinstance(members, int) and members > 1)
    concern = WriteConcern(w=members if several else "majority", wtimeout=asked.get("wtimeout"), j=True)
    return collection.with_options(codec_options=codec, write_concern=concern)


def _address(owner: MongoClient[Any]) -> tuple[str, MutableDocument, bool]:
    """Return the server without its secrets, the other settings of the client, and whether there were secrets."""
    given: Mapping[str, Any] = getattr(owner, "_init_kwargs", {})
    uris = [host for host in getattr(owner, "_host", ()) if "://" in str(host)]
    uri = _without_secrets(uris[0]) if uris else f"mongodb://{','.join(map(_host, _seeds(owner)))}/"
    unsaid = {name: value for name, value in given.items() if isinstance(value, str | int | float) and name != "host"}
    plain = {name: value for name, value in plain_options(unsaid).items() if name.lower() not in _NOT_THEIRS}
    secret = getattr(owner.options.pool_options, "_credentials", None) is not None
    dropped = unsaid.keys() - plain.keys() - {name for name in unsaid if name.lower() in _NOT_THEIRS}
    return uri, plain, secret or bool(dropped)


_PROPERTIES = "authmechanismproperties"  # which may hold a token
_NOT_THEIRS = ("port", "connect", "tz_aware", "username", _PROPERTIES)


def _without_secrets(uri: str) -> str:
    """Return the connection string without user and password, and without parameters whose names speak of secrets."""
    match = _USER.match(uri)
    assert match is not None  # it holds "://"
    rest, mark, query = match[2].partition("?")
    shown = redact(f"mongodb://h/?{query}").partition("?")[2].split("&")
    kept = [part for part in shown if part in query.split("&") and part and not part.lower().startswith(_PROPERTIES)]
    return f"{match[1]}{rest if '/' in rest else rest + '/'}{mark if kept else ''}{'&'.join(kept)}"


def _seeds(owner: MongoClient[Any]) -> list[tuple[str, int | None]]:
    return sorted(owner.topology_description.server_descriptions(), key=str)


def _host(address: tuple[str, int | None]) -> str:
    host, port = address
    name = quote(host, safe="") if "/" in host else f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"
