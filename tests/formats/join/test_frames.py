"""Joined data frames: the frame that pandas makes of the pieces, or a refusal that names the piece and what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid


def day(number: int, **columns: Any) -> pd.DataFrame:
    """Three minutes of a day."""
    times = pd.date_range(f"2026-11-{number:02} 14:30", periods=3, freq="min", name="time")
    return pd.DataFrame({"price": np.arange(3.0) + number, "volume": np.arange(3) + number}, times).assign(**columns)


def write(folder: Path, *frames: pd.DataFrame, suffix: str = "zarr") -> list[Path]:
    """Store each frame in a file of its own."""
    places = [folder / f"piece_{number}.{suffix}" for number in range(len(frames))]
    for place, frame in zip(places, frames, strict=True):
        hs.write_frame(place, frame)
    return places


def categories(*words: str, of: str = "AB", ordered: bool = False) -> pd.Categorical:
    return pd.Categorical(list(words), categories=list(of), ordered=ordered)


STAYS: dict[str, list[pd.DataFrame]] = {
    "days": [day(2), day(3), day(4)],
    "a zone": [day(number).tz_localize("America/New_York") for number in (2, 3)],
    "categories": [day(2, s=categories(*"ABA")), day(3, s=categories(*"BBA"))],
    "bins": [day(number, s=pd.cut([1, 2, 3], [0, 2, 5])) for number in (2, 3)],
    "text": [day(number, s=["a", None, "nan"]) for number in (2, 3)],
    "nullable": [day(number, n=pd.array([1, None, number], dtype="Int16")) for number in (2, 3)],
    "several types of numbers": [day(2), day(3).assign(volume=lambda frame: frame["volume"].astype("i2"))],
    "columns in another order": [day(2), day(3)[["volume", "price"]]],
    "numbers as columns": [day(number).set_axis([7, 8], axis=1) for number in (2, 3)],
    "levels as columns": [
        day(number).set_axis(pd.MultiIndex.from_product([["A"], ["x", "y"]]), axis=1) for number in (2, 3)
    ],
    "names that are no variables": [day(number).set_axis(["a b", "c d"], axis=1) for number in (2, 3)],
    "periods": [day(2).set_axis(pd.period_range(start, periods=3, freq="M", name="p")) for start in ("2026", "2027")],
    "rows that count on": [day(2).set_axis(pd.RangeIndex(start, start + 6, 2)) for start in (10, 16)],
}


@pytest.mark.parametrize("name", STAYS)
@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_all_rows_of_all_pieces(tmp_path: Path, name: str, suffix: str) -> None:
    """By a list, by a pattern, and by one dataset that is made of them."""
    places = write(tmp_path, *STAYS[name], suffix=suffix)
    wanted = pd.concat(STAYS[name])
    hs.convert(places, tmp_path / "all.zarr")
    for source in (places, f"{tmp_path}/piece_*.{suffix}", tmp_path / "all.zarr"):
        pd.testing.assert_frame_equal(hs.read_frame(source), wanted, check_freq=False)
    table = hs.open_group(places).read_table()
    assert table is not None and {len(column) for column in table.values()} == {len(wanted)}


def test_rows_are_in_the_order_of_their_labels(tmp_path: Path) -> None:
    places = write(tmp_path, day(3), day(2))
    assert hs.read_frame(places)["price"].tolist() == [2, 3, 4, 3, 4, 5]
    part = hs.read_frame(places, ["price"], loc=slice("2026-11-03", None))
    pd.testing.assert_frame_equal(part, day(3)[["price"]], check_freq=False)
    hs.convert(places, tmp_path / "all.zarr")
    hs.append_frame(tmp_path / "all.zarr", day(4))
    assert len(hs.read_frame(tmp_path / "all.zarr")) == 9


def test_rows_that_are_counted_from_zero_count_on(tmp_path: Path) -> None:
    """As append_frame() has them; and only where each piece begins so, or where the one before it ends."""
    frames = [day(number).reset_index(drop=True) for number in (2, 3)]
    found = hs.read_frame(write(tmp_path, *frames))
    pd.testing.assert_frame_equal(found, pd.concat(frames, ignore_index=True))
    (tmp_path / "other").mkdir()
    places = write(tmp_path / "other", frames[0], frames[1].set_axis(pd.RangeIndex(7, 10)))
    with pytest.raises(Invalid, match=r"counted from 7, and those before it end at 3 .*piece_1.*reset_index"):
        hs.open(places)


def test_times_of_several_units(tmp_path: Path) -> None:
    frames = [day(2).set_axis(day(2).index.as_unit("s")), day(3).set_axis(day(3).index.as_unit("ns"))]
    found = hs.read_frame(write(tmp_path, *frames))
    assert found.index.dtype == "M8[s]" and found.index.equals(day(2).index.append(day(3).index).as_unit("s"))


REFUSED: dict[str, tuple[pd.DataFrame, pd.DataFrame, str]] = {
    "categories": (
        day(2, s=categories(*"ABA")),
        day(3, s=categories(*"CDC", of="CD")),
        r"\['C', 'D'\], and \['A', 'B'\] .*piece_1.zarr node=/s_categories.*set_categories",
    ),
    "more categories": (
        day(2, s=categories(*"ABA")),
        day(3, s=categories(*"ABC", of="ABC")),
        r"\['A', 'B', 'C'\], and \['A', 'B'\] .*piece_1.zarr node=/s_categories.*set_categories",
    ),
    "order of categories": (
        day(2, s=categories(*"ABA", ordered=True)),
        day(3, s=categories(*"ABA")),
        r"the column 's' .*ordered=False, and .*ordered=True in the first piece .*piece_1.*concat",
    ),
    "bins": (
        day(2, s=pd.cut([1, 2, 3], [0, 2, 5])),
        day(3, s=pd.cut([1, 2, 3], [0, 1, 5])),
        "node=/s_categories_(left|right)",
    ),
    "categories of the index": (
        day(2).set_axis(pd.CategoricalIndex(list("ABA"))),
        day(3).set_axis(pd.CategoricalIndex(list("CDC"))),
        "node=/row_categories",
    ),
    "names of columns": (day(2).set_axis([7, 8], axis=1), day(3).set_axis([7, 9], axis=1), r"\[7, 9\], and \[7, 8\]"),
    "places of columns": (
        day(2).set_axis(["a b", "c d"], axis=1),
        day(3).set_axis(["c d", "a b"], axis=1),
        "the column 'c d' is float64 in 'column_0', and int64 in 'column_1' in the first piece",
    ),
    "zones": (
        day(2).tz_localize("America/New_York"),
        day(3).tz_localize("Europe/Paris"),
        "the index 'time' is .*Paris.*, and .*New_York.* in the first piece",
    ),
    "names of the index": (day(2), day(3).rename_axis("when"), r"\['when'\], and \['time'\] .*rename_axis"),
    "dtypes": (day(2), day(3).astype({"volume": "Int64"}), "'volume' is Int64 .*, and int64 .* in the first piece"),
    "missing text": (day(2, s=list("abc")), day(3, s=["a", None, "b"]), "'s' is .* with missing cells.*concat"),
    "missing numbers": (
        day(2, n=pd.array([1, 2, 3], dtype="Int16")),
        day(3, n=pd.array([1, 2, None], dtype="Int16")),
        "_FillValue is -32768, and None in the first piece .*node=/n.*concat",
    ),
    "columns": (day(2), day(3, x=1), "the column 'x' is .*, and no such column in the first piece"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_frames_that_are_not_alike_are_refused(tmp_path: Path, name: str) -> None:
    first, second, message = REFUSED[name]
    along = {} if first.index.name else {"along": "row"}
    with pytest.raises(Invalid, match=message):
        hs.open(write(tmp_path, first, second), **along)
    with pytest.raises(Invalid, match=message):
        hs.convert(f"{tmp_path}/piece_*.zarr", tmp_path / "all.zarr", **along)
    assert not (tmp_path / "all.zarr").exists()


def test_a_frame_with_cells_behind_its_last_row(tmp_path: Path) -> None:
    places = write(tmp_path, day(2), day(3))
    with hs.open(places[0], "r+") as root:
        root["price"].append([7.0])
    with pytest.raises(Invalid, match=r"4 cells in a column of a data frame of 3 rows .*piece_0.zarr node=/price"):
        hs.open(places)


def test_what_is_no_frame_any_more_is_not_called_one(tmp_path: Path) -> None:
    """Beside a dataset that is none, and with cells that are decoded."""
    places = write(tmp_path, day(2), day(3, n=1))
    plain = xr.open_dataset(places[0], engine="hyperslab").load()
    hs.save(places[1], plain.drop_attrs().assign_coords(time=day(3).index), mode="w")
    assert hs.open(places)["price"].shape == (6,)
    with pytest.raises(Invalid, match="no stored data frame"):
        hs.read_frame(places)
    (tmp_path / "n").mkdir()
    pieces = [day(number, n=pd.array([number, each, 1], dtype="Int16")) for number, each in ((2, 5), (3, None))]
    with pytest.raises(Invalid, match="no stored data frame"):
        hs.read_frame(write(tmp_path / "n", *pieces), packing="decoded")


def test_a_damaged_description_is_an_error(tmp_path: Path) -> None:
    places = write(tmp_path, day(2, s=categories(*"ABA")), day(3, s=categories(*"ABA")))
    with hs.open(places[1]) as root:
        sound = json.loads(str(root.attrs["pandas_frame"]))
    wrong = [
        {"version": 1},
        *({name: value for name, value in sound.items() if name != key} for key in ("rows", "index", "columns")),
        {**sound, "rows": "x"},
        {**sound, "index": {**sound["index"], "names": None}},
        {**sound, "columns": {**sound["columns"], "words": 7}},
        *({**sound, "cells": [{**sound["cells"][0], key: None}]} for key in ("variable", "dtype", "ends")),
        {**sound, "cells": [{**sound["cells"][2], "categories": None}]},
    ]
    for description in wrong:
        with hs.open(places[1], "r+") as root:
            root.attrs["pandas_frame"] = json.dumps(description)
        for order in (places, places[::-1]):
            with pytest.raises(FormatError, match=r"damaged.*piece_1.zarr"):
                hs.open(order)


def test_a_frame_beside_the_arrays_that_are_joined(tmp_path: Path) -> None:
    """Its rows are those of the first piece, as all arrays without the joined dimension."""
    stations = pd.DataFrame({"name": ["Oban", "Lerwick"]})
    for number in (2, 3):
        place = tmp_path / f"{number}.zarr"
        hs.save(place, day(number).to_xarray())
        hs.write_frame(f"{place}/stations", stations)
    root = hs.open([tmp_path / "2.zarr", tmp_path / "3.zarr"])
    assert root["price"].shape == (6,)
    hs.convert([tmp_path / "2.zarr", tmp_path / "3.zarr"], tmp_path / "all.zarr")
    pd.testing.assert_frame_equal(hs.read_frame(tmp_path / "all.zarr/stations"), stations)


def test_references_to_frames(tmp_path: Path) -> None:
    places = write(tmp_path, day(2), day(3), suffix="nc")
    hs.virtual(places, tmp_path / "all.json", along="time")
    found = hs.read_frame(tmp_path / "all.json")
    pd.testing.assert_frame_equal(found, pd.concat([day(2), day(3)]), check_freq=False)


def test_words_for_cells_that_differ_are_refused(tmp_path: Path) -> None:
    """Of a plain dataset: they are what categories are to a frame."""
    places = []
    for number, words in ((2, "dry wet"), (3, "wet dry")):
        flags = {"flag_values": np.array([0, 1], "i1"), "flag_meanings": words}
        sky = ("time", np.array([0, 1, 0], "i1"), flags)
        places.append(tmp_path / f"{number}.zarr")
        hs.save(places[-1], day(number).to_xarray().assign(sky=sky))
    with pytest.raises(Invalid, match=r"flag_meanings is 'wet dry', and 'dry wet' .*3.zarr node=/sky.*edit --set"):
        hs.open(places)
    with hs.open(places[1], "r+") as root:
        root["sky"].attrs["flag_meanings"] = "dry wet"
    assert hs.open(places)["sky"].shape == (6,)
