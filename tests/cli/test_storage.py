"""Storage options on the command line: how they read, and that every command that opens a place takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import run
from hyperslab.cli.arguments import parse_options
from hyperslab.errors import Invalid


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        ([], None),
        (["region=eu-west-1", "endpoint=http://a?b=c"], {"region": "eu-west-1", "endpoint": "http://a?b=c"}),
        (["access_key_id=12", "limit:=12", "ok:=true"], {"access_key_id": "12", "limit": 12, "ok": True}),
        (["allow_external=/a", "allow_external=/b", "allow_external=/c"], {"allow_external": ["/a", "/b", "/c"]}),
        (['client_options:={"timeout": "5s"}', "empty="], {"client_options": {"timeout": "5s"}, "empty": ""}),
    ],
)
def test_texts_are_options(texts: list[str], options: Any) -> None:
    assert parse_options(texts) == options


@pytest.mark.parametrize("text", ["region", "=x", ":=1", "limit:=SECRET"])
def test_what_is_no_option_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(Invalid, match="storage option") as caught:
        parse_options([text])
    assert "SECRET" not in str(caught.value)


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """References to cells that lie outside their folder."""
    (tmp_path / "cells.bin").write_bytes(np.arange(1, 9, dtype="u1").tobytes())
    array = {"zarr_format": 2, "shape": [8], "chunks": [8], "dtype": "|u1", "fill_value": 0, "order": "C"}
    refs = {
        ".zgroup": {"zarr_format": 2},
        "a/.zarray": array | {"compressor": None, "filters": None},
        "a/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]},
        "a/0": [str(tmp_path / "cells.bin"), 0, 8],
    }
    (tmp_path / "inside").mkdir()
    path = tmp_path / "inside" / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": refs}))
    return path


@pytest.mark.parametrize(
    "arguments", [("get", "a"), ("dump",), ("plot", "a", "-o", "a.png"), ("check", "--deep")], ids=lambda args: args[0]
)
def test_cells_elsewhere_are_read_when_allowed(
    arguments: tuple[str, ...], references: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *rest = arguments
    refused = run(command, references, *rest)
    assert refused.exit_code in (1, 7) and "lies outside" in refused.output
    allowed = run(command, references, *rest, "--storage-option", f"allow_external={tmp_path}")
    assert allowed.exit_code == 0, allowed.output


@pytest.mark.parametrize(
    "command", [("info",), ("tree",), ("plan", "a"), ("repair", "--shallow")], ids=lambda args: args[0]
)
def test_an_option_that_the_place_lacks_is_refused(command: tuple[str, ...], references: Path) -> None:
    refused = run(command[0], references, *command[1:], "--storage-option", "colour=red")
    assert refused.exit_code == 2 and "colour" in refused.stderr
    taken = run(command[0], references, *command[1:], "--storage-option", "limit:=100000")
    assert taken.exit_code == 0, taken.output


def test_each_side_has_its_own(references: Path, tmp_path: Path) -> None:
    allow = f"allow_external={tmp_path}"
    converted = run("convert", references, tmp_path / "a.zarr", "--verify", "--src-option", allow)
    assert converted.exit_code == 0, converted.output
    np.testing.assert_array_equal(hs.open_group(tmp_path / "a.zarr")["a"][...], np.arange(1, 9))
    assert run("convert", references, tmp_path / "b.zarr", "--src-option", allow, "--dst-option", "x=1").exit_code == 2
    assert run("diff", references, tmp_path / "a.zarr", "--a-option", allow).exit_code == 0
    assert run("diff", tmp_path / "a.zarr", references, "--b-option", allow).exit_code == 0
    assert "unreadable-cells" in run("diff", tmp_path / "a.zarr", references).stdout


def test_diff_allows_places_to_both(references: Path, tmp_path: Path) -> None:
    same = run("diff", references, references, "--allow-external", tmp_path)
    assert (same.exit_code, same.output) == (0, "")
    other = run("diff", references, references, "--allow-external", tmp_path / "elsewhere")
    assert other.exit_code == 1 and "unreadable-cells" in other.stdout
    hs.save(tmp_path / "plain.zarr", np.arange(3))
    plain = run("diff", tmp_path / "plain.zarr", tmp_path / "plain.zarr", "--allow-external", "any")
    assert plain.exit_code == 2 and "leave it out" in plain.stderr
