"""Every module, and every function of the tables, that the page on the architecture names is there."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
FOLDERS = {path.stem for path in (Path(__file__).parents[2] / "src" / "hyperslab").iterdir()}
MODULES = sorted(
    {name for name in re.findall(r"`([a-z_0-9]+(?:\.[a-z_0-9]+)+)`", PAGE) if name.split(".")[0] in FOLDERS}
)
STEPS = re.findall(r"^\| `([a-z_0-9.]+)` \| `([A-Za-z_0-9.]+)` \|", PAGE, re.MULTILINE)


def test_names_are_found() -> None:
    assert len(MODULES) > 40 and len(STEPS) > 10


@pytest.mark.parametrize("name", MODULES)
def test_the_module_is_there(name: str) -> None:
    import_module(f"hyperslab.{name}")


@pytest.mark.parametrize(("module", "function"), STEPS)
def test_the_function_is_there(module: str, function: str) -> None:
    assert callable(reduce(getattr, function.split("."), import_module(f"hyperslab.{module}")))
