"""Rows of attribute values, by id and in the orders that were asked for; what of them fulfils a query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from hyperslab.database.conditions import Condition, Query, Rank, ranker
from hyperslab.model.schemas import AnyArraySchema, Record

Row = tuple[Any, ...]
"""An id, then the values of the attributes in the schema's order."""
_FEW = 64
_COSTLIER = 16
"""How many times as long it takes to put a row into a sorted list as to sort it with all others."""


class AttributeColumns:
    """Where the values of an attribute stand in a row, and how they rank."""

    def __init__(self, schema: AnyArraySchema) -> None:
        self.attributes = schema.attributes
        self._place = {attribute.name: place for place, attribute in enumerate(schema.attributes, 1)}
        self._rankers = {attribute.name: ranker(attribute) for attribute in schema.attributes}
        self.key = [attribute.name for attribute in schema.primary_attributes]

    def row(self, record: Record, id: str) -> Row:
        """A record as a row of this id."""
        parts = (record.primary if known.primary else record.custom for known in self.attributes)
        return (id, *(part.get(known.name) for part, known in zip(parts, self.attributes, strict=True)))

    def rank(self, name: str) -> Callable[[Row], Rank]:
        """What gives the rank of a row's attribute."""
        place, rank = self._place[name], self._rankers[name]
        return lambda row: rank(row[place])

    def order(self, name: str | None) -> Callable[[Row], Row]:
        """What rows are sorted by: an attribute, among equals the key, and the id in the end."""
        ranks = [self.rank(known) for known in ([] if name is None else [name]) + self.key]
        return lambda row: (*[rank(row) for rank in ranks], row[0])


class Table:
    """Rows by id, and in the orders that were asked for."""

    def __init__(self, columns: AttributeColumns) -> None:
        self.rows: dict[str, Row] = {}
        self._columns = columns
        self._sorted: dict[str | None, list[Row]] = {}

    def change(self, gone: Iterable[str], rows: Mapping[str, Row]) -> None:
        """Take rows out by id, and put others in or in the place of their like."""
        old = [row for id in {*gone, *rows} if (row := self.rows.pop(id, None)) is not None]
        self.rows.update(rows)
        count = len(old) + len(rows)
        if count > _FEW and count * _COSTLIER > len(self.rows):
            self._sorted.clear()
        for name, rows_in_order in self._sorted.items():
            order = self._columns.order(name)
            for row in old:
                del rows_in_order[bisect_left(rows_in_order, order(row), key=order)]
            for row in rows.values():
                insort(rows_in_order, row, key=order)

    def found(self, query: Query) -> list[Row]:
        """The rows that fulfil a query: those of its most telling condition, then of these those of all others."""
        if not query.conditions:
            return self._turned(self._in_order(query.order), query)
        spans = {condition.attribute.name: self._spans(condition) for condition in query.conditions}
        first = min(query.conditions, key=lambda each: sum(map(len, spans[each.attribute.name])))
        name = first.attribute.name
        in_order = self._in_order(name)
        rows = [row for span in spans[name] for row in in_order[span.start : span.stop]]
        for condition in query.conditions:
            if condition is not first:
                rank = self._columns.rank(condition.attribute.name)
                rows = [row for row in rows if condition.fits(rank(row))]
        if name != query.order:
            rows.sort(key=self._columns.order(query.order))
        return self._turned(rows, query)

    def _turned(self, rows: list[Row], query: Query) -> list[Row]:
        """Rows in the order of a query; backwards those without a value stay last."""
        if not query.backwards or query.order is None:
            return rows[::-1] if query.backwards else rows[:]
        known = bisect_left(rows, (1,), key=self._columns.rank(query.order))
        return rows[:known][::-1] + rows[known:]

    def _spans(self, condition: Condition) -> list[range]:
        """The places of rows that fulfil a condition, in the order of its attribute."""
        name = condition.attribute.name
        rows, rank = self._in_order(name), self._columns.rank(name)
        found = []
        for span in condition.spans:
            start = bisect_left(rows, span.low, key=rank)
            end = bisect_right if span.closed else bisect_left
            found.append(range(start, max(end(rows, span.high, key=rank), start)))
        return found

    def _in_order(self, name: str | None) -> list[Row]:
        """All rows in the order of an attribute, or of the key: sorted by what counts least first, which takes the
        least memory."""
        if name in self._sorted:
            return self._sorted[name]
        if name is None:
            rows = sorted(self.rows.values(), key=itemgetter(0))
            for known in reversed(self._columns.key):
                rows.sort(key=self._columns.rank(known))
        else:
            rows = sorted(self._in_order(None), key=self._columns.rank(name))
        self._sorted[name] = rows
        return rows
