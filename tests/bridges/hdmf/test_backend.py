"""What hdmf and pynwb call: finding the backend, modes, schemas, validation."""

from __future__ import annotations

from pathlib import Path

import h5py
import hdmf.common
import numcodecs
import numpy as np
import pytest
from hdmf.backends.errors import UnsupportedOperation
from hdmf.build import BuildManager, GroupBuilder, TypeMap
from hdmf.common import DynamicTable, VectorData
from hdmf.spec import NamespaceCatalog
from nwb_files import small_file
from pynwb import NWBHDF5IO, TimeSeries, get_manager, validate
from pynwb.spec import NWBDatasetSpec, NWBGroupSpec, NWBNamespace

import hyperslab as hs
from hyperslab.errors import AlreadyExists, Invalid, NotFound
from hyperslab.hdmf import HyperslabIO


def test_can_read(written: Path, tmp_path: Path) -> None:
    with NWBHDF5IO(tmp_path / "a.nwb", "w") as io:
        io.write(small_file())
    hs.create(tmp_path / "plain.zarr").close()
    assert HyperslabIO.can_read(written)
    assert HyperslabIO.can_read(str(written))
    for other in ("a.nwb", "plain.zarr", "missing"):
        assert not HyperslabIO.can_read(tmp_path / other)


def test_modes(written: Path) -> None:
    with pytest.raises(Invalid, match="one of r, r-, r"):
        HyperslabIO(written, "rw")
    with pytest.raises(NotFound):
        HyperslabIO(written.with_name("missing.nwb.zarr"))
    with HyperslabIO(written) as io, pytest.raises(UnsupportedOperation, match="mode 'r'"):
        io.write(small_file())
    with HyperslabIO(written, "x") as io, pytest.raises(AlreadyExists):
        io.write(small_file())
    with HyperslabIO(written, "w") as io, pytest.raises(UnsupportedOperation, match="cannot be read"):
        io.read()
    with HyperslabIO(written, "a") as io:
        assert io.is_open()
        assert io.read().identifier == "small"
    assert not io.is_open()


def test_a_failed_write_leaves_the_old_file(written: Path) -> None:
    nwb = small_file()
    nwb.add_acquisition(TimeSeries(name="odd", data=np.array([{"a": 1}], object), rate=1.0, unit="m"))
    with HyperslabIO(written, "w") as io, pytest.raises(hs.HyperslabError, match="acquisition/odd/data"):
        io.write(nwb)
    with HyperslabIO(written) as io:
        assert "odd" not in io.read().acquisition
    assert [path.name for path in written.parent.iterdir()] == [written.name]


def test_a_file_of_hdf5_says_who_reads_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nwb", "w") as file:
        file.attrs["namespace"] = "core"
    for mode in ("r", "r+", "a"):
        with pytest.raises(Invalid, match=r"this is an HDF5 file, and no Zarr .*NWBHDF5IO"):
            HyperslabIO(tmp_path / "a.nwb", mode)


def test_a_closed_file_is_opened_again(written: Path) -> None:
    io = HyperslabIO(written)
    io.close()
    io.close()
    with pytest.raises(UnsupportedOperation, match="is closed: open it again"):
        io.read_builder()
    io.open()
    assert io.read_builder().attributes["neurodata_type"] == "NWBFile"
    io.close()


@pytest.mark.covering
@pytest.mark.parametrize("how", ["path", "file", "io", "opened"])
def test_namespaces_of_the_file(written: Path, how: str) -> None:
    catalog = NamespaceCatalog(NWBGroupSpec, NWBDatasetSpec, NWBNamespace)
    with HyperslabIO(written) as io:
        found = {
            "path": lambda: HyperslabIO.load_namespaces(catalog, written),
            "file": lambda: io.load_namespaces(catalog, file=io._file),
            "io": lambda: HyperslabIO.load_namespaces(catalog, io=io),
            "opened": lambda: io.load_namespaces_io(catalog, namespaces=["core", "hdmf-common"]),
        }[how]()
    assert {"core", "hdmf-common"} <= set(found)
    assert catalog.get_namespace("core").get_spec("TimeSeries").doc.startswith("General purpose time series")


def test_without_cached_schemas(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "bare.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(small_file(), cache_spec=False)
    with hs.open_group(path) as root:
        assert "specifications" not in root
    with HyperslabIO(path) as io:
        assert HyperslabIO.load_namespaces(NamespaceCatalog(), io=io) == {}
        assert io.read().identifier == "small"


def test_schemas_are_kept_once(written: Path) -> None:
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        nwb.add_acquisition(TimeSeries(name="more", data=[1.0, 2.0], rate=1.0, unit="m"))
        io.write(nwb)
    with hs.open_group(written) as root:
        assert len(list(root["specifications/core"])) == 1
        assert ".specloc" not in root.attrs
    with HyperslabIO(written) as io:
        assert validate(io=io) == []


def test_manager_may_be_given(written: Path) -> None:
    for manager in (get_manager(), get_manager().type_map):
        with HyperslabIO(written, manager=manager) as io:
            assert io.read().identifier == "small"


def test_files_of_hdmf_alone(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "table.hdmf.zarr"
    table = DynamicTable(name="table", description="d", columns=[VectorData(name="x", description="x", data=[1, 2])])
    with HyperslabIO(path, "w", manager=hdmf.common.get_manager(), profile=profile) as io:
        io.write(table)
    with HyperslabIO(path) as io:
        assert io.read().to_dataframe()["x"].tolist() == [1, 2]


def test_an_empty_file_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "empty.hdmf.zarr"
    manager = BuildManager(TypeMap(NamespaceCatalog()))
    with HyperslabIO(path, "w", manager=manager) as io:
        io.write_builder(GroupBuilder("root"))
    with HyperslabIO(path, manager=manager) as io, pytest.raises(UnsupportedOperation, match="no values"):
        io.read()


def test_the_codec_by_the_peer_s_name(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="numcodecs"):
        HyperslabIO(tmp_path / "a.nwb.zarr", "w", object_codec_class=numcodecs.Zlib)
    with pytest.raises(Invalid, match="numcodecs"):
        HyperslabIO(tmp_path / "a.nwb.zarr", "w", object_codec="json2", object_codec_class=numcodecs.Pickle)
    for codec, name in ((numcodecs.JSON, "json2"), (numcodecs.Pickle, "pickle")):
        path = tmp_path / f"{name}.nwb.zarr"
        with HyperslabIO(path, "w", object_codec_class=codec) as io:
            io.write(small_file())
        document = (path / "intervals/trials/timeseries/.zarray").read_text()
        assert f'"id": "{name}"' in document or f'"id":"{name}"' in document
        with HyperslabIO(path) as io:
            assert io.read().trials["timeseries"][1][0].timeseries.name == "ts0"


def test_a_url_in_memory() -> None:
    with HyperslabIO("memory://tests-of-hdmf/small.nwb.zarr", "w") as io:
        io.write(small_file())
    with HyperslabIO("memory://tests-of-hdmf/small.nwb.zarr") as io:
        assert io.read().acquisition["ts0"].data[3] == 3


@pytest.mark.sampled(0)
def test_documentation_of_the_schema_on_request(tmp_path: Path, profile: str) -> None:
    for wanted in (False, True):
        path = tmp_path / f"{wanted}.nwb.zarr"
        with HyperslabIO(path, "w", write_doc=wanted, profile=profile) as io:
            io.write(small_file())
        with hs.open_group(path) as root:
            said = [root["acquisition/ts0"].attrs.get("doc"), root["acquisition/ts0/data"].attrs.get("doc")]
        assert [text is not None for text in said] == [wanted, wanted]
        with HyperslabIO(path) as io:
            assert validate(io=io) == []
