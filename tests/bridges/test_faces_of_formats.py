"""Each face of hyperslab over each format in each variant: xarray's engine, saving, dask, pages, progress, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dask
import dask.multiprocessing
import numpy as np
import pytest
import xarray as xr
from xarray.backends.plugins import guess_engine
from xarray.testing import assert_identical

import hyperslab as hs
from forked import cluster, pool
from format_variants import VARIANTS, Places, dataset, save
from html_pages import check
from hyperslab.errors import Invalid, NotFound, Unsupported
from servers.mongo import Mongo

pytestmark = pytest.mark.sampled(3)

every = pytest.mark.parametrize("name", VARIANTS)


@pytest.fixture(scope="module")
def places(mongo: Mongo, tmp_path_factory: pytest.TempPathFactory) -> Places:
    return Places(tmp_path_factory.mktemp("faces"), f"{mongo.url}/{mongo.database()}")


@pytest.fixture(scope="module")
def stored(places: Places) -> dict[str, str]:
    """A dataset of each variant, which no test changes."""
    urls = {name: places.new(name) for name in VARIANTS}
    for name, url in urls.items():
        save(name, url, dataset(name))
    return urls


def opened(url: str, **options: Any) -> xr.Dataset:
    return xr.open_dataset(url, engine="hyperslab", **options)


# -- xarray -----------------------------------------------------------------------------------------------------------


@every
def test_the_engine(stored: dict[str, str], name: str) -> None:
    url = stored[name]
    with opened(url) as found:
        assert_identical(found, dataset(name))
        assert found["air"].sel(lat=40.0, lon=2.5).values.tolist() == [4, 10, 16, 22]
    assert_identical(xr.open_datatree(url, engine="hyperslab").to_dataset().load(), dataset(name))
    if VARIANTS[name].claimed:
        assert guess_engine(url) == "hyperslab"
        with xr.open_dataset(url) as found:
            assert_identical(found, dataset(name))


@every
def test_the_stored_chunks(stored: dict[str, str], name: str) -> None:
    with opened(stored[name], chunks={}) as lazy:
        array = hs.open_group(stored[name])["air"]
        cuts = map(min, array.shards or array.chunks, array.shape)
        assert [first for first, *_ in lazy["air"].chunks] == list(cuts)
        assert_identical(lazy.compute(scheduler="threads"), dataset(name))
        np.testing.assert_array_equal(array.to_dask().compute(scheduler="threads"), dataset(name)["air"])


@every
def test_saving_again(places: Places, name: str) -> None:
    url, first, second = places.new(name), dataset(name), dataset(name, 3, 4)
    save(name, url, first)
    if VARIANTS[name].unlimited:
        second.hyperslab.save(url, append_dim="time")
        first = xr.concat([first, second], "time", data_vars="minimal")
    else:
        with pytest.raises(Unsupported, match="not unlimited"):
            second.hyperslab.save(url, append_dim="time")
    assert_identical(opened(url).load(), first)
    part = first[["air"]].isel(time=slice(1, 3), lat=slice(1)) * 0 - 1
    part.hyperslab.save(url, region="auto")
    part.drop_vars(["time", "lat", "lon"]).hyperslab.save(
        url, region={"time": slice(0, 2), "lat": slice(1, 2), "lon": slice(3)}
    )
    with opened(url) as found:
        assert (found["air"] == -1).sum(("time", "lon")).values.tolist() == [6, 6]
    with pytest.raises(hs.errors.AlreadyExists):
        save(name, url, first)
    save(name, url, dataset(name), mode="w")
    assert_identical(opened(url).load(), dataset(name))


@pytest.mark.parametrize("name", ["nczarr draft", "nczarr current", "collections", "netcdf"])
def test_appending_to_a_fixed_length(places: Places, name: str) -> None:
    """The error tells what would have made it grow, in xarray's words; nothing is changed."""
    url, given = places.new(name), dataset(name)
    given.encoding.clear()
    save(name, url, given)
    with pytest.raises((Invalid, Unsupported), match=r"unlimited_dims'\] = \{'time'\}"):
        dataset(name, 3, 4).hyperslab.save(url, append_dim="time")
    assert_identical(opened(url).load(), given)


# -- dask ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    """dask's scheduler of processes, which are started once."""
    with pool(1) as started:
        yield partial(dask.multiprocessing.get, pool=started)


@pytest.mark.sampled(0)
def test_in_processes(stored: dict[str, str], places: Places, processes: Any) -> None:
    schedules(stored, places, processes)


@pytest.mark.sampled(0)
def test_on_a_cluster(stored: dict[str, str], places: Places) -> None:
    with cluster(1) as client:
        schedules(stored, places, client)
        for name, url in stored.items():
            target = places.new("zarr3")
            hs.convert(url, target, allow_loss=True, scheduler=client)
            assert_identical(opened(target).load()["air"].variable, dataset(name)["air"].variable)
            spread_into(places.new(name), name, stored["zarr3"], client)


def spread_into(target: str, name: str, source: str, client: Any) -> None:
    """Workers write what lies under keys; anything else is refused before it is begun."""
    options = {
        **VARIANTS[name].options,
        "path": "air" if VARIANTS[name].one else "",
        "scheduler": client,
        "allow_loss": True,
    }
    if not VARIANTS[name].keyed and name != "mongo":
        with pytest.raises(Unsupported, match="several processes"):
            hs.convert(source, target, **options)
        return
    hs.convert(source, target, **options)
    np.testing.assert_array_equal(hs.open_group(target)["air"], dataset(name)["air"])


def schedules(stored: dict[str, str], places: Places, scheduler: Any) -> None:
    """All variants read at once by workers elsewhere, and written of what those compute."""
    lazies = [opened(url, chunks={}) for url in stored.values()]
    for name, found in zip(stored, dask.compute(*lazies, scheduler=scheduler), strict=True):
        assert_identical(found, dataset(name))
    with dask.config.set(scheduler=scheduler):
        for name in stored:
            url, lazy = places.new(name), dataset(name).chunk({"time": 2})
            save(name, url, lazy)
            assert_identical(opened(url).load(), dataset(name))


# -- pages ------------------------------------------------------------------------------------------------------------


@every
def test_pages(stored: dict[str, str], name: str) -> None:
    with hs.open_group(stored[name]) as root:
        for node in (root, root["air"]):
            page = check(node._repr_html_())
            assert "alert(1)" in page.text
            assert "air" in page.text


# -- progress --------------------------------------------------------------------------------------------------------


def works(name: str, places: Places) -> dict[str, Callable[..., Any]]:
    """What takes ``progress=``, on a dataset of its own."""
    url = places.new(name)
    save(name, url, dataset(name))
    options = VARIANTS[name].options
    path = "air" if VARIANTS[name].one else ""
    return {
        "save": lambda **more: save(name, places.new(name), dataset(name), **more),
        "convert from": lambda **more: hs.convert(url, places.new("zarr3"), allow_loss=True, **more),
        "convert to": lambda **more: hs.convert(url, places.new(name), path=path, **options, **more),
        "check": lambda **more: hs.check(url, deep=True, **more),
        "repair": lambda **more: hs.repair(url, **more),
    }


@every
def test_progress(places: Places, name: str) -> None:
    for work, run in works(name, places).items():
        seen: list[hs.Progress] = []
        run(progress=seen.append)
        done = [(each.done_bytes, each.done_chunks) for each in seen]
        assert done[0] == (0, 0), work
        assert done == sorted(done), work
        assert seen[-1].done_bytes == seen[-1].total_bytes == dataset(name).nbytes, work
        assert seen[-1].done_chunks == seen[-1].total_chunks > 0, work


@every
def test_ctrl_c(places: Places, name: str) -> None:
    url, target = places.new(name), places.new(name)
    save(name, url, dataset(name))
    path = "air" if VARIANTS[name].one else ""

    def interrupt(now: hs.Progress) -> None:
        if now.done_bytes:
            raise KeyboardInterrupt

    for run in (
        lambda: save(name, target, dataset(name), progress=interrupt),
        lambda: save(name, url, dataset(name) + 1, mode="w", progress=interrupt),
        lambda: hs.convert(url, target, path=path, **VARIANTS[name].options, progress=interrupt),
        lambda: hs.check(url, deep=True, progress=interrupt),
        lambda: hs.repair(url, dry_run=False, progress=interrupt),
    ):
        with pytest.raises(KeyboardInterrupt):
            run()
        with pytest.raises(NotFound):
            hs.open(target)
    assert_identical(opened(url).load(), dataset(name))
    assert not hs.check(url, deep=True)


def test_nothing_else_is_claimed(places: Places) -> None:
    assert guess_engine("https://example.org/data") == "netcdf4"
    with pytest.raises((ValueError, FileNotFoundError)):
        guess_engine(str(places.folder / "no-dataset"))
