"""``hyperslab history``, ``tag``, ``branch``, ``commit``, ``restore``, ``expire`` on a repository of icechunk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    """What a command printed on stdout and on stderr."""
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json")[0])


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, Path]:
    """The URL of a repository that is not there yet, and a dataset."""
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(6.0), dims=("x",))
    return f"icechunk+file://{tmp_path}/r", tmp_path / "a.zarr"


def test_a_life(place: tuple[str, Path]) -> None:
    url, source = place
    assert "  first  (branch main)" in run("commit", url, str(source), "-m", "first")[1]
    assert "no new commit" in run("commit", url, str(source), "-m", "again")[1]
    run("tag", url, "v1")
    run("branch", url, "trial", "--at", "v1")
    with hs.open(source, "r+") as root:
        root["t"][2] = 50
    done = run_json("commit", url, str(source), "-m", "warmer", "--branch", "trial")
    assert done["changed"] is True and done["message"] == "warmer"
    assert run("diff", url, url, "--a-at", "v1", "--b-at", "trial", code=1)[0].startswith(
        "/t: cells: 1 of 6 cells differ"
    )
    assert run("diff", url, url, "--at", "trial", "--b-at", "trial") == ("", "")
    assert "one option" in run("diff", url, url, "--at", "v1", "--a-at", "v1", code=2)[1]
    assert run("get", url, "t", "-s", "x=2", "--at", "trial")[0].split()[-1] == "50.0"
    assert json.loads(run("info", f"{url}?at=v1", "--json")[0])["format"] == "zarr3"
    shown = run_json("history", url, "--at", "trial", "--limit", "2")["snapshots"]
    assert [(each["message"], each["branches"], each["tags"]) for each in shown] == [
        ("warmer", ["trial"], []),
        ("first", ["main"], ["v1"]),
    ]
    assert run("history", url)[0].count("\n") == 2
    assert run_json("tag", url)["names"] == {"v1": shown[1]["id"]}
    assert run_json("branch", url)["names"] == {"main": shown[1]["id"], "trial": shown[0]["id"]}
    restored = run_json("restore", url, "trial")
    assert (restored["snapshot"], restored["before"]) == (shown[0]["id"], shown[1]["id"])
    run("branch", url, "trial", "--delete")
    run("tag", url, "v1", "--delete")
    assert run("tag", url)[0] == ""
    would = run("expire", url, "--older-than", "0", "--dry-run")
    assert would[0].strip() == shown[1]["id"] and "nothing was removed" in would[1]
    assert "1 snapshot expired" in run("expire", url, "--older-than", "0")[1]
    assert float(hs.open(url)["t"][2]) == 50


def test_expire_tells_of_what_a_restore_left_behind(place: tuple[str, Path]) -> None:
    url, source = place
    run("commit", url, str(source), "-m", "first")
    first = run_json("history", url)["snapshots"][0]["id"]
    with hs.commit(url, "second") as root:
        root["t"][2] = 60
    run("restore", url, first)
    assert "1 that no branch and no tag leads to" in run("expire", url, "--older-than", "0", "--dry-run")[1]
    assert run_json("expire", url, "--older-than", "0")["strays"] == 1


def test_what_is_refused(place: tuple[str, Path]) -> None:
    url, source = place
    assert "no repository" in run("history", url, code=3)[1]
    for name in ("history", "tag", "branch"):
        assert "keeps no versions" in run(name, str(source), code=8)[1]
    assert "hyperslab db expire" in run("expire", str(source), "--older-than", "1d", code=8)[1]
    run("commit", url, str(source), "-m", "first")
    assert "write URL NAME --delete" in run("tag", url, "--delete", code=2)[1]
    assert "write URL NAME --at VERSION" in run("branch", url, "--at", "main", code=2)[1]
    assert "'nope'" in run("restore", url, "nope", code=3)[1]
    assert "'nope'" in run("commit", url, str(source), "-m", "x", "--branch", "nope", code=3)[1]
    assert "no age" in run("expire", url, "--older-than", "soon", code=2)[1]
