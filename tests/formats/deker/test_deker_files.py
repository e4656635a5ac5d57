"""Files as DEKER has them: the tree, the bytes of documents, the objects of HDF5 files; and every variation of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from deker_arrays import (
    KEY,
    NOTE,
    PLAIN,
    START,
    TILED,
    count_of,
    file_of,
    kinds,
    make,
    new,
    read,
    reopen,
    repair,
    values,
    write,
)

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.collections.deker.store import LAYOUT
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Record,
    TimeDimensionSchema,
)
from hyperslab.model.schemas.arrays import update_record
from hyperslab.stores.location import Location

ID = "352fdd68-dcb5-4edc-b3fc-4fcad9dea7fe"
PLACE = f"3/5/2/f/d/d/6/8/dcb5-4edc-b3fc-4fcad9dea7fe/{ID}"
FILTERS = [
    HDF5CompressionOpts("gzip", 6),
    HDF5CompressionOpts("gzip"),
    HDF5CompressionOpts("lzf"),
    HDF5CompressionOpts("szip", ("nn", 8)),
    HDF5CompressionOpts(32015, (3,)),
    HDF5CompressionOpts(32004, (0,)),
    HDF5CompressionOpts(32001, (0, 0, 0, 0, 5, 1, 1)),
]


def _tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink())


def test_the_tree_of_an_array(tmp_path: Path) -> None:
    schema = ArraySchema([DimensionSchema("y", 4)], float, [AttributeSchema("dt", datetime, True), KEY, NOTE])
    holding = make(tmp_path, schema, "weather")
    assert _tree(tmp_path) == ["collections/weather.lock", "collections/weather/weather.json"]
    holding.create([Record(ID, {"dt": START, "k": 7}, {"note": "é"})])
    link = f"collections/weather/array_symlinks/2023-01-01T00:00:00+00:00/7/{ID}.hdf5"
    data = f"collections/weather/array_data/{PLACE}.hdf5"
    assert _tree(tmp_path) == sorted(["collections/weather.lock", "collections/weather/weather.json", link, data])
    assert os.readlink(tmp_path / link) == str(tmp_path / data)
    with h5py.File(tmp_path / data, "r") as file:
        meta = file["meta"][()]
        kind = file["meta"].id.get_type()
        assert sorted(file) == ["empty_cells", "meta"]
        assert (file["empty_cells"].dtype, file["empty_cells"][()]) == (np.dtype("<i8"), 4)
    text = (
        f'{{"id": "{ID}", "primary_attributes": {{"dt": "2023-01-01T00:00:00+00:00", "k": 7}}, '
        '"custom_attributes": {"note": "\\u00e9"}}'
    )
    assert meta == text.encode()
    assert (kind.get_size(), kind.get_strpad(), kind.get_cset()) == (len(text) + 33, 1, 0)


def test_the_tree_of_a_varray(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    holding.create([Record(ID, {"dt": START}, {"note": None})])
    write(holding, ID, 5, slice(2, 4), slice(3, 6))
    folder = tmp_path / "collections/c"
    assert (folder / f"varray_data/{PLACE}.json").read_text() == (
        f'{{"id": "{ID}", "primary_attributes": {{"dt": "2023-01-01T00:00:00+00:00"}}, '
        '"custom_attributes": {"note": null}}'
    )
    key = folder / "varray_symlinks/2023-01-01T00:00:00+00:00"
    assert [path.name for path in key.iterdir()] == [f"{ID}.json"]
    tiles = list((folder / f"array_symlinks/{ID}").iterdir())
    assert [tile.name for tile in tiles] == ["1-1"]
    (link,) = tiles[0].iterdir()
    with h5py.File(link, "r") as file:
        meta = json.loads(file["meta"][()])
    assert meta == {
        "id": link.stem,
        "primary_attributes": {"vid": ID, "v_position": [1, 1]},
        "custom_attributes": {"parent.dt": "2023-01-01T02:00:00+00:00"},
    }


def test_arrays_without_primary_attributes_are_linked_side_by_side(tmp_path: Path) -> None:
    holding = make(tmp_path, ArraySchema([DimensionSchema("y", 4)], float))
    ids = {new(holding, {}) for _ in range(3)}
    links = tmp_path / "collections/c/array_symlinks"
    assert {link.stem for link in links.iterdir()} == ids
    for id in ids:
        holding.remove(id)
    assert not any(links.rglob("*.hdf5"))


def test_names_of_folders_are_the_text_of_the_values(tmp_path: Path) -> None:
    types: list[Any] = [int, float, complex, str, tuple, datetime]
    attributes = [AttributeSchema(f"a{place}", kind, True) for place, kind in enumerate(types)]
    holding = make(tmp_path, ArraySchema([DimensionSchema("y", 4)], float, attributes))
    key = (10, 1e-09, complex("-1j"), "é b", (1, "a", (2.5, 2j)), datetime(2023, 1, 1, 0, 0, 0, 5, UTC))
    id = new(holding, {f"a{place}": value for place, value in enumerate(key)})
    place = "10/1e-09/-1j/é b/(1, 'a', (2.5, 2j))/2023-01-01T00:00:00.000005+00:00"
    assert (tmp_path / "collections/c/array_symlinks" / place / f"{id}.hdf5").is_symlink()
    assert holding.id_of(key) == id
    stored = tuple(holding.record(id).primary.values())
    assert stored[4] == (1, "a", (2.5, 2j))
    assert holding.id_of(stored) == id
    assert kinds(holding) == []
    holding.remove(id)
    assert list((tmp_path / "collections/c/array_symlinks").iterdir()) == []


@pytest.mark.covering
@pytest.mark.parametrize("filters", [None, *FILTERS], ids=lambda value: str(value and value.compression))
@pytest.mark.parametrize("chunks", [None, True, (8, 16)], ids=str)
def test_files_are_what_the_library_makes_of_the_options(tmp_path: Path, chunks: Any, filters: Any) -> None:
    schema = ArraySchema([DimensionSchema("y", 20), DimensionSchema("x", 30)], np.float32, [KEY], -1.0)
    holding = make(tmp_path, schema, options=HDF5Options(chunks, filters))
    id = new(holding, {"k": 1})
    truth = values((20, 30), np.float32)
    write(holding, id, truth)
    write(holding, id, -1.0, slice(5, 9), slice(7, 20))
    truth[5:9, 7:20] = -1
    assert np.array_equal(read(holding, id), truth)
    assert count_of(file_of(holding, id)) == 4 * 13
    how = {} if chunks is None else {"chunks": chunks}
    if filters is not None:
        how |= {"compression": filters.compression, "compression_opts": filters.compression_opts}
    with h5py.File(file_of(holding, id), "r") as file, h5py.File(tmp_path / "same", "w") as other:
        found, wanted = file["data"], other.create_dataset("data", data=truth, **how)
        assert np.array_equal(found[()], truth)
        assert (found.chunks, found.maxshape) == (wanted.chunks, (20, 30))
        plists = [data.id.get_create_plist() for data in (found, wanted)]
        filters_of = [[plist.get_filter(at) for at in range(plist.get_nfilters())] for plist in plists]
        assert filters_of[0] == filters_of[1] and len(filters_of[0]) == len(holding.spec(id).codecs)
        assert found.fillvalue == 0
    assert kinds(holding, deep=True) == []


def test_superblock_and_objects_are_of_the_oldest_format(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    path = file_of(holding, id)
    assert path.read_bytes()[:13].hex() == "894844460d0a1a0a0000000000"
    assert path.stat().st_size < 2500
    write(holding, id, 1.0)
    assert path.read_bytes()[:13].hex() == "894844460d0a1a0a0000000000"


def test_data_is_there_while_a_cell_is_no_fill(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    path = file_of(holding, id)
    fresh = path.read_bytes()
    write(holding, id, np.nan, slice(0, 2))
    assert path.read_bytes() == fresh
    write(holding, id, 3.0, slice(0, 2), slice(0, 2))
    assert count_of(path) == 16
    write(holding, id, np.nan)
    assert path.read_bytes() == fresh


# -- what the table of variations says ------------------------------------------------------------------------------


def _change(path: Path, change: Callable[[Any], None]) -> None:
    with h5py.File(path, "r+", locking=False) as file:
        change(file)


def _data(**how: Any) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        cells = file["data"][()]
        del file["data"]
        dtype = how.pop("dtype", cells.dtype)
        file.create_dataset("data", data=cells.astype(dtype), **how)

    return change


def _meta(make_text: Callable[[bytes], Any]) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        text = file["meta"][()]
        del file["meta"]
        file.create_dataset("meta", data=make_text(text))

    return change


def _without_count(file: Any) -> None:
    del file["empty_cells"]


def _wrong_count(file: Any) -> None:
    file["empty_cells"][()] = 7


def _more(file: Any) -> None:
    file.create_dataset("extra", data=np.arange(3))
    file.attrs["who"] = "another"


VARIATIONS = {
    "unpadded meta": (_meta(lambda text: np.bytes_(text)), []),
    "meta of variable length": (_meta(lambda text: text.decode()), []),
    "more datasets and attributes": (_more, []),
    "chunked without options": (_data(chunks=(2, 3), compression="gzip"), []),
    "big-endian": (_data(dtype=">f8"), []),
    "another type": (_data(dtype="f4"), ["wrong-dtype"]),
    "whole numbers": (_data(dtype=">i2"), ["wrong-dtype"]),
    "fletcher32 and shuffle": (_data(chunks=(2, 3), shuffle=True, fletcher32=True), []),
    "no empty_cells": (_without_count, ["no-count"]),
    "wrong empty_cells": (_wrong_count, []),
}


@pytest.mark.parametrize("variation", VARIATIONS)
def test_variations_of_files_are_read_and_put_right_by_the_next_write(tmp_path: Path, variation: str) -> None:
    change, wrong = VARIATIONS[variation]
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    truth = values((4, 5), float)
    write(holding, id, truth)
    _change(file_of(holding, id), change)
    assert np.array_equal(read(holding, id), truth)
    assert np.array_equal(read(holding, id, slice(1, 3), slice(0, 5, 2)), truth[1:3, ::2])
    assert kinds(holding, deep=True) == wrong
    write(holding, id, np.nan, slice(0, 1))
    truth[0] = np.nan
    assert np.array_equal(read(holding, id), truth, equal_nan=True)
    assert holding.record(id).primary == {"k": 1}
    with h5py.File(file_of(holding, id), "r") as file:
        assert (file["data"].dtype, file["empty_cells"][()]) == (np.dtype("<f8"), 5)
        assert ("extra" in file) == (change is _more)
        assert dict(file.attrs) == ({"who": "another"} if change is _more else {})
    assert kinds(holding, deep=True) == []


def test_the_newest_format_is_read(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    text = h5py.File(file_of(holding, id), "r")["meta"][()]
    truth = values((4, 5), float)
    with h5py.File(file_of(holding, id), "w", libver="latest") as file:
        file.create_dataset("meta", data=np.bytes_(text))
        file.create_dataset("data", data=truth, chunks=(3, 3), compression="lzf")
    assert np.array_equal(read(holding, id), truth)
    assert holding.record(id).primary == {"k": 1}


def test_data_of_another_shape_is_an_error(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    _change(file_of(holding, id), lambda file: file.create_dataset("data", data=np.zeros((4, 6))))
    with pytest.raises(FormatError, match=r"shape \(4, 6\), the schema says \(4, 5\)"):
        read(holding, id)
    with pytest.raises(FormatError):
        write(holding, id, 1.0)
    assert kinds(holding) == ["wrong-shape"]


def test_data_that_is_no_number_is_an_error(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    _change(file_of(holding, id), lambda file: file.create_dataset("data", data=np.full((4, 5), b"a")))
    with pytest.raises(FormatError, match="no array of numbers"):
        read(holding, id)


def test_without_a_lock_file_all_works_and_the_check_says_so(tmp_path: Path) -> None:
    holding = make(tmp_path)
    lock = tmp_path / "collections/c.lock"
    lock.unlink()
    assert kinds(reopen(tmp_path)) == ["no-lock-file"]
    repair(holding)
    assert lock.is_file()
    assert kinds(holding) == []


def test_a_missing_link_hides_the_key_alone_and_is_made_again(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    link = tmp_path / f"collections/c/array_symlinks/1/{id}.hdf5"
    link.unlink()
    assert holding.id_of((1,)) is None
    assert holding.record(id).id in holding.list_part("")
    assert kinds(holding) == ["missing-link"]
    repair(holding)
    assert holding.id_of((1,)) == id
    assert kinds(holding) == []


def test_relative_links_are_followed_and_made_where_asked_for(tmp_path: Path) -> None:
    holding = make(tmp_path, extra={"relative_links": True})
    id = new(holding, {"k": 1})
    link = tmp_path / f"collections/c/array_symlinks/1/{id}.hdf5"
    assert not os.path.isabs(os.readlink(link))
    assert link.exists()
    assert kinds(holding) == []
    again = reopen(tmp_path)
    other = new(again, {"k": 2})
    assert not os.path.isabs(os.readlink(tmp_path / f"collections/c/array_symlinks/2/{other}.hdf5"))
    assert again.relink(relative=False) == 2
    assert os.path.isabs(os.readlink(link))
    assert "relative_links" not in reopen(tmp_path).document.as_dict
    assert reopen(tmp_path).relink(relative=True) == 2
    assert reopen(tmp_path).document.extra == {"relative_links": True}
    link.unlink()
    link.symlink_to(file_of(holding, id))
    assert kinds(reopen(tmp_path)) == ["moved-link"]


def test_relative_links_in_a_store_of_absolute_ones_are_told(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    link = tmp_path / f"collections/c/array_symlinks/1/{id}.hdf5"
    link.unlink()
    link.symlink_to(os.path.relpath(file_of(holding, id), link.parent))
    assert holding.id_of((1,)) == id
    assert kinds(holding) == ["relative-link"]
    repair(holding)
    assert os.readlink(link) == str(file_of(holding, id))


def _document(change: Callable[[dict[str, Any]], Any], **how: Any) -> Callable[[str], str]:
    def changed(text: str) -> str:
        said = json.loads(text)
        change(said)
        return json.dumps(said, **how)

    return changed


FINE = {
    "indented": _document(lambda said: None, indent=2),
    "compact": _document(lambda said: None, separators=(",", ":")),
    "another key": _document(lambda said: said.update(more=1)),
    "no options": _document(lambda said: said.pop("options")),
    "no adapter": _document(lambda said: said.pop("storage_adapter")),
    "no scale": _document(lambda said: said["schema"]["dimensions"][0].pop("scale")),
    "double": _document(lambda said: said["schema"].update(dtype="numpy.double")),
    "no prefix": _document(lambda said: said["schema"].update(dtype="float64")),
    "older": _document(lambda said: said.update(metadata_version="0.1")),
}
BAD = {
    "no fill": _document(lambda said: said["schema"].pop("fill_value")),
    "no kind of dimension": _document(lambda said: said["schema"]["dimensions"][0].pop("type")),
    "newer": _document(lambda said: said.update(metadata_version="0.3")),
    "much newer": _document(lambda said: said.update(metadata_version="0.10")),
    "no version": _document(lambda said: said.pop("metadata_version")),
    "float_": _document(lambda said: said["schema"].update(dtype="numpy.float_")),
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "a list": lambda text: "[]",
}


@pytest.mark.parametrize("variation", FINE)
def test_variations_of_the_document_are_read(tmp_path: Path, variation: str) -> None:
    id = new(make(tmp_path), {"k": 1})
    path = tmp_path / "collections/c/c.json"
    path.write_text(FINE[variation](path.read_text()))
    holding = reopen(tmp_path)
    assert holding.document.schema == PLAIN
    assert holding.id_of((1,)) == id
    write(holding, id, 2.0)


@pytest.mark.parametrize("damage", BAD)
def test_a_damaged_document_keeps_one_collection_from_opening(tmp_path: Path, damage: str) -> None:
    make(tmp_path)
    make(tmp_path, name="d")
    path = tmp_path / "collections/c/c.json"
    path.write_text(BAD[damage](path.read_text()))
    with pytest.raises(FormatError, match=r"c\.json"):
        reopen(tmp_path)
    assert LAYOUT.names(Location.of(tmp_path)) == ["c", "d"]
    reopen(tmp_path, "d")


# -- changes of records ---------------------------------------------------------------------------------------------


def test_a_custom_update_is_spelled_as_the_peer_does_and_leaks_nothing(tmp_path: Path) -> None:
    attributes = [KEY, NOTE, AttributeSchema("t", datetime, False), AttributeSchema("c", complex, False)]
    schema = ArraySchema([DimensionSchema("y", 4)], float, attributes)
    holding = make(tmp_path, schema)
    id = new(holding, {"k": 1}, {"t": START, "note": "a"})
    write(holding, id, 4.0, slice(0, 2))
    path = file_of(holding, id)
    for turn in range(30):
        holding.update(id, lambda record, turn=turn: update_record(schema, record, {"c": complex(turn)}))
    assert path.stat().st_size < 4800
    with h5py.File(path, "r") as file:
        assert file["meta"][()].decode() == (
            f'{{"id": "{id}", "primary_attributes": {{"k": 1}}, "custom_attributes": '
            '{"c": "(29+0j)", "note": "a", "t": "2023-01-01 00:00:00+00:00"}}'
        )
        assert file["data"][()].tolist()[:2] == [4.0, 4.0]
        assert file["empty_cells"][()] == 2
    assert holding.record(id).custom == {"c": 29 + 0j, "note": "a", "t": START}


def test_another_shape_is_refused(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    spec = holding.spec(id)
    with pytest.raises(Unsupported, match="another shape"):
        holding.put_spec(id, spec.evolve(shape=(9, 5)))
    attrs = {**spec.attrs, "custom_attributes": {"note": "new"}}
    holding.put_spec(id, spec.evolve(attrs=attrs))
    assert holding.record(id).custom == {"note": "new"}


def test_clear_and_drop_leave_what_deker_leaves(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    other = make(tmp_path, name="other")
    kept = new(other, {"k": 1})
    id = new(holding, {"dt": START})
    write(holding, id, 1)
    holding.clear()
    assert list(holding.list_part("")) == []
    assert _tree(tmp_path / "collections/c") == ["c.json"]
    holding.drop()
    holding.drop()
    assert not holding.exists()
    assert sorted(os.listdir(tmp_path / "collections")) == ["other", "other.lock"]
    assert other.record(kept).id == kept


def test_removing_leaves_no_empty_folder(tmp_path: Path) -> None:
    for schema, primary in ((PLAIN, {"k": 1}), (TILED, {"dt": START})):
        holding = make(tmp_path, schema, type(schema).__name__)
        id = new(holding, primary)
        write(holding, id, 3)
        holding.remove(id)
        holding.remove(id)
        folder = Path(holding.folder.path)
        assert _tree(folder) == [f"{folder.name}.json"]
        assert all(
            path.name in ("array_data", "array_symlinks", "varray_data", "varray_symlinks") or path.is_file()
            for path in folder.iterdir()
        )
        assert sum(1 for path in folder.rglob("*")) <= 5


def test_a_time_axis_of_a_tile_starts_where_the_tile_does(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    write(holding, id, values((8, 6), "i4"))
    starts = {}
    for path in Path(holding.folder.path, "array_data").rglob("*.hdf5"):
        with h5py.File(path, "r") as file:
            said = json.loads(file["meta"][()])
        starts[tuple(said["primary_attributes"]["v_position"])] = said["custom_attributes"]["parent.dt"]
    expected = {(i, j): (START + timedelta(hours=2 * i)).isoformat() for i in range(4) for j in range(2)}
    assert starts == expected
    assert isinstance(TILED.dimensions[0], TimeDimensionSchema)


def test_a_file_without_metadata_says_what_helps(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    write(holding, id, values((4, 5), np.float64), slice(0, 4), slice(0, 5))
    with h5py.File(file_of(holding, id), "r+") as file:
        del file["meta"]
    for asked in (lambda: holding.record(id), lambda: write(holding, id, np.ones((1, 1)), slice(0, 1), slice(0, 1))):
        with pytest.raises(FormatError, match="no meta") as caught:
            asked()
        assert caught.value.remedy == "restore the file from a copy, or remove the array"
