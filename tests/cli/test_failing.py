"""Exit codes by the kind of error, one line on stderr, and a light start."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from hyperslab import errors
from hyperslab.cli import COMMANDS, main
from hyperslab.cli.failing import exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NodeNotFound("x"), 3),
        (errors.CollectionNotFound("x"), 3),
        (errors.AlreadyExists("x"), 4),
        (errors.Conflict("x"), 4),
        (errors.FormatError("x"), 5),
        (errors.CorruptChunk("x"), 5),
        (errors.MissingChunks("x"), 5),
        (errors.ReadOnly("x"), 6),
        (errors.StorageError("x"), 7),
        (errors.Unsupported("x"), 8),
        (errors.MemoryLimit("x"), 9),
        (errors.LabelError("x"), 2),
        (errors.SelectionError("x"), 2),
        (errors.SchemaError("x"), 2),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (PermissionError(), 6),
        (OSError(), 7),
        (MemoryError(), 9),
        (RuntimeError(), 70),
    ],
)
def test_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def _below(kind: type[errors.HyperslabError]) -> list[type[errors.HyperslabError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _below(child))]


@pytest.mark.parametrize("kind", _below(errors.HyperslabError)[1:])
def test_every_error_of_ours_has_a_code(kind: type[errors.HyperslabError]) -> None:
    assert exit_code(kind("x")) != 70


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert f"hyperslab {name}" in result.stdout.split("Example:")[1]
    assert "--debug" in result.stdout


def test_an_unknown_command_is_a_usage_error() -> None:
    result = CliRunner().invoke(main, ["nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.stderr


def test_an_error_is_one_line_and_debug_shows_the_traceback(tmp_path: object) -> None:
    runner = CliRunner()
    plain = runner.invoke(main, ["info", f"{tmp_path}/nowhere.zarr"])
    assert plain.exit_code == 3
    assert plain.stdout == ""
    assert plain.stderr.startswith("error: ")
    assert plain.stderr.count("\n") == 1
    for arguments in (["--debug", "info"], ["info", "--debug"]):
        told = runner.invoke(main, [*arguments, f"{tmp_path}/nowhere.zarr"])
        assert told.exit_code == 3
        assert "Traceback" in told.stderr


def test_the_version_imports_nothing_heavy() -> None:
    code = (
        "import sys; from hyperslab.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'netCDF4', 'h5py', 'numcodecs', 'xarray', 'hyperslab.conversion'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hyperslab" in done.stdout


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    done = CliRunner().invoke(main, ["inof", "x.zarr"])
    assert done.exit_code == 2
    assert "did you mean 'info'?" in done.output
