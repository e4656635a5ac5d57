"""The page of benchmarks: what bounds a row is told where a target is missed, and only there."""

from __future__ import annotations

import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks.harness import Contender, Outcome, Row, Target, Verdict, measure
from benchmarks.report import Family, section
from benchmarks.summary import figures

QUICK, SLOW = Target("a", 2.0, "nothing."), Target("fastest", 3.0, "the disk.")


def outcome(title: str, *verdicts: Verdict) -> Outcome:
    return Outcome(title, {"hyperslab": 0.1, "a": 0.25}, {"b": "it cannot"}, list(verdicts))


def test_a_section() -> None:
    met, missed = Verdict(QUICK, "a", 2.5), Verdict(SLOW, "a", 2.5)
    assert (met.met, missed.met) == (True, False)
    text = section(Family("Read", [outcome("all", met), outcome("half", met, missed), outcome("one", missed)], 1.0))
    assert text.startswith("\n## Read\n\n| work | hyperslab | a | b |")
    assert "| half | 100 ms | 250 ms | - | a 2.50 (2.00): met; a 2.50 (3.00): **missed** |" in text
    assert text.endswith("missed a target:\n\n- *half*, *one*: the disk.\n")
    assert "nothing." not in text and "- half, b: it cannot" in text
    assert [figure.ratio for figure in figures(text)] == [2.5, 2.5, 2.5]


def test_a_section_without_a_miss_tells_no_bounds() -> None:
    assert "bounds" not in section(Family("Read", [outcome("all", Verdict(QUICK, "a", 2.5))], 1.0))


def refuse() -> None:
    raise ValueError("not mine\nat all")


def test_who_cannot_is_left_out_and_who_is_wrong_stops_the_run() -> None:
    contenders = [Contender("hyperslab", lambda: 1), Contender("a", lambda: 1), Contender("b", refuse)]
    found = measure(Row("count", contenders, lambda _, result: result == 1, [QUICK, SLOW]))
    assert set(found.seconds) == {"hyperslab", "a"}
    assert found.missing == {"b": "ValueError: not mine"}
    assert [(each.target, each.peer) for each in found.verdicts] == [(QUICK, "a"), (SLOW, "a")]
    with pytest.raises(AssertionError, match="count: a gave a wrong result"):
        measure(Row("count", contenders, lambda name, _: name != "a", []))
    with pytest.raises(ValueError, match="not mine"):
        measure(Row("count", [Contender("hyperslab", refuse)], lambda *_: True, []))
