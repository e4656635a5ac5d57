"""R74 to R80 and the client of section 11: places, opening and closing, its arguments, what it keeps."""

from __future__ import annotations

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    Client,
    Collection,
    DimensionSchema,
    HDF5CompressionOpts,
    HDF5Options,
    VArraySchema,
)
from hyperslab.errors import (
    AlreadyExists,
    ClientError,
    CollectionNotFound,
    FormatError,
    MemoryLimit,
    NotFound,
    ReadOnly,
    SchemaError,
    Unsupported,
)
from permissions import read_only

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

SCHEMA = ArraySchema([DimensionSchema("x", 4)], int, [AttributeSchema("k", int, True)])


def test_r74_a_client_needs_a_place():
    for nothing in ("", " ", None, 5):
        with pytest.raises(ClientError):
            Client(nothing)


def test_r75_a_uri_names_the_folder(tmp_path):
    with Client(uri=f"file://{tmp_path}/data/store") as client:
        assert client.root_path == tmp_path / "data" / "store" / "collections"
        client.create_collection("weather", SCHEMA)
    assert (tmp_path / "data/store/collections/weather").is_dir()


def test_r76_the_folder_is_made_with_those_above_it(tmp_path):
    Client(f"file://{tmp_path}/a/b/c").close()
    assert (tmp_path / "a/b/c").is_dir()


def test_r76_a_file_is_no_place(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", f"file://{tmp_path}/file", tmp_path / "file" / "below"):
        with pytest.raises(ClientError):
            Client(place)
    with pytest.raises(RuntimeError):
        Client(tmp_path / "file")


def test_a_dataset_of_zarr_is_no_place_for_collections(tmp_path):
    hs.create(tmp_path / "a.zarr").close()
    with pytest.raises(ClientError, match="a dataset of Zarr"):
        Client(tmp_path / "a.zarr")
    assert not (tmp_path / "a.zarr" / "collections").exists()


def test_r76_reading_makes_nothing(tmp_path):
    with pytest.raises((NotFound, FormatError), match="mode='a'"):
        Client(tmp_path / "none", mode="r")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("uri", ["file:rel", "file://./rel", "rel", Path("rel")])
def test_r77_relative_places_are_relative_to_the_working_directory(tmp_path, monkeypatch, uri):
    monkeypatch.chdir(tmp_path)
    with Client(uri) as client:
        assert client.root_path == tmp_path / "rel" / "collections"
        client.create_collection("c", SCHEMA)
        client.close()
        monkeypatch.chdir("/")
        with client:
            assert "c" in client
    assert (tmp_path / "rel").is_dir()


def test_r77_other_machines_are_refused_and_escapes_are_decoded(tmp_path):
    for uri in ("file://server/share", "file://../x"):
        with pytest.raises(ClientError):
            Client(uri)
    Client(f"file://localhost{tmp_path}/one").close()
    Client(f"file://{tmp_path}/with%20space").close()
    assert (tmp_path / "one").is_dir() and (tmp_path / "with space").is_dir()


@pytest.mark.parametrize("uri", ["nix://a", "ftp://server/x"])
def test_unknown_schemes_are_refused(uri):
    with pytest.raises(ClientError):
        Client(uri)


def test_a_place_in_memory():
    with Client("memory://clients") as client:
        client.create_collection("c", SCHEMA).create({"k": 1})[:].update([1, 2, 3, 4])
        assert client.root_path == "memory://clients/collections"
    with Client("memory://clients", mode="r") as client:
        np.testing.assert_array_equal(client.get_collection("c").filter({"k": 1}).first()[:].read(), [1, 2, 3, 4])


def test_r78_a_client_is_open_until_it_is_closed(tmp_path):
    client = Client(tmp_path)
    assert client.is_open and not client.is_closed
    client.close()
    assert client.is_closed and not client.is_open
    with Client(tmp_path) as client:
        assert client.is_open
    assert client.is_closed


def test_r79_a_client_is_opened_again(tmp_path, layout):
    client = Client(tmp_path)
    collection = client.create_collection("c", SCHEMA, layout=layout)
    array = collection.create({"k": 1})
    for value in range(3):
        client.close()
        client.close()
        with client:
            array[:].update(value)
            assert collection.first()[0].read() == value and len(collection) == 1


def test_r79_a_closed_client_raises_client_errors(tmp_path, layout):
    client = Client(tmp_path)
    collection = client.create_collection("c", SCHEMA, layout=layout)
    array = collection.create({"k": 1})
    subset = array[:]
    client.close()
    uses = [
        lambda: client.create_collection("d", SCHEMA),
        lambda: client.get_collection("c"),
        lambda: client.collection_from_dict(collection.as_dict),
        lambda: list(client),
        lambda: "c" in client,
        client.check_integrity,
        client.calculate_storage_size,
        client.clear_locks,
        client.relink,
        lambda: collection.create({"k": 2}),
        lambda: collection.create_many([{"k": 3}]),
        lambda: collection.filter({"k": 1}),
        lambda: collection.query(k=1),
        lambda: list(collection),
        lambda: len(collection),
        lambda: collection[array.id],
        collection.clear,
        collection.delete,
        lambda: array[0],
        subset.read,
        lambda: subset.update([1, 2, 3, 4]),
        subset.clear,
        lambda: array.update_custom_attributes({"x": 1}),
        array.read_meta,
        array.delete,
    ]
    for use in uses:
        with pytest.raises(ClientError):
            use()
        with pytest.raises(RuntimeError):
            use()
    assert (str(collection), str(array), subset.shape) == ("c", f"Array({array.id})", (4,))


def test_r80_a_new_collection_prints_its_name(client, layout, capsys):
    collection = client.create_collection("weather", SCHEMA, layout=layout)
    assert isinstance(collection, Collection)
    print(collection)
    assert capsys.readouterr().out == "weather\n" and str(collection) == collection.name == "weather"


WRONG = {
    "workers of text": {"workers": "a"},
    "no workers": {"workers": 0},
    "workers below none": {"workers": -1},
    "half a second": {"write_lock_timeout": 1.5},
    "truth": {"write_lock_timeout": True},
    "half an interval": {"write_lock_check_interval": 0.5},
    "level": {"loglevel": "LOUD"},
    "level of another type": {"loglevel": 3.5},
    "unit": {"memory_limit": "4X"},
    "part of a byte": {"memory_limit": 1.5},
    "truth of memory": {"memory_limit": True},
    "mode": {"mode": "w"},
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_make_no_sense(tmp_path, name):
    with pytest.raises(ClientError):
        Client(tmp_path / "never", **WRONG[name])
    assert not (tmp_path / "never").exists()


def test_other_keywords_are_kept(tmp_path):
    with ThreadPoolExecutor(2) as pool, Client(tmp_path, executor=pool, colour="red", timeout=3) as client:
        assert client.kwargs == {"colour": "red", "timeout": 3} and client.meta_version == "0.2"


def test_memory_limits_are_bytes_or_text(tmp_path):
    limits = {"1k": 1024, "2K": 2048, "3m": 3 << 20, "1 M": 1 << 20, 4096: 4096}
    assert {given: Client(tmp_path, memory_limit=given).memory_limit for given in limits} == limits
    whole = Client(tmp_path).memory_limit
    assert [Client(tmp_path, memory_limit=given).memory_limit for given in (-1, 0, "100T")] == [whole] * 3


def test_an_array_that_memory_cannot_hold_is_refused_before_anything_is_written(client, layout, tmp_path):
    huge = ArraySchema([DimensionSchema("y", 10**9), DimensionSchema("x", 10**3)], np.float64)
    with pytest.raises(MemoryLimit):
        client.create_collection("huge", huge, layout=layout)
    with pytest.raises(MemoryError):
        client.create_collection("huge", huge, layout=layout)
    assert "huge" not in client and not list((tmp_path / "store/collections").iterdir())
    with Client(tmp_path / "other", skip_collection_create_memory_check=True) as careless:
        assert careless.create_collection("huge", huge, layout=layout).name == "huge"


def test_a_large_varray_is_made_and_read_in_pieces(client, layout):
    dims = [DimensionSchema("y", 300_000), DimensionSchema("x", 200_000)]
    array = client.create_collection("large", VArraySchema(dims, float, vgrid=(3000, 2000)), layout=layout).create()
    with pytest.raises(MemoryLimit):
        array[:]
    array[150_000, 100_000:100_003].update([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(array[150_000, 100_000:100_004].read(), [1.0, 2.0, 3.0, np.nan])


def test_the_limit_holds_for_subsets(tmp_path, layout):
    with Client(tmp_path, memory_limit="1k") as client:
        array = client.create_collection("c", ArraySchema([DimensionSchema("x", 128)], float), layout=layout).create()
        assert array[:].nbytes == 1024
        with pytest.raises(MemoryLimit):
            array[:].read_xarray()
        with pytest.raises(MemoryLimit):
            client.create_collection("d", ArraySchema([DimensionSchema("x", 129)], float), layout=layout)


def test_collections_are_found_by_name(client, layout):
    assert client.get_collection("c") is None and "c" not in client
    made = client.create_collection("c", SCHEMA, layout=layout)
    found = client.get_collection("c")
    assert found == made and found.schema == SCHEMA and found.layout == layout and "c" in client
    assert [client.get_collection(name) for name in ("", "../c", "c/../c", "/c", "\0")] == [None] * 5


def test_a_name_is_taken_once_whatever_the_schema(client, layout):
    client.create_collection("c", SCHEMA, layout=layout)
    for other in ("hyperslab", "deker"):
        with pytest.raises(AlreadyExists):
            client.create_collection("c", ArraySchema([DimensionSchema("z", 2)], float), layout=other)
    assert client.get_collection("c").schema == SCHEMA


@pytest.mark.parametrize("name", ["", " ", "../../x", "/abs", "a/b", "..", ".", "nul\0", "x" * 300, 5, None])
def test_defect_6_names_that_lead_elsewhere_are_refused(client, tmp_path, layout, name):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SchemaError):
        client.create_collection(name, SCHEMA, layout=layout)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_schema_or_adapter_is_refused(client):
    for wrong in (3, None, {"dimensions": []}, SCHEMA.dimensions):
        with pytest.raises(SchemaError):
            client.create_collection("c", wrong)
    with pytest.raises(SchemaError):
        client.create_collection("c", SCHEMA, {"chunks": True})
    with pytest.raises(Unsupported):
        client.create_collection("c", SCHEMA, None, "TiffStorageAdapter")
    with pytest.raises(Unsupported):
        client.create_collection("c", SCHEMA, layout="zarr")
    with pytest.raises(Unsupported):
        client.create_collection("c", SCHEMA, relative_links=True)
    assert client.create_collection("c", SCHEMA, None, "HDF5StorageAdapter").name == "c"


def test_defect_22_an_alien_folder_aborts_nothing(client, tmp_path, layout):
    client.create_collection("a", SCHEMA, layout=layout)
    client.create_collection("z", SCHEMA, layout=layout)
    folder = tmp_path / "store/collections"
    (folder / "alien").mkdir()
    (folder / "alien/notes.txt").write_text("hello")
    (folder / "stray.txt").write_text("hello")
    with client:
        assert [collection.name for collection in client] == ["a", "z"]
        assert client.get_collection("alien") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a"}', '{"metadata_version": "0.3"}'])
def test_a_damaged_collection_is_an_error_of_its_own(client, tmp_path, layout, caplog, text):
    for name in ("a", "z"):
        client.create_collection(name, SCHEMA, layout=layout)
    document = tmp_path / "store/collections/a" / ("collection.json" if layout == "hyperslab" else "a.json")
    said = json.loads(document.read_text()) | json.loads(text) if "version" in text else text
    document.write_text(said if isinstance(said, str) else json.dumps(said))
    client.close()
    logging.getLogger("hyperslab.database").setLevel(logging.WARNING)
    with client:
        assert [collection.name for collection in client] == ["z"]
        assert "passed over" in caplog.text
        with pytest.raises(FormatError, match="a"):
            client.get_collection("a")


def test_collection_from_dict_makes_what_as_dict_said(client, layout):
    schema = VArraySchema(
        [
            DimensionSchema("x", 4, labels=["a", "b", "c", "d"]),
            DimensionSchema("y", 2, scale={"start_value": 0.0, "step": 0.5}),
        ],
        np.float32,
        [AttributeSchema("k", int, True)],
        fill_value=-1.0,
        vgrid=(2, 1),
    )
    said = client.create_collection("c", schema, layout=layout).as_dict
    made = client.collection_from_dict(said | {"name": "d"}, layout=layout)
    assert made.schema == schema and made.layout == layout and made.as_dict == said | {"name": "d"}
    array = made.create({"k": 1})
    array["b", 0.5].update(3)
    assert array[:].read().tolist() == [[-1.0, -1.0], [-1.0, 3.0], [-1.0, -1.0], [-1.0, -1.0]]


def test_collection_from_dict_takes_tuples_for_lists(client, layout):
    dims = [DimensionSchema("x", 4, labels=["a", "b", "c", "d"]), DimensionSchema("y", 2)]
    schema = VArraySchema(dims, np.float32, [AttributeSchema("k", int, True)], vgrid=(2, 1))
    options = HDF5Options((2, 2), HDF5CompressionOpts("gzip", (6,)))
    made = client.create_collection("c", schema, options, layout=layout)

    def with_tuples(value):
        if isinstance(value, dict):
            return {key: with_tuples(part) for key, part in value.items()}
        return tuple(map(with_tuples, value)) if isinstance(value, list) else value

    again = client.collection_from_dict(with_tuples(made.as_dict | {"name": "d", "more": [1, [2]]}), layout=layout)
    assert again.schema == schema and again.options == options
    assert client.get_collection("d").as_dict == made.as_dict | {"name": "d", "more": [1, [2]]}


def test_collection_from_dict_fills_in_what_may_be_left_out(client):
    said = {
        "name": "d",
        "type": "array",
        "schema": {"dimensions": [{"name": "x", "size": 3, "type": "generic"}], "dtype": "numpy.float64"},
        "metadata_version": "0.2",
    }
    made = client.collection_from_dict(said)
    assert made.schema == ArraySchema([DimensionSchema("x", 3)], float) and made.options is None
    with pytest.raises(AlreadyExists):
        client.collection_from_dict(said)
    for wrong in (
        {**said, "name": "e", "metadata_version": "0.3"},
        {"name": "e"},
        {**said, "name": "e", "type": "cube"},
    ):
        with pytest.raises(FormatError):
            client.collection_from_dict(wrong)
    del said["metadata_version"]
    with pytest.raises(FormatError):
        client.collection_from_dict({**said, "name": "e"})
    with pytest.raises(SchemaError):
        client.collection_from_dict([])


def test_the_stored_size_is_told_in_bytes_and_words(client, layout):
    for name in ("a", "b"):
        client.create_collection(name, SCHEMA, layout=layout).create({"k": 1})[:].update([1, 2, 3, 4])
    whole, one = client.calculate_storage_size(), client.calculate_storage_size("a")
    assert whole.bytes == one.bytes + client.calculate_storage_size("b").bytes and one.bytes >= 32
    assert (one.human.endswith((" KB", " bytes")) and one == (one.bytes, one.human)) or one.bytes > 1 << 20
    with pytest.raises(CollectionNotFound):
        client.calculate_storage_size("none")


def test_locks_and_links_of_what_has_none(client, layout):
    client.create_collection("a", SCHEMA, layout=layout)
    client.clear_locks()
    client.clear_locks("a")
    client.relink()
    for act in (client.clear_locks, client.relink):
        with pytest.raises(CollectionNotFound):
            act("none")


def test_read_only_clients_change_nothing(tmp_path, layout):
    with Client(tmp_path) as client:
        client.create_collection("c", SCHEMA, layout=layout).create({"k": 1})[:].update([1, 2, 3, 4])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with Client(tmp_path, mode="r") as client:
        collection = client.get_collection("c")
        array = collection.filter({"k": 1}).first()
        np.testing.assert_array_equal(array[:].read(), [1, 2, 3, 4])
        changes = [
            lambda: client.create_collection("d", SCHEMA),
            lambda: collection.create({"k": 2}),
            lambda: collection.create_many([{"k": 2}]),
            collection.clear,
            collection.delete,
            lambda: array[:].update(0),
            array[:].clear,
            lambda: array.update_custom_attributes({"x": 1}),
            array.delete,
            client.clear_locks,
            client.relink,
        ]
        for change in changes:
            with pytest.raises(ReadOnly):
                change()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are of Linux")
def test_defect_4_read_only_media_are_read(tmp_path, layout):
    with Client(tmp_path / "s") as client:
        client.create_collection("c", SCHEMA, layout=layout).create({"k": 1})[:].update([1, 2, 3, 4])
    with read_only(tmp_path / "s"):
        with pytest.raises(PermissionError):
            (tmp_path / "s" / "new").touch()
        with Client(tmp_path / "s") as client:
            assert [array[3].read() for array in client.get_collection("c")] == [4]


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_a_sound_store_has_no_problems(client, tmp_path, layout, level):
    collection = client.create_collection("c", SCHEMA, layout=layout)
    collection.create({"k": 1})[:].update([1, 2, 3, 4])
    collection.create({"k": 2})
    tiles = VArraySchema([DimensionSchema("x", 4)], int, [AttributeSchema("k", int, True)], vgrid=(2,))
    client.create_collection("v", tiles, layout=layout).create({"k": 1})[:3].update([1, 2, 3])
    assert list(client.check_integrity(level, False)) == [] and list(client.check_integrity(level)) == []
    assert list(client.check_integrity(level, collection="c")) == []
    client.check_integrity(level, to_file=tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == "no problems\n"
    with pytest.raises(CollectionNotFound):
        client.check_integrity(level, collection="none")


def test_defect_22_every_problem_is_found_whatever_is_damaged(client, tmp_path, layout, monkeypatch):
    for name in ("a", "b"):
        client.create_collection(name, SCHEMA, layout=layout)
        document = "collection.json" if layout == "hyperslab" else f"{name}.json"
        (tmp_path / "store/collections" / name / document).write_text("{")
    client.close()
    monkeypatch.chdir(tmp_path)
    with client:
        for level in (1, 2, 3, 4):
            found = client.check_integrity(level, False, True)
            assert len(found) >= 2 and (level > 1 or {problem.node for problem in found} == {"a", "b"})
            with pytest.raises(FormatError):
                client.check_integrity(level)
        for level in (0, "1", True):
            with pytest.raises(ClientError):
                client.check_integrity(level)
    assert [path.read_text().count("\n") >= 2 for path in tmp_path.glob("integrity_report_*.txt")]


def test_a_missing_lock_file_of_dekers_is_a_problem_of_the_first_level(client, tmp_path):
    for name in ("a", "b"):
        client.create_collection(name, SCHEMA, layout="deker")
    (tmp_path / "store/collections/b.lock").unlink()
    assert [(each.node, each.kind) for each in client.check_integrity(1, False)] == [("b", "no-lock-file")]
    assert not client.check_integrity(1, collection="a")
    with pytest.raises(FormatError, match="lock file"):
        client.check_integrity(1, collection="b")


def test_importing_the_database_loads_nothing_heavy():
    import subprocess

    program = "import sys, hyperslab.database as db\n[getattr(db, name) for name in db.__all__]\n"
    program += "print(sorted({'h5py', 'xarray', 'pandas', 'dask', 'obstore', 'hdf5plugin'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"
