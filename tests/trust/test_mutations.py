"""Random damage of every family: errors of ours alone, no hang, no memory without bound. Thousands more in the soak."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mutations import FAMILIES

from programs import Program

HERE = Path(__file__).parent

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and of the processor")


def campaign(family: str, folder: Path, first: int, last: int) -> tuple[list[str], int]:
    """Return what went wrong with the mutants ``first`` to ``last`` of a family, and how many there were."""
    defects: list[str] = []
    mutants = 0
    while first < last:
        program = Program(HERE / "mutations.py", family, folder, first, last)
        out, errors = program.communicate()
        lines = [json.loads(line) for line in out.splitlines()]
        mutant: dict[str, Any] = {}
        step = ""
        for line in lines:
            mutant = line if "number" in line else mutant
            step = line.get("step", step)
            mutants += "number" in line
            if "defect" in line:
                defects.append(f"{family} {mutant['number']} ({mutant['what']}): {line['defect']}")
        if lines and "done" in lines[-1]:
            break
        assert mutant, f"{family}: the sound dataset could not be made: {errors[-3000:]}"
        ways = {-signal.SIGXCPU: "hangs", -signal.SIGALRM: "waits", -signal.SIGKILL: "was killed"}
        how = ways.get(program.poll() or 0, program.poll())
        defects.append(f"{family} {mutant['number']} ({mutant['what']}): {step} {how} {errors[-500:]}")
        first = mutant["number"] + 1
    return defects, mutants


@pytest.mark.sampled(20)
@linux
@pytest.mark.parametrize("count", [2, pytest.param(600, marks=pytest.mark.soak)])
@pytest.mark.parametrize("family", FAMILIES)
def test_mutants_raise_errors_of_ours(
    tmp_path: Path, family: str, count: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if family == "mongo":
        monkeypatch.setenv("MUTATED_SERVER", request.getfixturevalue("mongo").url)
    defects, mutants = campaign(family, tmp_path, 0, count)
    assert mutants >= count
    assert not defects, f"{len(defects)} in {mutants}\n" + "\n".join(defects)
