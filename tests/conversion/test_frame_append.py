"""Rows of data frames behind stored ones: the frame is what pandas makes of both, or it is as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandas._testing as tm
import pytest
import xarray as xr

import hyperslab as hs
from conversion.test_frames import NOT_STORED, assert_same, every_kind
from hyperslab.conversion.append import append_dataset
from hyperslab.errors import Invalid, NotFound, Unsupported
from hyperslab.stores import MemoryStore
from programs import ran
from servers.mongo import Mongo
from servers.s3 import S3

FORMATS = ["zarr3", "zarr2", "nczarr", "hdmf", "netcdf"]


def grown(*frames: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """What is read where the first frame was stored and the others appended to it."""
    store = MemoryStore()
    hs.write_frame(store, frames[0])
    for frame in frames[1:]:
        hs.append_frame(store, frame, **options)
    return hs.read_frame(store)


@pytest.mark.parametrize("cut", [0, 1, 2, 3])
@pytest.mark.parametrize("format", FORMATS)
def test_every_kind_of_column_in_every_format(tmp_path: Path, format: str, cut: int) -> None:
    """Cells that are missing first come with the appended rows, with the stored ones, or with both."""
    # Of no cells nobody knows which objects they are, and a text may be one of a mixture.
    unknown = ["mixed", "raw"][: max(2 - cut, 0)]
    frame = every_kind([*NOT_STORED.get(format, []), *unknown])
    hs.write_frame(tmp_path / "frame", frame.iloc[:cut], format)
    hs.append_frame(tmp_path / "frame", frame.iloc[cut:])
    assert_same(hs.read_frame(tmp_path / "frame"), frame)
    assert not hs.check(tmp_path / "frame")
    table = hs.open_group(tmp_path / "frame").read_table()
    assert table is not None and {len(column) for column in table.values()} == {3}


def test_night_after_night(tmp_path: Path) -> None:
    index = pd.date_range("2024-01-01", periods=1000, freq="min", name="time", tz="Europe/Paris")
    price = np.random.default_rng(1).random(1000)
    frame = pd.DataFrame({"price": price, "sym": pd.Categorical(["ABC", "XYZ"] * 500)}, index=index)
    hs.write_frame(tmp_path / "a.zarr", frame[:300], chunks={"time": 64})
    for start in range(300, 1000, 100):
        hs.append_frame(tmp_path / "a.zarr", frame[start : start + 100][["sym", "price"]])
    assert_same(hs.read_frame(tmp_path / "a.zarr"), frame)
    part = hs.read_frame(tmp_path / "a.zarr", ["price"], loc=slice(index[290], index[310]))
    assert_same(part, frame.loc[index[290] : index[310], ["price"]])
    assert hs.open(tmp_path / "a.zarr")["price"].chunks == (64,)
    with xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab") as found:
        np.testing.assert_array_equal(found["price"], price)


def test_missing_cells_that_come_first_with_the_rows() -> None:
    first = pd.DataFrame(
        {
            "whole": pd.array([-128, 127], dtype="Int8"),
            "time": pd.to_datetime(["2024", "2025"]),
            "words": pd.Series(["a", "b"], dtype=object),
            "truth": pd.array([True, False], dtype="boolean"),
        }
    )
    then = first.copy()
    then[:] = None
    then = then.astype(first.dtypes)
    assert_same(grown(first, then, first), pd.concat([first, then, first], ignore_index=True))


def test_no_number_that_marks_missing_cells_is_left() -> None:
    full = pd.DataFrame({"a": pd.array(range(-128, 128), dtype="Int8")})
    store = MemoryStore()
    hs.write_frame(store, full)
    missing = pd.DataFrame({"a": pd.array([None], dtype="Int8")})
    with pytest.raises(Invalid, match=r"no number is left .* mode='w'"):
        hs.append_frame(store, missing)
    assert_same(hs.read_frame(store), full)
    store = MemoryStore()
    hs.write_frame(store, pd.concat([full[1:], missing], ignore_index=True))  # -128 is the mark
    with pytest.raises(Invalid, match="no number is left"):
        hs.append_frame(store, full[:1])


INDEXES: dict[str, Callable[[int, int], pd.Index]] = {
    "counted": lambda a, b: pd.RangeIndex(a, b),
    "counted by threes": lambda a, b: pd.RangeIndex(7 + 3 * a, 7 + 3 * b, 3, name="n"),
    "numbers": lambda a, b: pd.Index([5, 7, 9, 11, 2][a:b], name="n"),
    "words": lambda a, b: pd.Index([*"vwxyz"][a:b]),
    "days": lambda a, b: pd.date_range("2024-01-01", periods=5, freq="D")[a:b],
    "months": lambda a, b: pd.date_range("2024-01-31", periods=5, freq="ME")[a:b],
    "spans": lambda a, b: pd.timedelta_range("1h", periods=5, freq="h")[a:b],
    "periods": lambda a, b: pd.period_range("2024-01", periods=5, freq="M", name="p")[a:b],
    "intervals": lambda a, b: pd.interval_range(0, 5)[a:b],
    "categories": lambda a, b: pd.CategoricalIndex([*"abcab"], categories=[*"cba"])[a:b],
    "levels": lambda a, b: pd.MultiIndex.from_product([[1, 2, 3], ["x", "y"]], names=["n", None])[a:b],
}


@pytest.mark.parametrize("name", INDEXES)
def test_indexes(name: str) -> None:
    pieces = [pd.DataFrame({"a": np.arange(a, b)}, index=INDEXES[name](a, b)) for a, b in [(0, 2), (2, 3), (3, 5)]]
    whole = pd.DataFrame({"a": np.arange(5)}, index=INDEXES[name](0, 5))
    if name == "categories":  # a sorted one would not be sorted any more
        tm.assert_frame_equal(grown(*pieces, repeated="allow"), whole)
        return
    assert_same(grown(*pieces, repeated="allow" if name == "numbers" else "error"), whole)


def test_an_index_that_counts_goes_on_counting() -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    assert_same(grown(frame, frame, frame), pd.concat([frame] * 3, ignore_index=True))
    with pytest.raises(Invalid, match=r"the next is 2, but the index begins with 5 .*reset_index\(drop=True\)"):
        grown(frame, frame.set_axis([5, 6]))


def test_steps_that_do_not_go_on_are_none() -> None:
    index = pd.date_range("2024-01-01", periods=4, freq="D")
    frame = pd.DataFrame({"a": range(4)}, index=index)
    assert grown(frame[:2], frame[2:]).index.freq == "D"
    assert grown(frame[:2], frame[3:]).index.freq is None


def test_cells_of_another_dtype_keep_their_value_or_are_refused() -> None:
    frame = pd.DataFrame({"a": [1.5, np.nan], "t": np.array(["2024", "NaT"], "M8[ns]")})
    rows = pd.DataFrame({"a": [1, 2], "t": np.array(["2025", "NaT"], "M8[s]")})
    assert grown(frame, rows)["a"].tolist()[2:] == [1.0, 2.0]
    assert grown(frame, rows)["t"].dtype == "M8[ns]"
    for cells, dtype in [
        ([2**53 + 1], "f8"),
        ([1.5], "i8"),
        ([np.nan], "i8"),
        ([-1], "u8"),
        (["x"], "f8"),
        ([1], "bool"),
        ([pd.Timestamp(0)], "i8"),
    ]:
        stored = pd.DataFrame({"a": np.array([1], dtype)})
        with pytest.raises(Invalid, match=r"'a' is of dtype .*, stored is .*(astype\(|fillna\(\)|mode='w')"):
            grown(stored, pd.DataFrame({"a": cells}))


def test_the_remedy_for_cells_of_another_dtype_works() -> None:
    """Each is what the message says, on the rows that were refused."""
    index = pd.date_range("2024-01-01", periods=4, name="time")
    naive = pd.DataFrame({"a": range(4), "t": index}, index=index)
    there, here = naive.tz_localize("America/New_York"), naive[2:].tz_localize("Europe/Paris")
    local = naive.assign(t=naive["t"].dt.tz_localize("UTC"))
    kinds = pd.CategoricalDtype(["x", "y"], ordered=True)
    words = naive.assign(a=pd.Categorical([*"xyxy"], dtype=kinds))
    level = there.set_index("a", append=True)
    cases: list[tuple[pd.DataFrame, pd.DataFrame, str, Callable[[pd.DataFrame, Any], pd.DataFrame]]] = [
        (there, naive[2:], "tz_localize('America/New_York')", lambda rows, _: rows.tz_localize("America/New_York")),
        (there, here, "tz_convert('America/New_York')", lambda rows, _: rows.tz_convert("America/New_York")),
        (naive, there[2:], "tz_localize(None)", lambda rows, _: rows.tz_localize(None)),
        (
            level,
            naive[2:].set_index("a", append=True),
            "level= ",
            lambda rows, _: rows.tz_localize("America/New_York", level="time"),
        ),
        (local, naive[2:], ".dt.tz_localize('UTC')", lambda rows, _: rows.assign(t=rows["t"].dt.tz_localize("UTC"))),
        (naive, local[2:], ".dt.tz_localize(None)", lambda rows, _: rows.assign(t=rows["t"].dt.tz_localize(None))),
        (naive, naive[2:].assign(a=[2, np.nan]), "fillna()", lambda rows, _: rows.fillna({"a": 0})),
        (naive, naive[2:].assign(a=["2", "3"]), "astype('int64')", lambda rows, _: rows.astype({"a": "int64"})),
        (
            words,
            words[2:].assign(a=["x", "y"]),
            "astype(read_frame(url, iloc=slice(0))['a'].dtype)",
            lambda rows, url: rows.assign(a=rows["a"].astype(hs.read_frame(url, iloc=slice(0))["a"].dtype)),
        ),
        (
            words,
            words[2:].assign(a=pd.Categorical([*"xy"])),
            "astype(read_frame(url, iloc=slice(0))['a'].dtype)",
            lambda rows, url: rows.assign(a=rows["a"].astype(hs.read_frame(url, iloc=slice(0))["a"].dtype)),
        ),
    ]
    for stored, rows, remedy, mend in cases:
        store = MemoryStore()
        hs.write_frame(store, stored[:2])
        with pytest.raises(Invalid) as caught:
            hs.append_frame(store, rows)
        assert remedy in str(caught.value)
        hs.append_frame(store, mend(rows, store))
        assert len(hs.read_frame(store)) == 4
    store = MemoryStore()
    hs.write_frame(store, naive[:2])
    for cells in (["x", "y"], [2, 2.5], [2, np.inf]):
        with pytest.raises(
            Invalid, match=r"; (fillna\(\) its missing cells, or )?write the frame anew with a dtype for both"
        ):
            hs.append_frame(store, naive[2:].assign(a=cells))
    with pytest.raises(Invalid, match=r"'a' is of dtype int64, stored is uint32 .*; write the frame anew"):
        grown(pd.DataFrame({"a": np.array([1], "u4")}), pd.DataFrame({"a": [-1]}))
    hs.write_frame(store, hs.read_frame(store).astype({"a": str}), mode="w")
    hs.append_frame(store, naive[2:].assign(a=["x", "y"]))
    assert hs.read_frame(store)["a"].tolist() == ["0", "1", "x", "y"]


def test_objects_of_other_types() -> None:
    mixed = pd.DataFrame({"a": np.array(["x", 1], object)})
    words = pd.DataFrame({"a": np.array(["y", None], object)})
    assert_same(grown(mixed, words), pd.concat([mixed, words], ignore_index=True))
    raw = pd.DataFrame({"a": np.array([b"x", b""], object)})
    gone = pd.DataFrame({"a": np.array([None, None], object)})
    assert_same(grown(raw, gone), pd.concat([raw, gone], ignore_index=True))
    objects = words.astype(object)
    for first, then in [(objects, mixed), (raw, words), (objects, raw)]:
        with pytest.raises(Invalid, match="objects of another type"):
            grown(first, then)


def test_text_and_objects_that_are_text_or_missing() -> None:
    """What pandas takes for one and the other where a column is all missing, or has other objects no more."""
    text = pd.DataFrame({"a": pd.array(["x", pd.NA], dtype="string")})
    gone = pd.DataFrame({"a": np.array([None, None], object)})
    found = grown(text, gone)
    assert found["a"].dtype == "string" and found["a"].isna().tolist() == [False, True, True, True]
    assert grown(gone, text)["a"].tolist() == [None, None, "x", pd.NA]
    with pytest.raises(Invalid, match=r"'a' is of dtype object, stored is string"):
        grown(text, pd.DataFrame({"a": np.array(["x", 1], object)}))


def test_categories() -> None:
    stored = pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["x", "y", "z"])})
    some = pd.DataFrame({"a": pd.Categorical(["z", None], categories=["z", "x"])})
    assert grown(stored, some)["a"].tolist() == ["x", "y", "z", np.nan]
    assert grown(stored, some)["a"].dtype == stored["a"].dtype
    with pytest.raises(Invalid, match="the category 'new', which the stored one has not"):
        grown(stored, pd.DataFrame({"a": pd.Categorical(["new"])}))
    with pytest.raises(Invalid, match="of another order"):
        grown(stored, pd.DataFrame({"a": pd.Categorical(["x"], categories=["x", "y", "z"], ordered=True)}))


def test_columns_are_found_by_name() -> None:
    frame = pd.DataFrame({"a": [1], "b": [2.0], 3: ["x"]})
    assert_same(grown(frame, frame[[3, "a", "b"]]), pd.concat([frame, frame], ignore_index=True))
    with pytest.raises(Invalid, match=r"column 'b' is missing .*stored are 'a', 'b', 3"):
        grown(frame, frame[["a", 3]])
    with pytest.raises(Invalid, match="no column 'c' in the stored frame"):
        grown(frame, frame.assign(c=1))
    twice = pd.concat([frame, frame], axis=1)
    assert_same(grown(twice, twice), pd.concat([twice, twice], ignore_index=True))
    with pytest.raises(Invalid, match="come twice"):
        grown(twice, twice.iloc[:, ::-1])
    bare = pd.DataFrame(index=pd.RangeIndex(2))
    assert len(grown(bare, bare)) == 4
    assert_same(grown(frame, frame[:0].set_axis(pd.DatetimeIndex([]))), frame)


def test_labels_that_are_there_and_such_that_are_not_sorted() -> None:
    index = pd.date_range("2024-01-01", periods=4, name="time", tz="UTC")
    frame = pd.DataFrame({"a": range(4)}, index=index)
    with pytest.raises(Invalid, match=r"'time' has the label .* already .*repeated='allow'"):
        grown(frame[:3], frame[2:])
    with pytest.raises(Invalid, match="no longer be sorted"):
        grown(frame[2:], frame[:1])
    with pytest.raises(Invalid, match="no longer be sorted: 2024-01-01 UTC behind 2024-01-03 UTC"):
        grown(frame[2:3], frame[:1])
    zoned = frame.tz_convert("America/New_York")
    with pytest.raises(Invalid, match="label 2023-12-31T19:00 America/New_York already"):
        grown(zoned[:2], zoned[:1])
    with pytest.raises(Invalid, match="2023-12-31T19:00 America/New_York behind 2024-01-03T19:00 America"):
        grown(zoned[2:], zoned[:1])
    assert grown(frame[:1], frame[1:2])["a"].tolist() == [0, 1]
    levels = pd.DataFrame({"a": [1.0]}, index=pd.Index([1000.0], name="level"))
    assert grown(levels, levels.set_axis(levels.index - 150)).index.tolist() == [1000.0, 850.0]
    assert grown(frame[:3], frame[2:], repeated="allow")["a"].tolist() == [0, 1, 2, 2, 3]
    with pytest.raises(Invalid, match="repeated='overwrite'"):
        grown(frame[:2], frame[2:], repeated="overwrite")
    with pytest.raises(Invalid, match="rename_axis"):
        grown(frame[:2], frame[2:].rename_axis("when"))


def test_labels_that_rows_repeat_among_themselves() -> None:
    index = pd.date_range("2024-01-01", periods=3, name="time")
    frame = pd.DataFrame({"a": range(3)}, index=index)
    levels = frame.set_index("a", append=True).assign(b=1)
    for stored, rows in ((frame[:2], frame.iloc[[2, 2]]), (levels[:2], levels.iloc[[2, 2]])):
        with pytest.raises(Invalid, match=r"repeat the label .*2024-01-03.* of 'time.*repeated='allow'"):
            grown(stored, rows)
        assert_same(grown(stored, rows, repeated="allow"), pd.concat([stored, rows]))
    ticks = frame.iloc[[0, 0, 1]]
    assert_same(grown(ticks, frame.iloc[[2, 2]]), pd.concat([ticks, frame.iloc[[2, 2]]]))


def test_what_is_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1]})
    with pytest.raises(NotFound, match=r"make it first by write_frame\(\)"):
        hs.append_frame(tmp_path / "a.zarr", frame)
    hs.write_frame(tmp_path / "a.zarr", frame)
    with pytest.raises(Invalid, match=r"append_frame\(\) adds rows"):
        hs.write_frame(tmp_path / "a.zarr", frame, mode="a")
    more = xr.Dataset({"a": ("row", [2])})
    with pytest.raises(Invalid, match=r"data frame .*append_frame\(\)"):
        hs.save(tmp_path / "a.zarr", more, append_dim="row")
    hs.save(tmp_path / "b.zarr", more)
    with pytest.raises(Invalid, match=r"data frame .*append_frame\(\)"):
        append_dataset(tmp_path / "a.zarr", tmp_path / "b.zarr", dim="row")
    with pytest.raises(Invalid, match="no stored data frame"):
        hs.append_frame(tmp_path / "b.zarr", frame)


def test_rows_that_came_otherwise_are_no_remains(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1], "b": [2]})
    hs.write_frame(tmp_path / "a.zarr", frame)
    with hs.open(tmp_path / "a.zarr", "r+") as root:
        root["a"].append([7])
    with pytest.raises(Invalid, match=r"2 cells in a column of a data frame of 1 rows .*node=/a"):
        hs.append_frame(tmp_path / "a.zarr", frame)
    assert_same(hs.read_frame(tmp_path / "a.zarr"), frame)


def test_an_append_that_fails_leaves_the_frame_as_it_was(tmp_path: Path) -> None:
    """A text of an odd character, which the array refuses once other columns have their rows."""
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=pd.Index([1, 2], name="n"))
    for place in ("a.zarr", "a.nc"):
        hs.write_frame(tmp_path / place, frame)
        rows = pd.DataFrame({"a": [3], "b": [None]}, index=pd.Index([3], name="n")).astype(frame.dtypes)
        rows.loc[3, "b"] = "\ud800"
        with pytest.raises(Exception, match="surrogates"):
            hs.append_frame(tmp_path / place, rows)
        assert_same(hs.read_frame(tmp_path / place), frame)
        hs.append_frame(tmp_path / place, rows.assign(b=frame["b"].array[:1]))
        assert len(hs.read_frame(tmp_path / place)) == 3


def test_in_buckets(s3: S3) -> None:
    url, options = f"s3://{s3.bucket()}/frame.zarr", {"storage_options": s3.options}
    hs.write_frame(url, every_kind().iloc[:2], **options)
    hs.append_frame(url, every_kind().iloc[2:], **options)
    assert_same(hs.read_frame(url, **options), every_kind())


def test_not_in_databases(mongo: Mongo) -> None:
    url = f"{mongo.url}/{mongo.database()}#frame"
    hs.write_frame(url, pd.DataFrame({"a": [1]}))
    with pytest.raises(Unsupported, match="mode='w'"):
        hs.append_frame(url, pd.DataFrame({"a": [1]}))


DRIVER = """
import json, os, shutil, sys
import numpy as np, pandas as pd
import hyperslab as hs
from dying import killed_at

folder, format, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
SOUND, URL = os.path.join(folder, "sound"), os.path.join(folder, "frame")
FRAME = pd.DataFrame({
    "price": np.arange(9) / 4, "note": ["a"] * 5 + [None, "b", "c", None],
    "n": pd.array([1, 2, 3, 4, 5, None, 7, 8, 9], dtype="Int16"),
}, index=pd.date_range("2024-01-01", periods=9, name="time"))
hs.write_frame(SOUND, FRAME[:5], format, chunks={"time": 2}, durable=False)
number = 1 - step
while True:
    number += step
    shutil.rmtree(URL, ignore_errors=True)
    shutil.copytree(SOUND, URL) if os.path.isdir(SOUND) else shutil.copy(SOUND, URL)
    died = killed_at(number, lambda: URL, lambda url: hs.append_frame(url, FRAME[5:8], durable=False))
    try:
        found = hs.read_frame(URL)
        assert len(found) in ((5, 8) if died else (8,)), len(found)
        pd.testing.assert_frame_equal(found, FRAME[:len(found)])
        table = hs.open_group(URL).read_table()
        assert {len(column) for column in table.values()} == {len(found)}
        hs.append_frame(URL, FRAME[len(found):], durable=False, lock_timeout=2.0)
        pd.testing.assert_frame_equal(hs.read_frame(URL), FRAME)
        assert sorted(hs.open(URL)) == ["n", "note", "note_missing", "price", "time"]
    except BaseException:
        print(f"killed at call {number}", file=sys.stderr)
        raise
    if not died:
        break
print(json.dumps(number))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "nczarr", "hdmf", "netcdf"])
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_an_append_that_is_killed_leaves_the_old_rows_or_the_new_ones(tmp_path: Path, format: str, step: int) -> None:
    done = ran(DRIVER, tmp_path, format, step)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) >= 3
