"""Makes the files of these tests importable, and keeps pynwb from leaving its cache in the user's folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from zlib import crc32

import pytest

os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def profile(request: pytest.FixtureRequest) -> str:
    """Both profiles; tests that do not ask for both take turns with them in the suite."""
    return str(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    lists = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "profile" in metafunc.fixturenames and not any("profile" in names for names in lists):
        turn = crc32(metafunc.definition.originalname.encode()) % 2
        marks = [pytest.mark.soak if number == turn else () for number in range(2)]
        cases = [pytest.param(name, marks=mark) for name, mark in zip(("v2", "v3"), marks, strict=True)]
        metafunc.parametrize("profile", cases, indirect=True)


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small file in each profile, which no test changes."""
    from nwb_files import small_file

    from hyperslab.hdmf import HyperslabIO

    made = {}
    for profile in ("v2", "v3"):
        made[profile] = tmp_path_factory.mktemp(profile) / "small.nwb.zarr"
        with HyperslabIO(made[profile], "w", profile=profile) as io:
            io.write(small_file())
    return made


@pytest.fixture
def written(small_files: dict[str, Path], tmp_path: Path, profile: str) -> Path:
    """A small file of the test's own."""
    return Path(shutil.copytree(small_files[profile], tmp_path / "small.nwb.zarr"))
