"""HDMF on Zarr v3 stores bytes as text: those that are no UTF-8 are a loss that is told before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import VlenBytes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "a.zarr", "zarr3") as root:
        text = np.array([b"a", "ä".encode(), b""], object)
        other = np.array([b"a", b"b", b"\xff\xfe"], object)
        root.create_array("text", data=text, dtype=VlenBytes(), dims=("x",), chunks=(2,))
        root.create_array("other", data=other, dtype=VlenBytes(), dims=("x",), chunks=(3,))
        root.create_array("fixed", data=np.array([b"a", b"\xff"], "S2"))
    return tmp_path / "a.zarr"


def test_bytes_that_are_no_text_are_told_before(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "b.zarr"
    with pytest.raises(Unsupported, match=r"(?s)/other: bytes that are no UTF-8.*allow_loss"):
        hs.convert(source, target, format="hdmf", profile="v3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zarr"]
    report = hs.convert(source, target, format="hdmf", profile="v3", allow_loss=True, verify=True)
    assert [loss.node for loss in report.losses] == ["other"]
    with hs.open(target) as root:
        assert sorted(root) == ["fixed", "text"]
        assert list(root["text"][...]) == [b"a", "ä".encode(), b""]
        assert list(root["fixed"][...]) == [b"a", b"\xff"]


def test_only_the_cells_that_are_converted_count(tmp_path: Path, source: Path) -> None:
    report = hs.convert(
        source, tmp_path / "b.zarr", format="hdmf", profile="v3", select={"x": slice(0, 2)}, verify=True
    )
    assert report.losses == ()
    assert list(hs.open(tmp_path / "b.zarr")["other"][...]) == [b"a", b"b"]


def test_profile_v2_keeps_all_bytes(tmp_path: Path, source: Path) -> None:
    assert hs.convert(source, tmp_path / "b.zarr", format="hdmf", profile="v2", verify=True).losses == ()
    assert list(hs.open(tmp_path / "b.zarr")["other"][...]) == [b"a", b"b", b"\xff\xfe"]


def test_bytes_that_are_text_go_on(tmp_path: Path, source: Path) -> None:
    """The codec that makes text of bytes is the profile's own: it is no wish, there or in another format."""
    hs.convert(source, tmp_path / "b", format="hdmf", profile="v3", path="text", verify=True)
    for name, options in (("hdmf", {"profile": "v3"}), ("hdmf", {"profile": "v2"}), ("zarr3", {}), ("zarr2", {})):
        target = tmp_path / f"{name}-{options.get('profile')}"
        hs.convert(tmp_path / "b", target, format=name, verify=True, **options)
        with hs.open(target) as root:
            assert list(root["text"][...]) == [b"a", "ä".encode(), b""]
