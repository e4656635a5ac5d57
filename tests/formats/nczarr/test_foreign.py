"""Plain Zarr as format ``nczarr`` sees it: what zarr-python wrote, scalars, names, marks; and how it is adopted."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, HyperslabError, Invalid, NotFound, Unsupported
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenString
from hyperslab.stores import KeyValueMap

GOLDEN = Path(__file__).parents[2] / "golden" / "zarr2" / "zarr3.4.2.zip"
GROUP = {".zgroup": {"zarr_format": 2}}


def array(dtype="<i4", shape=(3,), **more):
    said = {"zarr_format": 2, "shape": list(shape), "chunks": [max(size, 1) for size in shape], "dtype": dtype}
    return said | {"compressor": None, "fill_value": None, "order": "C", "filters": None} | more


def write(folder, documents):
    for place, content in documents.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(folder)


def foreign(folder, documents, **options):
    return hs.open(write(folder, GROUP | documents), format="nczarr", **options)


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(folder)
    return folder


def nodes(group):
    """Every array of a group and below; one that cannot be opened is passed over."""
    for name in group:
        try:
            node = group[name]
        except HyperslabError:
            continue
        yield from nodes(node) if isinstance(node, hs.Group) else [node]


def is_text(cell):
    try:
        return bool(bytes(cell).decode()) or True
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("native", [True, False])
def test_all_that_zarr_python_wrote_is_read(golden, native):
    seen = 0
    for store in sorted(path.parent for path in golden.glob("*/.zgroup")):
        plain = hs.open(store, format="zarr2")
        for node in nodes(hs.open(store, format="nczarr", native=native)):
            known = plain[node.path]
            seen += 1
            if node.spec.problem or known.spec.problem:
                assert bool(node.spec.problem) == bool(known.spec.problem)
                continue
            wanted = known[...]
            if wanted.dtype.kind == "S" and any(not is_text(cell) for cell in wanted.flat):
                with pytest.raises(CorruptChunk, match="expected UTF-8"):
                    node[...]
                continue
            found = node[...]
            assert (found.shape, node.attrs.keys() - {"units"}) == (wanted.shape, known.attrs.keys() - {"units"})
            match wanted.dtype.kind:
                case "S" if not isinstance(node.spec.dtype, Char):
                    assert found.tolist() == np.char.decode(wanted, "utf-8").tolist()
                case "b" if not native:
                    assert found.dtype == np.dtype("u1")
                    assert np.array_equal(found, wanted)
                case "c" if not native:
                    assert np.array_equal(found["r"], wanted.real, equal_nan=True)
                case "M" | "m" if not native:
                    assert np.array_equal(found == "", np.isnat(wanted))
                case "O":
                    assert found.tolist() == wanted.tolist()
                case _:
                    assert found.tobytes() == wanted.tobytes()
    assert seen > 60


@pytest.mark.parametrize(
    ("doc", "attrs"),
    [
        (array(shape=()), {}),
        (array(shape=(1,)), {"_ARRAY_DIMENSIONS": []}),
        (array(shape=(1,)), {"_ARRAY_DIMENSIONS": ["_scalar_"]}),
    ],
)
def test_scalars(tmp_path, doc, attrs):
    root = foreign(tmp_path, {"v/.zarray": doc, "v/.zattrs": attrs, "v/0": np.int32(7).tobytes()})
    assert (root["v"].shape, root["v"].dims, int(root["v"][()])) == ((), (), 7)


def test_names_that_name_nothing_are_noted(tmp_path):
    root = foreign(tmp_path, {"v/.zarray": array(), "v/.zattrs": {"_ARRAY_DIMENSIONS": ["a", "b"], "n": 1}})
    assert (root["v"].dims, dict(root["v"].attrs)) == (("_Anonymous_Dim_3",), {"n": np.int32(1)})


def test_dimensions_without_a_name_are_called_as_the_dialect_calls_them(tmp_path):
    assert foreign(tmp_path, {"v/.zarray": array()}, dialect="draft")["v"].dims == ("_anonymous3",)


def test_what_hyperslab_wrote_of_types_is_known(tmp_path):
    letters = Enum(np.dtype("u1"), (("A", 0), ("B", 7)), "letters")
    with hs.create(tmp_path / "store", format="zarr2") as root:
        root.attrs["n"] = np.int16(3)
        root.create_array("e", (3,), letters)
        root.create_array("c", (3,), Char())
        root.create_array("r", (3,), Compound(np.dtype([("a", "i4")]), "pair"))
    found = hs.open(tmp_path / "store", format="nczarr", native=False)
    assert [found[name].spec.dtype for name in "ec"] == [letters, Char()]
    assert found["r"].spec.dtype.name == "pair"
    assert dict(found.attrs) == {"n": np.int16(3)}


def test_types_that_plain_zarr_has_no_name_for(tmp_path):
    root = foreign(tmp_path, {"v/.zarray": array("|V5"), "c/.zarray": array(">S1"), "s/.zarray": array("|S1")})
    assert [root[name].spec.dtype for name in "vcs"] == [Opaque(5, "_opaque5"), Char(), VlenString()]


# -- adopting ---------------------------------------------------------------------------------------------------------


def adopted(folder, documents, dialect="draft"):
    hs.adopt(write(folder, GROUP | documents), dialect)
    return hs.open(folder, "r+")


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_adopted_arrays_keep_their_cells(golden, tmp_path, dialect):
    for store in sorted(path.parent for path in golden.glob("*/.zgroup")):
        target = tmp_path / store.name
        with hs.open(store, format="zarr2") as plain:
            kept = [node for node in nodes(plain) if node.dtype.kind in "iu" or node.dtype in ("f4", "f8")]
            pairs = KeyValueMap.newmap(store)
            keys = [key for key in pairs for node in kept if key.startswith(f"{node.path}/")]
            KeyValueMap.newmap(target).update({key: pairs[key] for key in [".zgroup", *keys]})
            if not kept:
                continue
            hs.adopt(target, dialect)
            root = hs.open(target)
            assert root.format == "nczarr"
            for node in kept:
                assert root[node.path].spec.codecs == node.spec.codecs
                assert node.spec.problem or root[node.path][...].tobytes() == node[...].tobytes()


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_a_name_of_two_lengths_is_resolved(tmp_path, dialect):
    names = {"_ARRAY_DIMENSIONS": ["x"]}
    documents = {"a/.zarray": array(), "a/.zattrs": names, "b/.zarray": array(shape=(5,)), "b/.zattrs": names}
    root = adopted(tmp_path, documents, dialect)
    other = "_anonymous5" if dialect == "draft" else "_Anonymous_Dim_5"
    assert (root["a"].dims, root["b"].dims) == (("x",), (other,))
    assert dict(root.dims) == {"x": Dimension("x", 3), other: Dimension(other, 5)}


def test_consolidated_metadata_follows(tmp_path):
    copy = {"metadata": GROUP | {"v/.zarray": array()}, "zarr_consolidated_format": 1}
    root = adopted(tmp_path, {"v/.zarray": array(), ".zmetadata": copy}, "current")
    assert "_nczarr_array" in json.loads((tmp_path / ".zmetadata").read_text())["metadata"]["v/.zattrs"]
    assert root["v"].dims == ("_Anonymous_Dim_3",)
    (tmp_path / "none").mkdir()
    adopted(tmp_path / "none", {"v/.zarray": array()}, "current")
    assert not (tmp_path / "none/.zmetadata").exists()


def test_nodes_that_consolidated_metadata_does_not_know_are_adopted(tmp_path):
    copy = {"metadata": GROUP | {"v/.zarray": array()}, "zarr_consolidated_format": 1}
    later = {"g/.zgroup": {"zarr_format": 2}, "g/w/.zarray": array(shape=(4,))}
    root = adopted(tmp_path, {"v/.zarray": array(), ".zmetadata": copy} | later, "current")
    assert (set(root), root["g/w"].dims) == ({"v", "g"}, ("_Anonymous_Dim_4",))
    assert "g/w/.zarray" in json.loads((tmp_path / ".zmetadata").read_text())["metadata"]
    assert not hs.check(tmp_path)


def test_attributes_of_adopted_nodes(tmp_path):
    attrs = {"flag": True, "n": 1, "many": [1, 2.5], "words": ["a", "b"], "deep": {"a": [1]}, "text": "x"}
    root = adopted(tmp_path, {".zattrs": attrs})
    assert {name: np.asarray(value).tolist() for name, value in root.attrs.items()} == {
        **attrs,
        "flag": 1,
        "deep": '{"a": [1]}',
    }


def test_what_cannot_be_adopted(tmp_path):
    with pytest.raises(NotFound):
        hs.adopt(tmp_path / "none")
    with pytest.raises(Unsupported, match="the root is an array"):
        hs.adopt(write(tmp_path / "array", {".zarray": array()}))
    with pytest.raises(Unsupported, match="codec 'secret' is not known"):
        hs.adopt(write(tmp_path / "codec", GROUP | {"v/.zarray": array(compressor={"id": "secret"})}))
    with pytest.raises(Unsupported, match=r"/v: .*current.* has no cells of type"):
        hs.adopt(write(tmp_path / "fields", GROUP | {"v/.zarray": array([["a", "<i4"]])}))
    with pytest.raises(Invalid, match="dialect='other'"):
        hs.adopt(write(tmp_path / "dialect", GROUP), "other")
