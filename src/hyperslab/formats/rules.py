"""Damage as data: a :class:`Rule` says what one kind of problem is, how it is found, how it is mended and what is lost.

``hyperslab.integrity.rules`` has those of documents and chunks under keys; a format that knows of more has ``RULES`` in
its own module ``rules``. A :class:`Finding` is one problem with what mends it. Only ``integrity`` looks through a
dataset by rules and carries the mends out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from hyperslab.errors import Problem

Act = Callable[[], object]
Plan = tuple[str, Act] | None
"""What mends a problem: the action in words, and the deed; None where nothing does."""


class Place(Enum):
    """What a rule looks at. The finders of a format are called with its own survey of the dataset."""

    BESIDE = "beside the dataset"
    DATASET = "the whole dataset, after all its nodes"
    GROUP = "a group and its arrays, after them"
    NODE = "the documents of a node and the names in its folder"
    ARRAY = "an array, after its chunks"
    ENTRY = "a file or folder in the folder of an array"
    CHUNK = "a stored chunk or shard"


class Stage(IntEnum):
    """In which order things are mended: what the documents say decides what is wrong with the chunks."""

    DOCUMENTS = 1
    MEANING = 2
    DIMENSIONS = 3
    OBJECTS = 4
    COPIES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and what mends it: the ``action`` in words (None: that of its rule, or nothing), and as a deed,
    ``act``, after copies of the keys ``keep`` are kept or what lies at ``take`` is taken out.

    ``key``: what it is about: a chunk, a document, a folder, a stray. ``settles``: kinds of problems of that key, and
    of those below it, that are this one again. ``part``: what a repair can be limited to (``"links"``). ``wish``: what
    has to be asked of a repair for it to be mended. ``sound``: no problem, but worth a note, or can be made better.
    ``coords``: the place of a chunk in its grid. ``detail``: what the mend of its rule has to know besides. ``rule``:
    the rule that it is of.
    """

    problem: Problem
    action: str | None = None
    act: Act | None = None
    keep: tuple[str, ...] = ()
    take: str = ""
    key: str = ""
    settles: frozenset[str] = frozenset()
    part: str = ""
    wish: str = ""
    sound: bool = False
    coords: tuple[int, ...] | None = None
    detail: Any = None
    rule: Rule | None = None

    @property
    def order(self) -> tuple[str, str, tuple[int, ...], str]:
        """Return the key to sort findings by: node, kind, then place."""
        return self.problem.node, self.problem.kind, self.coords or (), self.key


def nothing() -> None:
    """Do nothing: another mend brings this one about."""


def found(node: str, kind: str, message: str, **more: Any) -> Finding:
    """Return a finding of these words."""
    return Finding(Problem(node, kind, message), **more)


Finder = Callable[..., Iterable[Finding]]
Mend = Callable[[Any, Finding], Plan]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of damage, or several that are one to whoever reads of them: a row of the table in the documentation.

    ``what``: what it is, and ``how``: how it is mended, as the table says it. ``place``: what it looks at. ``find``:
    yields the findings of such a place; several rules may share one, None where the format's own look yields them.
    ``mend``: plans the mend of a finding, given the state of the repair; None where findings bring their own, or
    nothing mends it. ``deep``: looked for only where every chunk is decoded. ``loses``: what a mend costs, empty:
    nothing. ``fields``: also of kinds named after a field. ``questions``: the document of the array is in question, so
    that nothing is mended that it may be the cause of (``doubtful``). ``mends_notes``: mended though it is only a note.
    """

    kinds: tuple[str, ...]
    what: str
    how: str
    place: Place = Place.DATASET
    find: Finder | None = None
    mend: Mend | None = None
    stage: Stage = Stage.MEANING
    deep: bool = False
    loses: str = ""
    fields: bool = False
    questions: bool = False
    doubtful: bool = False
    mends_notes: bool = False


class Rules:
    """A table of rules, asked by place and by kind."""

    def __init__(self, *table: Rule) -> None:
        self.table = table
        self._by_kind = {kind: rule for rule in table for kind in rule.kinds}

    def of(self, kind: str) -> Rule | None:
        """Return the rule of a kind; of one that is named after a field that of such."""
        return self._by_kind.get(kind) or next((rule for rule in self.table if rule.fields), None)

    def finders(self, place: Place, *, deep: bool) -> list[Finder]:
        """Return how the rules of a place find what they are of, each once."""
        chosen = (rule for rule in self.table if rule.place is place and (deep or not rule.deep))
        return list(dict.fromkeys(rule.find for rule in chosen if rule.find is not None))

    def apply(self, place: Place, view: object, *, deep: bool) -> Iterator[Finding]:
        """Yield what the rules of a place find in one such place, each finding with its rule."""
        for find in self.finders(place, deep=deep):
            yield from map(self.with_rule, find(view))

    def with_rule(self, finding: Finding) -> Finding:
        """Return a finding that knows its rule."""
        return finding if finding.rule is not None else replace(finding, rule=self.of(finding.problem.kind))
