"""Amounts in words."""

from __future__ import annotations

from hyperslab.model.amounts import counted, size_text


def test_one_has_no_plural_and_thousands_have_commas() -> None:
    assert [counted(number, "chunk") for number in (0, 1, 2000)] == ["0 chunks", "1 chunk", "2,000 chunks"]


def test_sizes_are_in_binary_units() -> None:
    assert [size_text(size) for size in (None, 1, 8, 1536, 3 << 20)] == ["?", "1 byte", "8 bytes", "1.5 KiB", "3.0 MiB"]


def test_absurd_sizes_are_powers_of_two() -> None:
    assert [size_text(size) for size in (5 << 60, 1 << 4000)] == ["5.0 EiB", "2^4000 bytes"]
