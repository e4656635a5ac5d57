"""A file that is there is added to: a module, rows of tables, cells in place; nothing else is written again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from nwb_files import small_file
from pynwb import TimeSeries, validate

import hyperslab as hs
from hyperslab.bridges.hdmf.datasets import widen_cells
from hyperslab.errors import Invalid
from hyperslab.hdmf import HyperslabIO


def stamps(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_mtime_ns for each in path.rglob("*") if each.is_file()}


def test_a_processing_module(written: Path) -> None:
    before = stamps(written)
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        module = nwb.create_processing_module("behavior", "added")
        module.add(
            TimeSeries(name="again", data=nwb.acquisition["ts0"].data, timestamps=nwb.acquisition["ts0"], unit="m")
        )
        module.add(TimeSeries(name="new", data=np.arange(5), rate=2.0, unit="m"))
        io.write(nwb)
    after = stamps(written)
    changed = {name for name, stamp in before.items() if after[name] != stamp}
    assert changed <= {".zmetadata", ".zattrs", "zarr.json"}
    with HyperslabIO(written) as io:
        assert validate(io=io) == []
        nwb = io.read()
        assert nwb.processing["behavior"]["new"].data[:].tolist() == [0, 1, 2, 3, 4]
        again = nwb.processing["behavior"]["again"]
        assert again.data[:].tolist() == list(range(10))
        assert again.timestamps is nwb.acquisition["ts0"].timestamps
    with hs.open_group(written) as root:
        assert root["processing/behavior/again/data"].path == "acquisition/ts0/data"


def test_rows_of_a_table(written: Path) -> None:
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        first = nwb.acquisition["ts0"]
        nwb.add_trial(start_time=0.3, stop_time=0.4, choice="rïght", timeseries=[first], tags=["c"])
        io.write(nwb)
    with HyperslabIO(written) as io:
        nwb = io.read()
        frame = nwb.trials.to_dataframe()
        assert frame["start_time"].tolist() == [0.0, 0.1, 0.2, 0.3]
        assert frame["choice"].tolist()[-2:] == ["lëft", "rïght"]
        assert [list(each) for each in frame["tags"]] == [["a"], ["a", "b"], ["a", "b"], ["c"]]
        assert frame["timeseries"].tolist()[3][0].timeseries is nwb.acquisition["ts0"]
        assert validate(io=io) == []


def test_cells_in_place(written: Path) -> None:
    with HyperslabIO(written, "a") as io:
        io.read().acquisition["ts0"].data[2:4] = 99
    with HyperslabIO(written) as io:
        assert io.read().acquisition["ts0"].data[:5].tolist() == [0, 1, 99, 99, 4]


def test_attributes_of_what_was_changed(written: Path) -> None:
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        nwb.acquisition["ts0"].fields["description"] = "another"
        nwb.acquisition["ts0"].set_modified()
        io.write(nwb)
    with HyperslabIO(written) as io:
        assert io.read().acquisition["ts0"].description == "another"


def test_written_twice_by_one_object(tmp_path: Path, profile: str) -> None:
    nwb, path = small_file(), tmp_path / "a.nwb.zarr"
    with HyperslabIO(path, "w", profile=profile) as io:
        io.write(nwb)
        nwb.add_acquisition(TimeSeries(name="more", data=[1.0], rate=1.0, unit="m"))
        io.write(nwb)
    with HyperslabIO(path) as io:
        assert set(io.read().acquisition) == {"ts0", "linked", "more"}


def test_consolidated_metadata_is_that_of_the_documents(written: Path) -> None:
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        nwb.add_acquisition(TimeSeries(name="more", data=[1.0], rate=1.0, unit="m"))
        io.write(nwb)
    assert not hs.check(written)


def test_two_that_add_to_one_file_keep_what_the_other_added(written: Path) -> None:
    with HyperslabIO(written, "r+") as io, hs.open_group(written, "r+") as other:
        nwb = io.read()
        other.attrs["by"] = "another"
        other["acquisition"].create_link("more", "/acquisition/ts0")
        builder = io.manager.build(nwb)
        builder.attributes["mine"] = 1
        builder["acquisition"].attributes["mine"] = 2
        io.write_builder(builder)
    with hs.open_group(written) as root:
        assert (root.attrs["by"], root.attrs["mine"], root["acquisition"].attrs["mine"]) == ("another", 1, 2)
        assert root["acquisition/more"].path == "acquisition/ts0"


def test_what_is_added_is_among_the_objects_of_the_file(written: Path) -> None:
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        module = nwb.create_processing_module("later", "was added")
        io.write(nwb)
        assert nwb.objects[module.object_id] is module


@pytest.mark.sampled(0)
@pytest.mark.parametrize("profile", ["v2", pytest.param("v3", marks=pytest.mark.soak)], indirect=True)
@pytest.mark.parametrize(
    ("length", "dtype"), [(4_000, np.uint16), pytest.param(70_000, np.uint32, marks=pytest.mark.soak)]
)
def test_ragged_rows_beyond_what_the_index_has_room_for(written: Path, length: int, dtype: type[np.generic]) -> None:
    """Of an index that it read, hdmf takes 255 rows, and leaves a part of the next one behind."""
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        nwb.add_unit(spike_times=np.arange(200.0))
        nwb.add_unit(spike_times=np.arange(300.0))
        nwb.add_unit(spike_times=np.arange(float(length)))
        io.write(nwb)
    with HyperslabIO(written, "r+") as io:
        nwb = io.read()
        nwb.add_unit(spike_times=[0.25])
        io.write(nwb)
    with HyperslabIO(written) as io:
        nwb = io.read()
        assert [len(nwb.units["spike_times"][row]) for row in range(7)] == [2, 0, 1, 200, 300, length, 1]
        assert nwb.units["spike_times"][6].tolist() == [0.25]
        assert validate(io=io) == []
    assert list(hs.check(written, deep=True)) == []
    with hs.open_group(written) as root:
        assert root["units/spike_times_index"].dtype == dtype
        assert root["units/spike_times_index"].attrs["target"].path == "/units/spike_times"


@pytest.mark.parametrize("codec", ["zstd:9", "none", "blosc:zstd:7", "shuffle+zlib:4"])
def test_an_index_with_wider_cells_is_stored_as_it_was(tmp_path: Path, profile: Any, codec: str) -> None:
    shards: Any = {"shards": (4,)} if profile == "v3" else {}
    with hs.create(tmp_path / "a.zarr", format="hdmf", profile=profile) as root:
        array = root.create_array("i", data=np.arange(8, dtype="u1"), chunks=(2,), codec=codec, **shards)
        wide = widen_cells(array, np.array([300]))
        wanted = root.create_array("w", data=np.arange(8, dtype="u2"), chunks=(2,), codec=codec, **shards)
        assert wide[...].tolist() == list(range(8))
        assert (wide.dtype, wide.chunks, wide.shards) == (wanted.dtype, wanted.chunks, wanted.shards)
        names = [[each.name for each in steps(one)] for one in (wide, wanted)]
        assert names[0] == names[1]
        assert [each.config.get("level") for each in steps(wide)] == [
            each.config.get("level") for each in steps(wanted)
        ]


def steps(array: Any) -> Any:
    return array.codec[-1].config["codecs"] if array.shards else array.codec


def test_schemas_that_were_moved_are_no_part_of_the_file_and_are_added_to_where_they_are(written: Path) -> None:
    with hs.open_group(written, "r+") as root:
        root.move("specifications", "acquisition/schemas")
        del root["acquisition/schemas/hdmf-common"]
    with HyperslabIO(written, "r+") as io:
        assert "schemas" not in io.read_builder()["acquisition"].groups
        nwb = io.read()
        nwb.add_acquisition(TimeSeries(name="new", data=[1], rate=1.0, unit="m"))
        io.write(nwb)
    with hs.open_group(written) as root:
        assert {"core", "hdmf-common"} <= set(root.specifications) == set(root["acquisition/schemas"])
        assert "specifications" not in root


def test_a_dataset_that_was_written_has_its_cells_whatever_becomes_of_the_next(written: Path) -> None:
    """Those of middling size wait for one another: one that fails leaves none of them empty."""
    cells = np.arange(40_000, dtype="i4")
    root = GroupBuilder("root", datasets={"good": DatasetBuilder("good", cells, dtype="int32")})
    root.set_dataset(DatasetBuilder("bad", [[1, 2], [3]], dtype="int32"))
    with HyperslabIO(written, "r+") as io, pytest.raises(Invalid, match="bad"):
        io.write_builder(root)
    with hs.open_group(written) as file:
        assert np.array_equal(file["good"], cells)
        assert "bad" not in file
