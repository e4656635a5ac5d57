"""Links and references: within a file and to others, by containers and by data; what leads nowhere is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from nwb_files import small_file, tree_of
from pynwb import NWBHDF5IO, TimeSeries, get_manager
from pynwb.testing.mock import ecephys, ophys

import hyperslab as hs
from hyperslab.bridges.hdmf.write_plan import Pointers
from hyperslab.hdmf import HyperslabDataIO, HyperslabIO

KEYS = {"name", "source", "path", "object_id", "source_object_id"}


@pytest.fixture
def target(tmp_path: Path, profile: str) -> Path:
    """A file that others lead to."""
    path = tmp_path / "target.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(small_file())
    return path


def linking(target: Path, path: Path, profile: str, **options: Any) -> None:
    """A file with links to data and to a container of another one."""
    manager = get_manager()
    with HyperslabIO(target, manager=manager) as source, HyperslabIO(path, "w", manager=manager, profile=profile) as io:
        found = source.read().acquisition["ts0"]
        nwb = small_file(2)
        nwb.add_acquisition(TimeSeries(name="outside", data=found.data, timestamps=found.timestamps, unit="m"))
        nwb.add_stimulus_template(found)
        io.write(nwb, **options)


def test_links_to_another_file(target: Path, tmp_path: Path, profile: str) -> None:
    path = tmp_path / "linking.nwb.zarr"
    linking(target, path, profile)
    with HyperslabIO(path) as io:
        nwb = io.read()
        assert nwb.acquisition["outside"].data[:].tolist() == list(range(10))
        assert nwb.stimulus_template["ts0"].timestamps[3] == 0.3
        assert nwb.stimulus_template["ts0"].container_source == str(target)
        builder = io.read_builder()["acquisition/outside"].links["data"]
        assert builder.builder.source == str(target)
    with hs.open_group(path) as root:
        assert root["acquisition/outside/data"].url == str(target)


def test_they_are_written_as_the_format_wants_them(target: Path, tmp_path: Path) -> None:
    path = tmp_path / "linking.nwb.zarr"
    linking(target, path, "v2")
    (link,) = json.loads((path / "stimulus/templates/.zattrs").read_text())["zarr_link"]
    assert set(link) == KEYS
    assert link["source"] == "../target.nwb.zarr"
    assert link["path"] == "/acquisition/ts0"
    with HyperslabIO(target) as io:
        nwb = io.read()
        assert link["object_id"] == nwb.acquisition["ts0"].object_id
        assert link["source_object_id"] == nwb.object_id
    for data in json.loads((path / "acquisition/outside/.zattrs").read_text())["zarr_link"]:
        assert (data["source"], data["source_object_id"]) == (link["source"], link["source_object_id"])
    for document in path.rglob(".zattrs"):
        assert "_hyperslab" not in document.read_text()
        for link in json.loads(document.read_text()).get("zarr_link", []):
            assert set(link) == KEYS


def test_data_are_copied_where_that_is_wanted(target: Path, tmp_path: Path, profile: str) -> None:
    path = tmp_path / "copy.nwb.zarr"
    with HyperslabIO(target) as source:
        found = source.read().acquisition["ts0"]
        nwb = small_file(2)
        for name, wrapped in (("a", HyperslabDataIO(found.data, link_data=False)), ("b", found.data)):
            nwb.add_acquisition(TimeSeries(name=name, data=wrapped, rate=1.0, unit="m"))
        with HyperslabIO(path, "w", profile=profile) as io:
            io.write(nwb)
    with hs.open_group(path) as root:
        assert root["acquisition/a/data"].url == str(path)
        assert root["acquisition/b/data"].url == str(target)
        assert np.array_equal(root["acquisition/a/data"], root["acquisition/b/data"])


def test_an_export_leads_to_the_others_yet(target: Path, tmp_path: Path, profile: str) -> None:
    path, copied = tmp_path / "linking.nwb.zarr", tmp_path / "below" / "exported.nwb.zarr"
    linking(target, path, profile)
    allowed = [str(tmp_path)]
    with HyperslabIO(path) as source, HyperslabIO(copied, "w", profile=profile, allow_external=allowed) as io:
        io.export(source)
        wanted = tree_of(source.read_builder())
    with HyperslabIO(copied, allow_external=allowed) as io:
        assert tree_of(io.read_builder()) == wanted
    with hs.open_group(copied, allow_external=allowed) as root:
        assert root["acquisition/outside/data"].url == str(target)
        assert root["acquisition/linked/data"].url == str(copied)


def test_an_export_without_links_to_others(target: Path, tmp_path: Path, profile: str) -> None:
    path, copied = tmp_path / "linking.nwb.zarr", tmp_path / "exported.nwb.zarr"
    linking(target, path, profile)
    with HyperslabIO(path) as source, HyperslabIO(copied, "w", profile=profile) as io:
        io.export(source, write_args={"link_data": False})
    with hs.open_group(copied) as root:
        assert root["acquisition/ts0/data"].url == str(copied)
        assert root["acquisition/linked/data"].url == str(copied)


def test_to_hdf5_and_from_it(target: Path, tmp_path: Path, profile: str) -> None:
    path = tmp_path / "linking.nwb.zarr"
    linking(target, path, profile)
    with HyperslabIO(path) as source, NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})
        builder = source.read_builder()
        assert builder["acquisition/linked"].links["data"].builder is builder["acquisition/ts0/data"]
    with NWBHDF5IO(tmp_path / "a.nwb", "r") as io:
        assert io.read_builder()["acquisition/linked"].links["data"].builder.name == "data"


def test_links_of_hdf5_to_other_files_are_copied(tmp_path: Path, profile: str) -> None:
    manager = get_manager()
    with NWBHDF5IO(tmp_path / "target.nwb", "w") as io:
        io.write(small_file())
    with NWBHDF5IO(tmp_path / "target.nwb", "r", manager=manager) as source:
        nwb = small_file(2)
        nwb.add_stimulus_template(source.read().acquisition["ts0"])
        with NWBHDF5IO(tmp_path / "linking.nwb", "w", manager=manager) as io:
            io.write(nwb)
    path = tmp_path / "a.nwb.zarr"
    with NWBHDF5IO(tmp_path / "linking.nwb", "r") as source, HyperslabIO(path, "w", profile=profile) as io:
        io.export(source)
    with HyperslabIO(path) as io:
        assert io.read().stimulus_template["ts0"].data[4] == 4


def test_what_leads_nowhere_is_left_out(target: Path, tmp_path: Path, profile: str) -> None:
    path = tmp_path / "linking.nwb.zarr"
    linking(target, path, profile)
    shutil.rmtree(target)
    with HyperslabIO(path) as io, pytest.warns(BrokenLinkWarning) as seen:
        nwb = io.read()
    said = "\n".join(str(warning.message) for warning in seen)
    assert "acquisition/outside/data" in said
    assert "stimulus/templates/ts0" in said
    assert nwb.acquisition["ts0"].fields["unit"] == "m"
    assert nwb.acquisition["linked"].data is nwb.acquisition["ts0"].data
    assert "ts0" not in nwb.stimulus_template


def test_what_cannot_be_without_it_is_left_out_too(tmp_path: Path, profile: str) -> None:
    """An imaging plane is made of its device: without it there is none, and no series of it."""
    path, nwb = tmp_path / "a.nwb.zarr", small_file()
    ophys.mock_OnePhotonSeries(
        name="film", nwbfile=nwb, imaging_plane=ophys.mock_ImagingPlane(name="plane", nwbfile=nwb)
    )
    device = nwb.imaging_planes["plane"].device.name
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(nwb)
    with hs.open_group(path, "r+") as root:
        del root[f"general/devices/{device}"]
    with HyperslabIO(path) as io, pytest.warns(BrokenLinkWarning) as seen:
        nwb = io.read()
        assert nwb.acquisition["ts0"].data[3] == 3
        assert "film" not in nwb.acquisition
        assert "plane" not in nwb.imaging_planes
    assert any("device" in str(warning.message) for warning in seen)


def test_a_reference_that_leads_nowhere_fails_alone(tmp_path: Path, profile: str) -> None:
    path, nwb = tmp_path / "a.nwb.zarr", small_file(2)
    electrodes = ecephys.mock_ElectrodesTable(nwbfile=nwb, n_rows=2)
    assert len(electrodes) == 2
    nwb.trials["timeseries"].target  # noqa: B018
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(nwb)
    with hs.open_group(path, "r+") as root:
        del root["acquisition/ts0"]
        del root["acquisition/linked"]
    with HyperslabIO(path) as io:
        nwb = io.read()
        assert nwb.trials["start_time"][:].tolist() == [0.0, 0.1, 0.2]
        with pytest.raises(hs.errors.BrokenLink):
            nwb.trials["timeseries"][0]
        assert nwb.acquisition["ts1"].data[10] == 10
        assert nwb.electrodes["group"][1].name


def test_a_symbolic_link_is_followed_anew_by_each_write(tmp_path: Path) -> None:
    link = tmp_path / "link"
    for name in ("one", "other"):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / name)
        assert Pointers(str(tmp_path / "one")).is_same_dataset(str(link)) == (name == "one")


def test_circles_are_no_trouble(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "a.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(small_file())
    with hs.open_group(path, "r+") as root:
        root.create_link("acquisition/loop", "/acquisition")
        root.create_link("scratch/self", "/scratch/self")
    with HyperslabIO(path) as io, pytest.warns(BrokenLinkWarning, match="scratch/self"):
        builder = io.read_builder()
        assert builder["acquisition"].links["loop"].builder is builder["acquisition"]


def test_a_link_to_a_copy_of_the_file_leads_to_the_copy(target: Path, tmp_path: Path, profile: str) -> None:
    """A copy calls itself as the file does: by that identity the link would lead back into the file itself."""
    copy = tmp_path / "copy.nwb.zarr"
    shutil.copytree(target, copy)
    with hs.open_group(copy, "r+") as root:
        root["acquisition/ts0/data"][0] = 99
    manager = get_manager()
    with HyperslabIO(copy, manager=manager) as source, HyperslabIO(target, "r+", manager=manager) as io:
        nwb = io.read()
        nwb.add_stimulus_template(source.read().acquisition["ts0"])
        io.write(nwb)
    with HyperslabIO(target) as io:
        assert io.read().stimulus_template["ts0"].data[0] == 99
    with hs.open_group(target) as root:
        link = dict(root["stimulus/templates"].links())["ts0"]
        assert (link.source, link.source_object_id) == ("../copy.nwb.zarr", root.attrs["object_id"])
        assert link.object_id == root["acquisition/ts0"].attrs["object_id"]
    assert list(hs.check(target)) == []
