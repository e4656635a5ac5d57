"""A room never bears the name of a public function: importing it would put the module in place of ``hs.x``."""

import pkgutil
from importlib import import_module

import numpy as np

import hyperslab as hs


def use_the_face(folder):
    """Call every public function once."""
    root = hs.create(folder / "a.zarr")
    root.create_array("x", data=np.arange(4))
    hs.convert(folder / "a.zarr", folder / "b.zarr", format="zarr2")
    assert not hs.diff(folder / "a.zarr", folder / "b.zarr")
    assert not hs.check(folder / "b.zarr", deep=True) and not hs.repair(folder / "b.zarr")
    assert hs.open(folder / "b.zarr")["x"][3] == hs.open_array(folder / "b.zarr", path="x")[3] == 3
    assert list(hs.open_group(folder / "a.zarr")) == ["x"]
    assert "zarr3" in hs.list_formats()
    hs.adopt(folder / "b.zarr")
    assert hs.open(folder / "b.zarr").format == "nczarr"


def test_public_functions_survive_the_import_of_every_room(tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    use_the_face(tmp_path / "first")
    for room in pkgutil.walk_packages(hs.__path__, "hyperslab."):
        if not room.name.endswith("__main__"):
            import_module(room.name)
    functions = [name for name in hs.__all__ if callable(getattr(hs, name)) and name[0].islower()]
    assert {"open", "create", "convert", "list_formats", "open_array", "open_group"} <= set(functions)
    use_the_face(tmp_path / "second")
