"""A file of every type goes from HDF5 to ours and back, equal and valid; its tables read as DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from nwb_files import rich_file, small_file, tree_of
from pynwb import NWBHDF5IO, NWBFile, validate

from hyperslab.hdmf import HyperslabIO

pytestmark = pytest.mark.sampled(2)

COPY = {"link_data": False}
in_both_profiles = pytest.mark.parametrize("profile", ["v2", "v3"], indirect=True)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of HDF5 with every type."""
    path = tmp_path_factory.mktemp("original") / "rich.nwb"
    with NWBHDF5IO(path, "w") as io:
        io.write(rich_file())
    return path


@pytest.fixture(scope="module")
def wanted(original: Path) -> Any:
    """What it holds."""
    with NWBHDF5IO(original, "r") as io:
        return tree_of(io.read_builder())


@pytest.fixture(scope="module")
def exports(original: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same file in each profile, which no test changes."""
    made = {}
    for profile in ("v2", "v3"):
        made[profile] = tmp_path_factory.mktemp(profile) / "rich.nwb.zarr"
        with NWBHDF5IO(original, "r") as source, HyperslabIO(made[profile], "w", profile=profile) as io:
            io.export(source, write_args=dict(COPY))
    return made


@pytest.fixture
def exported(exports: dict[str, Path], profile: str) -> Path:
    return exports[profile]


@pytest.mark.sampled(0)
@in_both_profiles
def test_from_hdf5_and_back(wanted: Any, exported: Path, tmp_path: Path) -> None:
    back = tmp_path / "back.nwb"
    with HyperslabIO(exported) as io:
        assert tree_of(io.read_builder()) == wanted
    with HyperslabIO(exported) as source, NWBHDF5IO(back, "w") as io:
        io.export(source, write_args=dict(COPY))
    with NWBHDF5IO(back, "r") as io:
        assert validate(io=io) == []
        assert tree_of(io.read_builder()) == wanted


@in_both_profiles
def test_ours_is_valid(exported: Path) -> None:
    with HyperslabIO(exported) as io:
        assert validate(io=io) == []


def test_the_same_without_containers(original: Path, wanted: Any, tmp_path: Path, profile: str) -> None:
    """Builders that were read are written as they are."""
    path = tmp_path / "builders.nwb.zarr"
    with NWBHDF5IO(original, "r") as source, HyperslabIO(path, "w", profile=profile) as io:
        io.export(source)
    with HyperslabIO(path) as io:
        assert tree_of(io.read_builder()) == wanted


@pytest.mark.sampled(0)
def test_from_ours_to_ours(exported: Path, wanted: Any, tmp_path: Path, profile: str) -> None:
    other = tmp_path / "other.nwb.zarr"
    with HyperslabIO(exported) as source, HyperslabIO(other, "w", profile="v2" if profile == "v3" else "v3") as io:
        io.export(source, write_args=dict(COPY))
    with HyperslabIO(other) as io:
        assert tree_of(io.read_builder()) == wanted
        assert validate(io=io) == []


@pytest.mark.sampled(20)
def test_written_from_memory_it_is_what_hdf5_holds(tmp_path: Path, profile: str) -> None:
    nwb = rich_file()
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(nwb)
    with NWBHDF5IO(tmp_path / "a.nwb", "r") as source:
        nwb = source.read()
        wanted = tree_of(source.read_builder())
        nwb.set_modified()
        with HyperslabIO(tmp_path / "a.nwb.zarr", "w", profile=profile) as io:
            io.export(source, nwbfile=nwb, write_args=dict(COPY))
    with HyperslabIO(tmp_path / "a.nwb.zarr") as io:
        assert tree_of(io.read_builder()) == wanted


def frames(nwb: NWBFile) -> dict[str, pd.DataFrame]:
    tables = ("trials", "units", "electrodes", "intracellular_recordings", "icephys_repetitions", "epochs")
    return {name: getattr(nwb, name).to_dataframe() for name in tables}


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")
def test_data_frames_are_those_of_hdf5(original: Path, exported: Path) -> None:
    with NWBHDF5IO(original, "r") as source, HyperslabIO(exported) as io:
        wanted, found = frames(source.read()), frames(io.read())
        for name, frame in wanted.items():
            assert list(found[name].columns) == list(frame.columns)
            assert found[name].map(plain).to_dict() == frame.map(plain).to_dict()


def plain(cell: object) -> object:
    """A cell of a table as what can be compared: containers are their ids, frames and arrays lists."""
    if hasattr(cell, "object_id"):
        return str(cell.object_id)
    if isinstance(cell, pd.DataFrame):
        return cell.map(plain).to_dict()
    if isinstance(cell, np.ndarray):
        return cell.tolist()
    if isinstance(cell, list | tuple):
        return [plain(each) for each in cell]
    return "NaN" if cell != cell else cell


def test_references_give_containers(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "small.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(small_file())
    with HyperslabIO(path) as io:
        nwb = io.read()
        first = nwb.trials["timeseries"][0][0]
        assert first.timeseries is nwb.acquisition["ts0"]
        assert (first.idx_start, first.count) == (0, 1)
        assert nwb.acquisition["linked"].data is nwb.acquisition["ts0"].data
        assert list(nwb.units["spike_times"][0]) == [0.1, 0.2]
        assert nwb.trials["choice"][:].tolist() == ["", "lëft", "lëft"]
        assert nwb.session_description == "μ-electrode"
