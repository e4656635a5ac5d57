"""One object in the place of another: stored whole while nobody finds it, then found in one change of its document."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import pymongo
from bson import ObjectId
from pymongo.errors import PyMongoError

from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.planning import planned
from hyperslab.bridges.mongo.reading import check_complete
from hyperslab.bridges.mongo.writing import PATIENCE, delayed_writes, lazy_tasks, make_indexes, store_whole
from hyperslab.errors import NotFound
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.document import render
from hyperslab.formats.mongo.names import STATUS, WRITING
from hyperslab.formats.mongo.objects import commit, resolve


def replace(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> tuple[ObjectId, Any]:
    """Store ``x``, and let it take the place of the object of this name or id; the new id, and a Delayed or None."""
    plan = planned(x, options)
    if plan.lazy:
        origin.check_travel()
    here = origin.open()
    by_id = isinstance(name_or_id, ObjectId) or ObjectId.is_valid(name_or_id)
    try:
        old = resolve(here.meta, name_or_id)
    except NotFound:
        if isinstance(name_or_id, ObjectId):
            raise
        old, by_id = None, False
    name = None if by_id else name_or_id
    ours = {**plan.meta.ours, "status": WRITING, **({"replaces": old} if by_id else {})}
    kept = (here.meta.find_one({"_id": old}, {"name": 1}) or {}).get("name") if by_id else None
    plan = dataclasses.replace(plan, meta=dataclasses.replace(plan.meta, ours=ours, name=kept))
    make_indexes(here, options, plan.positions)
    swap = NameSwap(origin, plan.meta.id, name, options.verify)
    try:
        here.meta.insert_one(render(plan.meta))
        store_whole(here, plan)
        if not plan.lazy:
            swap.carry_out()
    except BaseException:
        with suppress(PyMongoError), pymongo.timeout(PATIENCE):
            if here.meta.delete_one({"_id": plan.meta.id, STATUS: {"$exists": True}}).deleted_count:
                stored.delete(here.chunks, plan.meta.id)
        raise
    return plan.meta.id, delayed_writes(lazy_tasks(origin, plan), swap) if plan.lazy else None


class NameSwap:
    """The change by which a new object is found instead of the old one."""

    def __init__(self, origin: ObjectOrigin, meta_id: ObjectId, name: str | None, verify: bool) -> None:
        self.origin = origin
        self.meta_id = meta_id
        self.name = name
        self.verify = verify

    def carry_out(self) -> None:
        """Make it; once more does no harm."""
        here = self.origin.open()
        if self.verify:
            check_complete(here, self.meta_id)
        commit(here.meta, here.chunks, self.meta_id, self.name)
