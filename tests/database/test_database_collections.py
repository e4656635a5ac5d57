"""R1 to R48 as far as they are about collections and records: creation, keys, looking up, custom attributes."""

from __future__ import annotations

import dataclasses
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import uuid4

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import (
    Array,
    ArraySchema,
    AttributeSchema,
    Client,
    DimensionSchema,
    FilteredManager,
    TimeDimensionSchema,
    VArray,
    VArraySchema,
)
from hyperslab.errors import AlreadyExists, CollectionNotFound, Invalid, NodeNotFound, SchemaError, Unsupported

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

X = DimensionSchema("x", 4)
KEY = AttributeSchema("k", int, True)
EVERY = [
    AttributeSchema("i", int, True),
    AttributeSchema("f", float, True),
    AttributeSchema("c", complex, True),
    AttributeSchema("s", str, True),
    AttributeSchema("t", tuple, True),
    AttributeSchema("d", datetime, True),
    AttributeSchema("ci", int, False),
    AttributeSchema("cf", float, False),
    AttributeSchema("cc", complex, False),
    AttributeSchema("cs", str, False),
    AttributeSchema("ct", tuple, False),
    AttributeSchema("cd", datetime, False),
]
PRIMARY = {"i": 10, "f": 1.5, "c": 1 + 2j, "s": "é b", "t": (1, "a", 2.5), "d": datetime(2023, 1, 1, tzinfo=UTC)}
CUSTOM = {"ci": -1, "cf": 1e-9, "cc": -1j, "cs": "", "ct": (1, (2, 3)), "cd": datetime(2000, 1, 1, 12, tzinfo=UTC)}


@pytest.fixture(params=["array", "varray"])
def collection(request, client, layout):
    """Arrays of every type of attribute, in either flavour."""
    made = ArraySchema([X], int, EVERY) if request.param == "array" else VArraySchema([X], int, EVERY, vgrid=(2,))
    return client.create_collection("c", made, layout=layout)


@pytest.fixture
def keyed(client, layout):
    schema = ArraySchema([X], int, [KEY, AttributeSchema("note", str, False)])
    return client.create_collection("keyed", schema, layout=layout)


def test_r1_a_store_holds_collections_of_one_flavour_each(client, layout):
    arrays = client.create_collection("a", ArraySchema([X], int), layout=layout)
    varrays = client.create_collection("v", VArraySchema([X], int, vgrid=(2,)), layout=layout)
    assert [collection.name for collection in client] == ["a", "v"]
    assert type(arrays.create()) is Array and type(varrays.create()) is VArray
    assert (arrays.as_dict["type"], varrays.as_dict["type"]) == ("array", "varray")


def test_r2_a_schema_has_dimensions_and_attributes(collection):
    schema = collection.schema
    assert [each.name for each in schema.primary_attributes] == list(PRIMARY)
    assert [each.name for each in schema.custom_attributes] == list(CUSTOM)
    assert [each.name for each in schema.dimensions] == ["x"]


def test_r3_schemas_never_change(client, keyed):
    with pytest.raises(AttributeError):
        keyed.schema = keyed.schema
    for frozen, name in (
        (keyed.schema, "dtype"),
        (keyed.schema.dimensions[0], "size"),
        (keyed.schema.attributes[0], "name"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(frozen, name, getattr(frozen, name))
    with pytest.raises(AlreadyExists):
        client.create_collection("keyed", ArraySchema([X], float))
    assert client.get_collection("keyed").schema == keyed.schema


def test_r17_dimensions_are_those_of_the_schema(client, layout):
    start = datetime(2023, 1, 1, tzinfo=UTC)
    dims = [
        TimeDimensionSchema("t", 3, start, timedelta(hours=1)),
        DimensionSchema("y", 2, scale={"start_value": 90.0, "step": -0.25, "name": "lat"}),
        DimensionSchema("l", 2, labels=["a", "b"]),
        DimensionSchema("p", 2),
    ]
    array = client.create_collection("c", ArraySchema(dims, float), layout=layout).create()
    t, y, words, p = array.dimensions
    assert (t.name, t.size, t.start_value, t.step) == ("t", 3, start, timedelta(hours=1))
    assert (y.name, y.size, y.step, y.scale, y.labels) == ("y", 2, 1, (90.0, -0.25, "lat"), None)
    assert (words.labels, words.scale, p.labels, p.scale) == (("a", "b"), None, None, None)
    assert y.as_dict == {
        "name": "y",
        "size": 2,
        "step": 1,
        "scale": {"start_value": 90.0, "step": -0.25, "name": "lat"},
    }
    assert t.as_dict["start_value"] == "2023-01-01T00:00:00+00:00"
    assert array.shape == (3, 2, 2, 2) and array.named_shape == (("t", 3), ("y", 2), ("l", 2), ("p", 2))


def test_r27_r29_dimensions_are_sliced_by_what_they_are(client, layout):
    dims = [
        TimeDimensionSchema("t", 4, datetime(2023, 1, 1), timedelta(hours=6)),
        DimensionSchema("y", 3, scale={"start_value": 0.5, "step": 0.5}),
        DimensionSchema("l", 3, labels=["a", "b", "c"]),
    ]
    array = client.create_collection("c", ArraySchema(dims, int), layout=layout).create()
    array[:].update(np.arange(36).reshape(4, 3, 3))
    noon = datetime(2023, 1, 1, 12, tzinfo=UTC)
    for time in (2, noon, noon.timestamp(), "2023-01-01T12:00:00", "2023-01-01T13:00:00+01:00"):
        for y, label in ((1, 2), (1.0, "c")):
            assert array[time, y, label].read() == 23
    for key in ((0, "a"), (0, 0, 1.0), (0, 0, noon), int(noon.timestamp())):
        with pytest.raises(IndexError):
            array[key]


def test_r31_a_direct_start_is_common_to_all_arrays(client, layout):
    dims = [TimeDimensionSchema("t", 2, datetime(2023, 1, 1), timedelta(days=1))]
    collection = client.create_collection("c", ArraySchema(dims, int, [KEY]), layout=layout)
    arrays = collection.create_many([{"k": 1}, {"k": 2}])
    assert {array.dimensions[0].start_value for array in arrays} == {datetime(2023, 1, 1, tzinfo=UTC)}
    assert all(array["2023-01-02"].bounds == (1,) for array in collection)


@pytest.mark.parametrize("primary", [True, False])
def test_r32_times_start_where_an_attribute_says(client, layout, primary):
    dims = [TimeDimensionSchema("t", 4, "$start", timedelta(days=1))]
    tiled = VArraySchema(dims, int, [KEY, AttributeSchema("start", datetime, primary)], vgrid=(2,))
    collection = client.create_collection("c", tiled, layout=layout)
    for year in (2000, 2020):
        given = {"k": year, "start": datetime(year, 1, 1)}
        array = collection.create_many([given])[0]
        array[datetime(year, 1, 3)].update(year)
        with pytest.raises(IndexError):
            array[datetime(year, 1, 5)]
    assert [array[f"{array.primary_attributes['k']}-01-03"].read() for array in collection] == [2000, 2020]
    assert [array.dimensions[0].start_value.year for array in collection] == [2000, 2020]
    with pytest.raises(SchemaError):
        collection.create({"k": 1, "start": None} if primary else {"k": 1})


def test_r33_r34_starts_and_attributes_are_kept_in_utc(client, layout):
    zone = timezone(timedelta(hours=3))
    schema = ArraySchema(
        [TimeDimensionSchema("t", 2, "$d", timedelta(hours=1))], int, [AttributeSchema("d", datetime, True)]
    )
    collection = client.create_collection("c", schema, layout=layout)
    array = collection.create({"d": datetime(2023, 1, 1, 3, tzinfo=zone)})
    assert array.primary_attributes["d"] == datetime(2023, 1, 1, tzinfo=UTC)
    assert array.primary_attributes["d"].tzinfo is UTC
    found = collection.filter({"d": datetime(2023, 1, 1)}).first()
    assert found == array == collection.filter({"d": "2023-01-01T02:00:00+02:00"}).first()
    assert found.dimensions[0].start_value == datetime(2023, 1, 1, tzinfo=UTC)
    assert found[datetime(2023, 1, 1, 4, tzinfo=zone)].bounds == (1,)


def test_r36_ints_are_positions_everywhere(client, layout):
    dims = [
        DimensionSchema("y", 4, scale={"start_value": 1.0, "step": 1.0}),
        DimensionSchema("l", 3, labels=[2.0, 1.0, 0.0]),
    ]
    array = client.create_collection("c", ArraySchema(dims, int), layout=layout).create()
    array[:].update(np.arange(12).reshape(4, 3))
    assert array[1, 1].read() == 4 and array[1.0, 1.0].read() == 1 and array[1, 2.0].read() == 3


def test_r37_attributes_come_back_as_they_were_given(collection):
    array = collection.create(PRIMARY, CUSTOM)
    for found in (array, collection[array.id], collection.first(), collection.filter(PRIMARY).last()):
        assert found.primary_attributes == PRIMARY and found.custom_attributes == CUSTOM
        kinds = [type(value) for value in found.primary_attributes.values()]
        assert kinds == [int, float, complex, str, tuple, datetime]
        assert list(found.primary_attributes) == list(PRIMARY)
    assert found == array and hash(found) == hash(array) and found in collection


def test_r41_a_schema_without_key_is_told_in_the_log(client, layout, caplog):
    import logging

    logging.getLogger("hyperslab.database").setLevel(logging.WARNING)
    collection = client.create_collection("c", ArraySchema([X], int), layout=layout)
    assert "no primary attributes" in caplog.text
    ids = {collection.create().id for _ in range(3)}
    assert {array.id for array in collection} == ids and len(collection) == 3
    assert [array.id for array in collection] == sorted(ids)
    assert all(collection.filter({"id": id}).first().id == id for id in ids)


def test_r42_links_lead_from_primary_values_to_the_data(client, tmp_path):
    schema = ArraySchema([X], int, [AttributeSchema("s", str, True), AttributeSchema("d", datetime, True)])
    collection = client.create_collection("c", schema, layout="deker")
    array = collection.create({"s": "é b", "d": datetime(2023, 1, 1)})
    folder = tmp_path / "store/collections/c"
    link = folder / "array_symlinks/é b/2023-01-01T00:00:00+00:00" / f"{array.id}.hdf5"
    data = folder / "array_data" / "/".join(array.id[:8]) / array.id[9:] / f"{array.id}.hdf5"
    assert link.is_symlink() and link.readlink() == data and data.is_file()
    array.delete()
    assert not list(folder.rglob("*.hdf5"))


def test_r42_links_may_be_relative_and_are_mended(client, tmp_path):
    schema = ArraySchema([X], int, [KEY])
    client.create_collection("c", schema, layout="deker", relative_links=True).create({"k": 1})[:].update(7)
    client.create_collection("d", schema, layout="deker").create({"k": 1})[:].update(8)
    client.close()
    (tmp_path / "store").rename(tmp_path / "moved")
    with Client(tmp_path / "moved") as moved:
        assert [moved.get_collection(name).get(k=1)[0].read() for name in "cd"] == [7, 8]
        assert moved.check_integrity(3, False) and not moved.check_integrity(3, collection="c")
        moved.relink()
        assert not moved.check_integrity(3)
        links = [path for path in (tmp_path / "moved").rglob("*.hdf5") if path.is_symlink()]
        assert [path.readlink().is_absolute() for path in sorted(links)] == [False, True]


def test_r43_an_array_is_found_by_its_id_or_by_its_whole_key(collection):
    array = collection.create(PRIMARY, CUSTOM)
    other = collection.create({**PRIMARY, "s": "other"}, CUSTOM)
    assert isinstance(collection.filter(PRIMARY), FilteredManager)
    assert collection.filter({"id": array.id}).first() == collection.filter({"id": array.id}).last() == array
    assert collection.filter(PRIMARY).first() == collection.filter(PRIMARY).last() == array
    assert collection.filter({**PRIMARY, "s": "none"}).first() is None
    assert collection.filter({"id": str(uuid4())}).first() is None
    assert (
        collection[array.id]
        == array
        == collection.get(array.id)
        == collection.get(PRIMARY)
        == collection.get(**PRIMARY)
    )
    assert collection.get(str(uuid4())) is None and array.id in collection and str(uuid4()) not in collection
    assert collection.filter({"id": array.id, "s": "other"}).first() is None
    assert collection.filter({"id": array.id, "s": "é b"}).first() == array
    with pytest.raises(KeyError):
        collection[str(uuid4())]
    # by parts of the key and custom attributes too
    assert [found.id for found in collection.filter({"s": "other"})] == [other.id]
    assert {found.id for found in collection.filter({"i": 10}).filter({"ci": -1})} == {array.id, other.id}
    assert collection.filter({"ci": 0}).first() is None


def test_what_is_looked_for_by_id_or_key_has_the_other_values_too(client, layout):
    attributes = [
        AttributeSchema("k", float, True),
        AttributeSchema("n", float, False),
        AttributeSchema("t", tuple, False),
    ]
    collection = client.create_collection("c", ArraySchema([X], int, attributes), layout=layout)
    array = collection.create({"k": 0.0}, {"n": float("nan"), "t": (1 + 2j, datetime(2023, 1, 1, tzinfo=UTC))})
    again = client.get_collection("c")[array.id].custom_attributes["t"]
    for by in ({"id": array.id}, {"k": -0.0}, {}):
        for values in ({"n": float("nan")}, {"t": again}, {"t": array.custom_attributes["t"]}):
            assert collection.filter({**by, **values}).first() == array
        assert collection.filter({**by, "n": 0.0}).first() is collection.filter({**by, "n": 0.0}).last() is None
    with pytest.raises(SchemaError, match="two values"):
        collection.filter({"k": 1.0}).filter({"k": 0.0})


@pytest.mark.parametrize("flavour", ["array", "varray"])
def test_complex_numbers_inside_tuples_stay_numbers(client, layout, tmp_path, flavour):
    attributes = [AttributeSchema("k", tuple, True), AttributeSchema("t", tuple, False)]
    schema = ArraySchema([X], int, attributes) if flavour == "array" else VArraySchema([X], int, attributes, vgrid=(2,))
    collection = client.create_collection("c", schema, layout=layout)
    values = (1 + 2j, -2j, complex(-0.0, 1), complex("inf-infj"), (1e300 + 1e-5j, "a j", 2.5), np.complex64(1j))
    array = collection.create({"k": (1, 2j)}, {"t": values})
    assert repr(collection[array.id].custom_attributes["t"]) == repr((*values[:5], 1j))
    assert collection.filter({"k": (1, 2j)}).first().primary_attributes == {"k": (1, 2j)}
    assert collection.filter({"k": (1, "2j")}).first() == array  # as it is stored, and as the command has it
    array.update_custom_attributes({"t": (3j, ("(1+2j", "2 j"))})
    assert client.get_collection("c").first().custom_attributes == {"t": (3j, ("(1+2j", "2 j"))}
    other = "deker" if layout == "hyperslab" else "collections"
    losses = hs.convert(tmp_path / "store", tmp_path / "other", other, verify=True).losses
    hs.convert(tmp_path / "other", tmp_path / "between.zarr", verify=True)
    hs.convert(tmp_path / "between.zarr", tmp_path / "again", "collections" if layout == "hyperslab" else layout)
    assert losses == ()
    for place in ("other", "again"):
        with Client(tmp_path / place, mode="r") as again:
            assert again.get_collection("c").get(k=(1, 2j)).custom_attributes == {"t": (3j, ("(1+2j", "2 j"))}


def test_a_text_inside_a_tuple_that_spells_a_complex_number_is_refused(collection):
    array = collection.create(PRIMARY, CUSTOM)
    for wrong in ((1, "2j"), ("(1+2j)",), ((("-0j",),),), ("nanj",)):
        with pytest.raises(SchemaError, match=r"'ct'.*cannot be told from the complex number"):
            array.update_custom_attributes({"ct": wrong})
        with pytest.raises(SchemaError, match=r"'t'.*cannot be told from the complex number"):
            collection.create({**PRIMARY, "t": wrong}, CUSTOM)


def test_what_a_user_got_wrong_names_the_place(keyed, tmp_path):
    array = keyed.create({"k": 1})
    for wrong in (
        lambda: keyed.query(z=1),
        lambda: keyed.query(k="a"),
        lambda: keyed.query(k=(1, 2, 3)),
        lambda: keyed.query(order="z"),
        lambda: keyed.query("k"),
        lambda: keyed.filter({"z": 1}),
        lambda: keyed.create({"z": 1}),
        lambda: keyed.create_many([{"k": 2}, 5]),
        lambda: keyed.to_xarray("z"),
        lambda: keyed["x"],
    ):
        with pytest.raises(SchemaError) as error:
            wrong()
        assert (error.value.url, error.value.node) == (f"{tmp_path}/store", "keyed")
    for wrong in (lambda: array[9], lambda: array["z"], lambda: array[:].update([1, 2]), lambda: array[:].update("z")):
        with pytest.raises(Invalid) as failure:
            wrong()
        assert (failure.value.url, failure.value.node) == (f"{tmp_path}/store", f"keyed/{array.id}")


@pytest.mark.parametrize("flavour", ["array", "varray"])
def test_what_is_no_id_is_refused(client, layout, flavour):
    """Nothing could be found by it; an id that could be one's, and is not, finds nothing."""
    grid = {} if flavour == "array" else {"vgrid": (2,)}
    schema = (VArraySchema if grid else ArraySchema)([X], int, [KEY], **grid)
    collection = client.create_collection("c", schema, layout=layout)
    array = collection.create({"k": 1})
    for bad in ("x", "", "../../x", "\0", f"{array.id}\n", "é" * 5000, array.id[:-1], 5, None):
        for wanted in ({"id": bad}, {"id": bad, "k": 1}):
            with pytest.raises(SchemaError, match="is no id") as error:
                collection.filter(wanted)
            assert "UUID" in error.value.remedy
        assert bad not in collection
    with pytest.raises(SchemaError, match="is no id"):
        collection.get("x")
    assert collection.filter({"id": str(uuid4())}).first() is collection.get(str(uuid4())) is None


@pytest.mark.parametrize(
    "start",
    [
        "2023-01-02",
        "2023-01-02T01:00:00+01:00",
        np.datetime64("2023-01-02"),
        np.datetime64("2023-01-02T00:00:00.000000000"),
        date(2023, 1, 2),
    ],
)
def test_times_are_given_as_queries_take_them(client, layout, start):
    times = [AttributeSchema("dt", datetime, True), AttributeSchema("cd", datetime, False)]
    dimensions = [TimeDimensionSchema("hour", 4, "$dt", timedelta(hours=6))]
    collection = client.create_collection("c", ArraySchema(dimensions, int, times), layout=layout)
    array = collection.create({"dt": start}, {"cd": start})
    assert array.primary_attributes == {"dt": datetime(2023, 1, 2, tzinfo=UTC)}
    array.update_custom_attributes({"cd": np.datetime64("2023-01-03T06", "h")})
    assert collection.filter({"dt": start}).first().custom_attributes == {"cd": datetime(2023, 1, 3, 6, tzinfo=UTC)}
    assert collection.create_many([{"dt": "2023-01-05", "cd": start}])[0] == collection.query(dt="2023-01-05")[0]
    for wrong in ("yesterday", np.datetime64("NaT", "s"), np.datetime64(10**6, "Y"), 20230102, None):
        with pytest.raises(SchemaError, match="'dt'"):
            collection.create({"dt": wrong}, {"cd": start})


def test_the_last_of_a_filter_is_read_without_the_others(keyed):
    keyed.create_many([({"k": k}, {"note": "same"}) for k in range(40)])
    assert len(keyed) == 40
    with hs.trace() as all_of_them:
        assert [array.primary_attributes["k"] for array in keyed.filter({"note": "same"})] == [*range(40)]
    with hs.trace() as one:
        assert keyed.filter({"note": "same"}).last().primary_attributes == {"k": 39}
    with hs.trace() as again:
        assert keyed.query(note="same")[-1].primary_attributes == {"k": 39}
    if keyed.layout == "hyperslab":  # where records are read from a store, which counts
        assert max(one.bytes_read, again.bytes_read) < all_of_them.bytes_read / 10


def test_r44_every_primary_value_is_needed(collection):
    for name in PRIMARY:
        missing = {key: value for key, value in PRIMARY.items() if key != name}
        for wrong in (missing, {**PRIMARY, name: None}, {**PRIMARY, name: object()}, {**PRIMARY, name: [1]}):
            with pytest.raises(SchemaError, match=name):
                collection.create(wrong, CUSTOM)
    for wrong in ({**PRIMARY, "more": 1}, {**PRIMARY, **CUSTOM}, None, 5, "text"):
        with pytest.raises(SchemaError):
            collection.create(wrong, CUSTOM)
    with pytest.raises(SchemaError):
        collection.create({**PRIMARY, "ci": 1}, CUSTOM)
    assert len(collection) == 0


def test_r44_a_key_is_taken_once(collection):
    array = collection.create(PRIMARY, CUSTOM)
    with pytest.raises(AlreadyExists):
        collection.create(PRIMARY, CUSTOM)
    with pytest.raises(AlreadyExists):
        collection.create({**PRIMARY, "s": "other"}, CUSTOM, id_=array.id)
    assert len(collection) == 1
    array.delete()
    assert collection.create(PRIMARY, CUSTOM).id != array.id


def test_defect_8_of_many_who_create_one_key_one_wins(keyed, client):
    outcomes = []

    def create(number: int) -> None:
        for key in range(10):
            try:
                outcomes.append(keyed.create({"k": key}, {"note": str(number)}).id)
            except AlreadyExists:
                outcomes.append(None)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [id for id in outcomes if id]
    assert len(outcomes) == 40 and len(won) == 10
    assert {array.id for array in keyed} == set(won) and [a.primary_attributes["k"] for a in keyed] == list(range(10))


def test_r45_custom_attributes_are_looked_for_too(keyed):
    for k in range(4):
        keyed.create({"k": k}, {"note": "odd" if k % 2 else "even"})
    assert [found.primary_attributes["k"] for found in keyed.filter({"note": "odd"})] == [1, 3]
    assert keyed.filter({"note": "even"}).last().primary_attributes["k"] == 2


def test_r46_custom_values_change_and_nothing_else(collection):
    array = collection.create(PRIMARY, CUSTOM)
    moment = datetime(2001, 1, 1, tzinfo=timezone(timedelta(hours=-2)))
    array.update_custom_attributes({"cs": "new", "cd": moment, "ci": None})
    expected = {**CUSTOM, "cs": "new", "cd": moment, "ci": None}
    assert array.custom_attributes == expected == collection[array.id].custom_attributes
    assert array.primary_attributes == PRIMARY == collection.filter(PRIMARY).first().primary_attributes
    for wrong in ({}, None, {"i": 11}, {"more": 1}, {"cs": 5}, {"ci": "1"}, {"ci": True}, {"cd": None}, {"ct": [1]}):
        with pytest.raises(SchemaError):
            array.update_custom_attributes(wrong)
    assert collection[array.id].custom_attributes == expected


def test_r47_custom_values_may_be_left_out_but_for_datetimes(collection):
    with pytest.raises(SchemaError, match="cd"):
        collection.create(PRIMARY)
    with pytest.raises(SchemaError, match="cd"):
        collection.create(PRIMARY, {"cd": None})
    array = collection.create(PRIMARY, {"cd": datetime(2000, 1, 1)})
    expected = dict.fromkeys(CUSTOM) | {"cd": datetime(2000, 1, 1, tzinfo=UTC)}
    assert array.custom_attributes == expected == collection[array.id].custom_attributes


def test_r47_a_collection_that_is_not_strict_lets_datetimes_be_none(client, layout):
    schema = ArraySchema([X], int, [KEY, AttributeSchema("d", datetime, False)])
    collection = client.create_collection("c", schema, layout=layout, strict=False)
    array = collection.create({"k": 1})
    assert array.custom_attributes == {"d": None} == client.get_collection("c").first().custom_attributes
    array.update_custom_attributes({"d": datetime(2000, 1, 1)})
    array.update_custom_attributes({"d": None})
    assert client.get_collection("c").first().custom_attributes == {"d": None}


def test_r48_attributes_may_be_left_out_altogether(client, layout):
    collection = client.create_collection("c", ArraySchema([X], int), layout=layout)
    array = collection.create()
    assert (array.primary_attributes, array.custom_attributes) == ({}, {}) and collection.first() == array
    assert collection.filter({}).first() == array


def test_ids_are_given_or_made(keyed):
    id = "352FDD68-dcb5-4edc-b3fc-4fcad9dea7fe"
    assert keyed.create({"k": 1}, id_=id).id == id == keyed[id].id
    assert len(keyed.create({"k": 2}).id) == 36
    for wrong in ("x", "", 5, "../../etc/passwd", "352fdd68dcb54edcb3fc4fcad9dea7fe", f"{id}\n"):
        with pytest.raises(SchemaError):
            keyed.create({"k": 3}, id_=wrong)
    assert len(keyed) == 2


def test_defect_25_what_is_malformed_has_an_error_of_the_house(keyed):
    for wrong in ({"id": 5}, {"z": 1}, {"k": 1, "z": 2}, "k", None):
        with pytest.raises(SchemaError):
            keyed.filter(wrong)
    for wrong in ("x", 5, None):
        with pytest.raises(SchemaError):
            keyed[wrong]
        assert wrong not in keyed
    array = keyed.create({"k": 1})
    array.delete()
    for use in (array.read_meta, lambda: array.update_custom_attributes({"note": "x"}), array[:].read):
        with pytest.raises(NodeNotFound):
            use()


def test_defect_6_keys_that_lead_elsewhere_stay_in_the_store(client, layout, tmp_path):
    schema = ArraySchema([X], int, [AttributeSchema("s", str, True)])
    collection = client.create_collection("c", schema, layout=layout)
    made = []
    for key in ("", ".", "..", "../../x", "/abs", "a/b", "nul\0", "x" * 300, "é" * 200, "🌍"):
        try:
            made.append(collection.create({"s": key}).primary_attributes["s"])
        except SchemaError:
            assert layout == "deker"
    assert [array.primary_attributes["s"] for array in collection] == sorted(made)
    assert all(collection.filter({"s": key}).first() is not None for key in made)
    assert {path.name for path in tmp_path.iterdir()} == {"store"}
    assert {path.name for path in (tmp_path / "store").iterdir()} == {"collections"}
    assert {path.name for path in (tmp_path / "store/collections").iterdir()} <= {"c", "c.lock"}


def test_defect_7_keys_are_looked_up_by_type(client, layout):
    schema = ArraySchema([X], int, [AttributeSchema("i", int, True), AttributeSchema("f", float, True)])
    collection = client.create_collection("c", schema, layout=layout)
    array = collection.create({"i": np.int64(1), "f": 2})
    assert array.primary_attributes == {"i": 1, "f": 2.0}
    assert [type(value) for value in array.primary_attributes.values()] == [int, float]
    for same in ({"i": 1, "f": 2.0}, {"i": np.uint8(1), "f": 2}, {"i": 1, "f": np.float32(2)}):
        assert collection.filter(same).first() == array
        with pytest.raises(AlreadyExists):
            collection.create(same)
    for wrong in (
        {"i": "1", "f": 2.0},
        {"i": True, "f": 2.0},
        {"i": 1.0, "f": 2.0},
        {"i": 1, "f": True},
        {"i": 1, "f": "2"},
    ):
        with pytest.raises(SchemaError):
            collection.filter(wrong)
        with pytest.raises(SchemaError):
            collection.create(wrong)


def test_defect_17_two_objects_of_one_array_do_not_undo_each_other(client, layout):
    dims = [TimeDimensionSchema("t", 2, "$start", timedelta(hours=1))]
    customs = [AttributeSchema("a", int, False), AttributeSchema("b", int, False)]
    schema = ArraySchema(dims, int, [KEY, AttributeSchema("start", datetime, False), *customs])
    collection = client.create_collection("c", schema, layout=layout)
    one = collection.create({"k": 1}, {"start": datetime(2000, 1, 1), "a": 1, "b": 1})
    two = collection.first()
    one.update_custom_attributes({"a": 2})
    two.update_custom_attributes({"b": 2})
    for seen in (two, collection.first()):
        assert seen.custom_attributes == {"start": datetime(2000, 1, 1, tzinfo=UTC), "a": 2, "b": 2}
    assert one.read_meta()["custom_attributes"]["b"] == 2 == one.custom_attributes["b"]


def test_many_are_made_at_once_or_none(keyed):
    arrays = keyed.create_many([({"k": 1}, {"note": "a"}), ({"k": 2},), {"k": 3, "note": "c"}, {"k": 4}])
    assert [array.custom_attributes["note"] for array in keyed] == ["a", None, "c", None]
    assert [array.primary_attributes["k"] for array in arrays] == [1, 2, 3, 4]
    assert keyed.create_many([]) == []
    with pytest.raises(AlreadyExists):
        keyed.create_many({"k": k} for k in (5, 6, 2))
    with pytest.raises(AlreadyExists):
        keyed.create_many([{"k": 7}, {"k": 7}])
    for wrong in ([{"k": 8}, {"k": "9"}], [5], [({"k": 8}, {}, {})], [{"k": 8, "z": 1}]):
        with pytest.raises(SchemaError):
            keyed.create_many(wrong)
    assert len(keyed) == 4 and keyed.filter({"k": 5}).first() is None


def test_going_through_follows_the_order_of_keys(keyed):
    assert keyed.first() is None and keyed.last() is None and list(keyed) == [] and len(keyed) == 0 and keyed
    keys = [10, 9, -3, 100, 2]
    for key in keys:
        keyed.create({"k": key})
    assert [array.primary_attributes["k"] for array in keyed] == sorted(keys)
    assert (keyed.first().primary_attributes, keyed.last().primary_attributes) == ({"k": -3}, {"k": 100})
    assert [array.primary_attributes["k"] for array in keyed.arrays] == sorted(keys) and len(keyed.arrays) == 5


def test_queries_and_prefixes(client, layout):
    from hyperslab.database import Prefix

    schema = ArraySchema([X], int, [AttributeSchema("s", str, True), AttributeSchema("n", int, False)])
    collection = client.create_collection("c", schema, layout=layout)
    collection.create_many({"s": name, "n": number} for number, name in enumerate(("ab", "ac", "b")))
    assert [found.custom_attributes["n"] for found in collection.query(s=Prefix("a"))] == [0, 1]
    assert [found.custom_attributes["n"] for found in collection.query(n=(1, None), order="-n")] == [2, 1]


def test_a_collection_is_cleared_and_deleted(client, keyed, tmp_path):
    array = keyed.create({"k": 1})
    array[:].update([1, 2, 3, 4])
    keyed.clear()
    assert len(keyed) == 0 and client.get_collection("keyed") == keyed
    with pytest.raises(NodeNotFound):
        array[:].read()
    again = keyed.create({"k": 1})
    assert (again[:].read() == again.fill_value).all()
    keyed.delete()
    keyed.delete()
    assert client.get_collection("keyed") is None and list(client) == []
    assert not list((tmp_path / "store").rglob("collections/*"))
    for use in (
        lambda: keyed.create({"k": 1}),
        lambda: keyed.create_many([{"k": 1}]),
        keyed.clear,
        lambda: list(keyed),
    ):
        with pytest.raises(CollectionNotFound):
            use()
    for use in (
        lambda: len(keyed),
        keyed.first,
        keyed.last,
        lambda: keyed.query(k=1),
        lambda: keyed.filter({"k": 1}).first(),
    ):
        with pytest.raises(KeyError):
            use()
    assert str(keyed) == "keyed" and keyed.as_dict["name"] == "keyed"


def test_a_deleted_name_is_free_for_another_schema(client, keyed, layout):
    keyed.create({"k": 1})
    keyed.delete()
    made = client.create_collection("keyed", ArraySchema([DimensionSchema("z", 2)], float), layout=layout)
    assert list(made) == [] and client.get_collection("keyed").schema == made.schema
    made.create()[:].update(2.5)
    assert made.first()[0].read() == 2.5


def test_another_client_sees_what_this_one_does(client, keyed, tmp_path):
    with Client(tmp_path / "store", durable=False) as other:
        theirs = other.get_collection("keyed")
        array = keyed.create({"k": 1}, {"note": "mine"})
        assert [found.custom_attributes["note"] for found in theirs] == ["mine"]
        theirs.first().update_custom_attributes({"note": "theirs"})
        assert keyed.filter({"note": "theirs"}).first() == array
        array[:2].update([1, 2])
        np.testing.assert_array_equal(theirs.first()[:2].read(), [1, 2])
        theirs.first().delete()
        assert list(keyed) == [] and len(keyed) == 0
        keyed.delete()
        assert other.get_collection("keyed") is None
        with pytest.raises(CollectionNotFound):
            list(theirs)


def test_managers(client, layout):
    arrays = client.create_collection("a", ArraySchema([X], int, [KEY]), layout=layout)
    tiled = client.create_collection(
        "v", VArraySchema([X, DimensionSchema("y", 4)], int, [KEY], vgrid=(2, 2)), layout=layout
    )
    assert arrays.arrays.create({"k": 1}) == arrays.arrays.filter({"k": 1}).first() == arrays.first()
    with pytest.raises(Invalid):
        _ = arrays.varrays
    array = tiled.varrays.create({"k": 1})
    assert tiled.varrays.filter({"k": 1}).first() == array and list(tiled.varrays) == [array]
    assert list(tiled.arrays) == []
    array[0, 1].update(5)
    array[3, 3].update(6)
    tiles = list(tiled.arrays)
    assert [tile.v_position for tile in tiles] == [(0, 0), (1, 1)] and {tile.vid for tile in tiles} == {array.id}
    np.testing.assert_array_equal(tiles[1].subset.read(), array[2:4, 2:4].read())
    assert tiles[0].shape == (2, 2) and tiles[0].primary_attributes == {"vid": array.id, "v_position": (0, 0)}
    assert tiled.arrays.filter({"vid": array.id, "v_position": (1, 1)}).first().subset.read()[1, 1] == 6
    assert tiled.arrays.filter({"vid": "other"}).first() is tiled.arrays.filter({"vid": "other"}).last() is None
    assert tiled.arrays.last().v_position == (1, 1) == tiled.arrays.filter({"vid": array.id}).last().v_position
    for wrong in ({"k": 1}, None, "vid"):
        with pytest.raises(SchemaError):
            tiled.arrays.filter(wrong)
    with pytest.raises(Unsupported):
        tiled.arrays.create({"vid": array.id, "v_position": (0, 1)})
    assert (arrays.array_schema, arrays.varray_schema) == (arrays.schema, None)
    assert tiled.varray_schema == tiled.schema and tiled.array_schema.shape == (2, 2)
    assert [each.name for each in tiled.array_schema.primary_attributes] == ["vid", "v_position"]


def test_the_schema_of_tiles_has_the_times_of_their_array(client, layout):
    dims = [TimeDimensionSchema("t", 4, "$d", timedelta(hours=1)), DimensionSchema("y", 4, labels=list("abcd"))]
    schema = VArraySchema(dims, np.float32, [AttributeSchema("d", datetime, True)], fill_value=-1, vgrid=(2, 1))
    tile = client.create_collection("v", schema, layout=layout).array_schema
    assert tile.shape == (2, 4) and tile.dtype == np.float32 and tile.fill_value == -1
    assert tile.dimensions[0].start_value == "$parent.d" and tile.dimensions[1].labels is None
    assert [each.name for each in tile.custom_attributes] == ["parent.d"]


def test_what_is_said_of_collections_and_arrays(client, keyed, layout, tmp_path):
    array = keyed.create({"k": 1}, {"note": "<b>&"})
    said = "primary_attributes={'k': 1}, custom_attributes={'note': '<b>&'}"
    assert repr(array) == f"Array(id='{array.id}', collection='keyed', {said})"
    assert str(array) == f"Array({array.id})" and "keyed" in repr(keyed)
    assert array.as_dict == {
        "id": array.id,
        "collection": "keyed",
        "dimensions": ({"name": "x", "size": 4, "step": 1},),
        "shape": (4,),
        "named_shape": (("x", 4),),
        "primary_attributes": {"k": 1},
        "custom_attributes": {"note": "<b>&"},
    }
    assert array.read_meta() == {"id": array.id, "primary_attributes": {"k": 1}, "custom_attributes": {"note": "<b>&"}}
    assert (array.collection, array.schema, array.dtype) == ("keyed", keyed.schema, np.int64)
    assert keyed.path == tmp_path / "store/collections/keyed" and keyed.options is None
    page = array._repr_html_()
    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page and array.id in page
    assert "keyed" in keyed._repr_html_() and layout in keyed._repr_html_()
    array.delete()
    client.close()
    assert array.id in array._repr_html_() and "keyed" in keyed._repr_html_()


def test_the_page_of_a_collection_says_what_positions_are_called(client, layout):
    dims = [
        TimeDimensionSchema("t", 3, datetime(2023, 1, 1), timedelta(hours=6)),
        DimensionSchema("y", 2, scale={"start_value": 90.0, "step": -0.25, "name": "lat"}),
        DimensionSchema("l", 2, labels=["<a>", "b"]),
        DimensionSchema("n", 30, labels=[float(number) for number in range(30)]),
        DimensionSchema("p", 2000),
    ]
    page = client.create_collection("c", ArraySchema(dims, int), layout=layout)._repr_html_()
    for said in (
        "3: from 2023-01-01T00:00:00+00:00 by 6:00:00",
        "2: from 90.0 by -0.25 (lat)",
        "2: &lt;a&gt;, b",
        "18.0, 19.0, … (30)",
        ">2,000<",
    ):
        assert said in page
