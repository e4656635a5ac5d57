"""R5 to R12, R20 to R31, R50 to R73 as far as they are about cells: reading, updating, clearing, tiles, growing."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    Scale,
    Subset,
    TimeDimensionSchema,
    VArraySchema,
    VSubset,
)
from hyperslab.errors import (
    FormatError,
    HyperslabError,
    Invalid,
    NodeNotFound,
    SchemaError,
    SelectionError,
    TilesFailed,
    Unsupported,
    WrongType,
)

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

DTYPES = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
DTYPES += (np.float16, np.float32, np.float64, np.complex64, np.complex128)
CUBE = [DimensionSchema(name, 4) for name in "xyz"]


def make(client, layout, dims, dtype=int, *, name="c", **options):
    """A new array of a collection with these dimensions; in tiles where ``vgrid`` or ``arrays_shape`` is given."""
    kind = VArraySchema if {"vgrid", "arrays_shape"} & options.keys() else ArraySchema
    return client.create_collection(name, kind(dims, dtype, **options), layout=layout).create()


@pytest.fixture(params=["array", "varray"])
def flavour(request):
    """How a cube of 4 x 4 x 4 is cut: not at all, or into 2 x 2 x 2 tiles."""
    return {} if request.param == "array" else {"vgrid": (2, 2, 2)}


def test_r5_an_array_has_cells_of_one_value_each(client, layout, flavour):
    array = make(client, layout, CUBE, float, **flavour)
    assert array.shape == (4, 4, 4) and array.nbytes == 64 * 8
    assert np.isnan(array[:].read()).all()
    array[1, 2, 3].update(5.5)
    assert array[1, 2, 3].read() == 5.5 and np.isnan(array[:].read()).sum() == 63


def test_r6_each_array_has_cells_of_its_own(client, layout):
    collection = client.create_collection("c", ArraySchema(CUBE, int, [AttributeSchema("k", int, True)]), layout=layout)
    arrays = [collection.create({"k": k}) for k in range(3)]
    for k, array in enumerate(arrays):
        array[:].update(k)
    arrays[1][0].update(9)
    assert [int(array[:].read().sum()) for array in collection] == [0, 9 * 16 + 48, 128]
    arrays[0].delete()
    assert [array[3, 3, 3].read() for array in collection] == [1, 2]


def test_r7_a_varray_is_used_as_an_array_is(client, layout):
    plain = make(client, layout, CUBE, name="plain")
    tiled = make(client, layout, CUBE, name="tiled", vgrid=(2, 1, 4))
    data = np.arange(64).reshape(4, 4, 4)
    for array, kind in ((plain, Subset), (tiled, VSubset)):
        assert type(array[:]) is kind
        array[:].update(data)
        array[1:3, ::2].update(-1)
        array[0, 0, 0].update(7)
        array[3:].clear()
    np.testing.assert_array_equal(plain[:].read(), tiled[:].read())
    assert {*dir(plain)} <= {*dir(tiled)} and {*dir(plain[:])} == {*dir(tiled[:])}
    assert (tiled.vgrid, tiled.arrays_shape) == ((2, 1, 4), (2, 4, 1)) and tiled.as_dict["vgrid"] == (2, 1, 4)


def test_r8_r9_only_the_tiles_that_are_touched_are_read_and_written(client, layout):
    array = make(client, layout, CUBE, vgrid=(4, 2, 1))
    data = np.arange(64).reshape(4, 4, 4)
    array[1:3, :, :].update(data[1:3])
    collection = client.get_collection("c")
    assert [tile.v_position for tile in collection.arrays] == [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0)]
    with hs.trace() as trace:
        np.testing.assert_array_equal(array[1:3, :, :].read(), data[1:3])
    assert trace.chunks == 4
    with hs.trace() as trace:
        array[1, 1, 1].read()
    assert trace.chunks == 1


def test_r9_the_cut_of_the_specification(client, layout):
    array = make(client, layout, CUBE, vgrid=(2, 2, 1))
    array[1:3, :, :].update(1)
    assert len(list(client.get_collection("c").arrays)) == 4
    assert array[:].read().tolist()[1:3] == [[[1] * 4] * 4] * 2 and (array[0].read() == array.fill_value).all()


@pytest.mark.parametrize("workers", [1, 4])
def test_r10_pieces_are_put_together_whatever_their_order(tmp_path, layout, workers):
    dims = [DimensionSchema("y", 60), DimensionSchema("x", 48)]
    data = np.arange(60 * 48).reshape(60, 48)
    with Client(tmp_path, workers=workers, durable=False) as client:
        array = make(client, layout, dims, vgrid=(6, 4))
        array[:].update(data)
        rng = np.random.default_rng(5)
        for _ in range(20):
            rows, columns = (slice(*sorted(rng.integers(0, size, 2)), int(rng.integers(1, 4))) for size in (60, 48))
            np.testing.assert_array_equal(array[rows, columns].read(), data[rows, columns])
            data[rows, columns] = new = rng.integers(0, 1000, data[rows, columns].shape)
            array[rows, columns].update(new)
        np.testing.assert_array_equal(array[::-1, ::-7].read(), data[::-1, ::-7])


def test_r10_damaged_tiles_are_told_each(client, tmp_path, layout):
    array = make(client, layout, [DimensionSchema("x", 8)], vgrid=(4,))
    array[:].update(np.arange(8))
    client.close()
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and not path.is_symlink()]
    tiles = sorted(path for path in files if path.suffix == ".hdf5" or path.match("arrays/*/*/c/*"))
    assert len(tiles) == 4
    for path in tiles[1:3]:
        damage(path)
    with client:
        with pytest.raises(TilesFailed) as caught:
            array[:].read()
        assert len(caught.value.exceptions) == 2 and "2 of 4 tiles could not be read" in caught.value.message
        sound = [place for place in range(4) if (place,) not in caught.value.exceptions]
        for place in sound:
            np.testing.assert_array_equal(array[2 * place : 2 * place + 2].read(), [2 * place, 2 * place + 1])


def test_r10_a_damaged_journal_is_told_as_such_and_not_with_each_tile(client, tmp_path):
    array = make(client, "hyperslab", [DimensionSchema("x", 8)], vgrid=(4,))
    array[:].update(np.arange(8))
    (journal,) = (tmp_path / "store").rglob("journal/*")
    journal.write_bytes(b'{"txn": 1}')
    with pytest.raises(FormatError, match=f"journal/{array.id}"):
        array[:].read()


def test_r10_a_write_that_fails_in_part_tells_each_tile(client, tmp_path, layout):
    array = make(client, layout, [DimensionSchema("x", 8)], vgrid=(4,))
    array[:].update(np.arange(8))
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file() and not path.is_symlink()]
    tiles = sorted(path for path in files if path.suffix == ".hdf5" or path.match("arrays/*/*/c/*"))
    client.close()
    damage(tiles[0])
    with client:
        with pytest.raises(HyperslabError) as caught:
            array[1::2].update([-1, -2, -3, -4])
        lost = [place for place in range(4) if _is_damaged(array, place)]
        assert len(lost) == 1
        sound = {place: array[2 * place + 1].read() for place in range(4) if place not in lost}
    if layout == "hyperslab":  # all or nothing
        assert sound == {place: 2 * place + 1 for place in sound}
    else:
        assert sound == {place: -1 - place for place in sound}
        assert list(caught.value.exceptions) == [(place,) for place in lost]


def damage(path):
    """Spoil a file long ago: one that changes right now may be in the hands of a writer."""
    path.write_bytes(b"damaged" * 3)
    os.utime(path, (1e9, 1e9))


def _is_damaged(array, place):
    try:
        array[2 * place].read()
    except HyperslabError:
        return True
    return False


def test_r11_r12_the_first_dimension_is_the_slowest(client, layout, flavour):
    array = make(client, layout, CUBE, **flavour)
    array[:].update(np.arange(64).reshape(4, 4, 4))
    assert array[1].read().ravel().tolist() == list(range(16, 32)) and array[0, 0].read().tolist() == [0, 1, 2, 3]
    assert [each.name for each in array.dimensions] == ["x", "y", "z"] == list(array.array.dims)


def test_r20_r21_the_grid_of_era5(client, layout):
    dims = [
        DimensionSchema("y", 721, scale=Scale(90.0, -0.25, "lat")),
        DimensionSchema("x", 1440, scale={"start_value": -180.0, "step": 0.25, "name": "lon"}),
    ]
    array = make(client, layout, dims, np.float32, vgrid=(7, 10))
    assert array[90.0, -180.0].bounds == (0, 0) and array[0.0, 0.0].bounds == (360, 720)
    assert array[-90.0, 179.75].bounds == (720, 1439)
    assert array[-1, -1].describe() == {"y": [-90.0], "x": [179.75]} and array[0, 0].describe() == {
        "y": [90.0],
        "x": [-180.0],
    }
    array[52.5:52.0, 13.25:13.75].update([[1, 2], [3, 4]])
    np.testing.assert_array_equal(array[52.25, 13.25:13.75].read(), [3, 4])


def test_r26_what_a_scale_shows_is_rounded_and_an_index(client, layout):
    array = make(client, layout, [DimensionSchema("height", 255, scale=Scale(0.0, 0.01, "meters"))])
    shown = array[:].describe()["height"]
    assert (shown[1], shown[-1]) == (0.01, 2.54) and shown == [round(place / 100, 2) for place in range(255)]
    assert all(array[value].bounds == (place,) for place, value in enumerate(shown))


def test_r26_labels_name_cells(client, layout):
    words = ["temperature", "pressure", "wind_speed", "humidity"]
    array = make(client, layout, [DimensionSchema("weather", 4, labels=words)])
    array[:].update([10, 11, 12, 13])
    assert (array["temperature"].read(), array["wind_speed"].read(), array[2].read()) == (10, 12, 12)
    assert array[1:3].describe() == {"weather": words[1:3]} and array["humidity"].describe() == {
        "weather": ["humidity"]
    }


def test_r28_r30_a_year_of_hours(client, layout):
    dims = [TimeDimensionSchema("dt", 8760, datetime(2023, 1, 1), timedelta(hours=1))]
    array = make(client, layout, dims, vgrid=(12,))
    assert array["2023-12-31T23:00:00"].bounds == (8759,)
    array[datetime(2023, 5, 1) : datetime(2023, 5, 2)].update(np.arange(24))
    assert array[datetime(2023, 5, 1, 7, tzinfo=UTC).timestamp()].read() == 7
    last = array["2023-05-01T23:00:00Z"]
    assert last.read() == 23 and last.describe() == {"dt": [datetime(2023, 5, 1, 23, tzinfo=UTC)]}
    with pytest.raises(IndexError):
        array["2024-01-01"]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_r50_cells_are_of_one_type_as_they_were_given(client, layout, dtype, flavour):
    array = make(client, layout, CUBE, dtype, **flavour)
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    data = np.arange(64).reshape(4, 4, 4).astype(dtype)
    data[0, 0, :2] = info.min, info.max
    if np.dtype(dtype).kind in "fc":
        data[1, 0] = [np.nan, np.inf, -np.inf, -0.0]
    array[:].update(data)
    found = array[:].read()
    assert found.dtype == array.dtype == array[0].dtype == dtype and found.tobytes() == data.tobytes()


def test_r57_cells_of_other_byte_orders_are_taken(client, layout, flavour):
    array = make(client, layout, CUBE, np.float32, **flavour)
    array[:].update(np.arange(64, dtype=">f4").reshape(4, 4, 4))
    np.testing.assert_array_equal(array[:].read().ravel(), np.arange(64))


def test_r58_sizes_are_told_before_anything_is_stored(client, layout):
    dims = [DimensionSchema(name, 10) for name in "xyz"]
    sizes = {np.int32: 4000, np.float64: 8000, np.complex128: 16000}
    for number, (dtype, size) in enumerate(sizes.items()):
        schema = VArraySchema(dims, dtype, vgrid=(2, 5, 1))
        assert (schema.nbytes, schema.tile_nbytes) == (size, size // 10)
        array = client.create_collection(f"c{number}", schema, layout=layout).create()
        assert array.nbytes == size == array[:].nbytes and array[0].nbytes == size // 10


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [(np.int8, -128), (np.uint16, 0), (np.int64, -(2**63)), (np.float32, None), (np.complex128, None)],
)
def test_r60_r62_cells_without_data_hold_the_fill_value(client, layout, flavour, dtype, fill):
    array = make(client, layout, CUBE, dtype, **flavour)
    assert array.fill_value == fill if fill is not None else np.isnan(array.fill_value)
    array[1:3].update(1)
    array[2].clear()
    empty = np.delete(array[:].read(), 1, axis=0)
    assert (empty == fill).all() if fill is not None else np.isnan(empty).all()
    assert (array[1].read() == 1).all()
    np.testing.assert_array_equal(array[:].fill_value, array.fill_value)


def test_r60_a_fill_value_of_ones_own(client, layout, flavour):
    array = make(client, layout, CUBE, np.int16, fill_value=-99, **flavour)
    assert (array[:].read() == -99).all()
    array[0].update(5)
    array[0, 0].clear()
    assert array[0].read().ravel().tolist() == [-99] * 4 + [5] * 12


def test_r71_r73_a_grid_holds_for_all_varrays_of_a_collection(client, layout):
    dims = [DimensionSchema("y", 100), DimensionSchema("x", 200)]
    by_shape = client.create_collection("a", VArraySchema(dims, int, arrays_shape=(2, 10)), layout=layout)
    by_grid = client.create_collection("b", VArraySchema(dims, int, vgrid=(50, 20)), layout=layout)
    for collection in (by_shape, by_grid):
        assert collection.as_dict["schema"]["vgrid"] == [50, 20] and "arrays_shape" not in collection.as_dict["schema"]
        again = client.get_collection(collection.name)
        assert (again.schema.vgrid, again.schema.arrays_shape) == ((50, 20), (2, 10))
        assert (again.create().vgrid, again.create().arrays_shape) == ((50, 20), (2, 10))


# -- updating -------------------------------------------------------------------------------------------------------

TAKEN = {
    "float64": (1, 1.5, 0.1, -1, float("nan"), float("inf"), np.float32(1.5), np.int8(3), 2**53, True),
    "float32": (1, 1.5, 0.1, 16777216, float("nan"), np.float64(0.1)),
    "int8": (3, 3.0, -128, 127, np.int64(5), True),
    "uint8": (3, 255, 0),
    "complex64": (1, 1.5, 1 + 2j, float("nan")),
}
REFUSED = {
    "float64": (1 + 2j, 2**53 + 1, "1", b"1", object(), {1: 2}),
    "float32": (1 + 0j, 16777217, 1e300, "x"),
    "int8": (1.5, 300, -129, float("nan"), float("inf"), 1j, 2**70, "3"),
    "uint8": (-1, 256, 0.5, -1.0),
    "complex64": ("1j", 1e300),
}


@pytest.mark.parametrize("dtype", TAKEN)
def test_defects_18_19_a_number_is_written_to_every_cell(client, layout, flavour, dtype):
    array = make(client, layout, CUBE, np.dtype(dtype), **flavour)
    for value in TAKEN[dtype]:
        array[1:3].update(value)
        np.testing.assert_array_equal(array[1:3].read(), np.full((2, 4, 4), value).astype(dtype))
        array[0, 0, 0].update(value)
        np.testing.assert_array_equal(array[0, 0, 0].read(), np.asarray(value).astype(dtype))
    assert (array[3].read() == array.fill_value).all() or np.isnan(array[3].read()).all()


@pytest.mark.parametrize("dtype", REFUSED)
def test_what_cells_cannot_hold_is_a_type_error_and_nothing_is_written(client, layout, flavour, dtype):
    array = make(client, layout, CUBE, np.dtype(dtype), **flavour)
    array[:].update(1)
    for value in REFUSED[dtype]:
        with pytest.raises(TypeError):
            array[1:3].update(value)
        with pytest.raises(WrongType):
            array[0, 0, :2].update([1, value])
    assert (array[:].read() == 1).all()


def test_arrays_are_taken_of_their_type_or_of_one_that_they_hold(client, layout):
    array = make(client, layout, [DimensionSchema("x", 3)], float)
    for data in (
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        [0.1, float("nan"), np.float32(1)],
        np.arange(3, dtype="i4"),
        np.arange(3, dtype="f2"),
    ):
        array[:].update(data)
        np.testing.assert_array_equal(array[:].read(), np.asarray(data, float))
    for data in (
        np.arange(3, dtype="c16"),
        np.array([2**53 + 1, 0, 0]),
        np.array(["a", "b", "c"]),
        np.array([None] * 3),
        ["1", "2", "3"],
    ):
        with pytest.raises(WrongType):
            array[:].update(data)
    small = make(client, layout, [DimensionSchema("x", 3)], np.int16, name="small")
    small[:].update([1, -2, 3])
    small[:].update(np.arange(3, dtype="u1"))
    for data in (np.arange(3), np.arange(3.0), [1.0, 2.0, 3.0], [1, 2, 40000], np.arange(3, dtype="u2"), [2**70, 1, 1]):
        with pytest.raises(WrongType):
            small[:].update(data)
    assert small[:].read().tolist() == [0, 1, 2]
    with pytest.raises(WrongType, match="values of int64 for cells of int16"):
        small[:].update([1, 2, 40000])
    with pytest.raises(WrongType, match="40000 for cells of int16"):
        small[:].update(40000)
    with pytest.raises(WrongType, match=r"asarray"):
        small[:].update(xr.DataArray(np.zeros(3, "i2")))


def test_masked_cells_are_stored_as_fill(client, layout, flavour):
    array = make(client, layout, CUBE, np.float32, **flavour)
    cells = np.ma.masked_less(np.arange(64, dtype="f4").reshape(4, 4, 4), 10)
    array[:].update(cells)
    np.testing.assert_array_equal(array[:].read(), cells.filled(np.nan))
    array[0].update(np.ma.array(np.full((4, 4), 4, "i2"), mask=np.eye(4)))
    np.testing.assert_array_equal(array[0].read(), np.where(np.eye(4), np.nan, 4))
    array[:].update(np.ma.array(np.ones((4, 4, 4), "f4")))
    assert (array[:].read() == 1).all()
    with pytest.raises(WrongType):
        array[0].update(np.ma.masked_all((4, 4), "f8"))


def test_a_subset_is_an_array_to_numpy(client, layout, flavour):
    array = make(client, layout, CUBE, np.float32, **flavour)
    array[:].update(np.arange(64, dtype="f4").reshape(4, 4, 4))
    assert np.asarray(array[1]).dtype == np.float32 and np.mean(array[1, ::-2]) == array[1, ::-2].read().mean()
    np.testing.assert_array_equal(np.asarray(array[:, 2], float), array[:, 2].read())
    with pytest.raises(ValueError, match="copy"):
        array[0].__array__(copy=False)


@pytest.mark.parametrize(
    "data", [[1, 2], [[1, 2, 3]], np.zeros(4, int), np.zeros((1, 3), int), [], [1, [2, 3]], np.zeros(0, int)]
)
def test_data_has_exactly_the_shape_of_the_subset(client, layout, data):
    array = make(client, layout, [DimensionSchema("x", 3)])
    for wrong in (IndexError, SelectionError):
        with pytest.raises(wrong):
            array[:].update(data)
    assert (array[:].read() == array.fill_value).all()


def test_none_is_no_data(client, layout, flavour):
    array = make(client, layout, CUBE, **flavour)
    with pytest.raises(Invalid):
        array[:].update(None)


def test_a_subset_can_be_used_again_and_sees_what_others_write(client, layout, flavour):
    array = make(client, layout, CUBE, **flavour)
    one, two = array[1:3], client.get_collection("c").first()[:]
    one.update(1)
    assert [int((two.read() == cell).sum()) for cell in (1, array.fill_value)] == [32, 32]
    two.update(2)
    assert (one.read() == 2).all()
    one.clear()
    assert (two.read()[1:3] == array.fill_value).all() and (two.read()[::3] == 2).all()


# -- clearing -------------------------------------------------------------------------------------------------------


def test_defect_1_clearing_twice_removes_nothing_else(client, layout):
    array = make(client, layout, [DimensionSchema("x", 10)], float)
    array[:].update(np.arange(10.0))
    for _ in range(2):
        array[0:5].clear()
    np.testing.assert_array_equal(array[:].read(), [np.nan] * 5 + list(range(5, 10)))
    array[:3].update([1.0, np.nan, 3.0])
    array[:3].update([1.0, 2.0, 3.0])
    array[3:].clear()
    np.testing.assert_array_equal(array[:].read(), [1, 2, 3] + [np.nan] * 7)


def test_clearing_whole_tiles_drops_them(client, layout):
    array = make(client, layout, CUBE, vgrid=(2, 2, 1))
    collection = client.get_collection("c")
    array[:].update(np.arange(64).reshape(4, 4, 4))
    array[:2].clear()
    assert [tile.v_position for tile in collection.arrays] == [(1, 0, 0), (1, 1, 0)]
    array[2:, 2:, :3].clear()
    assert [tile.v_position for tile in collection.arrays] == [(1, 0, 0), (1, 1, 0)]
    array[2:, 2:, 3].clear()
    assert [tile.v_position for tile in collection.arrays] == [(1, 0, 0)]
    np.testing.assert_array_equal(array[2:, :2].read(), np.arange(64).reshape(4, 4, 4)[2:, :2])
    array[:].clear()
    assert list(collection.arrays) == [] and (array[:].read() == array.fill_value).all()


def test_an_array_that_is_cleared_takes_as_much_as_an_empty_one(client, layout):
    collection = client.create_collection("c", ArraySchema([DimensionSchema("x", 10_000)], int), layout=layout)
    array = collection.create()
    empty = client.calculate_storage_size("c").bytes
    array[:].update(np.random.default_rng(5).integers(2**62, size=10_000))
    assert client.calculate_storage_size("c").bytes > empty + 70_000
    array[:].clear()
    assert client.calculate_storage_size("c").bytes <= empty + 4096
    assert (array[:].read() == array.fill_value).all()


# -- arrays that are gone -------------------------------------------------------------------------------------------


def test_a_deleted_array_is_told(client, layout, flavour):
    array = make(client, layout, CUBE, **flavour)
    array[:].update(1)
    subset, other = array[1:3], client.get_collection("c").first()
    array.delete()
    array.delete()
    other.delete()
    for use in (
        subset.read,
        subset.clear,
        lambda: subset.update(1),
        array.read_meta,
        lambda: other[0].read(),
        subset.read_xarray,
    ):
        with pytest.raises(NodeNotFound):
            use()
        with pytest.raises(KeyError):
            use()
    assert list(client.get_collection("c")) == [] and array[0:2].shape == (2, 4, 4)
    assert list(client.check_integrity(4, False)) == []


# -- beyond the peer ------------------------------------------------------------------------------------------------


def test_records_hold_an_array(client, layout, flavour):
    dims = [DimensionSchema("y", 4, scale=Scale(0.0, 0.5)), DimensionSchema("l", 3, labels=["a", "b", "c"])]
    array = make(client, layout, dims, **({"vgrid": (2, 1)} if flavour else {}))
    array[:].update(np.arange(12).reshape(4, 3))
    cells = array.array
    assert isinstance(cells, hs.Array) and cells.dims == ("y", "l") and cells.shape == (4, 3)
    np.testing.assert_array_equal(cells[[0, 2], 1], [1, 7])
    assert cells.sel(y=1.5, l="c") == 11
    cells[0] = 100
    assert array[0].read().tolist() == [100] * 3


@pytest.mark.parametrize("tiles", [{}, {"arrays_shape": (2, 3)}])
def test_unlimited_dimensions_grow(client, tiles):
    dims = [TimeDimensionSchema("t", None, datetime(2023, 1, 1), timedelta(days=1)), DimensionSchema("x", 5)]
    array = make(client, "hyperslab", dims, float, **tiles)
    assert array.shape == (0, 5) and array[:].read().shape == (0, 5)
    array.append(np.arange(15.0).reshape(3, 5))
    array.append(np.full((2, 5), -1.0), "t")
    assert array.shape == (5, 5) and array.named_shape == (("t", 5), ("x", 5)) and array.dimensions[0].size == 5
    found = client.get_collection("c").first()
    np.testing.assert_array_equal(found[:].read(), np.vstack([np.arange(15.0).reshape(3, 5), np.full((2, 5), -1.0)]))
    assert found["2023-01-04"].bounds == (3,) and found[-1].describe()["t"] == [datetime(2023, 1, 5, tzinfo=UTC)]
    for wrong in ("x", 1, "z", 7):
        with pytest.raises(SchemaError, match="does not grow" if wrong in ("x", 1) else "there are t, x"):
            array.append(np.zeros((1, 5)), wrong)
    with pytest.raises(Invalid):
        array.append(np.zeros((1, 4)))
    with pytest.raises(WrongType):
        array.append(np.zeros((1, 5), complex))
    array.append(np.ma.array(np.ones((1, 5)), mask=[[0, 1, 0, 0, 0]]))
    np.testing.assert_array_equal(array[-1].read(), [1, np.nan, 1, 1, 1])


def test_tiles_need_not_divide_the_shape(client):
    array = make(client, "hyperslab", [DimensionSchema("y", 7), DimensionSchema("x", 5)], arrays_shape=(3, 2))
    data = np.arange(35).reshape(7, 5)
    array[:].update(data)
    np.testing.assert_array_equal(array[2:7, 1:5].read(), data[2:7, 1:5])
    assert (array.vgrid, array.arrays_shape) == ((3, 3), (3, 2))
    array[6:, 4:].clear()
    assert len(list(client.get_collection("c").arrays)) == 8
    with pytest.raises(SchemaError):
        make(client, "deker", [DimensionSchema("y", 7)], name="d", arrays_shape=(3,))


@pytest.mark.parametrize(
    "options", [HDF5Options((2, 2, 2)), HDF5Options(True, HDF5CompressionOpts("gzip", 6)), HDF5Options((1, 4, 4), None)]
)
def test_options_of_hdf5(client, layout, flavour, options):
    schema = VArraySchema(CUBE, float, vgrid=(2, 1, 1)) if flavour else ArraySchema(CUBE, float)
    array = client.create_collection("c", schema, options, layout=layout).create()
    data = np.arange(64.0).reshape(4, 4, 4)
    array[:].update(data)
    array[1:3, 1:3, 1:3].update(-1)
    data[1:3, 1:3, 1:3] = -1
    np.testing.assert_array_equal(client.get_collection("c").first()[:].read(), data)
    assert client.get_collection("c").options == options


def test_filters_of_hdf5_alone_are_for_its_files(client, layout):
    options = HDF5Options(None, HDF5CompressionOpts("lzf"))
    if layout == "hyperslab":
        with pytest.raises(Unsupported):
            client.create_collection("c", ArraySchema(CUBE, float), options, layout=layout)
        assert "c" not in client
        return
    array = client.create_collection("c", ArraySchema(CUBE, float), options, layout=layout).create()
    array[0].update(2.5)
    assert array[0, 1, 1].read() == 2.5


def test_defect_26_what_a_key_costs_does_not_grow_with_the_tiles(client, layout):
    calls = {}
    for name, count in (("few", 10), ("many", 100)):
        array = make(
            client, layout, [DimensionSchema(axis, count * 10) for axis in "yx"], name=name, vgrid=(count, count)
        )
        array[:5, :5].read()
        counted = 0

        def count_call(frame, event, argument):
            nonlocal counted
            counted += event == "call"

        sys.setprofile(count_call)
        try:
            array[:]
            array[3:8, 4]
        finally:
            sys.setprofile(None)
        calls[name] = counted
    assert calls["many"] <= calls["few"] + 5 < 300


def test_a_cell_of_an_empty_array_costs_one_chunk(client, layout):
    dims = [DimensionSchema("y", 4096), DimensionSchema("x", 4096)]
    array = make(client, layout, dims, float, vgrid=(8, 8))
    array[2000, 3000].update(1.0)
    assert len(list(client.get_collection("c").arrays)) == 1
    with hs.trace() as trace:
        assert array[2000, 3000].read() == 1.0
    assert trace.chunks == 1
    with hs.trace() as trace:
        assert np.isnan(array[0, 0].read())
    assert trace.chunks == 1
