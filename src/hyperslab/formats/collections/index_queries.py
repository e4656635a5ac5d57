"""What queries ask of the tables of an index: the rows that fulfil conditions, in an order, and no more than wanted."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from hyperslab.model.schemas import AttributeSchema

Span = tuple[bytes, bytes, bool]
"""The first and last encoded rank that fits; True if the last one does."""

# Attributes that have an index in the order of their values, those of the key first: each takes some 10 us of every
# creation, and 70 bytes of an array. By others all rows are looked through, a million in half a second.
INDEXED_ATTRIBUTES = 8

# Members of a condition up to which they stand in the statement; more go into a table of their own.
_INLINE = 64

# Rows of a condition that are counted at most, in steps, to find the one that fits the fewest: a step costs less than
# the query does when the condition before it was the best.
_STEPS = (1 << 10, 1 << 15, 1 << 62)


class IndexColumns:
    """The columns of attributes, and their indexes."""

    def __init__(self, attributes: Sequence[AttributeSchema]) -> None:
        self.names = {each.name: f"a{place}" for place, each in enumerate(attributes)}
        self.key = [self.names[each.name] for each in attributes if each.primary]
        self.indexed = [*self.key, *(name for name in self.names.values() if name not in self.key)][:INDEXED_ATTRIBUTES]

    def order(self, name: str | None) -> list[str]:
        """Return the columns that rows are sorted by: an attribute, among equals the key; the id comes last."""
        return list(dict.fromkeys([*([] if name is None else [name]), *self.key]))


class IndexQuery:
    """One question: ``conditions``, by attribute the spans that its rank may lie in.

    The database has a table ``temp.hidden`` of ids that no answer has, and where ``has_fresh`` rows in ``fresh``, which
    hide some in ``main``.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        columns: IndexColumns,
        conditions: Mapping[str, Sequence[Span]],
        *,
        has_fresh: bool,
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._has_fresh = has_fresh
        self._spans = {
            columns.names[name]: _Spans(connection, place, spans)
            for place, (name, spans) in enumerate(conditions.items())
        }

    def ids(self, order: str | None, limit: int | None, *, backwards: bool) -> list[str]:
        """Return the ids in the order of an attribute, then of the key, then of ids; backwards those without a value
        stay last."""
        column = None if order is None else self._columns.names[order]
        columns = [*self._columns.order(column), "id"]
        by = self._most_telling() if self._spans else columns[0]
        if not backwards or column is None:
            return self._select(by, columns, limit, backwards=backwards)
        known = self._select(by, columns, limit, f"{column} < x'02'", backwards=True)
        rest = None if limit is None else limit - len(known)
        if rest == 0:
            return known
        return known + self._select(by, columns, rest, f"{column} >= x'02'")

    def _most_telling(self) -> str:
        """Return the column whose condition the fewest rows fulfil, or about so few; of those that have an index."""
        known = {column: each for column, each in self._spans.items() if column in self._columns.indexed}
        if len(known) < 2:
            return next(iter(known), "")
        for most in _STEPS:
            counts: dict[str, int] = {}
            for column, each in known.items():
                rows = f"SELECT 1 FROM main.arrays INDEXED BY by_{column} WHERE {each.text(column)} LIMIT {most}"
                counts[column] = self._connection.execute(f"SELECT count(*) FROM ({rows})", each.values).fetchone()[0]
            best = min(counts, key=lambda column: counts[column])
            if counts[best] < most:
                return best
        return next(iter(known))

    def _select(
        self,
        by: str,
        columns: Sequence[str],
        limit: int | None,
        only: str = "",
        *,
        backwards: bool = False,
    ) -> list[str]:
        """Return ids by the index of one column, where it has one, in the order of columns; ``only``: one condition
        more."""
        parts: list[str] = []
        values: list[bytes] = []
        index = f"INDEXED BY by_{by}" if by in self._columns.indexed else "NOT INDEXED"
        tests = [only or "TRUE", "id NOT IN temp.hidden"]
        # A sign before a column has SQLite not look for another index than that which was chosen.
        tests += [each.text(column if column == by else f"+{column}") for column, each in self._spans.items()]
        for schema in ("main", "fresh") if self._has_fresh else ("main",):
            hides = " AND id NOT IN fresh.hides" if self._has_fresh and schema == "main" else ""
            parts.append(f"SELECT {', '.join(columns)} FROM {schema}.arrays {index} WHERE {' AND '.join(tests)}{hides}")
            values += [value for each in self._spans.values() for value in each.values]
        order = ", ".join(f"{column} DESC" if backwards else column for column in columns)
        text = f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT {-1 if limit is None else limit}"
        return [row[-1] for row in self._connection.execute(text, values)]


class _Spans:
    """The spans of one condition, in a statement."""

    def __init__(self, connection: sqlite3.Connection, place: int, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._table = ""
        self._are_values = all(low == high and closed for low, high, closed in spans)
        self.values: list[bytes] = []
        if self._are_values:
            self.values = [low for low, _, _ in spans]
            if len(spans) > _INLINE:
                self._table = f"temp.wanted{place}"
                connection.execute(
                    f"CREATE TEMP TABLE IF NOT EXISTS wanted{place}(value BLOB PRIMARY KEY) WITHOUT ROWID"
                )
                connection.execute(f"DELETE FROM {self._table}")
                connection.executemany(
                    f"INSERT OR IGNORE INTO {self._table} VALUES (?)", [(each,) for each in self.values]
                )
                self.values = []
        else:
            self.values = [end for low, high, _ in spans for end in (low, high)]

    def text(self, column: str) -> str:
        """Return the condition on a column; its parameters are ``values``."""
        if self._table:
            return f"{column} IN {self._table}"
        if self._are_values:
            return f"{column} IN ({', '.join('?' * len(self.values))})"
        tests = (f"{column} >= ? AND {column} <{'=' if closed else ''} ?" for _, _, closed in self._spans)
        return f"({' OR '.join(tests)})"
