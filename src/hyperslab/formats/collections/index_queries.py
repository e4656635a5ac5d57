"""Queries of the tables of an index: rows that fulfil conditions, in an order, and no more than a limit."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

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


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A test of one attribute: its encoded rank lies in one of the ``spans``, and its text matches the ``pattern`` of
    ``fnmatch``, where there is one; ``negated``: the opposite."""

    spans: Sequence[Span]
    pattern: str | None = None
    negated: bool = False


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
    """One question: ``alternatives``, of which one must hold, each by attribute the tests that must all hold.

    The database has a table ``temp.excluded`` of ids that no answer has, and where ``has_overlay`` rows in ``overlay``
    that count in place of those in ``main`` with the same ids.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        columns: IndexColumns,
        alternatives: Sequence[Mapping[str, ColumnTest]],
        *,
        has_overlay: bool,
    ) -> None:
        self._connection = connection
        self._columns = columns
        self._has_overlay = has_overlay
        self._alternatives = [
            {
                columns.names[name]: _Test(connection, f"{number}_{place}", test)
                for place, (name, test) in enumerate(tests.items())
            }
            for number, tests in enumerate(alternatives)
        ]

    def ids(self, order: str | None, limit: int | None, *, backwards: bool) -> list[str]:
        """Return the ids in the order of an attribute, then of the key, then of ids; backwards those without a value
        stay last."""
        column = None if order is None else self._columns.names[order]
        columns = [*self._columns.order(column), "id"]
        by = self._most_telling(columns[0])
        if not backwards or column is None:
            return self._select(by, columns, limit, backwards=backwards)
        known = self._select(by, columns, limit, f"{column} < x'02'", backwards=True)
        rest = None if limit is None else limit - len(known)
        if rest == 0:
            return known
        return known + self._select(by, columns, rest, f"{column} >= x'02'")

    def _most_telling(self, first: str) -> str:
        """Return the column whose test the fewest rows pass, or about so few; of those that have an index. ``first``:
        the one that rows are sorted by, where no test narrows them down."""
        if len(self._alternatives) != 1 or all(each.negated for each in self._alternatives[0].values()):
            return first
        tests = {column: each for column, each in self._alternatives[0].items() if not each.negated}
        known = {column: each for column, each in tests.items() if column in self._columns.indexed}
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
        values: list[bytes | str] = []
        index = f"INDEXED BY by_{by}" if by in self._columns.indexed else "NOT INDEXED"
        tests = [only or "TRUE", "id NOT IN temp.excluded"]
        # A sign before a column has SQLite not look for another index than that which was chosen.
        many = [
            [each.text(column if column == by else f"+{column}") for column, each in alternative.items()]
            for alternative in self._alternatives
        ]
        if many:
            tests.append(" OR ".join(f"({' AND '.join(each) or 'TRUE'})" for each in many))
        for schema in ("main", "overlay") if self._has_overlay else ("main",):
            shadowed = " AND id NOT IN overlay.shadowed" if self._has_overlay and schema == "main" else ""
            where = " AND ".join(f"({test})" for test in tests)
            parts.append(f"SELECT {', '.join(columns)} FROM {schema}.arrays {index} WHERE {where}{shadowed}")
            values += [value for each in self._alternatives for test in each.values() for value in test.values]
        order = ", ".join(f"{column} DESC" if backwards else column for column in columns)
        text = f"{' UNION ALL '.join(parts)} ORDER BY {order} LIMIT {-1 if limit is None else limit}"
        return [row[-1] for row in self._connection.execute(text, values)]


def _matches(rank: bytes, pattern: str) -> bool:
    """Return True if the text in an encoded rank, which stands behind its first byte, matches a pattern."""
    return fnmatchcase(rank[1:].decode("utf-8", "surrogatepass"), pattern)


class _Test:
    """The test of one column, in a statement."""

    def __init__(self, connection: sqlite3.Connection, place: str, test: ColumnTest) -> None:
        self.negated = test.negated
        self._spans, self._pattern = test.spans, test.pattern
        self._table = ""
        self._are_values = all(low == high and closed for low, high, closed in test.spans)
        self.values: list[bytes | str] = []
        if self._are_values:
            self.values += [low for low, _, _ in test.spans]
            if len(test.spans) > _INLINE:
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
            self.values += [end for low, high, _ in test.spans for end in (low, high)]
        if test.pattern is not None:
            # By the function that looks at records: SQLite's own patterns differ from it in brackets and at NUL.
            connection.create_function("matches", 2, _matches, deterministic=True)
            self.values.append(test.pattern)

    def text(self, column: str) -> str:
        """Return the test of a column; its parameters are ``values``."""
        if self._table:
            found = f"{column} IN {self._table}"
        elif self._are_values:
            found = f"{column} IN ({', '.join('?' * len(self._spans))})"
        else:
            tests = (f"{column} >= ? AND {column} <{'=' if closed else ''} ?" for _, _, closed in self._spans)
            found = f"({' OR '.join(tests)})"
        if self._pattern is not None:
            found = f"({found} AND matches({column}, ?))"
        return f"NOT {found}" if self.negated else found
