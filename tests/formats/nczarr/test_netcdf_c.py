"""What we write netcdf-c reads equal, to the last bit; what it writes we read as it was meant."""

from __future__ import annotations

import json
from typing import Any

import netcdf_c
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcdf_c import Told, array, group, plain, seen

import hyperslab as hs
from hyperslab.model.dims import Dimension
from hyperslab.model.spec import GroupSpec
from old_peers import needs, needs_filters

TEXT = np.dtypes.StringDType()
NUMBERS = [
    "i1",
    "u1",
    *(f"{order}{code}" for code in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8") for order in "<>"),
]
EXTREME = [np.pi, 1 / 3, 5e-324, 1.7976931348623157e308, 123456789.123, -0.0, 1e22, np.nan, np.inf, -np.inf]
AWKWARD = [
    "42",
    "3.14",
    "1.0",
    "2020",
    "true",
    "null",
    "NaN",
    '"q"',
    "[x]",
    "[0.,0.,1.]",
    '{"a": 1}',
    "",
    " ",
    "a\nb\t\\",
]
UNICODE = ["hé ☃", "漢字", "😀", "\u200b", "e\u0301"]


@pytest.fixture(scope="module")
def peer():
    process = netcdf_c.NetcdfC()
    yield process
    process.close()


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Cells with the least and the greatest number, and some that need every digit."""
    cells = np.arange(int(np.prod(shape)))
    if np.dtype(dtype).kind == "f":
        cells = (np.resize(EXTREME, cells.size).clip(-3e38, 3e38) + cells / 7).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        cells = np.array([limits.min, limits.max, *cells[2:]], dtype)
    return cells.reshape(shape)


def texts(*values: str) -> np.ndarray[Any, Any]:
    return np.array(values, TEXT)


def chars(text: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(text, "S1")


def in_json(said: Told) -> Told:
    found: Told = json.loads(json.dumps(plain(said)))
    return found


EVERY_NUMBER = {
    f"v{place}": array(["/y", "/x"], numbers(dtype, (3, 5)), chunks=(2, 2)) for place, dtype in enumerate(NUMBERS)
}
SCALARS = {f"s{place}": array([], numbers(dtype, (2,))[1]) for place, dtype in enumerate(NUMBERS)}
TYPED = {dtype: numbers(dtype, (4,)) for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")}
ATTRIBUTES: dict[str, Any] = {
    **{f"list {dtype}": values for dtype, values in TYPED.items()},
    **{f"{dtype} {place}": value for dtype, values in TYPED.items() for place, value in enumerate(values[:2])},
    **{f"double {place}": np.float64(value) for place, value in enumerate(EXTREME)},
    **{f"float {place}": np.float32(value) for place, value in enumerate(EXTREME) if not 1e38 < value < np.inf},
    "doubles": np.array(EXTREME),
    "whole doubles": np.array([1.0, 2.0]),
    **{f"char {place}": text for place, text in enumerate([*AWKWARD, *UNICODE, "x" * 300])},
    **{f"string {place}": np.str_(text) for place, text in enumerate([*AWKWARD, *UNICODE, "x" * 300])},
    "strings": texts(*AWKWARD, *UNICODE),
    "näme ☃": "of the attribute",
}
CASES = {
    "numbers": group({"y": 3, "x": 5}, arrays=EVERY_NUMBER),
    "scalars": group(arrays=SCALARS | {"c": array([], chars(b"x")[0]), "t": array([], texts("hé")[0])}),
    "attributes": group(
        {"x": 2},
        ATTRIBUTES,
        {"v": array(["/x"], np.arange(2), ATTRIBUTES), "s": array([], np.float32(1), ATTRIBUTES)},
        {"g": group({}, ATTRIBUTES)},
    ),
    "text": group(
        {"x": 3, "n": 128},
        arrays={
            "char": array(["/x", "/n"], chars(bytes(range(128)) * 3).reshape(3, 128), chunks=(2, 100)),
            "string": array(["/x"], texts("a", "hé ☃", "")),
            "longest": array(["/x"], texts("x" * 128, "é" * 64, "")),
            "two": array(["/x", "/x"], texts(*"abcdefghi").reshape(3, 3), chunks=(2, 2)),
        },
    ),
    "scopes": group(
        {"x": 3, "y": 2},
        arrays={"x": array(["/x"], np.arange(3.0)), "square": array(["/x", "/x"], np.arange(9).reshape(3, 3))},
        groups={
            "g": group(
                {"x": 4, "z": (2,)},
                {"note": "here x is another"},
                {"v": array(["/y", "/g/x"], np.arange(8, dtype="i2").reshape(2, 4))},
                {
                    "h": group(arrays={"w": array(["/g/z", "/g/x", "/y"], np.arange(16.0).reshape(2, 4, 2))}),
                    "empty": group(),
                },
            ),
            "näme": group({"größe": 2}, arrays={"größe": array(["/näme/größe"], np.arange(2))}),
        },
    ),
    "unlimited": group(
        {"t": (3,), "u": (2,), "none": (0,), "x": 4},
        arrays={
            "tx": array(["/t", "/x"], numbers("<f4", (3, 4)), chunks=(1, 4)),
            "tu": array(["/t", "/u"], numbers(">i8", (3, 2)), chunks=(2, 2)),
            "xt": array(["/x", "/t"], numbers("<i2", (4, 3)), chunks=(4, 2)),
            "nothing": array(["/none", "/x"], np.zeros((0, 4), "f4")),
            "names": array(["/t"], texts("a", "b", "c"), chunks=(2,)),
        },
    ),
    "fill values": group(
        {"x": 3},
        arrays={
            **{
                f"f{place}": array(["/x"], np.full(3, value), {"_FillValue": np.float64(value)}, fill_value=value)
                for place, value in enumerate(EXTREME)
            },
            **{
                f"v{at}": array(["/x"], np.full(3, numbers(of, (2,))[1]), fill_value=numbers(of, (2,))[1])
                for at, of in enumerate(NUMBERS)
            },
            "other": array(["/x"], np.full(3, 7.0), {"_FillValue": np.float64(-1 / 3)}, fill_value=7.0),
            "alone": array(["/x"], np.full(3, -1 / 3), {"_FillValue": np.float64(-1 / 3)}),
            "char": array(["/x"], chars(b"444"), {"_FillValue": "4"}, fill_value="4"),
            "string": array(["/x"], texts("", "", ""), {"_FillValue": np.str_("-")}),
            "none": array(["/x"], np.zeros(3)),
        },
    ),
}


# -- ours, read by netcdf-c -------------------------------------------------------------------------------------------


@needs_filters
@pytest.mark.covering
@pytest.mark.parametrize("consolidated", [False, True], ids=["documents", "consolidated"])
@pytest.mark.parametrize("case", CASES)
def test_netcdf_c_reads_ours(peer, tmp_path, case, consolidated):
    with hs.create(tmp_path / "a", format="nczarr", consolidated=consolidated) as root:
        netcdf_c.make(root, CASES[case])
    assert (tmp_path / "a" / ".zmetadata").exists() == consolidated
    wanted = in_json(CASES[case])
    assert in_json(seen(hs.open(tmp_path / "a"))) == wanted
    assert peer.ask(tmp_path / "a", "nczarr,consolidated" if consolidated else "nczarr") == wanted


def test_netcdf_c_reads_what_was_never_written(peer, tmp_path):
    """Cells of chunks that are not there: the fill value, else ``_FillValue``, else zeros."""
    said = CASES["fill values"]
    unwritten = {**said, "arrays": [[name, {**found, "cells": None}] for name, found in said["arrays"]]}
    with hs.create(tmp_path / "a", format="nczarr") as root:
        netcdf_c.make(root, unwritten)
    assert not list((tmp_path / "a").glob("*/0"))
    assert in_json(seen(hs.open(tmp_path / "a"))) == in_json(said)
    assert peer.ask(tmp_path / "a") == in_json(said)


CODECS = ["none", "zlib:1", "bz2:1", "zstd:3", "shuffle+zlib:1", "shuffle+zstd:1", "fletcher32", "default"]
CODECS += [f"blosc:{name}:5" for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")]
CODECS += ["shuffle+zlib:1+fletcher32"]


@needs_filters
@pytest.mark.parametrize("codec", CODECS)
def test_netcdf_c_reads_every_codec_that_it_knows(peer, tmp_path, codec):
    chain = codec.split("+") if codec.endswith("fletcher32") and "+" in codec else codec
    noise = np.random.default_rng(3).integers(0, 256, 61 * 7 * 8, dtype="u1")
    arrays = {
        place: array(
            ["/y", "/x"], np.frombuffer(noise.tobytes(), code)[: 61 * 7].reshape(61, 7), chunks=(20, 7), codec=chain
        )
        for place, code in (("i1", "i1"), ("i2", ">i2"), ("u8", "<u8"))
    }
    ramp = np.arange(61 * 7).reshape(61, 7)
    arrays |= {f"smooth {code}": array(["/y", "/x"], ramp.astype(code), codec=chain) for code in (">f4", "<f8")}
    arrays |= {
        "char": array(["/x"], chars(b"abcdefg"), codec=chain),
        "string": array(["/x"], texts(*"abcdef", "hé ☃"), codec=chain),
        "scalar": array([], np.float64(np.pi), codec=chain),
        "scalar string": array([], texts("hé")[0], codec=chain),
    }
    with hs.create(tmp_path / "a", format="nczarr") as root:
        netcdf_c.make(root, group({"y": 61, "x": 7}, arrays=arrays))
    assert peer.ask(tmp_path / "a") == in_json(group({"y": 61, "x": 7}, arrays=arrays))


@needs_filters
@pytest.mark.parametrize(("width", "shape"), [(1, (3,)), (5, (3,)), (200, (2, 2))])
def test_netcdf_c_reads_text_of_any_width(peer, tmp_path, width, shape):
    values = np.resize(texts("a" * width, "é" * (width // 2), ""), shape)
    dims = ["/x"] * len(shape)
    with hs.create(tmp_path / "a", format="nczarr") as root:
        declare(root, Dimension("x", shape[0]))
        said = {"_nczarr_maxstrlen": width}
        for name, codec in (("v", "default"), ("w", "shuffle+zlib:1")):
            root.create_array(name, shape, str, dims=["x"] * len(shape), attrs=said, codec=codec)[...] = values
    wanted = group({"x": shape[0]}, arrays=dict.fromkeys(("v", "w"), array(dims, values)))
    found = peer.ask(tmp_path / "a")
    for _, variable in found["arrays"]:
        variable["attrs"] = [said for said in variable["attrs"] if said[0] != "_nczarr_maxstrlen"]
    assert found == in_json(wanted)
    assert json.loads((tmp_path / "a/v/.zarray").read_text())["dtype"] == f"|S{width}"


def declare(root, *dims):
    root._session.writer().put(root.path, GroupSpec(dims=dims))


@needs_filters
def test_text_with_a_fill_value_is_read_by_netcdf_c_where_it_was_written(peer, tmp_path):
    """Elsewhere netcdf-c takes the base64 that Zarr wants for what is meant."""
    values = texts("a", "-", "")
    with hs.create(tmp_path / "a", format="nczarr") as root:
        root.create_array("v", (5,), str, dims=("x",), chunks=(3,), fill_value="-")[:3] = values
    assert hs.open(tmp_path / "a")["v"][...].tolist() == ["a", "-", "", "-", "-"]
    assert dict(peer.ask(tmp_path / "a")["arrays"])["v"]["cells"][:3] == values.tolist()


@needs_filters
def test_netcdf_c_reads_what_was_appended(peer, tmp_path):
    """Several unlimited dimensions, each one size for all variables, also those that got no rows."""
    with hs.create(tmp_path / "a", format="nczarr", consolidated=True) as root:
        declare(root, Dimension("t", 0, True), Dimension("u", 0, True), Dimension("x", 2))
        root.create_array("tx", (0, 2), "f4", dims=("t", "x"), fill_value=-1.0, chunks=(2, 2))
        root.create_array("tu", (0, 0), ">i4", dims=("t", "u"), fill_value=-2, chunks=(2, 3))
        root.create_array("names", (0,), str, dims=("t",), chunks=(2,))
        root.create_array("g/t", (0,), "f8", dims=("t",), chunks=(512,))
        root["tx"].append(np.arange(6, dtype="f4").reshape(3, 2), dim="t")
        root["tu"].append(np.arange(15).reshape(3, 5), dim="u")
        root["g/t"].append(np.arange(4.0), dim="t")
        root["names"].append(["a", "b"], dim="t")
    again = hs.open(tmp_path / "a")
    assert {name: dim.size for name, dim in again.dims.items()} == {"t": 4, "u": 5, "x": 2}
    for mode in ("nczarr", "nczarr,consolidated"):
        assert peer.ask(tmp_path / "a", mode) == in_json(seen(again))
    assert again["tx"][...].tolist() == [[0, 1], [2, 3], [4, 5], [-1, -1]]
    assert again["names"][...].tolist() == ["a", "b", "", ""]


@needs_filters
def test_netcdf_c_reads_what_was_changed_and_moved(peer, tmp_path):
    with hs.create(tmp_path / "a", format="nczarr", consolidated=True) as root:
        netcdf_c.make(root, CASES["scopes"])
        root["g"].attrs["note"] = "shorter"
        root.move("g", "far/away")
        root.move("square", "quadratic")
        del root["x"]
        root["far/away/h/w"][1, :, 0] = 99.5
    for mode in ("nczarr", "nczarr,consolidated"):
        assert peer.ask(tmp_path / "a", mode) == in_json(seen(hs.open(tmp_path / "a")))


# -- netcdf-c's, read by us -------------------------------------------------------------------------------------------

THEIR_OPTIONS = {"chunks": "chunksizes"}


def for_them(said: Told) -> Told:
    """The group as netcdf-c is to write it: the options are those of createVariable."""
    arrays = []
    for name, found in said["arrays"]:
        options = {THEIR_OPTIONS.get(key, key): value for key, value in found["options"].items() if key != "codec"}
        arrays.append([name, {**found, "options": options}])
    return {**said, "arrays": arrays, "groups": [[name, for_them(below)] for name, below in said["groups"]]}


def as_stored(said: Told) -> Told:
    """The group with what netcdf-c keeps of it: six digits of floating-point attributes."""
    arrays = [[name, {**found, "attrs": _six_digits(found["attrs"])}] for name, found in said["arrays"]]
    below = [[name, as_stored(found)] for name, found in said["groups"]]
    return {**said, "attrs": _six_digits(said["attrs"]), "arrays": arrays, "groups": below}


def _six_digits(attrs: list[Any]) -> list[Any]:
    return [[name, kind, _rounded(kind, value) if kind[0] == "f" else value] for name, kind, value in attrs]


def _rounded(kind: str, value: str) -> str:
    numbers = np.frombuffer(bytes.fromhex(value), kind) + 0.0  # the whole number -0, as netcdf-c writes it, is 0
    return np.array([f"{number:g}" for number in numbers]).astype(kind).tobytes().hex()


SURVIVING = {
    name: value
    for name, value in ATTRIBUTES.items()
    if not (name.startswith(("char", "string")) or "f8" in name or "f4" in name or name == "strings")
}
THEIRS = {name: said for name, said in CASES.items() if name not in ("attributes", "fill values")}
THEIRS["attributes"] = group(
    {"x": 2}, SURVIVING, {"v": array(["/x"], np.arange(2), SURVIVING)}, {"g": group({}, SURVIVING)}
)


@pytest.mark.parametrize("mode", ["nczarr", "nczarr,consolidated"])
@pytest.mark.parametrize("case", THEIRS)
def test_we_read_what_netcdf_c_writes(peer, tmp_path, case, mode):
    theirs = peer.ask(tmp_path / "a", mode, write=for_them(THEIRS[case]))
    found = in_json(seen(hs.open(tmp_path / "a")))
    assert found == theirs
    assert found == in_json(as_stored(THEIRS[case]))


@needs("netCDF4", (1, 7, 4), "loses names of dimensions of other groups")
@pytest.mark.parametrize("case", ["numbers", "scalars", "text", "scopes", "unlimited"])
def test_we_read_what_netcdf_c_writes_as_plain_zarr(peer, tmp_path, case):
    """Mode ``zarr`` keeps the names of dimensions, each in the group of its variable."""
    peer.ask(tmp_path / "a", "zarr", write=for_them(CASES[case]))
    found = cells_of(in_json(seen(hs.open(tmp_path / "a", format="nczarr"))))
    assert found == cells_of(in_json(CASES[case]))
    assert found.keys() == cells_of(in_json(seen(hs.open(tmp_path / "a", format="nczarr", native=False)))).keys()


def cells_of(said: Told, above: str = "") -> dict[str, Any]:
    """Every array of a tree by its path: last names of dimensions, shape, type and cells."""
    found = {
        f"{above}/{name}": (
            [fqn.rpartition("/")[2] for fqn in told["dims"]],
            told["shape"],
            told["type"],
            told["cells"],
        )
        for name, told in said["arrays"]
    }
    for name, below in said["groups"]:
        found |= cells_of(below, f"{above}/{name}")
    return found


THEIR_FILTERS: dict[str, dict[str, Any]] = {
    "zlib": {"compression": "zlib", "shuffle": False},
    "zlib, shuffle": {"compression": "zlib", "shuffle": True, "complevel": 1},
    "zlib, shuffle, fletcher32": {"compression": "zlib", "shuffle": True, "fletcher32": True},
    "fletcher32": {"fletcher32": True},
    "zstd": {"compression": "zstd", "fletcher32": True},
    "bzip2": {"compression": "bzip2"},
    **{f"blosc {name}": {"compression": f"blosc_{name}"} for name in ("lz", "lz4", "lz4hc", "zlib", "zstd")},
}


@needs_filters
@pytest.mark.parametrize("filters", THEIR_FILTERS)
def test_we_read_every_filter_of_netcdf_c(peer, tmp_path, filters):
    """Text, too: its shuffle takes cells for pointers, whatever their width."""
    options = THEIR_FILTERS[filters]
    ramp = np.arange(64 * 64).reshape(64, 64)
    arrays = {
        f"v{at}": array(["/y", "/x"], ramp.astype(code), **options) for at, code in enumerate((">i2", "<f4", ">f8"))
    }
    arrays["text"] = array(["/y"], np.array([f"{place} hé ☃" for place in range(64)], TEXT), **options)
    arrays["char"] = array(["/y", "/x"], np.full((64, 64), b"a"), **options)
    arrays["scalar"] = array([], np.float64(np.pi), **{} if "blosc" in filters else options)
    said = group({"y": 64, "x": 64}, arrays=arrays)
    assert peer.ask(tmp_path / "a", write=said) == in_json(said)
    assert in_json(seen(hs.open(tmp_path / "a"))) == in_json(said)


def test_we_read_text_attributes_that_netcdf_c_itself_misreads(peer, tmp_path):
    """Texts that look like JSON are bare in its documents: it gives back '4' for '42'."""
    awkward = {f"c{place}": text for place, text in enumerate(AWKWARD) if text.strip() and "\n" not in text}
    said = group({"x": 1}, awkward, {"v": array(["/x"], np.arange(1), awkward)})
    theirs = peer.ask(tmp_path / "a", write=said)
    assert theirs != in_json(said)
    root = hs.open(tmp_path / "a")
    same = {name: text for name, text in awkward.items() if text not in ('"q"', "[x]", '{"a": 1}')}  # these are lost
    assert {name: root.attrs[name] for name in same} == same
    assert {name: root["v"].attrs[name] for name in same} == same


# -- anything ---------------------------------------------------------------------------------------------------------

CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t\r\b\f\x7f")
"""Others JSON can only spell as ``\\u001f``, which netcdf-c reads as ``u001f``."""
NAMES = st.text(st.sampled_from("abcXYZ019_é漢 -.+@"), min_size=1, max_size=12).filter(
    lambda name: name.strip() == name and name[0].isalpha() and not name.startswith("_")
)
WORDS = st.sampled_from(AWKWARD + UNICODE) | st.text(CHARACTERS, max_size=140)
SHORT = WORDS.filter(lambda text: len(text.encode()) <= 128)


@st.composite
def typed_numbers(draw: st.DrawFn, order: str = "<") -> np.ndarray[Any, Any]:
    """One to four numbers of a type, any bits."""
    code = order + draw(st.sampled_from(["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]))
    dtype = np.dtype(code)
    raw = draw(st.binary(min_size=dtype.itemsize, max_size=4 * dtype.itemsize))
    found = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype)
    return np.where(found != found, dtype.type(np.nan), found).astype(dtype) if dtype.kind == "f" else found


def one_or_more(values: np.ndarray[Any, Any]) -> Any:
    return values[0] if len(values) == 1 else values


NO_JSON = st.text(st.sampled_from("abc é漢😀"), max_size=20).map("x{}y".format)


def values(words: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Values of attributes."""
    several = st.lists(words, min_size=2, max_size=4).map(lambda texts: np.array(texts, TEXT))
    return st.one_of(typed_numbers().map(one_or_more), words, words.map(np.str_), several)


@st.composite
def models(draw: st.DrawFn, words: st.SearchStrategy[str] = WORDS, *, unlimited: bool = True) -> Told:
    """A small dataset: attributes everywhere, variables over shared dimensions of the root and a group."""
    lengths = st.integers(1, 4) | st.tuples(st.integers(1, 3)) if unlimited else st.integers(1, 4)
    sizes = draw(st.dictionaries(NAMES, lengths, min_size=1, max_size=3))
    inner = draw(st.dictionaries(st.sampled_from(list(sizes)), st.integers(5, 6), max_size=1))
    attributes = st.dictionaries(NAMES, values(words), max_size=4)

    def variables(scope: dict[str, tuple[str, int]]) -> dict[str, Told]:
        found = {}
        for name in draw(st.lists(NAMES.filter(lambda name: name not in scope), unique=True, max_size=2)):
            axes = draw(st.lists(st.sampled_from(list(scope.values())), max_size=2))
            shape = [size for _, size in axes]
            found[name] = array([fqn for fqn, _ in axes], cells_in(draw, shape), draw(attributes))
        return found

    scope = {name: (f"/{name}", size if isinstance(size, int) else size[0]) for name, size in sizes.items()}
    nearer = scope | {name: (f"/the group/{name}", size) for name, size in inner.items()}
    below = group(inner, draw(attributes), variables(nearer))
    return group(sizes, draw(attributes), variables(scope), {"the group": below})


def cells_in(draw: st.DrawFn, shape: list[int]) -> np.ndarray[Any, Any]:
    count = int(np.prod(shape, dtype=int))
    match draw(st.sampled_from(["numbers", "text", "char"])):
        case "numbers":
            return np.resize(draw(typed_numbers(draw(st.sampled_from("<>")))), shape)
        case "text":
            return np.array(draw(st.lists(SHORT, min_size=count, max_size=count)), TEXT).reshape(shape)
    return np.frombuffer(draw(st.binary(min_size=count, max_size=count)), "S1").reshape(shape)


moderate = settings(
    max_examples=min(settings.default.max_examples, 40), deadline=None, suppress_health_check=list(HealthCheck)
)


@needs_filters
@pytest.mark.sampled(0)
@moderate
@given(said=models(), codec=st.sampled_from(CODECS[:6]), consolidated=st.booleans())
def test_netcdf_c_reads_anything_of_ours(peer, tmp_path_factory, said, codec, consolidated):
    place = tmp_path_factory.mktemp("ours") / "a"
    for _, found in (*said["arrays"], *said["groups"][0][1]["arrays"]):
        found["options"] = {"codec": codec}
    with hs.create(place, format="nczarr", consolidated=consolidated) as root:
        netcdf_c.make(root, said)
    assert in_json(seen(hs.open(place))) == in_json(said)
    assert peer.ask(place, "nczarr,consolidated" if consolidated else "nczarr") == in_json(said)
    assert hs.check(place, deep=True) == []


@moderate
@given(said=models(NO_JSON, unlimited=False), consolidated=st.booleans())
def test_we_read_anything_of_netcdf_c(peer, tmp_path_factory, said, consolidated):
    place = tmp_path_factory.mktemp("theirs") / "a"
    theirs = peer.ask(place, "nczarr,consolidated" if consolidated else "nczarr", write=said)
    assert in_json(seen(hs.open(place))) == theirs == in_json(as_stored(said))
