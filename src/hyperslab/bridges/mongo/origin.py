"""Where the two collections are: a small value that tasks carry, which holds no secret once it leaves the process.

A client of the driver tells hosts and a few settings, and neither its password nor whether it speaks TLS. Other
processes open a client of their own: by the connection string in the environment variable ``uri_env``, by ``uri``, or
by what the client tells, with what the function ``credentials`` gives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakValueDictionary

import pymongo
from pymongo import WriteConcern
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.collection import Collection
from pymongo.errors import PyMongoError
from pymongo.mongo_client import MongoClient

from hyperslab.bridges.dask import check_travel
from hyperslab.errors import Invalid
from hyperslab.formats.mongo.bson_values import Collections, DocumentCollection, MutableDocument
from hyperslab.formats.mongo.server import (
    each_chunk_waits,
    get_client,
    lone_process,
    uri_from_environment,
    wait_for_journal,
)
from hyperslab.stores.credentials import OPTION, function_option, redact, resolve
from hyperslab.stores.forks import call_after_fork

_USER = re.compile(r"^([a-z+]+://)(?:([^/?#]*)@)?(.*)$", re.DOTALL)
_REMEDY = (
    "name an environment variable that holds the connection string in each process (uri_env=), "
    "or a function that gives user and password (credentials='module:function')"
)
_PROPERTIES = "authmechanismproperties"  # which may hold a token
# A server that is there answers within milliseconds; one that is not must not hold up the error.
_ASKING_SECONDS = 2


class ServerAddress:
    """The way of another client to the server: ``uri`` without secrets, ``settings`` beside it, and where secrets are.

    ``has_secret``: there was one in the connection string that the caller gave. Invalid.
    """

    def __init__(
        self,
        client: MongoClient[Any] | AsyncMongoClient[Any],
        *,
        uri: str | None = None,
        uri_env: str | None = None,
        credentials: str | None = None,
    ) -> None:
        if credentials is not None and not function_option({"credentials": credentials}):
            raise Invalid("credentials is no name of a function", remedy="give credentials='module:function'")
        self.uri_env = uri_env
        self.credentials = credentials
        self.settings: MutableDocument = {}
        self.has_secret = False
        if uri is None:
            self.uri, self.settings = _describe_client(client)
        else:
            self.uri, self.has_secret = _without_secrets(uri)

    def open(self, uri: str | None = None) -> MongoClient[Any]:
        """Return the one client of this process for the server; ``uri``: the connection string with its secrets."""
        options = resolve({OPTION: self.credentials}) if self.credentials else {}
        uri = uri_from_environment(self.uri_env) if self.uri_env else uri or self.uri
        return get_client(uri, {**({} if self.uri_env else self.settings), **options})


def _describe_client(client: MongoClient[Any] | AsyncMongoClient[Any]) -> tuple[str, MutableDocument]:
    """Return the hosts as a connection string, and the settings that a client tells."""
    hosts = sorted(client.topology_description.server_descriptions(), key=str)
    options = client.options
    settings = {
        "replicaSet": options.replica_set_name,
        "directConnection": options.direct_connection,
        "loadBalanced": options.load_balanced,
        "appname": options.pool_options.appname,
        "serverSelectionTimeoutMS": int(1000 * options.server_selection_timeout),
    }
    known = {name: value for name, value in settings.items() if value is not None}
    shown = []
    for host, port in hosts:
        name = quote(host, safe="") if "/" in host else f"[{host}]" if ":" in host else host
        shown.append(name if port is None else f"{name}:{port}")
    return f"mongodb://{','.join(shown)}/", known


def _without_secrets(uri: str) -> tuple[str, bool]:
    """Return the connection string without user, password and parameters whose names speak of secrets; whether it had
    any. Invalid for what is none."""
    match = _USER.match(uri)
    if match is None:
        raise Invalid(f"uri={redact(uri)!r} is no connection string", remedy="give mongodb://host:port/?tls=true")
    rest, _, query = match[3].partition("?")
    shown = redact(f"mongodb://h/?{query}").partition("?")[2].split("&")
    parts = [part for part in query.split("&") if part]
    kept = [part for part in parts if part in shown and not part.lower().startswith(_PROPERTIES)]
    tail = f"?{'&'.join(kept)}" if kept else ""
    return f"{match[1]}{rest if '/' in rest else rest + '/'}{tail}", bool(match[2]) or len(kept) < len(parts)


class _Local:
    """The caller's own collections, for tasks that run in the same process."""

    def __init__(self, meta: Collection[Any], chunks: Collection[Any]) -> None:
        self.collections = Collections(meta, chunks)
        self.token = uuid4().hex


_here: WeakValueDictionary[str, _Local] = WeakValueDictionary()
call_after_fork(_here.clear)


class ObjectOrigin:
    """Address of the server, database and collections; in the process that made it also the caller's collections.

    ``process``: that of a server that stands alone, by which chunks are acknowledged before they are in its journal
    (:meth:`with_one_journal_wait`); None where each write is in the journal before it counts as made.
    """

    def __init__(
        self, meta: Collection[Any], chunks: Collection[Any], address: ServerAddress, *, durable: bool = True
    ) -> None:
        self._local: _Local | None = _Local(meta, chunks)
        self.token = self._local.token
        _here[self.token] = self._local
        self.address = address
        self.database = meta.database.name
        self.names = meta.name, chunks.name
        self.durable = durable
        self.process: Any = None

    @property
    def uri(self) -> str:
        """The connection string without secrets."""
        return self.address.uri

    @property
    def url(self) -> str:
        """Where the objects lie, without secrets."""
        return f"{self.uri.partition('?')[0]}{self.database}"

    def open(self) -> Collections:
        """Return both collections, with write concern and kinds of documents of our own."""
        local = self._local or _here.get(self.token)
        if local is not None:
            meta, chunks = local.collections
        else:
            database = self.address.open()[self.database]
            meta, chunks = (database[name] for name in self.names)
        own = _own(chunks, self.durable)
        if self.process is not None:
            own = own.with_options(write_concern=WriteConcern(w=1))
        return Collections(_own(meta, self.durable), own)

    # Each wait for the journal is one flush of the disk: a put of 256 MiB in blocks of 4 MiB made 63 of them, and makes
    # 11 with one wait. The journal of one process is in the order of its writes, so that what is in it by the end was
    # preceded by all chunks. Members of a replica set and routers wait as before: another one may take over meanwhile,
    # which does not have what only the former had acknowledged.

    def with_one_journal_wait(self) -> ObjectOrigin:
        """Return the origin for the chunks of a new object, whose writes do not wait for the journal: whoever lets the
        object be found calls :meth:`wait_for_journal` first. This one where writes do not wait, or each has to."""
        if not self.durable:
            return self
        process = lone_process(self.open().meta.database)
        if each_chunk_waits(process, durable=self.durable):
            return self
        other = object.__new__(ObjectOrigin)  # copy() would take it for one that goes to another process
        other.__dict__.update(self.__dict__, process=process)
        return other

    def wait_for_journal(self) -> bool:
        """Wait until all chunks are in the journal; False where some may be lost, since the server was started anew
        since :meth:`with_one_journal_wait`."""
        return self.process is None or wait_for_journal(self.open().meta, self.process)

    def check_travel(self) -> None:
        """Raise Invalid where tasks are about to go to other processes and could not open the collections there."""
        check_travel(self)

    def __getstate__(self) -> Mapping[str, Any]:
        # What comes from another process was looked at there.
        is_elsewhere = self.address.uri_env or self.address.credentials  # where each process gets user and password
        if self._local is not None and not is_elsewhere and (self.address.has_secret or self._has_user(self._local)):
            raise Invalid("the client has a password, which tasks do not carry", url=self.uri, remedy=_REMEDY)
        return {**self.__dict__, "_local": None}

    def _has_user(self, local: _Local) -> bool:
        """Ask the server, since a client does not tell. Invalid where it does not answer."""
        try:
            with pymongo.timeout(_ASKING_SECONDS):
                return has_user(local.collections.meta.database.client.admin.command(STATUS))
        except PyMongoError as error:
            message = "the server does not tell whether the client has a password, which tasks do not carry"
            raise Invalid(message, url=self.uri, remedy=_REMEDY) from error

    def __dask_tokenize__(self) -> tuple[str, ...]:
        return self.token, *self.names

    def __repr__(self) -> str:
        return f"<Origin {self.uri} {self.database} {' '.join(self.names)}>"


STATUS = "connectionStatus"
"""The command that tells which users a connection has; anyone may give it."""


def has_user(status: Mapping[str, Any]) -> bool:
    """Return True if the answer to that command names a user."""
    return bool(status.get("authInfo", {}).get("authenticatedUsers"))


def _own(collection: DocumentCollection, durable: bool) -> DocumentCollection:
    """Return the same collection; documents are dicts, and writes are journaled, by most members of a replica set."""
    codec = collection.codec_options.with_options(document_class=dict)
    if not durable:
        return collection.with_options(codec_options=codec)
    concern = collection.write_concern.document
    members = concern.get("w")
    several = isinstance(members, str) or (isinstance(members, int) and members > 1)
    own = WriteConcern(w=members if several else "majority", wtimeout=concern.get("wtimeout"), j=True)
    return collection.with_options(codec_options=codec, write_concern=own)
