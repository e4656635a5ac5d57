"""Requests to object stores: how many at once, how long they may take, and what their failures mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from enum import Enum, auto
from functools import cache
from time import sleep
from typing import TYPE_CHECKING, Any, TypeVar

from hyperslab.errors import HyperslabError, Invalid, ReadOnly, StorageError, Unsupported
from hyperslab.stores.attempts import beaten
from hyperslab.stores.forks import ThreadedLibrary, call_after_fork

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")

IN_FLIGHT = 32
"""Requests under way at once."""

# How often obstore asks again by itself, within the 90 s of ``retry_timeout`` (see :func:`patience`).
_ASKS = 6
_ASKS_WEB = 3  # so that a server that is down is noticed within seconds
# Where obstore does not ask again by itself: bodies that break off, conditional writes, removals. As often as it does:
# with three, a list broke off each time in one of two campaigns of ten minutes whose proxy fails a quarter of requests.
REQUEST_TRIES = _ASKS
_PAUSE = 0.1  # seconds before the second of them, then twice as long each time
# Texts of obstore's errors, which :func:`_reason_of` alone looks for.
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_STATUS = re.compile(r"status code: (\d{3} [A-Za-z ]+)")
_UNABLE = re.compile(r"\b(405 Method Not Allowed|501 Not Implemented)\b")  # a web server that lists nothing, say
_NO_LISTING = "Error decoding PROPFIND response"  # one that has a page for whatever is asked
_RANGE_REFUSED = ("416 Range Not Satisfiable", "status code: 416")
_RANGE_IGNORED = ("NotPartial", "non-partial response", "Range request not supported")
_UNENCRYPTED = "builder error"
_CODE = re.compile(r"<Code>(\w+)</Code>")
_SPAWN = "start processes by spawn or forkserver, and open the dataset in each of them"
_UNLISTED = (
    "open a node by its path (root['name'], or the URL with /name), or consolidate the metadata where the files lie: "
    "hyperslab.open(place, 'r+', consolidated=True).close()"
)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://\S+")


class Refused(Exception):
    """The range begins behind the end of the value."""


class Unranged(Exception):
    """The server answered a range with the whole value."""


class _Reason(Enum):
    """Why a request failed, where obstore has no class of error for it."""

    NO_BUCKET = auto()
    RANGE_REFUSED = auto()
    RANGE_IGNORED = auto()
    UNABLE = auto()
    NO_LISTING = auto()
    UNENCRYPTED = auto()
    DENIED = auto()
    BROKE_OFF = auto()


_RANGE_ANSWERS: dict[_Reason | None, type[Exception]] = {
    _Reason.RANGE_REFUSED: Refused,
    _Reason.RANGE_IGNORED: Unranged,
}


def _reason_of(error: Exception) -> _Reason | None:
    """Return why a request failed, as far as only the text of the error tells.

    No other function decides anything by the text of an error; where a version words it otherwise, the failure is a
    plain ``StorageError``.
    """
    # obstore (0.6 to 0.12) raises ``GenericError`` for all of these, and a missing bucket as a missing object. Its
    # errors have no attribute besides ``args``, which is this text, and no cause: neither a class nor a status says it.
    text = str(error)
    if any(words in text for words in _NO_BUCKET):
        return _Reason.NO_BUCKET
    if any(words in text for words in _RANGE_REFUSED):
        return _Reason.RANGE_REFUSED
    if any(words in text for words in _RANGE_IGNORED):
        return _Reason.RANGE_IGNORED
    if _UNABLE.search(text):
        return _Reason.UNABLE
    if _NO_LISTING in text:
        return _Reason.NO_LISTING
    if _UNENCRYPTED in text:
        return _Reason.UNENCRYPTED
    if (status := _STATUS.search(text)) and status[1].startswith(("401", "403")):
        return _Reason.DENIED
    # the connection failed, and obstore has not tried again as often as it was told to
    tried_enough = "max_retries" in text.partition("\n\nDebug")[0]
    if "HTTP error" in text and "status code" not in text and not tried_enough:
        return _Reason.BROKE_OFF
    return None


def patience(version: str, *, web: bool) -> dict[str, dict[str, Any]]:
    """Return how long a server may be silent and how often obstore asks again, unless ``storage_options`` say
    otherwise."""
    knows_silence = tuple(map(int, version.split(".")[:2])) >= (0, 11)
    silence = {"read_timeout": "30s", "timeout": "5min"} if knows_silence else {"timeout": "1min"}
    return {
        "client_options": {"connect_timeout": "10s", **silence},
        "retry_config": {"max_retries": _ASKS_WEB if web else _ASKS, "retry_timeout": timedelta(seconds=90)},
    }


_obstore = ThreadedLibrary()


def each_request(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of all, up to :data:`IN_FLIGHT` under way at once.

    After an error no other call begins, and the first error is raised when those under way have ended. An interrupt
    does not wait for them.
    """
    if len(calls) == 1:
        return [calls[0]()]
    from concurrent.futures import FIRST_EXCEPTION, wait

    running: list[Future[Result]] = []
    try:
        running.extend(threads(IN_FLIGHT, "request").submit(call) for call in calls)
        # An interrupt that comes right before the thread begins to wait does not end the wait: look again each second.
        while (now := wait(running, 1.0, FIRST_EXCEPTION)).not_done and not any(one.exception() for one in now.done):
            pass
    finally:
        begun = [future for future in running if not future.cancel()]
    wait(begun)
    return [future.result() for future in begun]


def request(
    call: Callable[[], Result],
    obstore: Any,
    url: str,
    key: str,
    *,
    writing: bool,
    ranged: bool = False,
    listing: bool = False,
) -> Result:
    """Return the call's result. FileNotFoundError is an answer, and :class:`Refused` and :class:`Unranged` are where a
    range was asked for (``ranged``); the rest is an error, Unsupported where a web server refuses to list
    (``listing``).

    A write that is repeated, for its answer was lost, may find itself done: a conditional one is then a ``Conflict``,
    as if another writer had been faster. No error carries what obstore says of itself: a URL in it may hold a password.
    """
    if _obstore.orphaned:
        raise StorageError("this process was forked from one that used object stores", url=url, remedy=_SPAWN)
    _obstore.used = True
    failure: HyperslabError
    pause = _PAUSE
    for last in (False,) * (REQUEST_TRIES - 1) + (True,):
        try:
            return call()
        except FileNotFoundError as error:
            reason = _reason_of(error)
            if reason is not _Reason.NO_BUCKET:
                raise FileNotFoundError(key) from None
            failure = _failure(error, reason, obstore.exceptions, url, key, writing)
        except HyperslabError:
            raise
        except Exception as error:
            reason = _reason_of(error)
            _raise_answer(error, reason, obstore.exceptions, url, ranged=ranged, listing=listing)
            if not last and reason is _Reason.BROKE_OFF:
                sleep(pause)
                pause *= 2
                continue
            failure = _failure(error, reason, obstore.exceptions, url, key, writing)
        except BaseException as error:
            if not is_panic(error):
                raise
            failure = StorageError("the client of object stores gave up", url=url, key=key or None)
        raise failure from None
    raise AssertionError


def _raise_answer(
    error: Exception, reason: _Reason | None, kinds: Any, url: str, *, ranged: bool, listing: bool
) -> None:
    """Raise what is an answer and no failure."""
    if listing and _refuses(error, reason, kinds):
        raise lists_nothing(url) from None
    if ranged and reason in _RANGE_ANSWERS:
        raise _RANGE_ANSWERS[reason] from None


def is_panic(error: BaseException) -> bool:
    """Return True if obstore failed inside: what it raises then is no ``Exception``, and no class that it exports."""
    return type(error).__name__ == "PanicException"


def lists_nothing(url: str) -> Unsupported:
    """Return the error for a web server that does not say what lies there."""
    return Unsupported("this server lists nothing", url=url, remedy=_UNLISTED)


def _refuses(error: Exception, reason: _Reason | None, kinds: Any) -> bool:
    """Return True if a web server answers that it does not list; one that fails, or is busy, may list later."""
    refusals = (kinds.PermissionDeniedError, kinds.UnauthenticatedError, kinds.NotSupportedError, NotImplementedError)
    return isinstance(error, refusals) or reason in (_Reason.UNABLE, _Reason.NO_LISTING)


def _failure(error: Exception, reason: _Reason | None, kinds: Any, url: str, key: str, writing: bool) -> HyperslabError:
    place = {"url": url, "key": key or None}
    if reason is _Reason.NO_BUCKET:
        return StorageError("there is no such bucket", **place, remedy="check the spelling, or make it first")
    if isinstance(error, kinds.AlreadyExistsError | kinds.PreconditionError):
        return beaten(url, key or None)
    # some calls give it as a failure of any kind
    if isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError) or reason is _Reason.DENIED:
        kind = ReadOnly if writing else StorageError
        remedy = "give credentials by the environment or storage_options, or ask for permission"
        if url.startswith("http"):
            remedy = "give headers by storage_options (client_options, default_headers), or ?token=… in the URL"
        return kind(f"cannot {_verb(writing)}: access refused{_said(error)}", **place, remedy=remedy)
    if isinstance(error, kinds.NotSupportedError | NotImplementedError) or reason is _Reason.UNABLE:
        return Unsupported(f"this kind of store cannot do that{_said(error)}", **place, remedy="use a local copy")
    if isinstance(error, ValueError | kinds.InvalidPathError):
        return Invalid(f"{key!r} is no name of an object", **place, remedy="leave out control characters")
    remedy = "look at the network and the server"
    if reason is _Reason.UNENCRYPTED:
        remedy = "a server without encryption is spoken to with client_options={'allow_http': True} alone"
    return StorageError(f"cannot {_verb(writing)}{_said(error)}", **place, remedy=remedy)


def _verb(writing: bool) -> str:
    return "write" if writing else "read"


def _said(error: Exception) -> str:
    """Return what the server or the network said, in a few words without addresses."""
    text = str(error).partition("\n\nDebug source")[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    if status:
        return f": {status[1].strip()}" + (f" ({code[1]})" if code else "")
    words = _URL.sub("…", text.splitlines()[0]) if text else type(error).__name__
    return f": {words.rpartition(' - ')[2].strip()}"


# -- threads that wait for a medium or a server --------------------------------------------------------------------


if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@cache
def threads(count: int, name: str) -> ThreadPoolExecutor:
    """Return up to ``count`` of them, the same for the same name; a forked child makes its own.

    Of two threads that are the first at once each may make them: those that nobody has then end with their work.
    """
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(count, thread_name_prefix=f"hyperslab-{name}")


call_after_fork(threads.cache_clear)
