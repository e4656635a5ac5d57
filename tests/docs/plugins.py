"""A package installed into a folder as an installer does it: its modules, and beside them what tells of it."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "npy_folder"


def install(package: Path, site: Path) -> None:
    """The modules of a project that has a pyproject.toml, but for its tests, and its entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for module in package.glob("*.py"):
        if not module.name.startswith("test_"):
            shutil.copy(module, site)
    name, version = project["name"].replace("-", "_"), project["version"]
    told = site / f"{name}-{version}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n")
    with (told / "entry_points.txt").open("w") as file:
        for group, entries in project.get("entry-points", {}).items():
            file.write("\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]))
