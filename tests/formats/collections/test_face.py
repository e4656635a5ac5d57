"""Roots of collections, collections and arrays under the one face, in both layouts: opened, recognised, looked at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import AlreadyExists, FormatError, Invalid, NodeNotFound, ReadOnly, Unsupported
from hyperslab.formats import detect
from hyperslab.integrity.comparison import diff
from hyperslab.model.dims import Labels, TimeScale
from hyperslab.model.dims import ScaleIndex as ScaleIndex
from hyperslab.stores.location import Location, Probe
from hyperslab.stores.memory import MemoryStore

DAY = datetime(2023, 1, 1, tzinfo=UTC)
DIMENSIONS = [
    TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=6)),
    DimensionSchema("lat", 6, scale=Scale(50.0, -0.5, "lat")),
    DimensionSchema("layer", 2, labels=["t", "q"]),
]
ATTRIBUTES = [AttributeSchema("dt", datetime, True), AttributeSchema("tm", int, False)]


@pytest.fixture(params=["hyperslab", "deker"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, layout: Any) -> Path:
    """A collection of arrays, and one of arrays in tiles."""
    with Client(tmp_path / "db") as client:
        weather = client.create_collection("weather", ArraySchema(DIMENSIONS, np.float32, ATTRIBUTES), layout=layout)
        for day in range(3):
            array = weather.create({"dt": DAY + timedelta(days=day)}, {"tm": day})
            array[:].update(np.full((4, 6, 2), day, "f4"))
        grid = VArraySchema([DimensionSchema("y", 4), DimensionSchema("x", 6)], int, vgrid=(2, 3))
        client.create_collection("tiles", grid, layout=layout).create()[0].update(np.arange(6))
    return tmp_path / "db"


@pytest.fixture
def opened(root: Path) -> Iterator[hs.Group]:
    with hs.open_group(root) as found:
        yield found


def test_a_root_is_a_tree_of_collections_and_arrays(opened: hs.Group, layout: str) -> None:
    assert opened.format == {"hyperslab": "collections", "deker": "deker"}[layout]
    assert list(opened) == ["tiles", "weather"]
    weather = opened["weather"]
    assert isinstance(weather, hs.Group)
    assert len(weather) == 3
    assert '"type": "array"' in weather.attrs["collection"]


def test_an_array_has_its_attributes_and_labels(opened: hs.Group) -> None:
    found = {array.attrs["custom_attributes"]["tm"]: array for array in opened["weather"].values()}
    array = found[1]
    assert array.attrs["primary_attributes"] == {"dt": "2023-01-02T00:00:00+00:00"}
    assert array.dims == ("hour", "lat", "layer")
    assert array.spec.indexes["lat"] == ScaleIndex(50.0, -0.5, 6)
    assert isinstance(array.spec.indexes["hour"], TimeScale)
    assert isinstance(array.spec.indexes["layer"], Labels)
    assert array["2023-01-02T06:00", 49.0:48.0, "q"].tolist() == [1.0, 1.0]
    assert array.sel(lat=slice(49.0, 48.0), layer="t").shape == (4, 3)
    with pytest.raises(IndexError):
        _ = array["2023-01-01T06:00"]


def test_what_is_read_creates_nothing(root: Path) -> None:
    before = sorted(root.rglob("*"))
    with hs.open_group(root) as found:
        for collection in found.values():
            for array in collection.values():
                _ = array[...]
    assert sorted(root.rglob("*")) == before


def test_a_collection_s_folder_opens_as_the_collection(root: Path) -> None:
    weather = hs.open_group(root / "collections" / "weather")
    assert len(weather) == 3
    first = weather[next(iter(weather))]
    assert isinstance(first, hs.Array)
    assert first.shape == (4, 6, 2)
    with pytest.raises(NodeNotFound):
        _ = weather["weather"]


@pytest.mark.parametrize("layout", ["hyperslab"], indirect=True)
def test_an_array_s_folder_of_ours_opens_with_its_labels(root: Path) -> None:
    folder = next(path.parent for path in root.rglob("weather/arrays/*/*/zarr.json"))
    array = hs.open_array(folder)
    assert array.sel(lat=48.5, layer="q").shape == (4,)
    assert set(array.attrs) == {"id", "primary_attributes", "custom_attributes"}


def test_it_is_recognised_by_what_it_holds(tmp_path: Path) -> None:
    def named(place: Any) -> str | None:
        found = detect(Probe(Location.of(place)))
        return None if found is None else found.name

    (tmp_path / "a" / "collections").mkdir(parents=True)
    assert named(tmp_path / "a") == "collections"
    (tmp_path / "a" / "collections" / "alien").mkdir()
    assert named(tmp_path / "a") is None
    (tmp_path / "a" / "collections" / "alien" / "alien.json").write_text("{")
    assert named(tmp_path / "a") == "deker"
    (tmp_path / "a" / "collections" / "other").mkdir()
    (tmp_path / "a" / "collections" / "other" / "collection.json").write_text("{")
    assert named(tmp_path / "a") == "collections"
    with hs.create(tmp_path / "z.zarr") as root:
        root.create_group("collections/weather")
    assert named(tmp_path / "z.zarr") == "zarr3"
    store = MemoryStore()
    hs.create(store, "collections").close()
    assert named(store) == "collections"


def test_zarr_is_known_without_a_further_request(tmp_path: Path) -> None:
    for format in ("zarr2", "zarr3"):
        with hs.create(tmp_path / format, format, consolidated=True) as root:
            root.create_array("v", shape=(2,), dtype="i4")
        with hs.trace() as seen:
            hs.open(tmp_path / format)
        assert seen.requests <= 2


def test_a_damaged_collection_leaves_the_others(root: Path, layout: str) -> None:
    name = "collection.json" if layout == "hyperslab" else "tiles.json"
    (root / "collections" / "tiles" / name).write_text('{"name": ')
    found = hs.open_group(root)
    assert list(found) == ["tiles", "weather"]
    with pytest.raises(FormatError):
        _ = found["tiles"]
    assert len(found["weather"]) == 3
    assert any(problem.node == "tiles" for problem in hs.check(root))


def test_a_sound_root_has_no_problems(root: Path) -> None:
    assert not hs.check(root, deep=True)
    assert not hs.repair(root)


def test_changes_go_through(root: Path) -> None:
    with hs.open_group(root, "r+") as found:
        weather = found["weather"]
        assert isinstance(weather, hs.Group)
        array = weather[next(iter(weather))]
        assert isinstance(array, hs.Array)
        array[1, :, 0] = 7
        array.attrs["custom_attributes"] = {"tm": 99}
        with pytest.raises((Invalid, FormatError, Unsupported)):
            array.attrs["title"] = "no attribute of the schema"
        del found["tiles"]
    with Client(root, mode="r") as client:
        assert [str(collection) for collection in client] == ["weather"]
        changed = client.get_collection("weather")
        assert changed is not None
        assert changed[array.name].custom_attributes == {"tm": 99}
        assert changed[array.name][1, :, 0].read().tolist() == [7.0] * 6


def test_a_schema_never_changes(root: Path) -> None:
    with hs.open_group(root, "r+") as found:
        said = found["weather"].attrs["collection"]
        with pytest.raises(Unsupported, match="never changes"):
            found["weather"].attrs["collection"] = said.replace('"size": 6', '"size": 7')
        with pytest.raises(Invalid, match="cannot become a group"):
            del found["weather"].attrs["collection"]
        with pytest.raises(Invalid, match="only its arrays"):
            found.create_group("weather/inner")
        found["weather"].attrs["title"] = "Weather"
    assert dict(hs.open_group(root)["weather"].attrs)["title"] == "Weather"


def test_a_read_only_root_takes_no_changes(opened: hs.Group) -> None:
    with pytest.raises(ReadOnly):
        opened.create_group("new")


def test_groups_and_arrays_of_any_kind_beside_collections(root: Path) -> None:
    with hs.open_group(root, "r+") as found:
        group = found.create_group("maps")
        group.attrs["title"] = "maps"
        group.create_array("lat", data=np.linspace(60.0, 30.0, 4), dims=["lat"], units="degrees_north")
        group.create_array("height", data=np.arange(8.0).reshape(4, 2), dims=["lat", None], units="m")
    again = hs.open_group(root)
    assert list(again) == ["tiles", "weather", "maps"]
    assert again["maps/height"].sel(lat=40.0).tolist() == [4.0, 5.0]
    assert dict(again["maps/height"].attrs) == {"units": "m"}
    with Client(root, mode="r") as client:
        height = client.get_collection("maps.height")
        assert height is not None
        assert height.first()[50.0].read().tolist() == [2.0, 3.0]
    with hs.open_group(root, "r+") as found:
        del found["maps"]
    assert list(hs.open_group(root)) == ["tiles", "weather"]
    assert not hs.check(root)


def test_a_new_root_takes_no_place_that_is_taken(root: Path) -> None:
    with pytest.raises(AlreadyExists):
        hs.create(root, "collections")
    hs.create(root, "collections", overwrite=True).close()
    assert list(hs.open_group(root)) == []
    assert diff(root, root) == []


def test_an_array_grows_where_its_dimension_is_unlimited(tmp_path: Path) -> None:
    dims = [DimensionSchema("n", None), DimensionSchema("x", 3)]
    with Client(tmp_path / "db") as client:
        made = client.create_collection("rows", VArraySchema(dims, float, arrays_shape=(2, 3))).create()
    with hs.open_group(tmp_path / "db", "r+") as found:
        array = found[f"rows/{made.id}"]
        assert isinstance(array, hs.Array)
        array.append(np.ones((5, 3)), dim="n")
        array.append(np.zeros((1, 3)), dim="n")
    assert hs.open_array(tmp_path / "db", path=f"rows/{made.id}").shape == (6, 3)


def test_an_array_without_cells_gets_a_collection_when_it_grows(tmp_path: Path, layout: str) -> None:
    format = "deker" if layout == "deker" else "collections"
    with hs.create(tmp_path / "db", format) as made:
        made.create_array("v", shape=(0, 3), dims=["n", "x"], dtype="i4", units="m")
    assert hs.open_array(tmp_path / "db", path="v").shape == (0, 3)
    with hs.open_group(tmp_path / "db", "r+") as made:
        array = made["v"]
        assert isinstance(array, hs.Array)
        array.append(np.full((2, 3), 7), dim="n")
        with pytest.raises(Unsupported, match="not unlimited"):
            array.append(np.full((2, 3), 7), dim="n")
    found = hs.open_array(tmp_path / "db", path="v")
    assert (found[...].tolist(), dict(found.attrs)) == ([[7, 7, 7], [7, 7, 7]], {"units": "m"})


def test_what_a_database_cannot_hold_is_refused_by_name(root: Path) -> None:
    with hs.open_group(root, "r+") as found:
        for name, options in (
            ("weather/x", {"shape": (4, 6, 2)}),
            ("pairs", {"data": np.array([1 + 2j], ">c16")}),
            ("many", {"shape": (1 << 25,), "dtype": "?"}),
        ):
            with pytest.raises((Invalid, Unsupported)):
                found.create_array(name, **options)
    assert list(hs.open_group(root)) == ["tiles", "weather"]


def test_what_no_schema_has_stands_in_the_document_of_the_root(tmp_path: Path, layout: str) -> None:
    held = {
        "scalar": np.array(2.5),
        "words": np.array(["a", "日本", ""], np.dtypes.StringDType()),
        "wide": np.array([["ab", "c"]]),
        "true": np.array([True, False]),
        "when": np.array(["2013-01-01", "NaT"], "M8[s]"),
        "rows": np.array([(1, 2.5, b"x")], [("a", "i4"), ("b", "f8"), ("c", "S2")]),
        "raw": np.array([b"ab", b""]),
    }
    with hs.create(tmp_path / "db", "deker" if layout == "deker" else "collections") as made:
        for name, cells in held.items():
            dims = [f"{name}_{axis}" for axis in range(cells.ndim)]
            made.create_array(f"g/{name}", data=cells, dims=dims, units="m")
        made.create_array("later", shape=(3,), dtype=str, dims=["n"])
    with hs.open_group(tmp_path / "db", "r+") as made:
        later = made["later"]
        assert isinstance(later, hs.Array)
        later[1] = "b"
        later.append(np.array(["d"]), dim="n")
        later.attrs["note"] = 1
    with hs.open_group(tmp_path / "db") as found:
        for name, cells in held.items():
            array = found[f"g/{name}"]
            assert isinstance(array, hs.Array)
            assert (array.dtype, array.shape, array.units) == (cells.dtype, cells.shape, "m")
            assert np.asarray(array[...]).tolist() == cells.tolist()
        assert isinstance(found["later"], hs.Array)
        assert found["later"][...].tolist() == ["", "b", "", "d"]
        assert dict(found["later"].attrs) == {"note": 1}
    assert not hs.check(tmp_path / "db", deep=True)


def test_a_collection_moves_and_is_copied(root: Path) -> None:
    before = {array.name: array[...] for array in hs.open_group(root)["weather"].values()}
    with hs.open_group(root, "r+") as found:
        found.copy("weather", "copy")
        found.move("weather", "moved")
    again = hs.open_group(root)
    assert sorted(again) == ["copy", "moved", "tiles"]
    for name in ("copy", "moved"):
        assert {array.name for array in again[name].values()} == set(before)
        assert all(np.array_equal(again[f"{name}/{id}"][...], cells) for id, cells in before.items())
    assert not hs.check(root, deep=True)


def test_a_key_that_is_lost_is_made_anew(root: Path, layout: str) -> None:
    marks = "keys/*" if layout == "hyperslab" else "array_symlinks/*/*"
    next((root / "collections" / "weather").glob(marks)).unlink()
    assert [problem.node.partition("/")[0] for problem in hs.check(root)] == ["weather"]
    assert len(hs.repair(root)) == 1
    assert hs.check(root)
    assert all(mend.done for mend in hs.repair(root, dry_run=False))
    assert not hs.check(root, deep=True)
    assert len(hs.open_group(root)["weather"]) == 3


def test_a_root_may_lie_in_a_folder_called_collections(root: Path, tmp_path: Path) -> None:
    (tmp_path / "collections").mkdir()
    root = root.rename(tmp_path / "collections" / "db")
    assert list(hs.open_group(root)) == ["tiles", "weather"]
    assert len(hs.open_group(root / "collections" / "weather")) == 3


def test_files_of_others_are_notes_and_go_on_wish(root: Path, tmp_path: Path, layout: str) -> None:
    """As in other formats; a folder with arrays whose document is gone, and files in the wrong place, are problems."""
    collections = root / "collections"
    others = [collections / "notes", collections / "weather/.DS_Store", collections / "tiles/read me.txt"]
    for path in others:
        path.write_text("mine") if path.suffix or path.name.startswith(".") else path.mkdir()
    (collections / "notes/a").write_text("mine")
    found = hs.check(root)
    assert not found
    assert [note.kind for note in found.notes] == ["foreign"] * 3
    assert CliRunner().invoke(main, ["check", str(root)]).exit_code == 0
    with Client(root, mode="r") as client:
        assert client.check_integrity(4) == []
    assert not hs.repair(root, dry_run=False)
    assert all(path.exists() for path in others)
    mends = hs.repair(root, dry_run=False, drop_foreign=True, quarantine=tmp_path / "out")
    assert [(mend.kind, mend.done) for mend in mends] == [("foreign", True)] * 3
    assert not hs.check(root, deep=True).notes
    assert sorted(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file()) == ["mine"] * 3
    with hs.open_group(root) as opened:
        assert [array[...].size for _, array in opened["weather"].arrays()] == [48] * 3


@pytest.mark.parametrize("layout", ["deker"], indirect=True)
def test_arrays_in_the_wrong_place_are_no_files_of_others(root: Path) -> None:
    (root / "collections/weather/weather.json").unlink()
    file = next((root / "collections/tiles").rglob("array_data/**/*.hdf5"))
    (root / "collections/tiles/array_data/x").mkdir()
    shutil.move(file, root / "collections/tiles/array_data/x")
    found = hs.check(root)
    assert {"missing-document", "misplaced-file"} <= {problem.kind for problem in found}
    assert not found.notes
    hs.repair(root, dry_run=False, drop_foreign=True)
    assert (root / "collections/tiles/array_data/x" / file.name).exists()
    assert next((root / "collections/weather").rglob("*.hdf5")).exists()
