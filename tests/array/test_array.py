"""``Array``: what it says of itself, reads, writes, grows and refuses."""

import asyncio

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid, LabelError, MemoryLimit, NodeNotFound, ReadOnly, SelectionError
from hyperslab.stores import MemoryStore


@pytest.fixture(params=["zarr2", "zarr3"])
def root(request):
    """An empty dataset in memory."""
    return hs.create(MemoryStore(), request.param)


@pytest.fixture
def air(root):
    """3 x 4 cells with labels on both dimensions."""
    root.create_array("lat", data=np.array([50.0, 47.5, 45.0]), dims=("lat",))
    root.create_array("lon", data=np.array([0.0, 2.5, 5.0, 7.5], "f4"), dims=("lon",))
    return root.create_array("air", data=np.arange(12.0).reshape(3, 4), dims=("lat", "lon"), chunks=(2, 3), units="K")


def test_what_it_says_of_itself(air):
    assert (air.name, air.path, air.shape, air.ndim, air.size) == ("air", "air", (3, 4), 2, 12)
    assert (air.dtype, air.dims, air.chunks, air.shards) == (np.dtype("f8"), ("lat", "lon"), (2, 3), None)
    assert (air.units, air.fill_value, air.nbytes, len(air)) == ("K", 0.0, 96, 3)
    assert air.attrs["units"] == "K"
    assert air.nbytes_stored > 0
    assert "air" in repr(air)


def test_numpy_takes_it(air):
    np.testing.assert_array_equal(np.asarray(air), np.arange(12.0).reshape(3, 4))
    assert np.asarray(air, "f4").dtype == np.dtype("f4")
    assert [row.tolist() for row in air] == np.arange(12.0).reshape(3, 4).tolist()
    with pytest.raises(ValueError, match="copy"):
        np.array(air, copy=False)


def test_labels_and_positions(air):
    assert air[0, 1] == air[50.0, 2.5] == air.sel(lat=50.0, lon=2.5) == air.isel(lat=0, lon=1) == 1
    np.testing.assert_array_equal(air[50.0:45.0], air[0:2])
    np.testing.assert_array_equal(air.sel(lat=slice(50.0, 45.0)), air[0:3])
    assert air.sel(lat=46.0, lon=4.9, method="nearest") == air[2, 2]
    with pytest.raises(LabelError, match=r"50\.0 and 47\.5"):
        air[48.0]


def test_a_label_error_is_also_what_numpy_and_a_dict_raise(air):
    with pytest.raises(IndexError):
        air[48.0]
    with pytest.raises(KeyError):
        air[48.0]


def test_out_of_bounds_is_numpys_error(air):
    with pytest.raises(SelectionError, match=r"out of bounds.*; sel\(\) takes whole numbers as labels"):
        air[3]


def test_views_compose_before_they_are_read(air):
    view = air.lazy[1:][:, ::-1]
    assert view.shape == (2, 4)
    np.testing.assert_array_equal(view.read(), air[1:, ::-1])
    np.testing.assert_array_equal(view.oindex[[1, 0], [0, 2]].read(), air[1:, ::-1][np.ix_([1, 0], [0, 2])])
    np.testing.assert_array_equal(view.vindex[[1, 0], [0, 2]].read(), air[1:, ::-1][[1, 0], [0, 2]])
    out = np.empty((2, 4))
    assert view.read(out) is out
    view.write(5)
    assert (air[1:] == 5).all()


def test_outer_and_vectorised_indexing(air):
    cells = air[...]
    np.testing.assert_array_equal(air.oindex[[2, 0], [1, 3]], cells[np.ix_([2, 0], [1, 3])])
    np.testing.assert_array_equal(air.vindex[[2, 0], [1, 3]], cells[[2, 0], [1, 3]])
    air.oindex[[2, 0], [1, 3]] = 9
    cells[np.ix_([2, 0], [1, 3])] = 9
    np.testing.assert_array_equal(air[...], cells)


def test_a_plan_counts_without_reading(air):
    plan = air.plan((slice(None), 0))
    assert (plan.shape, plan.chunks, plan.nbytes, plan.requests) == ((3,), 2, 24, 2)
    assert plan.chunk_nbytes == 2 * 6 * 8
    assert plan.stored_nbytes > 0
    assert "2 chunks" in str(plan)


def test_reading_asynchronously(air):
    np.testing.assert_array_equal(asyncio.run(air.read_async((0, slice(None)))), air[0])


@pytest.mark.parametrize("value", [7, np.arange(4), np.arange(3)[:, None], [[1], [2], [3]]])
def test_assignment_broadcasts(air, value):
    cells = air[...]
    air[...] = value
    cells[...] = value
    np.testing.assert_array_equal(air[...], cells)


def test_assignment_that_does_not_broadcast(air):
    with pytest.raises(ValueError, match="broadcast"):
        air[...] = np.arange(5)


def test_fill(air):
    air.fill(3)
    assert (air[...] == 3).all()


def test_fields_of_a_structured_array(root):
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    cells = np.array([(1, 1.5), (2, 2.5), (3, 3.5)], dtype)
    array = root.create_array("s", data=cells, chunks=2)
    np.testing.assert_array_equal(array["a"], cells["a"])
    np.testing.assert_array_equal(array["b", 1:], cells["b"][1:])
    np.testing.assert_array_equal(array[["b"]], cells[["b"]])
    assert array[1]["a"] == 2
    array["b"] = 0.25
    cells["b"] = 0.25
    np.testing.assert_array_equal(array[...], cells)


def test_growing_reads_as_fill_and_shrinking_forgets(root):
    array = root.create_array("g", data=np.arange(10), chunks=4, fill_value=-1)
    array.resize(13)
    assert array[...].tolist() == [*range(10), -1, -1, -1]
    array.resize((5,))
    assert array[...].tolist() == [0, 1, 2, 3, 4]
    array.resize(12)
    assert array[...].tolist() == [0, 1, 2, 3, 4, *[-1] * 7]
    for shape in ((2, 2), (-1,)):
        with pytest.raises(Invalid, match="give 1 lengths, none below 0"):
            array.resize(shape)


def test_append(root):
    array = root.create_array("log", (0, 3), "f4", dims=("time", "x"), chunks=(4, 2))
    for start in range(0, 30, 5):
        array.append(np.arange(start, start + 15).reshape(5, 3), dim="time")
    assert array.shape == (30, 3)
    np.testing.assert_array_equal(array[0:5], np.arange(15).reshape(5, 3))
    np.testing.assert_array_equal(array[25:], np.arange(25, 40).reshape(5, 3))
    with pytest.raises(Invalid, match="fit"):
        array.append(np.zeros((2, 2)))
    with pytest.raises(Invalid, match="dimension"):
        array.append(np.zeros((2, 3)), dim="tiem")
    with pytest.raises(Invalid, match=r"no axis 2 in 2 dimensions.*from -2 to 1"):
        array.append(np.zeros((2, 3)), dim=2)


def test_refresh_sees_another_handle(root):
    array = root.create_array("a", data=np.arange(4), chunks=2)
    other = root["a"]
    other.append(np.arange(2))
    assert array.shape == (4,)
    array.refresh()
    assert array.shape == (6,)
    del root["a"]
    with pytest.raises(NodeNotFound):
        array.refresh()


def test_a_read_only_dataset_refuses_before_anything_is_touched():
    store = MemoryStore()
    hs.create(store, "zarr3").create_array("a", data=np.arange(4))
    before = {key: store.get(key) for key in store.list()}
    array = hs.open(store)["a"]
    for change in (
        lambda: array.__setitem__(0, 1),
        lambda: array.append([1]),
        lambda: array.resize(2),
        lambda: array.attrs.update(x=1),
    ):
        with pytest.raises(ReadOnly, match=r"r\+"):
            change()
    assert {key: store.get(key) for key in store.list()} == before


def test_a_result_that_does_not_fit_is_refused():
    store = MemoryStore()
    hs.create(store, "zarr3").create_array("a", (2**40,), "f8", chunks=1000)
    array = hs.open(store, memory_limit=1 << 20)["a"]
    with pytest.raises(MemoryLimit, match="memory_limit"):
        array[...]
    assert array[2**39] == 0


def test_zero_dimensions_and_zero_length(root):
    scalar = root.create_array("scalar", data=np.float32(4.5))
    assert scalar[()] == 4.5
    scalar[...] = 2
    assert scalar[...] == 2
    empty = root.create_array("empty", (0, 4), "i2")
    assert empty[...].shape == (0, 4)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (["", "é☃", "word"], str),
        ([b"", b"\x00\x01", b"abc"], bytes),
        (np.array(["2020-01-01", "NaT"], "M8[D]"), None),
        (np.array(["ab", "c"]), None),
        (np.array([b"ab", b"c"]), None),
        (np.array([True, False]), None),
        (np.array([1 + 2j, 3]), None),
        (np.array([1, 2], ">i4"), None),
        (np.array([1, 2], "f2"), None),
    ],
    ids=str,
)
def test_every_kind_of_cell_comes_back(root, data, dtype):
    array = root.create_array("a", data=np.asarray(data, object) if dtype else data, dtype=dtype, chunks=2)
    got = array[...]
    assert got.tolist() == np.asarray(data, object if dtype else None).tolist()
    if dtype is str:
        assert got.dtype == np.dtypes.StringDType()


def test_attributes_keep_their_types(root):
    array = root.create_array("a", data=np.arange(2))
    array.attrs["scale"] = np.float32(0.5)
    array.attrs["flags"] = np.array([1, 2], "i1")
    array.attrs.update(title="é", n=3, x=1.5, nothing=None, deep={"a": [1, {"b": True}]})
    attrs = root["a"].attrs
    assert type(attrs["scale"]) is np.float32
    assert attrs["flags"].dtype == np.dtype("i1")
    assert list(attrs) == ["scale", "flags", "title", "n", "x", "nothing", "deep"]
    assert attrs["deep"] == {"a": [1, {"b": True}]}
    del attrs["n"]
    assert "n" not in root["a"].attrs
    with pytest.raises(KeyError, match="title"):
        attrs["n"]


def test_lists_of_labels_run_along_their_own_dimension(air):
    np.testing.assert_array_equal(air.sel(lat=[45.0, 50.0], lon=[0.0, 2.5, 7.5]), air[...][np.ix_([2, 0], [0, 1, 3])])


def test_labels_in_every_dialect(air):
    cells = air[...]
    np.testing.assert_array_equal(air.lazy[50.0:45.0, 2.5].read(), cells[0:2, 1])
    np.testing.assert_array_equal(air.oindex[[0, 2], [0.0, 7.5]], cells[np.ix_([0, 2], [0, 3])])
    np.testing.assert_array_equal(air.vindex[[50.0, 45.0], [1, 2]], cells[[0, 2], [1, 2]])


def test_isel_takes_no_labels(air):
    with pytest.raises(IndexError):
        air.isel(lat=47.5)


def test_cells_of_a_cached_chunk_one_by_one(tmp_path):
    """The shortcut for single cells gives what any other key gives, also after another writer's change."""
    cells = np.arange(35, dtype="i2").reshape(5, 7)
    root = hs.create(tmp_path / "a.zarr", "zarr3")
    root.create_array("a", data=cells, chunks=(2, 3))
    array = hs.open(tmp_path / "a.zarr")["a"]
    for _ in range(2):  # once from the store, once from the cache
        for place in np.ndindex(5, 7):
            assert array[place] == cells[place]
            assert array[place[0] - 5, place[1] - 7] == cells[place]
            assert type(array[place]) is np.int16
    for wrong in [(5, 0), (0, -8)]:
        with pytest.raises(IndexError):
            array[wrong]
    assert array[(1,)].shape == (7,)
    root["a"][1, 1] = -1
    assert array[1, 1] == -1


def test_a_checksum_may_be_asked_for_or_left_out(tmp_path):
    for name in ("zarr2", "zarr3"):
        root = hs.create(tmp_path / name, name)
        chains = {
            asked: [codec.name for codec in root.create_array(f"a{asked}", shape=4, codec="zstd", checksum=asked).codec]
            for asked in (None, True, False)
        }
        assert chains[True][-1] == "crc32c"
        assert "crc32c" not in chains[False]
        assert chains[None] == chains[name == "zarr3"]


def test_a_shard_without_chunks_goes(tmp_path):
    root = hs.create(tmp_path / "a.zarr", "zarr3")
    array = root.create_array("a", data=np.arange(1, 9), chunks=2, shards=4, fill_value=0)
    assert len(list((tmp_path / "a.zarr/a/c").iterdir())) == 2
    array[:4] = 0
    assert len(list((tmp_path / "a.zarr/a/c").iterdir())) == 1
    np.testing.assert_array_equal(array[...], [0, 0, 0, 0, 5, 6, 7, 8])


@pytest.mark.parametrize("name", ["a.b2nd", "a.blp", "a.blaze.zip", "a.zarr.zip", "a.nc"])
def test_an_array_is_closed_as_a_group_is(tmp_path, name):
    with hs.create(tmp_path / name) as root:
        root.create_array("a", data=np.arange(4.0), dims=["x"])
    with hs.open_array(tmp_path / name, "r+", path="a") as array:
        array[1] = 9.0
    array.close()
    assert hs.open_array(tmp_path / name, path="a")[...].tolist() == [0.0, 9.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["a.b2nd", "a.nc"])
def test_after_an_error_a_file_that_is_written_whole_stays_as_it_was(tmp_path, name):
    with hs.create(tmp_path / name) as root:
        root.create_array("a", data=np.arange(4.0), dims=["x"])
    with pytest.raises(KeyError, match="mine"), hs.open_array(tmp_path / name, "r+", path="a") as array:
        array[1] = 9.0
        raise KeyError("mine")
    assert hs.open_array(tmp_path / name, path="a")[...].tolist() == [0.0, 1.0, 2.0, 3.0]


LOSSES = [
    ("i4", [1, 2**40]),
    ("i4", [0.5]),
    ("i4", [np.nan]),
    ("u1", [-1]),
    ("u8", [-1]),
    ("f4", [1j]),
    ("S3", ["long"]),
    ("S3", ["é"]),
    ("M8[s]", np.array(["2020-01-01T00:00:00.5"], "M8[ms]")),
]


@pytest.mark.parametrize(
    ("suffix", "dtype", "data"),
    [
        (suffix, dtype, data)
        for suffix in ("zarr", "nc", "blp", "blaze", "b2nd")
        for dtype, data in LOSSES
        if suffix != "nc" or dtype[0] not in "SM"  # netCDF has no such cells
    ],
)
def test_append_refuses_what_the_cells_would_hold_otherwise(tmp_path, suffix, dtype, data):
    with hs.create(tmp_path / f"a.{suffix}") as root:
        array = root.create_array("a", shape=(0,), dtype=dtype, dims=["x"])
        with pytest.raises(Invalid, match="cells of") as caught:
            array.append(np.asarray(data))
        assert array.shape == (0,)
        assert f"a.{suffix}" in caught.value.url


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("i4", np.array([1, -2], "i8")),
        ("u1", [1.0, 255.0]),
        ("?", [0, 1]),
        ("f4", [0.1, np.nan, 2**24 + 1]),
        ("c8", [0.1]),
        ("U3", ["abc"]),
        ("S3", ["abc"]),
        ("M8[s]", np.array(["2020-01-01T00:00:01", "NaT"], "M8[ms]")),
    ],
)
def test_append_casts_what_the_cells_can_hold(root, dtype, data):
    array = root.create_array("cast", shape=(0,), dtype=dtype, dims=["x"])
    array.append(np.asarray(data))
    np.testing.assert_array_equal(array[...], np.asarray(data).astype(dtype))


@pytest.mark.parametrize("suffix", ["zarr", "nc", "blp", "blaze", "b2nd"])
def test_errors_of_writing_name_the_place(tmp_path, suffix):
    def said(do, kind=hs.HyperslabError):
        with pytest.raises(kind) as caught:
            do()
        return caught.value.url

    with hs.create(tmp_path / f"a.{suffix}") as root:
        array = root.create_array("a", data=np.arange(4.0), dims=["x"])
        mistakes = [
            lambda: array.append(np.zeros((1, 2))),
            lambda: array.append([1.0], dim="y"),
            lambda: array.resize((1, 2)),
            lambda: array.remove(9),
            lambda: array.remove(0, dim=3),
        ]
        if suffix in ("blp", "blaze", "b2nd"):
            mistakes.append(lambda: root.create_group("g"))
        for mistake in mistakes:
            assert said(mistake) == root.url


def test_lists_of_rows_are_rows_as_numpy_assigns_them(root):
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    expected = np.array([(1, 2.0), (3, 4.0), (5, 6.0)], kind)
    rows = root.create_array("rows", data=[(1, 2.0), (3, 4.0)], dtype=kind)
    rows.append([(5, 6.0)])
    np.testing.assert_array_equal(rows[:], expected)
    for key, value in (
        (slice(0, 2), [(7, 8), (9, 10)]),
        (1, (0, 0.5)),
        (["b", "a"], [(1, 2), (3, 4), (5, 6)]),
    ):
        rows[key] = value
        expected[key] = value
        np.testing.assert_array_equal(rows[:], expected)
    with pytest.raises(Invalid, match="give tuples of a, b"):
        rows[0] = (1, 2, 3)


@pytest.mark.parametrize("value", [300, -1, [1, 2, 300], (2**70, 0, 0), float("nan"), [0.5, float("inf"), 1]])
def test_numbers_that_do_not_fit_are_refused_as_numpy_does(root, value):
    array = root.create_array("a", data=np.zeros(3, "u1"))
    with pytest.raises((OverflowError, ValueError)):
        np.zeros(3, "u1")[:] = value
    with pytest.raises(Invalid, match="does not fit cells of uint8"):
        array[...] = value
    assert (array[...] == 0).all()


@pytest.mark.parametrize("value", [np.array([1, 2, 300]), np.int64(300), 7.9, [True, 2.9, 3], [np.int32(300), 1, 2]])
def test_numbers_that_numpy_casts_are_cast(root, value):
    array = root.create_array("a", data=np.zeros(3, "u1"))
    expected = np.zeros(3, "u1")
    with np.errstate(all="ignore"):
        expected[:] = value
    array[...] = value
    np.testing.assert_array_equal(array[...], expected)
