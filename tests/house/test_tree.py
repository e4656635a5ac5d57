"""What the repository must not hold, and what its configuration must name."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tree import ROOT, SOURCE

PLACES = ["/" + name + "/" for name in ("work", "root", "home", "tmp", "Users", "opt")]
UP = "../" + "shared"
MACHINE = re.compile(r"(?<![\w.:$}*/~-])(?:" + "|".join(PLACES) + ")" + "|" + re.escape(UP))
TEXT = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".txt", ".cfg", ".sh", ".html", ".js", ".css", ""}


# What hatchling puts into each archive of the source, whatever the configuration says, and what it makes.
ALWAYS = {"pyproject.toml", "README.md", "LICENSE", "NOTICE", ".gitignore", "PKG-INFO"}


def list_files() -> list[str]:
    """Return the names of the files of the repository; in an archive of the source of all files that no tool made."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        return [name for name in listed.split("\0") if name]
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    names = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [name.as_posix() for name in names if ignored.isdisjoint(name.parts)]


def test_the_archive_of_the_source_has_all_of_it() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {name.partition("/")[0] for name in list_files()} - ALWAYS == {name.strip("/") for name in tool["include"]}


def test_no_machine_s_path_in_the_tree() -> None:
    found = []
    for name in list_files():
        path = ROOT / name
        if path.suffix not in TEXT or not path.is_file():
            continue
        lines = path.read_bytes().decode("utf-8", errors="replace").splitlines()
        found += [f"{name}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if MACHINE.search(line)]
    assert found == []


def test_every_folder_of_a_format_stands_in_the_independence_contract() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [each for each in tool["contracts"] if each["type"] == "independence"]
    folders = [
        path.parent for path in (SOURCE / "hyperslab" / "formats").glob("*/__init__.py") if "FORMAT" in path.read_text()
    ]
    assert set(contract["modules"]) == {f"hyperslab.formats.{folder.name}" for folder in folders}


def test_all_takes_every_extra_that_a_user_may_want() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.removeprefix("hyperslab[").removesuffix("]").split(","))
    assert named == extras.keys() - {"all", "tour", "interop", "test", "peers", "check", "bench", "docs"}
