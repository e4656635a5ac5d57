"""The routes under ``/api/`` for the explorer in the browser: JSON, and the cells of views as floats.

All of it is read by threads of the pool, and bounded in bytes and time. Views are read by few threads at once, and what
takes long no longer than its client waits.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hyperslab.array import Array
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.conditions import split_conditions
from hyperslab.group import Group
from hyperslab.model.spec import ArraySpec
from hyperslab.web.answers import PlainJson, error_answer, link_to
from hyperslab.web.axes import parse_number
from hyperslab.web.bounded_values import cut_text
from hyperslab.web.cell_places import read_places
from hyperslab.web.dataset_cache import DatasetCache
from hyperslab.web.exports import ExportedFile, ExportQuery, export_arrays, export_columns, export_part, export_records
from hyperslab.web.histogram import read_histogram
from hyperslab.web.nodes import cell_facts, list_nodes, node_facts
from hyperslab.web.places import FoundDataset, FoundFolder, ServedPlace, find_place, split_path
from hyperslab.web.rows import (
    MOST_ROWS,
    is_collection,
    read_found,
    read_objects,
    read_plane,
    read_records,
    read_rows,
    records_of,
)
from hyperslab.web.views import ViewQuery, choose_axes, pack_view, read_view
from hyperslab.web.waiting import StillWaiting

Work = Callable[[list[str], Mapping[str, list[str]], StillWaiting], Response]
# Seconds between two looks whether the client of a view still waits.
_LOOK_EVERY = 0.2
# Rows, pixels along an axis, and bars, of who names no number.
_ROWS, _PIXELS, _BINS = 100, 512, 64
_HEADERS = {"cache-control": "no-cache"}
# Dimensions that a request may choose positions of.
_MOST_CHOICES = 64
_PRINTABLE = re.compile(r"[^\x00-\x1f\x7f]*")


class Explorer:
    """The routes under ``/api/`` for the ``places``; ``run`` has a thread of the pool do something."""

    def __init__(
        self, places: Mapping[str, ServedPlace], run: Callable[[Callable[[], Response]], Awaitable[Response]]
    ) -> None:
        self._places = places
        self._run = run
        self._datasets = DatasetCache(lambda where: any(place.holds(where) for place in places.values()))
        # As many views are read at once as there are processors: each of them takes one, and memory.
        self._views = asyncio.Semaphore(os.cpu_count() or 1)

    @property
    def routes(self) -> list[Route]:
        """The routes, all of them for GET."""
        works: dict[str, Work] = {
            "browse": self._browse,
            "node": self._node,
            "cell": self._cell,
            "rows": self._rows,
            "view": self._view,
            "histogram": self._histogram,
            "export": self._export,
        }
        views = ("view", "histogram", "export")
        answers = {name: partial(self._answer, work=work, is_view=name in views) for name, work in works.items()}
        return [
            Route(f"/api/{name}{below}", answer) for name, answer in answers.items() for below in ("", "/{path:path}")
        ]

    def close(self) -> None:
        """Let go of all datasets."""
        self._datasets.close()

    async def _answer(self, request: Request, *, work: Work, is_view: bool) -> Response:
        """Answer a request by a thread; errors as JSON."""
        gone = threading.Event()
        try:
            parts = split_path(request.scope["raw_path"], 3)
            query = parse_query(request)
            doing = partial(work, parts, query, lambda: not gone.is_set())
            if not is_view:
                return await self._run_while_awaited(request, doing, gone)
            async with self._views:
                if await request.is_disconnected():
                    gone.set()
                return await self._run_while_awaited(request, doing, gone)
        except HyperslabError as error:
            return error_answer(error)

    async def _run_while_awaited(
        self, request: Request, doing: Callable[[], Response], gone: threading.Event
    ) -> Response:
        """Run something that ends soon once ``gone`` is set, which is when the client is."""
        running = asyncio.ensure_future(self._run(doing))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # also where nobody waits any more
        try:
            while not running.done():
                await asyncio.wait([running], timeout=_LOOK_EVERY)
                if not running.done() and await request.is_disconnected():
                    gone.set()
            return running.result()
        finally:
            gone.set()

    # -- what is answered, by a thread -----------------------------------------------------------------------------

    def _find(self, parts: list[str]) -> FoundDataset:
        found = find_place(self._places, parts)
        if isinstance(found, FoundFolder):
            raise Invalid("this is no dataset", node="/".join(parts), remedy="browse it")
        return found

    def _open_node(self, parts: list[str], query: Mapping[str, list[str]]) -> tuple[FoundDataset, str]:
        """Return the dataset and the path of a node."""
        found = self._find(parts)
        return found, self._path_of(found, query)

    def _path_of(self, found: FoundDataset, query: Mapping[str, list[str]]) -> str:
        """Return the path of a node: what stands in the query, else behind the dataset."""
        return single_value(query, "node") or found.key

    def _open_array(self, parts: list[str], query: Mapping[str, list[str]]) -> Array:
        found, path = self._open_node(parts, query)
        return self._datasets.open_array(found.view.where, path)

    def _browse(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        """Return what lies there: places, names in a folder or database, or the nodes of a dataset."""
        if not parts:
            names = list(self._places)
            return PlainJson({"kind": "places", "names": names, "is_whole": True}, headers=_HEADERS)
        found = find_place(self._places, parts)
        if isinstance(found, FoundFolder):
            kind = "database" if found.is_database else "folder"
            facts = {"kind": kind, "path": "/".join(parts), "names": found.names, "is_whole": found.is_whole}
            return PlainJson(facts, headers=_HEADERS)
        group = single_value(query, "node") or found.key
        depth = parse_depth(single_value(query, "depth"))
        nodes = list_nodes(self._datasets, found.view.where, group, single_value(query, "after"), depth)
        dataset = parts[: len(parts) - (len(found.key.split("/")) if found.key else 0)]
        zarr = link_to("zarr", *dataset)
        facts = {"kind": "dataset", "path": "/".join(dataset), "zarr": zarr, **nodes}
        return PlainJson(facts, headers=_HEADERS)

    def _node(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        found, path = self._open_node(parts, query)
        return PlainJson(node_facts(self._datasets, found.view.where, path), headers=_HEADERS)

    def _rows(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        """Return rows of a node, of the arrays of a collection that are chosen, or of the objects of a database."""
        start = parse_number(single_value(query, "start") or "0", "start")
        count = min(parse_number(single_value(query, "count") or str(_ROWS), "count"), MOST_ROWS)
        conditions, order = parse_conditions(query)
        found = find_place(self._places, parts)
        if isinstance(found, FoundFolder):
            objects = self._places[parts[0]].describe_objects(start, count + 1, conditions, order)
            answer = read_objects(objects, start, count)
        elif conditions or order:
            path = single_value(query, "node") or found.key
            arrays, python = self._datasets.find_arrays(found.view.where, path, conditions, order)
            answer = {**read_found(arrays, start, count), "python": python}
        else:
            path = single_value(query, "node") or found.key
            session, path, spec = self._datasets.open_node(found.view.where, path)
            if isinstance(spec, ArraySpec) and single_value(query, "x"):
                answer = read_plane(Array(session, path, spec), view_query(query), start, count)
            else:
                answer = read_rows(session, path, spec, start, count, is_waiting)
        return PlainJson({**answer, "conditions": conditions}, headers=_HEADERS)

    def _cell(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        array = self._open_array(parts, query)
        text = single_value(query, "index") or ""
        index = tuple(parse_number(each, "index") for each in text.split(",", _MOST_CHOICES)) if text else ()
        return PlainJson(cell_facts(array, index), headers=_HEADERS)

    def _view(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        if parse_flag(query, "thumbnail"):
            found, path = self._open_node(parts, query)
            array = self._datasets.open_shown_array(found.view.where, path)
            wanted = replace(choose_axes(array, view_query(query)), quick=True)
        else:
            array, wanted = self._open_array(parts, query), view_query(query)
        head, cells = read_places(array, wanted) if wanted.positions else read_view(array, wanted, is_waiting)
        return Response(pack_view(head, cells), media_type="application/octet-stream", headers=_HEADERS)

    def _export(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        """Return a file of a part of an array, or of the rows that are shown of anything else."""
        wanted = export_query(query)
        found = find_place(self._places, parts)
        if isinstance(found, FoundDataset):
            session, path, spec = self._datasets.open_node(found.view.where, self._path_of(found, query))
            if isinstance(spec, ArraySpec):
                file = export_part(Array(session, path, spec), wanted, is_waiting)
                return Response(file.data, media_type=file.media_type, headers=file.headers)
        if wanted.format != "csv":
            raise Invalid("rows of another format than CSV", remedy="take csv, or name an array")
        if isinstance(found, FoundFolder):
            conditions, order = parse_conditions(query)
            objects = self._places[parts[0]].all_objects(conditions, order)
            file = export_records(objects, parts[-1], is_waiting)
        else:
            file = self._export_rows(found, Group(session, path), query, is_waiting)
        return Response(file.data, media_type=file.media_type, headers=file.headers)

    def _export_rows(
        self, found: FoundDataset, group: Group, query: Mapping[str, list[str]], is_waiting: StillWaiting
    ) -> ExportedFile:
        """Return the rows of a table or a collection, of which conditions choose some."""
        conditions, order = parse_conditions(query)
        if conditions or order:
            where, path = found.view.where, self._path_of(found, query)
            arrays, _ = self._datasets.find_arrays(where, path, conditions, order)
            return export_arrays(records_of(arrays), group.name, is_waiting)
        if is_collection(group._session, group.path):
            records = read_records(group._session, group.path, 0, is_waiting)
            return export_arrays(records, group.name, is_waiting)
        return export_columns(group, group.name, is_waiting)

    def _histogram(self, parts: list[str], query: Mapping[str, list[str]], is_waiting: StillWaiting) -> Response:
        bins = parse_number(single_value(query, "bins") or str(_BINS), "bins")
        facts = read_histogram(self._open_array(parts, query), view_query(query), bins, is_waiting)
        return PlainJson(facts, headers=_HEADERS)


# -- queries -----------------------------------------------------------------------------------------------------------


def parse_query(request: Request) -> dict[str, list[str]]:
    """Return what a query says, by name; Invalid for control characters."""
    query: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        if _PRINTABLE.fullmatch(value) is None:
            raise Invalid("the query has control characters", remedy="leave them out")
        query.setdefault(name, []).append(value)
    return query


def single_value(query: Mapping[str, list[str]], name: str) -> str | None:
    """Return what a query says of a name, None where it says nothing; Invalid where it says several things."""
    values = query.get(name, [])
    if len(values) > 1:
        raise Invalid(f"{name} is said {len(values)} times", remedy="say it once")
    return values[0] if values else None


def parse_depth(text: str | None) -> int | None:
    """Return how many levels of a dataset are listed, None for all; Invalid."""
    depth = None if text is None else parse_number(text, "a depth")
    if depth == 0:
        raise Invalid("a list of no levels", remedy="give a depth from 1 on")
    return depth


def parse_conditions(query: Mapping[str, list[str]]) -> tuple[list[str], str | None]:
    """Return the conditions for arrays of a collection, or objects of a database, and their order; Invalid."""
    conditions = [*query.get("where", []), *split_conditions(single_value(query, "filter") or "")]
    if len(conditions) > _MOST_CHOICES:
        raise Invalid("so many conditions", remedy=f"give at most {_MOST_CHOICES}")
    return conditions, single_value(query, "order")


def view_query(query: Mapping[str, list[str]]) -> ViewQuery:
    """Return the view that a query asks for; Invalid."""
    return ViewQuery(
        x=single_value(query, "x"),
        y=single_value(query, "y"),
        at=parse_positions(query),
        x_range=single_value(query, "x_range"),
        y_range=single_value(query, "y_range"),
        width=parse_number(single_value(query, "width") or str(_PIXELS), "width"),
        height=parse_number(single_value(query, "height") or str(_PIXELS), "height"),
        field=single_value(query, "field"),
        decoded=parse_flag(query, "decoded", "1"),
        envelope=parse_flag(query, "envelope"),
        positions=parse_flag(query, "positions"),
        quick=parse_flag(query, "quick"),
        part=single_value(query, "part") or "magnitude",
    )


def export_query(query: Mapping[str, list[str]]) -> ExportQuery:
    """Return the file that a query asks for; Invalid."""
    ranges = {}
    for text in _choices(query, "range"):
        name, _, rest = text.rpartition(":")
        name, _, first = name.rpartition(":")
        ranges[name] = f"{first}:{rest}"
    format, decoded = single_value(query, "format") or "", parse_flag(query, "decoded", "1")
    return ExportQuery(format, parse_positions(query), ranges, decoded)


def parse_positions(query: Mapping[str, list[str]]) -> dict[str, int]:
    """Return the positions that ``at=DIM:INDEX`` chooses, by dimension; Invalid."""
    at = {}
    for text in _choices(query, "at"):
        name, _, place = text.rpartition(":")
        at[name] = parse_number(place, "a position (at=DIM:INDEX)")
    return at


def parse_flag(query: Mapping[str, list[str]], name: str, otherwise: str = "0") -> bool:
    """Return True for 1 and False for 0; Invalid for any other text."""
    text = single_value(query, name) or otherwise
    if text not in ("0", "1"):
        raise Invalid(f"{name}={cut_text(text, 40)[0]}", remedy=f"{name} is 0 or 1")
    return text == "1"


def _choices(query: Mapping[str, list[str]], name: str) -> list[str]:
    """Return what a query says of several dimensions; Invalid for more than an array has."""
    choices = query.get(name, [])
    if len(choices) > _MOST_CHOICES:
        raise Invalid("positions of so many dimensions", remedy=f"choose at most {_MOST_CHOICES}")
    return choices
