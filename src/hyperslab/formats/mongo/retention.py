"""Objects that are removed because they are old, or because enough newer ones have their name.

An index that lets the server remove documents by itself (TTL) knows only their own collection: documents of objects
would go, and their chunks stay. So objects are removed as by ``delete``: first the document, by which nobody finds the
object any more, then its chunks. What a process that was killed in between has left belongs to no object, and garbage
collection removes it; all other objects are whole, and the next run goes on with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from hyperslab.errors import Invalid
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection
from hyperslab.formats.mongo.document import RETIRED
from hyperslab.formats.mongo.objects import delete_object, finish_replacements
from hyperslab.formats.mongo.search import Criteria, ObjectInfo, equal_in_bson, find_object, find_objects
from hyperslab.formats.mongo.server import server_time
from hyperslab.model.amounts import is_whole_number, parse_seconds


def expire_objects(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    attrs: Document | None = None,
    *,
    older_than: float | timedelta | None = None,
    keep_newest: int | None = None,
    dry_run: bool = False,
    **criteria: Any,
) -> Iterator[ObjectInfo]:
    """Remove objects while the result is iterated, and yield what was known of each; with ``dry_run`` only yield.

    ``attrs`` and ``criteria``, as of :func:`find_objects`, find those that may go. Of these go all that were made
    more than ``older_than`` seconds ago, by the server's clock, but for the ``keep_newest`` newest ones of each name.
    Older versions of an object are objects of its name.
    Objects without a name share none: they go by age alone (``older_than``, or ``until`` among the criteria). Invalid.
    """
    seconds = None if older_than is None else parse_seconds(older_than, "older_than")
    if keep_newest is not None and (not is_whole_number(keep_newest) or keep_newest < 1):
        raise Invalid(f"keep_newest={keep_newest!r}", remedy="give a whole number of at least 1")
    is_by_age = seconds is not None or criteria.get("until") is not None
    if keep_newest is None and not is_by_age:
        remedy = "give older_than, keep_newest or until (--older-than, --keep-newest, --until)"
        raise Invalid("nothing says which objects are old", remedy=remedy)
    wanted = Criteria.of(attrs, *map(criteria.get, ("dims", "names", "name", "since", "until")))
    # By name and from the newest on, in which order one index has them: nothing has to be remembered of other names.
    found = find_objects(meta, attrs, versions=True, order="created" if keep_newest is None else "-name", **criteria)

    def expire() -> Iterator[ObjectInfo]:
        if not dry_run:
            finish_replacements(meta, chunks)  # what is not a version yet would not be counted, and stay
        latest = None if seconds is None else server_time(meta) - timedelta(seconds=seconds)
        for newer, info in enumerate(found, 1) if keep_newest is None else _with_ranks(found):
            if keep_newest is not None and (not is_by_age if info.name is None else newer <= keep_newest):
                continue
            if latest is not None and (info.created is None or info.created >= latest):
                continue
            if not dry_run:
                # One that got other attributes meanwhile may be wanted, of another name it may be the newest.
                now = find_object(meta, info.id, wanted)
                if now is None or (keep_newest is not None and not equal_in_bson(now.name, info.name)):
                    continue
                delete_object(meta, chunks, info.id)
            yield info

    return expire()


def _with_ranks(found: Iterable[ObjectInfo]) -> Iterator[tuple[int, ObjectInfo]]:
    """Yield objects, which come by name and from the newest on, each with its number among those of its name: first the
    present ones, then the older versions, the one that was replaced last first.

    Ids do not tell that: they have the second of the clock of whoever put the object. With its rank by id a present
    object would be taken for older than a version of it that was put within the same second, or where a clock is ahead.
    """
    name, rank, older = None, 0, list[ObjectInfo]()
    for info in found:
        if not equal_in_bson(info.name, name):
            yield from enumerate(_newest_first(older), rank + 1)
            name, rank, older = info.name, 0, []
        if info.status == RETIRED and name is not None:
            older.append(info)
        else:
            rank += 1
            yield rank, info
    yield from enumerate(_newest_first(older), rank + 1)


def _newest_first(versions: list[ObjectInfo]) -> list[ObjectInfo]:
    always = datetime.min.replace(tzinfo=UTC)
    return sorted(versions, key=lambda info: info.retired or always, reverse=True)
