"""The error tree: its drawing, its builtin bases, its words, and that nothing of it is lost in a pickle."""

from __future__ import annotations

import builtins
import copy
import pickle
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest

import hyperslab as hs
from hyperslab import errors
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, Problem

LINE = re.compile(r"^\s{4}(?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<bases>[\w, ]+)\))?(?:\s{2,}|$)")


def tree_of(kind: type[HyperslabError]) -> list[type[HyperslabError]]:
    """The class and all below it; a format's own errors, which its folder tells, are there only once it was opened."""
    below = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [kind, *(each for child in below for each in tree_of(child))]


def drawn() -> dict[str, tuple[str | None, tuple[str, ...]]]:
    """Name -> (parent in the drawing, builtin bases in the drawing)."""
    found: dict[str, tuple[str | None, tuple[str, ...]]] = {}
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := LINE.match(line):
            depth = len(match["branch"]) // 4
            parent = stack[depth - 1] if depth else None
            bases = tuple(match["bases"].split(", ")) if match["bases"] else ()
            found[match["name"]] = (parent, bases)
            stack[depth:] = [match["name"]]
    return found


TREE = tree_of(HyperslabError)
PLACE = {"url": "file:///data/air.zarr", "node": "a/b", "key": "a/b/c/0", "remedy": "do otherwise"}
each_error = pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)


def test_the_drawing_is_the_tree() -> None:
    actual = {}
    for kind in TREE:
        ours = [base.__name__ for base in kind.__bases__ if issubclass(base, HyperslabError)]
        theirs = tuple(base.__name__ for base in kind.__bases__ if not issubclass(base, HyperslabError))
        actual[kind.__name__] = (ours[0] if ours else None, theirs)
    actual["HyperslabError"] = (None, ())
    assert drawn() == actual


def test_every_error_of_the_module_is_in_the_tree() -> None:
    defined = {
        name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert defined == {kind.__name__ for kind in TREE}


@each_error
def test_is_caught_as_its_builtin_bases(kind: type[HyperslabError]) -> None:
    _, bases = drawn()[kind.__name__]
    for base in bases:
        with pytest.raises(getattr(builtins, base)):
            raise kind("nothing here")


@each_error
def test_is_documented(kind: type[HyperslabError]) -> None:
    assert kind.__doc__ and kind.__doc__ != (kind.__bases__[0].__doc__)


@each_error
def test_says_what_where_and_what_would_work(kind: type[HyperslabError]) -> None:
    text = str(kind("no array 'tmp'", **PLACE))
    assert text.startswith("no array 'tmp'")
    assert all(part in text for part in ("file:///data/air.zarr", "node=/a/b", "key=a/b/c/0", "do otherwise"))


@each_error
def test_says_no_more_than_it_knows(kind: type[HyperslabError]) -> None:
    text = str(kind("nothing here"))
    assert text.startswith("nothing here")
    assert "None" not in text and "[" not in text


@each_error
def test_root_is_a_place(kind: type[HyperslabError]) -> None:
    assert "node=/" in str(kind("nothing here", node=""))


@each_error
@pytest.mark.parametrize("twin", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
def test_survives_pickle_and_copy(kind: type[HyperslabError], twin: object) -> None:
    error = kind("nothing here", **PLACE)
    error.add_note("while converting")
    again = twin(error)  # type: ignore[operator]
    assert type(again) is kind
    assert again.args == error.args and str(again) == str(error)
    assert vars(again) == vars(error)


def test_own_attributes_survive_pickle() -> None:
    problems = [Problem("a", "missing", "no shape"), Problem("", "extra", "unknown key")]
    broken = pickle.loads(pickle.dumps(FormatError("bad document", problems=problems, node="a")))
    assert broken.problems == tuple(problems)
    corrupt = pickle.loads(pickle.dumps(CorruptChunk("size differs", expected=8, found=7)))
    assert (corrupt.expected, corrupt.found) == (8, 7)


@each_error
def test_locate_completes_the_place_and_keeps_what_is_known(kind: type[HyperslabError]) -> None:
    error = kind("nothing here", key="c/0")
    assert error.locate(url="memory://x", key="other") is error
    assert error.locate(node="a", url="memory://later") is error
    assert (error.url, error.node, error.key) == ("memory://x", "a", "c/0")


def test_corrupt_chunk_shows_both_sides() -> None:
    assert "(expected 0x1, found 0x2)" in str(CorruptChunk("checksum differs", expected="0x1", found="0x2"))
    assert "restore this chunk from a copy, or take it out (hyperslab repair)" in str(CorruptChunk("checksum differs"))
    assert "mend it (hyperslab repair " in str(FormatError("the document is cut off"))
    assert "fetch it again" in str(CorruptChunk("checksum differs", remedy="fetch it again"))
    error = CorruptChunk("checksum differs", expected=1, found=None, url="x", key="c/0")
    assert error.said == "checksum differs (expected 1, found None)"
    assert CorruptChunk("checksum differs").said == "checksum differs"


def test_problem_names_its_node() -> None:
    assert str(Problem("a/b", "shape", "no shape")) == "/a/b: no shape"
    assert str(Problem("", "shape", "no shape")) == "no shape"


def test_an_unknown_option_is_named_with_the_format(tmp_path: Path) -> None:
    with pytest.raises(errors.Invalid, match="format zarr3 has no option 'chunk_cache'"):
        hs.create(tmp_path / "a.zarr", chunk_cache=1)
    with pytest.raises(errors.Invalid, match="format netcdf has no option 'frmat'"):
        hs.create(tmp_path / "a.nc", frmat="netcdf")


def test_an_option_of_every_format_is_suggested_where_it_is_misspelled(tmp_path: Path) -> None:
    for name in signature(hs.open).parameters.keys() - {"url", "options"}:
        with pytest.raises(errors.Invalid) as caught:
            hs.open(tmp_path / "a.zarr", "w", **{f"{name}_": 1})
        assert name in str(caught.value.remedy)


def _array(root: hs.Group) -> hs.Array:
    return root.create_array("a", data=[1, 2], dims=("x",))


@pytest.mark.parametrize(
    "call",
    [
        lambda root: root.create_array("b"),
        lambda root: root.create_array("b", shape=2, dims=("x", "y")),
        lambda root: root.create_array("b", shape=2, chunks=(1, 1)),
        lambda root: root.create_array("b", shape=2, chunks=((1, 1),), shards=2),
        lambda root: root.create_array("b", shape=2, chunks=0),
        lambda root: root.create_array("b", shape=2, codec="nonsense"),
        lambda root: root[0],
        lambda root: root.move("g", "g/h"),
        lambda root: root.copy("g", "g/h"),
        lambda root: root.attrs.update({1: 2}),
        lambda root: _array(root).__setitem__(..., "text"),
    ],
)
def test_the_call_is_located_and_advised(tmp_path: Path, call: Callable[[hs.Group], object]) -> None:
    root = hs.create(tmp_path / "a.zarr")
    root.create_group("g")
    with pytest.raises(HyperslabError) as caught:
        call(root)
    assert caught.value.url == root.url
    assert caught.value.node is not None
    assert caught.value.remedy


def test_what_is_not_there_or_taken_is_advised_by_its_kind() -> None:
    assert str(errors.NotFound("nothing", key="a")) == "nothing [key=a]; check the spelling"
    assert "choose another name" in str(errors.AlreadyExists("taken"))
    assert "list the group above" in str(errors.NodeNotFound("nothing"))
