"""Exit codes by the kind of error, one line on stderr, and a light start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab import errors
from hyperslab.cli import COMMANDS, main
from hyperslab.cli.exit_codes import exit_code
from permissions import read_only


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


def test_an_interrupt_while_a_class_is_made_is_one() -> None:
    """Python 3.11 raises a RuntimeError of it."""
    wrapped = RuntimeError("Error calling __set_name__")
    wrapped.__cause__ = KeyboardInterrupt()
    assert exit_code(wrapped) == 130
    unfinished = errors.StorageError("x")
    unfinished.__context__ = KeyboardInterrupt()
    assert exit_code(unfinished) == 7


INTERRUPTED = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv = ["hyperslab", "info", "nowhere.zarr"]
from hyperslab.__main__ import run
run()
"""


@pytest.mark.parametrize("module", ["click", "hyperslab.cli", "hyperslab.cli.commands.info", "numpy", "hyperslab.api"])
def test_an_interrupt_while_a_command_is_imported_is_quiet(module: str) -> None:
    line = [sys.executable, "-c", INTERRUPTED.format(module=module)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "error: interrupted")


ENDING = """
import atexit, sys, time

def end():
    print("ending", flush=True)
    time.sleep(60)

atexit.register(end)
sys.argv = ["hyperslab", "--version"]
from hyperslab.__main__ import run
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there a signal cannot be sent to one process")
def test_an_interrupt_at_the_end_of_a_process_is_quiet() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDING], text=True, stdout=-1, stderr=-1) as running:
        assert running.stdout is not None
        while running.stdout.readline() != "ending\n":
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=60) == ("", "")
    assert running.returncode == -signal.SIGINT


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


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("nonsense", "no command 'nonsense'; write hyperslab [OPTIONS] COMMAND [ARGS]..., or see its --help"),
        ("inof x.zarr", "no command 'inof'; did you mean 'info'?"),
        ("help", "no command 'help'; did you mean '--help'?"),
        ("db lst", "no such command 'lst'; did you mean 'list'?"),
        ("get", "missing argument 'URL'; write hyperslab get [OPTIONS] URL [PATH], or see its --help"),
        ("convert a b c", "got unexpected extra argument (c); several sources are one pattern in quotes: 'day_*.nc'"),
        ("info a b", "got unexpected extra argument (b); several sources are one pattern in quotes: 'day_*.nc'"),
        (
            "convert --compressor x a b",
            "no such option '--compressor'; write hyperslab convert [OPTIONS] SRC DST, or see its --help",
        ),
        (
            "aggregate a b --over time",
            "missing option '--how'. Choose from: mean, sum, min, max, std, count; "
            "write hyperslab aggregate [OPTIONS] SRC DST, or see its --help",
        ),
        ("tree a b", "got unexpected extra argument (b); write hyperslab tree [OPTIONS] URL, or see its --help"),
        ("convert --memry 3 a b", "no option '--memry'; did you mean '--memory'?"),
        ("convert a b --to zarr3", "no option '--to'; did you mean '--format'?"),
        ("convert --chunks", "option '--chunks' requires an argument; see --help of the command"),
    ],
)
def test_what_is_typed_wrongly_is_one_line_with_a_hint(typed: str, told: str) -> None:
    done = CliRunner().invoke(main, typed.split(), prog_name="hyperslab")
    stderr = done.stderr.replace("option: --compressor;", "option '--compressor';")  # as click before 8.2 says it
    assert (done.exit_code, done.stdout, stderr) == (2, "", f"error: {told}\n")


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


def test_what_is_no_dataset_is_answered_with_the_option_and_not_with_python(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\xfe\x00\x01")
    for typed in (["info", "a.bin"], ["convert", "a.bin", "b.zarr"]):
        done = CliRunner().invoke(main, [typed[0], *(str(tmp_path / name) for name in typed[1:])])
        assert done.exit_code == 5
        assert "; give --format (to info, check or repair); there are hdmf" in done.stderr
        assert "format=" not in done.stderr


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.nc", b"", "an empty file"),
        ("a.csv", b"a,b\n1,2\n", "hs.write_frame"),
        ("a.npy", b"\x93NUMPY\x01\x00", "np.load"),
        ("a.grib", b"GRIB\x00\x00", "cfgrib"),
        ("a/b.nc", b"CDF", "name one in it: b.nc\n"),
    ],
)
def test_what_is_no_dataset_is_answered_with_what_reads_it(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
    done = CliRunner().invoke(main, ["info", str(tmp_path / name.partition("/")[0])])
    assert done.exit_code == 5
    assert words in done.stderr
    assert "--format" not in done.stderr


@pytest.mark.parametrize("command", ["info", "check", "repair"])
def test_a_folder_of_sessions_is_answered_with_their_names(tmp_path: Path, command: str) -> None:
    for name in ("a.nwb.zarr", "b.nwb.zarr"):
        with hs.create(tmp_path / name) as root:
            root.create_group("acquisition/lfp", {"neurodata_type": "TimeSeries"})
    done = CliRunner().invoke(main, [command, str(tmp_path)])
    assert done.exit_code == 5
    assert "name one in it: a.nwb.zarr, b.nwb.zarr" in done.stderr


def test_a_folder_of_files_that_end_alike_is_answered_with_their_pattern(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for name in ("1.nc", "2.nc"):
        (tmp_path / "files" / name).write_bytes(b"CDF")
    done = CliRunner().invoke(main, ["info", str(tmp_path / "files")])
    assert f"name one in it: 1.nc, 2.nc; or all as one, with '{tmp_path}/files/*.nc'" in done.stderr
    (tmp_path / "files/3.zarr").mkdir()
    done = CliRunner().invoke(main, ["info", str(tmp_path / "files")])
    assert "2.nc, 3.zarr\n" in done.stderr


def test_a_file_where_nobody_may_write_is_answered_with_the_permissions(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    hs.save(tmp_path / "a.zarr", np.zeros(3))
    with read_only(tmp_path / "closed"):
        done = CliRunner().invoke(main, ["get", str(tmp_path / "a.zarr"), "data", "-o", str(tmp_path / "closed/a.csv")])
    assert done.exit_code == 6
    assert "Permission denied" in done.stderr
    assert "look at the permissions" in done.stderr


def test_a_home_folder_that_the_shell_did_not_write_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.NotFound, match="expanduser"):
        hs.open("~/a.zarr")


@pytest.mark.parametrize("typed", [["-h"], ["info", "-h"], ["db", "query", "-h"]])
def test_help_is_shorter_to_type_where_no_other_option_is(typed: list[str]) -> None:
    assert CliRunner().invoke(main, typed).stdout == CliRunner().invoke(main, [*typed[:-1], "--help"]).stdout


def test_missing_cells_are_said_to_be_missing(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array(
            "t", data=np.array([1.5, 1e20, 1e20], "f4"), dims=["x"], attrs={"_FillValue": np.float32(1e20)}
        )
    for more, said in ([], True), (["--decoded"], False), (["-s", "x=0..1"], False):
        done = CliRunner().invoke(main, ["get", str(tmp_path / "a.nc"), "t", *more])
        assert done.exit_code == 0
        assert ("missing cells (2) stand as 1e+20" in done.stderr) == said


def test_text_that_no_encoding_has(tmp_path: Path) -> None:
    """Half a surrogate, which JSON can spell."""
    hs.save(tmp_path / "a.zarr", np.zeros(3), consolidated=False)
    path = tmp_path / "a.zarr" / "data" / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"attributes": {"a": "\ud800"}}))
    said = subprocess.run(
        [sys.executable, "-m", "hyperslab", "dump", str(tmp_path / "a.zarr")], capture_output=True, check=False
    )
    assert said.returncode == 0 and b"\\ud800" in said.stdout, said
