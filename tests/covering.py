"""Choose the cases of a test that is marked ``covering``: together they show each value of each of its axes.

An axis is what one ``parametrize``, or the ``params`` of one fixture, gives. A test over 14 formats and 5 faults has 70
cases: the soak runs them all, the suite 14 in which each format and each fault appears. Where one ``parametrize`` lists
pairs, ``covering("format", "fault")`` names the arguments whose values are the axes.

Of what is left, ``make test`` runs every n-th case of a test that is marked ``sampled(n)``, since many dear cases such
as real files show the same promise (``sampled(0)``: none), and of any other test every second, third or fifth one, the
more cases it has (``sampled(1)``: all). ``make test-rest`` runs the others, as CI does.

Where all tests of a file run in the same two ways (:data:`IN_TURN`), these take turns: the suite runs each test in one
of them, and each of them with a half of the tests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

STEPS = ((20, 5), (8, 3), (4, 2))
"""From so many cases on, and every how many-th of them ``make test`` runs.

Odd where cases are many: an axis of two or four values (dialects, layouts) shows all of them, not one again and again.
"""
IN_TURN = {
    "cli/test_db_collections.py": {"root"},
    "conversion/test_hdmf.py": {"profile"},
    "formats/hdmf": {"profile", "store"},
    "formats/nczarr": {"dialect"},
    "group/test_links.py": {"profile"},
}
"""Files, or folders of them, and the arguments whose values take turns: profiles, dialects, layouts of one format."""


def find_left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of covering tests that only the soak runs.

    Those that it alone runs anyway, by their mark, cover nothing here.
    """
    cases: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        has_cases = isinstance(item, pytest.Function) and "callspec" in vars(item)
        if has_cases and item.get_closest_marker("covering") and not item.get_closest_marker("soak"):
            cases[item.nodeid.removesuffix(f"[{item.callspec.id}]")].append(item)
    return {case for name, of_test in cases.items() for case in _find_repeating(name, of_test)}


def find_not_sampled(items: Iterable[pytest.Item], *, rest: bool = False) -> set[pytest.Item]:
    """Return the cases that ``make test`` leaves to ``make test-rest``; ``rest``: all others."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    left = set[pytest.Item]()
    for name, of_test in cases.items():
        mark = of_test[0].get_closest_marker("sampled")
        step = mark.args[0] if mark else next((step for cases, step in STEPS if len(of_test) >= cases), 1)
        for number, item in enumerate(of_test, crc32(name.encode())):  # which case is the first goes by the test's name
            if (step > 0 and number % min(step, len(of_test)) == 0) == rest:
                left.add(item)
    return left


def find_out_of_turn(items: Iterable[pytest.Item], folder: Path) -> set[pytest.Item]:
    """Return the cases of the files in the folder of all tests that only the soak runs, since others have their turn.

    Covering tests and those that the soak alone runs anyway are none of them.
    """
    files: dict[tuple[Path, str], dict[str, dict[Any, list[pytest.Item]]]] = {}
    for item in items:
        if not item.path.is_relative_to(folder):
            continue
        path = item.path.relative_to(folder)
        names = next((IN_TURN[str(each)] for each in (path, *path.parents) if str(each) in IN_TURN), set())
        if names and "callspec" in vars(item) and not any(map(item.get_closest_marker, ("covering", "soak"))):
            test = item.nodeid.removesuffix(f"[{item.callspec.id}]")
            for name in names & item.callspec.params.keys():
                values = files.setdefault((path, name), {}).setdefault(test, {})
                values.setdefault(_key(item.callspec.params[name]), []).append(item)
    left = set()
    for tests in files.values():
        for turn, values in enumerate(tests.values()):
            kept = turn % len(values)
            left.update(item for number, cases in enumerate(values.values()) if number != kept for item in cases)
    return left


def _find_repeating(name: str, cases: list[pytest.Function]) -> set[pytest.Item]:
    """Return the cases of the test `name` that show no value which those chosen do not show.

    Chosen is the case that shows most that is new; among equals the one whose values were chosen least, so that the
    values of a short axis take turns beside those of a long one. Which case is looked at first goes by the name: tests
    with the same axes choose different pairs, and together show most of them.
    """
    start = crc32(name.encode()) % len(cases)
    shown = {case: _values(case) for case in cases[start:] + cases[:start]}
    missing, uses, left = set[Any]().union(*shown.values()), Counter[Any](), dict.fromkeys(shown)
    while missing:
        best = max(left, key=lambda case: (len(shown[case] & missing), -sum(uses[value] for value in shown[case])))
        del left[best]
        missing -= shown[best]
        uses.update(shown[best])
    return set(left)


def _values(case: pytest.Function) -> set[Any]:
    """Return the values that a case has on the axes: the named arguments' own, or its row in each list of rows."""
    params, mark = case.callspec.params, case.get_closest_marker("covering")
    assert mark is not None
    lists = [mark.args[0] for mark in case.iter_markers("parametrize")]
    axes = [[name.strip() for name in names.split(",")] if isinstance(names, str) else list(names) for names in lists]
    listed = {name for names in axes for name in names}
    axes += [[name] for name in params if name not in listed]
    if mark.args:
        axes = [[name] for name in mark.args]
    return {tuple((name, _key(params[name])) for name in names) for names in axes}


def _key(value: Any) -> Any:
    """Return what is the same for the same value of an axis alone: 1, 1.0 and True are three."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
