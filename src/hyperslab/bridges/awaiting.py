"""``ds.hyperslab`` without an import of its own: xarray's objects get the accessor as soon as xarray is imported.

xarray has entry points for engines, but none for accessors, and importing it here would cost a second.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_ACCESSORS = "hyperslab.bridges.xarray.accessors"


def await_xarray() -> None:
    """Register the accessors now where xarray is imported already, else when it is."""
    if "xarray" in sys.modules:
        import_module(_ACCESSORS)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Sees the import of xarray once, and finds it as it would be found without."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader)
        return spec


class _Then(Loader):
    """Loads xarray by its own loader, and the accessors after it."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        import_module(_ACCESSORS)
