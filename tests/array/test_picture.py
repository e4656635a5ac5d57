"""The picture of a chunk grid: well-formed, bounded, and cut where the array is cut."""

from __future__ import annotations

import re
from itertools import accumulate
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.array.html import LINES, PICTURES, edges, picture

SVG = "{http://www.w3.org/2000/svg}"

lengths = st.integers(1, 10**12)
fixed = st.tuples(lengths, lengths)
varying = st.lists(st.integers(1, 50), min_size=1, max_size=60).map(lambda sizes: (sum(sizes), tuple(sizes)))


def faces(svg: str) -> list[str]:
    """The kinds of faces drawn, in order."""
    return [face.attrib["class"] for face in ElementTree.fromstring(svg).iter(f"{SVG}polygon")]


@given(fixed)
def test_edges_of_chunks_of_one_size(axis: tuple[int, int]) -> None:
    length, size = axis
    found = edges(length, size)
    assert len(found) == min(-(-length // size) - 1, LINES)
    assert all(0 < edge < length and edge % size == 0 for edge in found)
    assert found == sorted(set(found))


@given(varying, st.integers(1, 30))
def test_edges_of_varying_chunks(axis: tuple[int, tuple[int, ...]], most: int) -> None:
    length, sizes = axis
    inner = list(accumulate(sizes))[:-1]
    found = edges(length, sizes, most)
    assert found == (inner if len(inner) <= most else sorted(set(found)))
    assert len(found) == min(len(inner), most)
    assert set(found) <= set(inner)


@given(st.lists(st.one_of(fixed, varying), min_size=1, max_size=14))
def test_every_grid_has_a_bounded_well_formed_picture(axes: list[tuple[int, int | tuple[int, ...]]]) -> None:
    svg = picture(tuple(length for length, _ in axes), tuple(cut for _, cut in axes))
    assert faces(svg).count("hs-front") == min(-(-len(axes) // 3), PICTURES)
    assert len(svg) < 30_000
    width, height = (float(re.search(f'{name}="(\\d+)"', svg)[1]) for name in ("width", "height"))
    assert 0 < width < 1000
    assert 0 < height < 300


def test_faces_of_one_two_three_and_four_dimensions() -> None:
    box = ["hs-top", "hs-side", "hs-front"]
    assert faces(picture((4,), (2,))) == ["hs-front"]
    assert faces(picture((4, 4), (2, 2))) == ["hs-front"]
    assert faces(picture((4, 4, 4), (2, 2, 2))) == box
    assert faces(picture((4, 4, 4, 4), (2, 2, 2, 2))) == ["hs-front", *box]


def test_cuts_are_drawn_in_proportion() -> None:
    svg = ElementTree.fromstring(picture((100, 100), (25, 50)))
    lines = re.findall(r"M([\d.]+) ([\d.]+)l([\d.]+) ([\d.]+)", next(svg.iter(f"{SVG}path")).attrib["d"])
    upright = [float(x) for x, _, _, down in lines if float(down)]
    level = [float(y) for _, y, across, _ in lines if float(across)]
    assert upright == [60]
    assert level == [30, 60, 90]


def test_labels_are_the_lengths() -> None:
    svg = ElementTree.fromstring(picture((5, 2000, 30), (1, 100, 30)))
    assert sorted(text.text or "" for text in svg.iter(f"{SVG}text")) == ["2,000", "30", "5"]


@pytest.mark.parametrize(("shape", "chunks"), [((), ()), ((0,), (1,)), ((3, 0), (1, 1))])
def test_nothing_to_draw(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    assert picture(shape, chunks) == ""


def test_longer_axes_are_longer_but_short_ones_stay_visible() -> None:
    polygon = next(ElementTree.fromstring(picture((10**15, 3), (10**12, 1))).iter(f"{SVG}polygon"))
    points = [tuple(map(float, point.split(","))) for point in polygon.attrib["points"].split()]
    assert points[2][1] == 120
    assert points[2][0] >= 16
