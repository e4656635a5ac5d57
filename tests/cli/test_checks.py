"""check, repair and diff on the command line: silence and 0 when all is well, one line per problem and 1 else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import document, run


@pytest.fixture
def air(tmp_path: Path) -> Path:
    path = tmp_path / "air.zarr"
    with hs.create(path) as root:
        root.create_array("a", data=np.arange(1, 7.0), dims=("x",), chunks=(2,))
        root.create_array("part", shape=(6,), dtype="f4", chunks=(2,))[0] = 1
    return path


def damage(air: Path) -> None:
    chunk = air / "a" / "c" / "1"
    chunk.write_bytes(chunk.read_bytes()[::-1])
    (air / "notes.txt").write_text("?")


def test_sound(air: Path) -> None:
    for arguments in (("check", air), ("check", air, "--deep"), ("repair", air), ("diff", air, air)):
        result = run(*arguments)
        assert (result.exit_code, result.output) == (0, "")
    assert document("check", air) == {
        "schema": "hyperslab.check/1",
        "url": str(air),
        "deep": False,
        "sound": True,
        "problems": [],
        "notes": [
            {
                "node": "part",
                "kind": "missing-chunk",
                "message": "2 of 3 chunks are not stored; their cells read as the fill value",
            }
        ],
    }
    assert "missing-chunk" in run("check", air, "-v").stderr


def test_check(air: Path) -> None:
    damage(air)
    result = run("check", air)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == ["/: foreign: notes.txt is no part of a group [key=notes.txt]"]
    result = run("check", air, "--deep")
    assert result.exit_code == 1
    assert [line.split(": ")[:2] for line in result.stdout.splitlines()] == [["/a", "corrupt-chunk"]]
    found = document("check", air, "--deep")
    assert (found["sound"], [problem["kind"] for problem in found["problems"]]) == (False, ["corrupt-chunk"])
    assert [note["kind"] for note in found["notes"]] == ["foreign", "missing-chunk"]
    assert (run("check", air / "nowhere").exit_code, run("check", air / "a" / "c").exit_code) == (3, 5)


def test_repair(air: Path, tmp_path: Path) -> None:
    damage(air)
    result = run("repair", air)
    assert result.exit_code == 1 and "--apply" in result.stderr
    assert "[2:4] read as the fill value then" in result.stdout and (air / "notes.txt").exists()
    assert run("repair", air, "--apply", "--dry-run").exit_code == 1 and (air / "notes.txt").exists()
    assert document("repair", air, "--shallow")["mends"] == []
    shown = document("repair", air, "--shallow", "--drop-foreign")
    assert (shown["applied"], [mend["kind"] for mend in shown["mends"]]) == (False, ["foreign"])
    result = run("repair", air, "--apply", "--drop-foreign", "--quarantine", tmp_path / "out")
    assert result.exit_code == 0 and "mended:" in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file()) == ["1", "notes.txt"]
    assert run("check", air, "--deep").output == ""
    assert hs.open_array(air, path="a")[...].tolist() == [1, 2, 0, 0, 5, 6]
    (air / "a" / "zarr.json").write_text("{}")
    found = document("repair", air, "--apply")
    assert {mend["action"] for mend in found["mends"]} == {None}
    assert run("repair", air, "--apply").exit_code == 1


def test_diff(air: Path, tmp_path: Path) -> None:
    hs.convert(air, tmp_path / "air.nc")
    assert run("diff", air, tmp_path / "air.nc").output == ""
    with hs.open_group(air, "r+") as root:
        root["a"][4] = -1.5
        root["a"].attrs["units"] = "K"
    result = run("diff", air, tmp_path / "air.nc")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "/a: attribute: no attribute 'units'",
        "/a: cells: 1 of 6 cells differ: [4] -1.5 -> 5.0",
    ]
    found = document("diff", air, tmp_path / "air.nc")
    assert (found["schema"], found["equal"], found["cells"]) == ("hyperslab.diff/1", False, 12)
    assert found["differences"][1]["first"] == [[[4], -1.5, 5.0]]
    assert "cells" not in run("diff", air, tmp_path / "air.nc", "--no-cells").stdout


def test_a_pattern_is_each_that_matches(tmp_path: Path) -> None:
    for name in ("a0", "a1", "b"):
        with hs.create(tmp_path / f"{name}.zarr") as root:
            for each in ("t1", "t2", "u"):
                root.create_array(each, data=np.arange(1, 7.0), dims=("x",), chunks=(2,))
    for chunk in ("a1.zarr/t1/c/0", "a1.zarr/u/c/1", "b.zarr/t2/c/2"):
        (tmp_path / chunk).write_bytes((tmp_path / chunk).read_bytes()[::-1])
    result = run("check", tmp_path / "*.zarr", "--deep")
    lines = [line.split(": ")[:3] for line in result.stdout.splitlines()]
    wanted = [("a1.zarr", "/t1"), ("a1.zarr", "/u"), ("b.zarr", "/t2")]
    assert lines == [[str(tmp_path / name), node, "corrupt-chunk"] for name, node in wanted]
    assert result.exit_code == 1
    result = run("check", tmp_path / "a1.zarr" / "t*", "--deep")  # nodes of one dataset
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 1)
    assert run("check", tmp_path / "a1.zarr" / "t2*", "--deep").exit_code == 0
    found = document("check", tmp_path / "a*.zarr", "--deep")
    assert [(Path(each["url"]).name, each["sound"]) for each in found["places"]] == [
        ("a0.zarr", True),
        ("a1.zarr", False),
    ]
    (tmp_path / "a0-notes.txt").write_text("no dataset")
    result = run("check", tmp_path / "a*", "--deep")  # the others are looked at all the same
    assert (result.exit_code, len(result.stdout.splitlines())) == (5, 2)
    assert "error: this is no dataset" in result.stderr
    result = run("repair", tmp_path / "*.zarr", "--quarantine", tmp_path / "gone")
    assert result.exit_code == 2 and "one --quarantine for several datasets" in result.stderr
    assert run("repair", tmp_path / "*.zarr").exit_code == 1
    assert run("repair", tmp_path / "*.zarr", "--apply").exit_code == 0
    assert {path.name for path in tmp_path.glob("*.quarantine")} == {"a1.zarr.quarantine", "b.zarr.quarantine"}
    assert (run("check", tmp_path / "*.zarr", "--deep").output, run("check", tmp_path / "c*").exit_code) == ("", 3)
