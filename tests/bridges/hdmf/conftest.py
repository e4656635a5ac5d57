"""Makes the files of these tests importable, and keeps pynwb from leaving its cache in the user's folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

os.environ.setdefault("PYNWB_NO_CACHE_DIR", "1")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(params=["v2", "v3"])
def profile(request: pytest.FixtureRequest) -> str:
    """Both profiles."""
    return str(request.param)


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
