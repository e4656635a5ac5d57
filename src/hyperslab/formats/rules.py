"""Damage as data: a :class:`Rule` says what one kind of problem is, where it lies, how it is found and how mended.

``hyperslab.integrity.rules`` has those of documents and chunks under keys; a format that knows of more has ``RULES`` in
its own module ``rules``. A :class:`Finding` is one problem with what mends it. Only ``integrity`` looks through a
dataset by rules and carries the mends out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any

from hyperslab.errors import Invalid, Problem
from hyperslab.model.dims import Index, ScaleIndex
from hyperslab.selection.labels import lookup_of
from hyperslab.selection.lookup import Names, NumberLabels

Act = Callable[[], object]
# Chunks whose cells a message names.
_SHOWN = 6
Plan = tuple[str, Act] | None
"""What mends a problem: the action in words, and the deed; None where nothing does."""


class Subject(Enum):
    """What a rule looks at. The finders of a format are called with its own survey of the dataset."""

    BESIDE = "beside the dataset"
    DATASET = "the whole dataset, after all its nodes"
    GROUP = "a group and its arrays, after them"
    NODE = "the documents of a node and the names in its folder"
    ARRAY = "an array, after its chunks"
    ENTRY = "a file or folder in the folder of an array"
    CHUNK = "a stored chunk or shard"


class Stage(IntEnum):
    """When a mend is done: as soon as what it needs is so. Before each stage the dataset is looked at anew, so that a
    mend goes by what the stages before it put right."""

    START = 1
    """It needs nothing: documents that are gone, or of which nothing can be understood, come back."""
    DOCUMENTS_READABLE = 2
    """Every document can be read that will be: what one says wrongly, or of others, is written right. What a finding
    itself brings as its deed is done here, too."""
    DOCUMENTS_RIGHT = 3
    """Every document says what is meant: arrays get the lengths of their dimensions."""
    SHAPES_FINAL = 4
    """No array gets another shape: what lies in place of its chunks, and outside of its grid, is known. Chunks are
    decoded for this stage alone."""
    ALL_ELSE_MENDED = 5
    """Nothing changes any more: consolidated metadata is written."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, and what mends it: the ``action`` in words (None: that of its rule, or nothing), and as a deed,
    ``act``, after copies of the keys ``keep`` are kept or what lies at ``take`` is taken out.

    ``key``: what it is about: a chunk, a document, a folder, a stray. ``explains``: kinds of problems of that key, and
    of those below it, that come of this one and are not told besides. ``part``: what a repair can be limited to
    (``"links"``). ``wish``: what has to be asked of a repair for it to be mended. ``is_note``: no problem, but worth a
    note, or can be made better. ``coords``: the place of a chunk in its grid. ``detail``: what the mend of its rule has
    to know besides. ``rule``: the rule that it is of, by its kind (``Rules.with_rule``).
    """

    problem: Problem
    action: str | None = None
    act: Act | None = None
    keep: tuple[str, ...] = ()
    take: str = ""
    key: str = ""
    explains: frozenset[str] = frozenset()
    part: str = ""
    wish: str = ""
    is_note: bool = False
    coords: tuple[int, ...] | None = None
    detail: Any = None
    rule: Rule | None = None

    @property
    def order(self) -> tuple[str, str, tuple[int, ...], str]:
        """Return the key to sort findings by: node, kind, then place."""
        return self.problem.node, self.problem.kind, self.coords or (), self.key

    @property
    def stage(self) -> Stage:
        """Return when it is mended."""
        return Stage.DOCUMENTS_READABLE if self.rule is None or self.rule.stage is None else self.rule.stage


FOREIGN = "foreign"
"""The kind of files and folders that no format knows, and the wish that a repair takes them out."""
LINKS = "links"
"""The ``part`` of links, references and consolidated metadata."""


def nothing() -> None:
    """Do nothing: another mend brings this one about."""


def found(node: str, kind: str, message: str, **more: Any) -> Finding:
    """Return a finding of these words."""
    return Finding(Problem(node, kind, message), **more)


def found_at(
    node: str,
    kind: str,
    message: str,
    key: str,
    action: str | None = None,
    act: Act | None = None,
    keep: tuple[str, ...] = (),
    *,
    cells: str = "",
    **more: Any,
) -> Finding:
    """Return a finding about what lies at ``key``, which the message names at its end with the ``cells`` that are in
    question (:func:`span`), and with what mends it."""
    where = f"key={key}, cells {cells}" if cells else f"key={key}"
    return Finding(Problem(node, kind, f"{message} [{where}]"), action, act, keep, key=key, **more)


def found_foreign(node: str, message: str, key: str) -> Finding:
    """Return the note of a file or folder at ``key`` that no format knows, which a repair takes out on wish."""
    return found_at(node, FOREIGN, message, key, "take it out", take=key, is_note=True, wish=FOREIGN)


def span(extent: Sequence[slice], dims: Sequence[str | None] = (), indexes: Mapping[str, Index] | None = None) -> str:
    """Return the cells between two corners as people write them, ``[0:4, 8:12]``; with labels that the array has
    itself, the first and the last of each dimension: ``[0:4, 8:12], time 2026-01-01 to 2026-01-04``."""
    text = f"[{', '.join(f'{part.start}:{part.stop}' for part in extent)}]"
    for dim, part in zip(dims, extent, strict=False):
        index = None if dim is None or indexes is None else indexes.get(dim)
        if dim is not None and index is not None and part.start < part.stop:
            first, last = (_show_label(dim, index, place) for place in (part.start, part.stop - 1))
            text += f", {dim} {first}" if first == last else f", {dim} {first} to {last}"
    return text


def join_spans(spans: Sequence[str]) -> str:
    """Return the cells of several chunks, of the first ones by name."""
    more = f" and {len(spans) - _SHOWN} more" if len(spans) > _SHOWN else ""
    return ", ".join(spans[:_SHOWN]) + more


def _show_label(dim: str, index: Index, position: int) -> str:
    if isinstance(index, ScaleIndex):
        return f"{index.labels([position])[0]}"
    match lookup_of(dim, index):
        case NumberLabels(axis=axis):
            return axis.show(position)
        case Names(names=names):
            return names[position]
    return str(position)


Finder = Callable[..., Iterable[Finding]]
Mend = Callable[[Any, Finding], Plan]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of damage, or several that are one to whoever reads of them: a row of the table in the documentation.

    ``meaning``: what it is, and ``remedy``: what becomes of it and what that costs, both in the words of the table.
    ``subject``: what it looks at. ``find``: yields the findings of one such thing; several rules may share one, None
    where the format's own look yields them. ``mend``: plans the mend of a finding, given the state of the repair, to be
    done at the ``stage``; neither, where findings bring their own deeds or nothing mends it. ``deep``: looked for only
    where every chunk is decoded; a rule that shares its finder leaves it False, since the finder runs for the others.
    ``fields``: also of kinds named after a field. ``questions_document``: a finding says that the document of its array
    may be wrong; ``trusts_document``: mended by what that document says, and so in no array of which a finding
    questions it. ``mends_notes``: mended though it is only a note. ``otherwise``: what to do about one that is not
    mended.
    """

    kinds: tuple[str, ...]
    meaning: str
    remedy: str
    subject: Subject = Subject.DATASET
    find: Finder | None = None
    mend: Mend | None = None
    stage: Stage | None = None
    deep: bool = False
    fields: bool = False
    questions_document: bool = False
    trusts_document: bool = False
    mends_notes: bool = False
    otherwise: str | None = None

    def __post_init__(self) -> None:
        if (self.mend is None) != (self.stage is None):
            raise Invalid(f"a rule of {self.kinds} needs a mend and its stage, or neither")


class Rules:
    """A table of rules, asked by subject and by kind."""

    def __init__(self, *table: Rule) -> None:
        self.table = table
        self._by_kind = {kind: rule for rule in table for kind in rule.kinds}

    def of(self, kind: str, find: Finder | None = None) -> Rule | None:
        """Return the rule of a kind; of one that is named after a field that of such, as this finder yields them."""
        of_fields = (rule for rule in self.table if rule.fields and find in (None, rule.find))
        return self._by_kind.get(kind) or next(of_fields, None)

    def finders(self, subject: Subject, *, deep: bool) -> list[Finder]:
        """Return how the rules of a subject find what they are of, each once."""
        chosen = (rule for rule in self.table if rule.subject is subject and (deep or not rule.deep))
        return list(dict.fromkeys(rule.find for rule in chosen if rule.find is not None))

    def apply(self, subject: Subject, view: object, *, deep: bool) -> Iterator[Finding]:
        """Yield what the rules of a subject find in one such thing, each finding with its rule."""
        for find in self.finders(subject, deep=deep):
            for finding in find(view):
                yield self.with_rule(finding, find)

    def with_rule(self, finding: Finding, find: Finder | None = None) -> Finding:
        """Return a finding, which this finder yielded, that knows its rule."""
        return finding if finding.rule is not None else replace(finding, rule=self.of(finding.problem.kind, find))
