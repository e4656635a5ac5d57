"""Hostile datasets, made by scripts: an error of ours that says what, where and what would work; the rest stays usable.

Each cause runs in a process of its own under a limit of memory: a crash or a hang is a failure that names its case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from programs import ran

HERE = Path(__file__).parent
CAUSES = [
    "truncated",
    "missing",
    "swapped",
    "oversized",
    "bombs",
    "json",
    "fields",
    "shapes",
    "codecs",
    "names",
    "links",
    "strangers",
    "archives",
    "readonly",
    "fulldisk",
    "netcdf",
    "nczarr",
    "hdmf",
    "collections",
    "deker",
]

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and /proc")


def faults(report: dict[str, Any]) -> list[str]:
    """What is wrong with the outcome of one case."""
    found = [
        f"step {number}: {fault}"
        for number, outcome in enumerate(report["outcomes"])
        for fault in outcome_faults(outcome, report["expected"])
    ]
    if report["sibling"]:
        found.append(f"the sibling: {report['sibling']}")
    if report["later"]:
        found.append(f"afterwards: {report['later']}")
    if report["changed"]:
        found.append(f"changed on disk: {report['changed']}")
    if report["memory"] > report["allowed"]:
        found.append(f"took {report['memory'] >> 20} MiB, {report['allowed'] >> 20} MiB are allowed")
    if report["cpu"] > 10:
        found.append(f"took {report['cpu']} s of the processor")
    return found


def outcome_faults(outcome: dict[str, Any], expected: list[str | None]) -> list[str]:
    """What is wrong with what one step did; no expected error means that it must succeed."""
    error = outcome["error"]
    if error not in (expected or [None]):
        return [f"{error}, not {expected or 'success'}: {outcome['text']}"]
    if error is None:
        return [] if outcome["right"] else [f"other cells: {outcome['text']}"]
    return [f"no {word} in: {outcome['text']}" for word in ("url", "where", "remedy") if not outcome[word]]


@pytest.mark.sampled(10)
@linux
@pytest.mark.parametrize("share", [60, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("cause", CAUSES)
def test_hostile(tmp_path: Path, cause: str, share: int) -> None:
    done = ran(HERE / "corpus.py", cause, tmp_path / "cases", share)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"died in {lines[-1:]}: {done.stderr[-3000:]}"
    reports = [line for line in lines if "name" in line]
    wrong = {report["name"]: found for report in reports if (found := faults(report))}
    text = "\n".join(f"{name}:\n    " + "\n    ".join(found) for name, found in wrong.items())
    assert not wrong, f"{len(wrong)} of {len(reports)}\n{text}"
    assert len(reports) >= 5
    assert len({report["name"] for report in reports}) == len(reports)
