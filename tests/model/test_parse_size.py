"""Sizes as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from hyperslab.errors import Invalid
from hyperslab.model.amounts import parse_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("1GB", 10**9),
        ("1 gb", 10**9),
        ("512MiB", 512 << 20),
        ("1.5k", 1500),
        ("2_000", 2000),
        ("7B", 7),
        ("1TiB", 1 << 40),
        (300, 300),
    ],
)
def test_sizes(text: Any, nbytes: int) -> None:
    assert parse_size(text, "memory") == nbytes


@pytest.mark.parametrize("text", ["", "GB", "-1", "1 EB", "1iB", "0.5", "0", 0, -5, True, 1.5, None])
def test_what_is_no_size(text: Any) -> None:
    with pytest.raises(Invalid, match="--memory 1GB"):
        parse_size(text, "--memory")
