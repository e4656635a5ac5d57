"""Parquet: a table reads as it was written, those of fastparquet too; of damaged ones nothing is believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import FormatError, Unsupported
from hyperslab.stores.parquet import ParquetColumn, _unpack, read_table, write_table

GOLDEN = Path(__file__).parents[1] / "golden" / "kerchunk"


def table(rows: int, texts: list[bytes], seed: int) -> dict[str, ParquetColumn]:
    """Numbers in each row, text in some."""
    rng = np.random.default_rng(seed)
    some = np.flatnonzero(rng.random(rows) < 0.7) if texts else np.zeros(0, np.int64)
    numbers = rng.integers(-(2**62), 2**62, rows)
    return {
        "path": ParquetColumn(some, texts, rng.integers(0, max(len(texts), 1), len(some))),
        "offset": ParquetColumn(np.arange(rows), numbers),
        "raw": ParquetColumn(some[:1], [b"\0\xff"][: len(some)], np.zeros(len(some[:1]), np.int64)),
    }


@given(st.integers(1, 700), st.lists(st.binary(max_size=9), max_size=300, unique=True), st.integers(0, 99))
def test_a_table_reads_as_it_was_written(rows: int, texts: list[bytes], seed: int) -> None:
    columns = table(rows, texts, seed)
    count, found = read_table(write_table(rows, columns), "here", 10_000)
    assert count == rows and list(found) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name].rows, column.rows)
        if column.codes is None:
            np.testing.assert_array_equal(found[name].values, column.values)
        else:
            assert found[name].values == list(column.values)
            np.testing.assert_array_equal(found[name].codes, column.codes)


def test_a_column_in_all_rows() -> None:
    columns = {"path": ParquetColumn(np.arange(9), [b"a"], np.zeros(9, np.int64))}
    assert len(read_table(write_table(9, columns), "here", 10_000)[1]["path"].rows) == 9


def test_tables_of_fastparquet() -> None:
    for path in sorted(GOLDEN.glob("*.parquet/*/refs.*.parq")):
        count, found = read_table(path.read_bytes(), str(path), 10_000)
        assert count and {"path", "raw"} & found.keys()


def test_a_million_references_take_few_bytes() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(40_000, 60_000, 10_000)
    columns = {
        "path": ParquetColumn(np.arange(10_000), [b"%d.nc" % n for n in range(300)], np.arange(10_000) // 34),
        "offset": ParquetColumn(np.arange(10_000), np.cumsum(sizes)),
        "size": ParquetColumn(np.arange(10_000), sizes),
    }
    assert len(write_table(10_000, columns)) < 10 * 10_000


def damaged(data: bytes) -> None:
    """Read what is no sound table: it reads as some table, or says that it is none."""
    try:
        read_table(data, "here", 10_000)
    except FormatError as error:
        assert error.url == "here"
    except Unsupported as error:
        assert error.remedy


SOUND = write_table(60, table(60, [b"one", b"two", b"three"], 1))


def test_a_table_that_is_cut_off() -> None:
    for size in range(len(SOUND)):
        with pytest.raises(FormatError):
            read_table(SOUND[:size], "here", 10_000)


def test_a_table_that_claims_many_rows() -> None:
    """A run of a few bytes stands for any number of rows."""
    for rows in (10_001, 2**40):
        column = ParquetColumn(range(rows), [b"a"], np.zeros(0, np.int64))  # type: ignore[arg-type]
        with pytest.raises(FormatError, match="rows"):
            read_table(write_table(rows, {"path": column}), "here", 10_000)


def test_a_table_with_other_bytes() -> None:
    for place in range(len(SOUND)):
        for mask in (1, 0x80, 0xFF):
            damaged(SOUND[:place] + bytes([SOUND[place] ^ mask]) + SOUND[place + 1 :])


@given(st.binary(max_size=200))
def test_bytes_that_are_no_table(data: bytes) -> None:
    damaged(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")


def test_a_table_that_claims_more_rows_than_it_may_have() -> None:
    with pytest.raises(FormatError, match="rows"):
        read_table(write_table(2**31, {}), "here", 10_000)
    assert read_table(write_table(10_000, {}), "here", 10_000)[0] == 10_000


def test_a_page_that_comes_out_of_few_bytes_is_refused() -> None:
    zeros = {"raw": ParquetColumn(np.arange(1), [bytes(200 << 20)], np.zeros(1, np.int64))}
    data = write_table(1, zeros)
    assert len(data) < 1 << 20
    with pytest.raises(FormatError, match="page"):
        read_table(data, "here", 1)


def test_a_run_of_numbers_without_bits_ends_with_the_page() -> None:
    assert _unpack(b"\xff\xff\xff\xff\xff\xff\xff\x7f", 0, 5).tolist() == [0] * 5
