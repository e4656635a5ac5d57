"""Rules are data: each has its row in the table of kinds, and each row its rule."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest
from planting import CASES

from hyperslab.errors import Invalid
from hyperslab.formats.blaze.rules import RULES as BLAZE
from hyperslab.formats.bloscpack.rules import RULES as BLOSCPACK
from hyperslab.formats.collections.deker.rules import RULES as DEKER
from hyperslab.formats.collections.own.rules import RULES as OWN
from hyperslab.formats.hdmf.rules import RULES as HDMF
from hyperslab.formats.mongo.rules import RULES as MONGO
from hyperslab.formats.nczarr.rules import RULES as NCZARR
from hyperslab.formats.rules import Finding, Rule, Rules, Stage, Subject, found
from hyperslab.integrity.chunk_rules import CHUNK_RULES
from hyperslab.integrity.rules import RULES, find_document_damage, find_document_warnings
from hyperslab.integrity.stored_chunks import KEPT

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "check-and-repair.md"
TABLES = {
    "integrity": RULES,
    "blaze": BLAZE,
    "bloscpack": BLOSCPACK,
    "deker": DEKER,
    "own": OWN,
    "hdmf": HDMF,
    "mongo": MONGO,
    "nczarr": NCZARR,
}
FIELDS = {"shape", "codecs"}
"""Examples of fields, in the row of the kinds that are named after one."""


def documented() -> dict[tuple[str, str], set[str]]:
    """The kinds of each row, by what it is and how it is mended; ``-moved`` stands for links and for references."""
    rows: dict[tuple[str, str], set[str]] = defaultdict(set)
    for cells in re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \|$", PAGE.read_text("utf-8"), re.MULTILINE):
        for kind in re.findall(r"`([^`]+)`", cells[0]):
            both = {f"link{kind}", f"reference{kind}"} if kind.startswith("-") else {kind}
            rows[cells[1], cells[2]] |= both - FIELDS
    return dict(rows)


def ruled() -> dict[tuple[str, str], set[str]]:
    rows: dict[tuple[str, str], set[str]] = defaultdict(set)
    for rules in TABLES.values():
        for rule in rules.table:
            rows[rule.meaning, rule.remedy] |= set(rule.kinds)
    return dict(rows)


def test_each_rule_has_its_row_and_each_row_its_rule() -> None:
    rows, rules = documented(), ruled()
    for row in rows.keys() | rules.keys():
        assert rows.get(row) == rules.get(row), f"{PAGE.name}, the row {' | '.join(row)}, against the rules"


def test_each_kind_of_damage_to_chunks_is_planted() -> None:
    """Where others need a dataset of their own: several chunks under a wrong document, pickles, limits, a note."""
    kinds = {kind for rule in CHUNK_RULES for kind in rule.kinds}
    planted = {case.kind_in(layout) for case in CASES.values() for layout in case.layouts}
    assert kinds - planted == {"other-cells", "unsafe-pickle", "unreadable-chunk", "missing-chunk"}


def test_a_shard_keeps_the_inner_chunks_that_no_rule_mends() -> None:
    """What is found of one and mended is not in it afterwards; else the next check would find it again."""
    unmended = {kind for rule in CHUNK_RULES if rule.mend is None for kind in rule.kinds}
    assert unmended - {"missing-chunk"} == KEPT


@pytest.mark.parametrize("name", TABLES)
def test_a_rule_can_be_found_and_mended(name: str) -> None:
    """A rule without a finder is of what its format, or the survey, finds on the way."""
    for rule in TABLES[name].table:
        assert (rule.kinds or rule.fields) and len(set(rule.kinds)) == len(rule.kinds)
        assert rule.find is None or callable(rule.find)


def nothing(view: object) -> list[Finding]:
    return [found("", "a", str(view))]


def test_finders_are_called_once() -> None:
    """Several rules may share one finder; those of a deep look are left out of another one."""
    rules = Rules(
        Rule(("a",), "", "", Subject.NODE, nothing),
        Rule(("b",), "", "", Subject.NODE, nothing),
        Rule(("c",), "", "", Subject.NODE, lambda view: [found("", "c", "")], deep=True),
    )
    (finding,) = rules.apply(Subject.NODE, "here", deep=False)
    assert (finding.problem.message, finding.rule) == ("here", rules.table[0])
    assert [finding.problem.kind for finding in rules.apply(Subject.NODE, "", deep=True)] == ["a", "c"]
    assert rules.of("b") is rules.table[1] and rules.of("shape") is None
    assert list(rules.apply(Subject.CHUNK, "", deep=True)) == []


def test_a_mend_has_a_stage() -> None:
    for half in ({"mend": lambda state, finding: None}, {"stage": Stage.START}):
        with pytest.raises(Invalid, match="a mend and its stage"):
            Rule(("a",), "", "", **half)


def test_a_field_that_is_wrong_is_of_another_rule_than_a_document_without_sense() -> None:
    """The finder tells; a kind that has a rule of its own is of that."""
    damage, warning = (found("", kind, "") for kind in ("shape", "two-kinds"))
    rule = RULES.with_rule(damage, find_document_warnings).rule
    assert rule is not None and rule.stage is Stage.DOCUMENTS_READABLE
    assert RULES.with_rule(damage, find_document_damage).rule is RULES.of("json-damaged")
    assert RULES.with_rule(warning, find_document_warnings).rule is RULES.of("two-kinds")


def test_a_kind_that_is_named_after_a_field_is_of_the_rule_of_documents() -> None:
    rule = RULES.of("data_type")
    assert rule is not None and rule.fields and "json-damaged" in rule.kinds
