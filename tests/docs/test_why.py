"""The page "Why hyperslab": its figures are those of docs/benchmarks.md, and the tests that it names are there."""

from __future__ import annotations

import re
import sys

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT))

from benchmarks.summary import PAGE, WHY, brought_up_to_date, figures, summary

MADE = """
# Benchmarks

Made by `make bench` on 2026-01-01: 2 cores (x86_64), Python 3.11.7. One run.

## Read whole

| work | hyperslab | a | b | ratio to peer (target): met or missed |
| --- | --- | --- | --- | --- |
| 256 MiB | 100 ms | 1.5 s | - | a 15.00 (2.00): met |
| one element | 200 us | 100 us | 0.3 ms | b 1.50 (2.00): **missed** |

What bounds the rows that missed a target:

- *one element*: Python.

## Cells that several processes lose

| library | lost |
|---|---|
| a | 7 |
"""


def test_the_figures_are_those_of_the_benchmarks() -> None:
    why = WHY.read_text(encoding="utf-8")
    assert brought_up_to_date(why, PAGE.read_text(encoding="utf-8")) == why


def test_what_a_page_of_benchmarks_comes_to() -> None:
    found = {(figure.work, figure.peer): round(figure.ratio, 6) for figure in figures(MADE)}
    assert found == {("256 MiB", "a"): 15, ("one element", "a"): 0.5, ("one element", "b"): 1.5}
    lines = summary(MADE).splitlines()
    assert lines[0] == "Measured on 2026-01-01: 2 cores (x86_64), Python 3.11.7."
    assert "| Read whole | a | 2 | 1 | 7.8 | 0.50 | 15 |" in lines
    assert "- Read whole, a: one element (0.50)" in lines
    assert "| Read whole | b | 1 | 1 | 1.50 | 1.50 | 1.50 |" in lines


def test_both_regions_are_made_anew_and_nothing_else() -> None:
    old = "x\n<!-- losses: made by make bench -->\nold\n<!-- losses: end -->\ny\n"
    old += "<!-- figures: made by make bench -->\nold\n<!-- figures: end -->\nz\n"
    new = brought_up_to_date(old, MADE)
    assert "old" not in new and "| a | 7 |" in new and summary(MADE) in new
    assert [line for line in new.splitlines() if line in "xyz" and line] == ["x", "y", "z"]
    assert brought_up_to_date(new, MADE) == new


NAMED = re.findall(r"`(tests/[\w/]+\.py)`", WHY.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NAMED)
def test_named_tests_are_there(path: str) -> None:
    assert (ROOT / path).is_file()


def test_tests_are_named() -> None:
    assert len(NAMED) > 10
