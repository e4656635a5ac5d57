"""``Group``: a mapping of names to nodes; making, moving, copying, removing; modes of ``open``."""

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import (
    AlreadyExists,
    FormatError,
    Invalid,
    NodeNotFound,
    NotFound,
    ReadOnly,
    Unsupported,
    WrongType,
)
from hyperslab.model.dims import Dimension
from hyperslab.stores import MemoryStore


@pytest.fixture(params=["zarr2", "zarr3"])
def name(request):
    """A format with groups."""
    return request.param


@pytest.fixture
def root(name):
    """A small tree in memory."""
    root = hs.create(MemoryStore(), name)
    root.attrs["title"] = "t"
    deep = root.create_group("a/b")
    deep.create_array("x", data=np.arange(6).reshape(2, 3), dims=("t", "x"), chunks=(1, 2))
    root.create_array("y", data=np.arange(3.0))
    return root


def test_a_group_is_a_mapping(root):
    assert sorted(root) == ["a", "y"]
    assert len(root) == 2
    assert "a/b/x" in root
    assert "a/nothing" not in root
    assert isinstance(root["a"], hs.Group)
    assert isinstance(root["a/b/x"], hs.Array)
    assert root["a"]["b"]["x"][1, 2] == root["/a/b/x"][1, 2] == 5
    assert [key for key, _ in root.groups()] == ["a"]
    assert [key for key, _ in root.arrays()] == ["y"]
    assert root["a"]["b"].dims["x"] == hs.Dimension("x", 3)


def test_ipython_completes_names(root):
    assert sorted(root._ipython_key_completions_()) == ["a", "y"]
    assert root["a"]._ipython_key_completions_() == ["b"]
    assert root.attrs._ipython_key_completions_() == ["title"]


@pytest.mark.parametrize("bad", ["..", "a/../y", "a\\b", "a\0"])
def test_names_that_leave_the_dataset_are_refused(root, bad):
    with pytest.raises(Invalid):
        root[bad]
    with pytest.raises(Invalid):
        root.create_group(bad)


def test_what_is_missing_names_itself(root):
    with pytest.raises(NodeNotFound, match="nothing"):
        root["a/nothing"]
    with pytest.raises(KeyError):
        del root["nothing"]


def test_a_taken_name_is_refused(root):
    with pytest.raises(AlreadyExists):
        root.create_group("a")
    with pytest.raises(AlreadyExists):
        root.create_array("y", (2,), "i4")


def test_move_copy_and_remove(root):
    root.copy("a/b", "c")
    root.move("a", "d/e")
    np.testing.assert_array_equal(root["c/x"][...], np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(root["d/e/b/x"][...], np.arange(6).reshape(2, 3))
    assert "a" not in root
    del root["c"]
    assert sorted(root) == ["d", "y"]
    with pytest.raises(Invalid, match="itself"):
        root.copy("d", "d/f")


class CountingStore(MemoryStore):
    """Remembers the keys of the chunks that were written, in order."""

    def __init__(self):
        super().__init__()
        self.written = []

    def put_many(self, pairs, *, durable=False):
        pairs = list(pairs)
        self.written += [key for key, _ in pairs if "/c/" in key]
        super().put_many(pairs, durable=durable)


def test_a_copied_shard_is_written_once():
    store = CountingStore()
    root = hs.create(store, "zarr3")
    cells = np.arange(1.0, 65).reshape(8, 8)
    root.create_array("v", data=cells, chunks=(2, 2), shards=(4, 8))
    store.written.clear()
    root.copy("v", "w")
    assert np.array_equal(root["w"][...], cells)
    assert store.written == ["w/c/0/0", "w/c/1/0"]


def test_a_shrunk_shard_is_written_once_for_what_goes_and_once_for_the_edge():
    store = CountingStore()
    root = hs.create(store, "zarr3")
    cells = np.arange(1.0, 65).reshape(8, 8)
    array = root.create_array("v", data=cells, chunks=(2, 2), shards=(8, 8), fill_value=-1.0)
    store.written.clear()
    array.resize((3, 8))
    assert store.written == ["v/c/0/0"] * 2
    array.resize((8, 8))
    assert np.array_equal(array[:3], cells[:3])
    assert (array[3:] == -1).all()


def test_labels_of_a_damaged_coordinate_are_no_positions(name):
    store = MemoryStore()
    root = hs.create(store, name)
    root.create_array("x", data=np.array([1, 2, 0]), dims=("x",))
    root.create_array("v", data=np.array([10, 20, 30]), dims=("x",))
    assert root["v"].sel(x=1) == 10
    store.put({"zarr2": "x/.zarray", "zarr3": "x/zarr.json"}[name], b"{")
    store.delete(".zmetadata")
    values = hs.open(store)["v"]
    assert values[1] == values.isel(x=1) == 20
    with pytest.raises(FormatError, match="x"):
        values.sel(x=1)
    assert list(hs.open(store).dims) == ["x"]


def test_the_tree_as_text(root):
    text = root.tree()
    assert "├── a/" in text
    assert "x (t: 2, x: 3) int64" in text


def test_a_batch_writes_once(root):
    with root.batch():
        for i in range(5):
            root.attrs[f"n{i}"] = i
    assert [root.attrs[f"n{i}"] for i in range(5)] == list(range(5))


def test_links_need_a_format_with_links(root):
    with pytest.raises(Unsupported, match="links"):
        root.create_link("z", "a/b/x")


def test_modes(tmp_path, name):
    url = tmp_path / "d.zarr"
    with pytest.raises(NotFound, match=r"d\.zarr"):
        hs.open(url)
    hs.open(url, "x", format=name).create_array("a", data=np.arange(3))
    with pytest.raises(AlreadyExists):
        hs.open(url, "x", format=name)
    with pytest.raises(ReadOnly):
        hs.open(url).create_group("g")
    hs.open(url, "r+").create_group("g")
    hs.open(url, "a").create_group("h")
    assert sorted(hs.open(url)) == ["a", "g", "h"]
    assert hs.open(url).format == name
    assert list(hs.open(url, "w", format=name)) == []
    assert list(hs.create(url, name, overwrite=True)) == []
    with pytest.raises(Invalid, match="mode"):
        hs.open(url, "rw")


@pytest.mark.parametrize("mode", ["w", "x", "a"])
def test_a_node_of_what_is_not_there_yet_makes_and_replaces_nothing(tmp_path, name, mode):
    hs.create(tmp_path / "old", name)["y"] = np.arange(3)
    url = tmp_path / ("old" if mode == "w" else "new")
    with pytest.raises(NodeNotFound, match="leave path out"):
        hs.open(url, mode, format=name, path="y")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert hs.open(tmp_path / "old")["y"][...].tolist() == [0, 1, 2]


def test_what_is_no_dataset_is_never_replaced(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(FormatError, match=r"thesis\.txt"):
        hs.open(tmp_path / "precious", "w")
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"hello", "text"),
        (b"\x00\x01\x02\xff", "00 01 02 ff"),
        (b"", "empty file"),
        (b"\x93NUMPY", "NumPy"),
    ],
)
def test_an_error_says_what_the_bytes_look_like(tmp_path, content, words):
    place = tmp_path / "thing"
    place.write_bytes(content)
    with pytest.raises(FormatError, match=words) as caught:
        hs.open(place)
    assert str(place) in str(caught.value)


def test_reading_never_writes(tmp_path, name):
    url = tmp_path / "d.zarr"
    hs.create(url, name).create_array("a", data=np.arange(30), chunks=4)
    before = {path: path.stat().st_mtime_ns for path in url.rglob("*")}
    array = hs.open(url)["a"]
    array[...], array[3], list(array), array.nbytes_stored, repr(array)
    assert {path: path.stat().st_mtime_ns for path in url.rglob("*")} == before


def test_opening_by_path_and_kind(tmp_path, name):
    url = tmp_path / "d.zarr"
    hs.create(url, name).create_array("g/a", data=np.arange(3))
    assert hs.open(url, path="g/a")[2] == 2
    assert hs.open_array(url, path="g/a").shape == (3,)
    assert hs.open_group(url, path="g").path == "g"
    with pytest.raises(Invalid):
        hs.open_array(url)
    with pytest.raises(Invalid):
        hs.open_group(url, path="g/a")


def test_chunks_as_people_give_them(root):
    assert root.create_array("c1", (10, 20), chunks=5).chunks == (5, 5)
    assert root.create_array("c2", (10, 20), chunks=(-1, 4)).chunks == (10, 4)
    assert root.create_array("c3", (10, 20), dims=("t", "x"), chunks={"x": 7}).chunks == (10, 7)
    assert root.create_array("c3b", (10, 20), chunks={"dim_1": 7}).chunks == (10, 7)
    assert root.create_array("c3c", (10, 20), dims=("x", "x"), chunks={"x": 5, "dim_0": None}).chunks == (10, 5)
    with pytest.raises(Invalid, match=r"no dimension 'dim_2' .*did you mean 'dim_1'"):
        root.create_array("c3d", (10, 20), chunks={"dim_2": 7})
    with pytest.raises(Invalid):
        root.create_array("c4", (10, 20), chunks=(0, 5))
    with pytest.raises(Invalid):
        root.create_array("c5", (10, 20), chunks=(5,))
    with pytest.raises(Invalid):
        root.create_array("c6", chunks=(5,))


def test_list_formats():
    formats = hs.list_formats()
    assert {"zarr2", "zarr3", "netcdf"} <= set(formats)
    assert formats["zarr3"].writable
    assert all(len(repr(info)) < 500 for info in formats.values())  # one is looked at in a terminal


def test_a_misspelt_argument_of_a_new_array_is_answered_with_the_one_that_was_meant(root):
    with pytest.raises(Invalid, match=r"no argument 'chunk'; did you mean 'chunks'\?"):
        root.create_array("new", shape=(3,), dtype="f4", chunk=(1,))
    assert "new" not in root


def test_a_misspelt_option_of_open_is_answered_with_the_one_that_was_meant(tmp_path):
    hs.create(tmp_path / "a.zarr").close()
    with pytest.raises(Invalid, match=r"no option 'cach_bytes' \[.*; did you mean 'cache_bytes'\?"):
        hs.open(tmp_path / "a.zarr", cach_bytes=0)


def test_to_create_is_no_mode(tmp_path):
    with pytest.raises(Invalid, match="takes no mode; overwrite=True replaces"):
        hs.create(tmp_path / "a.zarr", mode="a")
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("dtype", ["nope", "i4,,", 7, {"names": 1}])
def test_what_is_no_dtype_is_refused_by_name(root, dtype):
    with pytest.raises(WrongType, match="is no dtype") as caught:
        root.create_array("new", shape=(2,), dtype=dtype)
    assert repr(dtype) in str(caught.value)
    assert "new" not in root


@pytest.mark.parametrize("cells", [np.arange(3), np.ones((2, 2)), np.array(5)])
def test_cells_in_the_place_of_a_shape_are_refused(root, cells):
    with pytest.raises(WrongType, match=r"node=/new\]; give cells by data="):
        root.create_array("new", cells)
    assert "new" not in root
    assert root.create_array("new", shape=tuple(np.array([3, 4]))).shape == (3, 4)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("air_temprature", "air_temperature"), ("a/bb/x", "b"), ("a/b/xx", "x"), ("entirely/else", None)],
)
def test_a_typo_is_answered_with_the_name_that_was_meant(root, asked, meant):
    root.create_array("air_temperature", shape=(2,))
    with pytest.raises(NodeNotFound) as caught:
        root[asked]
    assert caught.value.remedy == (f"did you mean {meant!r}?" if meant else NodeNotFound.advice)


@pytest.mark.parametrize("place", ["a.zarr", "a.nczarr", "a.nc"])
def test_declared_dimensions(tmp_path, place):
    """One without a size is unlimited; arrays below run along those of the groups around them."""
    with hs.create(tmp_path / place) as root:
        assert root.create_dimension("time") == Dimension("time", 0, unlimited=True)
        assert root.create_dimension("x", 3) == Dimension("x", 3)
        inner = root.create_group("g")
        inner.create_dimension("x", 2)
        root.create_array("t", (0, 3), "f4", dims=("time", "x"), chunks=(2, 3)).append(np.ones((4, 3)))
        for size in (-1, 2.5, True):
            with pytest.raises(Invalid, match="length"):
                root.create_dimension("z", size)
        with pytest.raises(Invalid, match="name"):
            root.create_dimension("a/b", 1)
        with pytest.raises(AlreadyExists, match="time"):
            root.create_dimension("time")
    again = hs.open_group(tmp_path / place)
    assert again.dims["time"] == Dimension("time", 4, unlimited=True)
    assert again.dims["x"] == Dimension("x", 3)
    assert again["g"].dims["x"] == Dimension("x", 2)
    with pytest.raises(ReadOnly):
        again.create_dimension("new")


def test_dims_are_names(root):
    with pytest.raises(Invalid, match="no name of a dimension"):
        root.create_array("new", data=[1, 2], dims=[Dimension("x", 2)])


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "nczarr"])
def test_a_fill_value_is_a_cell(format: str) -> None:
    with hs.create(MemoryStore(), format=format) as root:
        with pytest.raises(Invalid, match=r"fill_value=1.5 .*int16"):
            root.create_array("a", (2,), "i2", dims=("x",), fill_value=1.5)
        with pytest.raises(Invalid, match="fill_value='5'"):
            root.create_array("a", (2,), "i2", dims=("x",), fill_value="5")
        assert "a" not in root


@pytest.mark.parametrize("format", ["zarr2", "zarr3"])
def test_a_fill_value_of_rows_in_rows_is_a_tuple(format: str) -> None:
    rows = np.dtype([("a", "i4"), ("inner", [("x", "f4"), ("y", "u2")])])
    root = hs.create(MemoryStore(), format=format)
    fill = (1, (2.5, 3))
    assert root.create_array("a", (2,), rows, dims=("x",), fill_value=fill)[1].item() == fill
    for wrong in ((1,), (1, (2.5, 3, 4)), (1, (2.5, "y")), (1, (2.5, -3))):
        with pytest.raises(Invalid, match="is no cell of type"):
            root.create_array("b", (2,), rows, dims=("x",), fill_value=wrong)


CELLS = np.arange(45.0 * 45).reshape(45, 45)
"""2,025 chunks of one cell each."""


def cut(root, **options):
    """The shards of an array of many small chunks."""
    array = root.create_array("many", chunks=(1, 1), dims=("y", "x"), **options)
    return array.shards


def test_many_small_chunks_get_shards(name):
    store = MemoryStore()
    root = hs.create(store, name)
    shards = cut(root, data=CELLS)
    assert shards == (None if name == "zarr2" else (45, 45))
    assert np.array_equal(hs.open(store)["many"][...], CELLS)
    if name == "zarr3":
        assert list(store.list("many/c")) == ["many/c/0/0"]


@pytest.mark.parametrize(
    "options",
    [
        {"data": CELLS, "shards": False},
        {"data": CELLS[:44]},  # not so many
        {"data": np.array([["a"] * 45] * 45), "dtype": str},  # of a size that nobody knows
        {"shape": CELLS.shape},  # cells that come later may come by writers that know no locks of ours
    ],
)
def test_all_other_chunks_are_files_of_their_own(options):
    assert cut(hs.create(MemoryStore(), "zarr3"), **options) is None


def test_an_array_that_is_filled_later_may_have_shards_too(name):
    assert cut(hs.create(MemoryStore(), name), shape=CELLS.shape, shards="many") == (
        None if name == "zarr2" else (45, 45)
    )


@pytest.mark.parametrize(
    ("given", "shards"),
    [
        ("none", None),
        (10, (10, 10)),
        ((20, -1), (20, 45)),
        ({"y": 20}, (20, 5)),  # as long as a chunk where nothing is said
        ({"y": -1}, (45, 5)),
        (-1, (45, 45)),
        ("auto", (45, 45)),
    ],
)
def test_the_shards_that_are_said(given, shards):
    root = hs.create(MemoryStore(), "zarr3")
    array = root.create_array("a", data=CELLS, chunks=5, dims=("y", "x"), shards=given)
    assert array.shards == shards
    assert np.array_equal(array[...], CELLS)


def test_a_whole_dimension_in_whole_chunks():
    root = hs.create(MemoryStore(), "zarr3")
    assert root.create_array("a", shape=(45, 45), chunks=10, shards=-1).shards == (50, 50)
    assert root.create_array("b", shape=(0, 45), chunks=10, shards=(None, 20)).shards == (10, 20)


def test_words_for_shards_that_mean_nothing(name):
    root = hs.create(MemoryStore(), name)
    for wrong in ("foo", True, 0, (1, "x")):
        with pytest.raises(Invalid, match=r"shards=.* \[memory.* node=/a\]; give False or 'none', 'auto', 'many'"):
            root.create_array("a", data=CELLS, shards=wrong)
    with pytest.raises(Invalid, match="3 shard lengths for 2 dimensions"):
        root.create_array("a", data=CELLS, shards=(1, 2, 3))
    with pytest.raises(Invalid, match="no dimension 'z'"):
        root.create_array("a", data=CELLS, dims=("y", "x"), shards={"z": 3})
    assert list(root) == []


@pytest.mark.parametrize("chunks", [None, "auto"])
def test_shards_alone_ask_for_chunks(chunks):
    root = hs.create(MemoryStore(), "zarr3")
    for shards in (100, (100, 300), {"x": 100}):
        remedy = "give chunks too, of lengths that divide those of the shards"
        with pytest.raises(Invalid, match=rf"of chunks of \(500, 750\), which nobody chose .*node=/a.*; {remedy}"):
            root.create_array("a", (4000, 3000), "f8", dims=("x", "y"), shards=shards, chunks=chunks)
    assert root.create_array("b", (4000, 3000), "f8", shards=(1000, 1500), chunks=chunks).shards == (1000, 1500)
    assert list(root) == ["b"]


def test_a_shard_of_absurdly_many_chunks_is_refused():
    root = hs.create(MemoryStore())
    with pytest.raises(Invalid, match=r"shard of 10,000,000,000 chunks would take 149.0 GiB .*node=/a"):
        root.create_array("a", shape=10**12, dtype="f4", chunks=1, shards=10**10)
    assert "a" not in root


@pytest.mark.parametrize(
    ("place", "options"),
    [
        ("a.zarr", {"format": "zarr2"}),
        ("a.nc", {}),
        ("a.nc", {"model": "NETCDF3_CLASSIC"}),
        ("a.nczarr", {}),
        ("a.nwb.zarr", {"format": "hdmf", "profile": "v2"}),
        ("a.b2nd", {}),
        ("a.blp", {}),
        ("a.blaze", {"layout": "bcolz"}),
    ],
)
def test_shards_where_there_are_none_are_refused(tmp_path, place, options):
    for number, shards in enumerate(((2,), 2, "auto", {"x": 2})):
        with hs.create(tmp_path / f"{number}{place}", **options) as root:
            with pytest.raises(Unsupported, match=r"no (shards|superchunks)"):
                root.create_array("a", (4,), "i4", dims=("x",), chunks=(2,), shards=shards)
            root.create_array("a", (4,), "i4", dims=("x",), chunks=(2,), shards="none")


def test_many_is_heard_by_every_format_that_has_shards():
    for profile, shards in (("v3", (45, 45)), ("v2", None)):
        root = hs.create(MemoryStore(), "hdmf", profile=profile)
        assert cut(root, data=CELLS, shards="many") == shards
        del root["many"]
        assert cut(root, data=CELLS) is None


def test_a_shard_is_no_longer_than_a_chunk_where_the_array_grows():
    store = CountingStore()
    root = hs.create(store, "zarr3")
    root.create_dimension("y")
    group = root.create_group("g")
    assert cut(group, data=CELLS) == (1, 45)
    store.written.clear()
    group["many"].append(CELLS[:2], "y")
    assert [key for key in store.written if "/c/" in key] == ["g/many/c/45/0", "g/many/c/46/0"]
