"""Servers: what a URL names, one client per process and server, and the driver's errors as ours.

``mongodb://host/db?collection=xarray#name``: a database, the collections ``<collection>.meta`` and ``.chunks``, and an
object by name or id; ``at=2026-11-01T00:00`` behind ``?``: the version of it that was the present one then (UTC unless
it says otherwise). Whatever else stands there is for the driver. The storage option ``uri_env`` names an environment
variable that holds the connection string with its secrets, which each process reads for itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from hyperslab.errors import HyperslabError, Invalid, MissingLibrary, ReadOnly, StorageError, WrongCredentials
from hyperslab.stores.credentials import redact, redact_text, resolve
from hyperslab.stores.forks import call_after_fork
from hyperslab.stores.location import Location

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.collection import Collection
    from pymongo.database import Database

URI_ENV = "uri_env"
# Longer than a replica set takes as a rule to elect a new primary (12 s, manual of MongoDB); the driver waits 30 s.
_SELECTION_TIMEOUT_MS = 20_000
# A server that is there, also a member of a set that has no primary now, answers the first time within milliseconds, or
# some hundred of a far one. Where nothing listens the driver goes on trying until its time is over.
_FIRST_CONTACT_SECONDS = 3
# Codes of the server: for what a user may not do (Unauthorized; AtlasError), for a user or password that it does not
# know (AuthenticationFailed), for a name that no database or collection can have (InvalidNamespace).
_REFUSED, _UNKNOWN, _MISNAMED = (13, 8000), 18, 73


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where objects are: the connection string (with secrets, not shown), database, prefix of the two collections, and
    one object by name or id (None: all of them), as it was at a moment (None: as it is). ``url`` is all of it without
    secrets."""

    uri: str = field(repr=False)
    database: str
    collection: str
    object: str | None
    url: str
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    at: datetime | None = None

    @classmethod
    def of(cls, where: Location) -> ServerPlace:
        """Return the place that a ``mongodb://`` URL names. Invalid when it names no database, or the moment of no
        object."""
        text, _, fragment = str(where.target).partition("#")
        text, _, query = text.partition("?")
        scheme, _, rest = text.partition("://")
        hosts, _, database = rest.partition("/")
        if not database:
            remedy = "name it behind the host: mongodb://host/database#name"
            raise Invalid("the URL names no database", url=where.url, remedy=remedy)
        known = dict(parse_qsl(query, keep_blank_values=True))
        # What else stands behind ``?`` is for the driver.
        others = "&".join(each for each in query.split("&") if each and each.partition("=")[0] != "collection")
        if where.moment is not None and not fragment:
            raise Invalid("a moment (at) is that of one object", url=where.url, remedy="name the object behind #")
        options = dict(resolve(where.options))
        uri = f"{scheme}://{hosts}/{database if '@' in hosts else ''}" + (f"?{others}" if others else "")
        variable = options.pop(URI_ENV, None)
        if variable is not None:
            uri = uri_from_environment(variable)
        return cls(
            uri,
            unquote(database),
            known.get("collection", "xarray"),
            unquote(fragment) or None,
            where.url,
            tuple(sorted(options.items(), key=lambda pair: pair[0])),
            where.moment if isinstance(where.moment, datetime) else None,  # names of versions are a repository's
        )

    def open(self) -> Database[Any]:
        """Return the database, by the client of this process. Invalid where no server, database or collection can be
        called so.
        """

        def find(client: MongoClient[Any]) -> Database[Any]:
            found: Database[Any] = client[self.database]
            found[f"{self.collection}.meta"]
            return found

        try:
            return find(get_client(self.uri, dict(self.options), self.url, find))
        except import_pymongo().errors.InvalidName as error:
            raise Invalid(str(error), url=self.url, remedy="choose another name") from None


def uri_from_environment(variable: object) -> str:
    """Return the connection string in an environment variable of this process. Invalid when there is none."""
    value = os.environ.get(str(variable))
    if not value:
        remedy = "set it in every process that reads or writes"
        raise Invalid(f"the environment variable {variable} holds no connection string", remedy=remedy)
    return value


class _Clients:
    """The clients of this process; a forked child starts with none."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: clients are not fit for a forked child."""
        self.lock = threading.Lock()
        self.by_server: dict[Any, MongoClient[Any]] = {}


_clients = _Clients()
# Connections and threads of a client do not survive a fork: the child makes its own.
call_after_fork(_clients.forget)


def import_pymongo() -> Any:
    """Return pymongo. Unsupported where it is not installed."""
    try:
        import pymongo
    except ImportError:
        raise MissingLibrary("MongoDB needs pymongo", remedy="pip install 'hyperslab[mongo]'") from None
    return pymongo


def get_client(
    uri: str,
    options: Mapping[str, Any] | None = None,
    shown: str | None = None,
    find: Callable[[MongoClient[Any]], object] | None = None,
) -> MongoClient[Any]:
    """Return the one client of this process for a server; it is made at the first call, and stays open. ``shown``:
    the place in messages. ``find`` is called with a new one before the server is, to refuse names. Invalid, and
    StorageError where the name of the server cannot be resolved, or where it does not answer within 3 s;
    ``serverSelectionTimeoutMS``, of the connection string or the options, has it waited for.
    """
    options = dict(options or {})
    is_waited_for = "serverselectiontimeoutms" in uri.lower() or "serverSelectionTimeoutMS" in options
    if not is_waited_for:
        options["serverSelectionTimeoutMS"] = _SELECTION_TIMEOUT_MS
    key = uri, repr(sorted(options.items()))
    with _clients.lock:
        known = _clients.by_server.get(key)
    if known is not None:
        return known
    made = _make_client(uri, options, shown or redact(uri))
    try:
        if find is not None:
            find(made)
        if not is_waited_for:
            _require_answer(made, shown or redact(uri))
    except BaseException:
        made.close()
        raise
    with _clients.lock:
        kept = _clients.by_server.setdefault(key, made)
    if kept is not made:  # another thread was as quick
        made.close()
    return kept


def _make_client(uri: str, options: Mapping[str, Any], shown: str) -> MongoClient[Any]:
    pymongo = import_pymongo()
    try:
        if query := uri.partition("?")[2]:
            # Of unknown parameters behind ``?`` the driver only warns, of unknown options it raises.
            pymongo.uri_parser.split_options(query, validate=True, warn=False)
        client: MongoClient[Any] = pymongo.MongoClient(uri, **options)
    except (pymongo.errors.ConfigurationError, TypeError, ValueError, OSError) as error:
        detail = redact_text(str(error)).replace(". Refer to docstring.", "").rstrip(".")
        message = f"the server or an option is not understood: {detail}"
        raise Invalid(message, url=shown, remedy="mend the URL or the storage options") from None
    return client


def _require_answer(client: MongoClient[Any], shown: str) -> None:
    """Raise StorageError unless a server of it answers: any, for a set may have no primary for a while. What else it
    says, such as of a password, it says again when it is needed."""
    pymongo = import_pymongo()
    try:
        with pymongo.timeout(_FIRST_CONTACT_SECONDS):
            client.admin.command("ping", read_preference=pymongo.ReadPreference.NEAREST)
    except pymongo.errors.ConnectionFailure as error:
        detail = redact_text(str(error)).partition(", Timeout:")[0].partition(" (configured timeouts:")[0]
        raise StorageError(
            f"MongoDB does not answer within {_FIRST_CONTACT_SECONDS} s: {detail}",
            url=shown,
            remedy="look whether it runs at this host and port; ?serverSelectionTimeoutMS=30000 waits longer",
        ) from error
    except pymongo.errors.PyMongoError:
        pass


def server_time(meta: Collection[Any]) -> datetime:
    """Return what the clock of the server says, in UTC; of one that does not tell that of this machine."""
    now = meta.database.command("hello").get("localTime") or datetime.now(UTC)
    return now if now.tzinfo else now.replace(tzinfo=UTC)


def lone_process(database: Database[Any]) -> Any:
    """Return what identifies the running process of a server that stands alone; None of a member of a replica set, of
    a router, and of a server that does not tell (before 4.4)."""
    hello = database.command("hello")
    return None if is_replicated(hello) else _writer(hello)


def current_writer(database: Database[Any]) -> Any:
    """Return what identifies the server that takes writes: the process of one that stands alone, the election of a
    primary; None of a router, and of a server that does not tell.

    As long as it is the same, all that was acknowledged stands in one journal, in that order.
    """
    return _writer(database.command("hello"))


def _writer(hello: Mapping[str, Any]) -> Any:
    return hello.get("electionId") if is_replicated(hello) else hello.get("topologyVersion", {}).get("processId")


def each_chunk_waits(writer: object, *, durable: bool) -> bool:
    """Return True if each chunk of a new object has to be in the journal before it counts as stored.

    ``writer``: what identifies the server that takes the chunks. Without one :func:`wait_for_journal` cannot wait once
    for all of them: behind a router they lie on several servers, and it waits for that of the document alone; and a
    server that does not tell may have been started anew.
    """
    return durable and writer is None


def wait_for_journal(meta: Collection[Any], writer: object) -> bool:
    """Wait until all that was acknowledged is in the journal, by the write concern of ``meta``; False where another
    server than ``writer`` takes writes by then, which may not have all of it."""
    from bson import ObjectId

    meta.update_one({"_id": ObjectId()}, {"$unset": {"hyperslab": ""}})  # of no document: it waits all the same
    return bool(current_writer(meta.database) == writer)


def is_replicated(hello: Mapping[str, Any]) -> bool:
    """Return True if the answer to the command ``hello`` is that of a member of a replica set, or of a router."""
    return "setName" in hello or hello.get("msg") == "isdbgrid"


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Raise the driver's errors in the block as ours, with the driver's as cause: StorageError, ReadOnly,
    WrongCredentials, Invalid. Our own tell the place, where they tell none."""
    errors = import_pymongo().errors
    try:
        yield
    except HyperslabError as error:
        raise error.locate(url=url) from error.__cause__
    except errors.OperationFailure as error:
        detail = redact_text(str(error.details.get("errmsg", error) if error.details else error))
        if error.code in _REFUSED:
            raise ReadOnly(f"the server refuses this user: {detail}", url=url, remedy="ask for the role") from error
        if error.code == _UNKNOWN:
            remedy = "look at user and password, and at authSource=, the database that knows the user"
            message = f"the server does not know this user or password: {detail}"
            raise WrongCredentials(message, url=url, remedy=remedy) from error
        if error.code == _MISNAMED:
            raise Invalid(f"the server says: {detail}", url=url, remedy="choose another name") from error
        raise StorageError(f"the server says: {detail}", url=url) from error
    except errors.PyMongoError as error:
        text = redact_text(str(error)).partition(", Topology Description")[0]
        message = f"MongoDB: {type(error).__name__}: {text}"
        raise StorageError(message, url=url, remedy="look whether the server runs") from error
