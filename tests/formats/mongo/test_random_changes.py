"""Random changes of an object by two handles of each face, compared with arrays of NumPy after every one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sparse
import xarray as xr

import hyperslab as hs
from hyperslab.mongo import XarrayMongoDB

if TYPE_CHECKING:
    from pymongo.database import Database

    from servers.mongo import Mongo

STEPS = 8
NAME = "o"
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(4, 330))]


class Campaign:
    """One object: ``dense`` and ``sparse`` are its cells as they should be, ``log`` what was done to it."""

    def __init__(self, rng: np.random.Generator, url: str, db: Database[Any], layout: Any) -> None:
        self.rng = rng
        self.url = url
        self.sizes: dict[str, int] = {
            "chunk_size_bytes": int(rng.choice([7, 24, 64, 1 << 18])),
            "embed_threshold_bytes": int(rng.choice([0, 100, 1 << 18])),
        }
        self.databases = [XarrayMongoDB(db, layout=layout, **self.sizes) for _ in range(2)]
        self.log: list[str] = []
        self.dense = self.sparse = np.empty((0, 0))
        self.renew(first=True)

    # -- what is chosen -----------------------------------------------------------------------------------------------

    def one(self) -> XarrayMongoDB:
        return self.databases[self.rng.integers(2)]

    def cells(self, rows: int, columns: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        dense = self.rng.integers(1, 100, (rows, columns)).astype("f8")
        return dense, np.where(self.rng.random((rows, columns)) < self.rng.choice([0.1, 0.5, 0.9]), dense, 0.0)

    def dataset(self, dense: Any, listed: Any) -> xr.Dataset:
        """Dense or sparse, of NumPy or of dask."""
        given: Any = sparse.COO.from_numpy(listed)
        ds = xr.Dataset({"t": (("y", "x"), dense), "s": (("y", "x"), given)})
        if self.rng.random() < 0.5 and 0 not in dense.shape:
            ds = ds.chunk({"y": int(self.rng.integers(1, 5)), "x": int(self.rng.integers(1, 5))})
        return ds

    def region(self) -> dict[str, slice]:
        bounds = [sorted(self.rng.integers(0, size + 1, 2).tolist()) for size in self.dense.shape]
        return {dim: slice(*pair) for dim, pair in zip(("y", "x"), bounds, strict=True)}

    # -- what is done -------------------------------------------------------------------------------------------------

    def renew(self, *, first: bool = False) -> None:
        """Put an object, or replace or remove the one that there is."""
        self.dense, self.sparse = self.cells(*self.rng.integers(1, 9, 2).tolist())
        ds = self.dataset(self.dense, self.sparse)
        if first:
            future = self.one().put(ds, name=NAME)[1]
        elif self.rng.random() < 0.5:
            self.one().delete(NAME)
            future = self.one().put(ds, name=NAME)[1]
        else:
            future = self.one().replace(NAME, ds)[1]
        if future is not None:
            future.compute(scheduler="sync")
        self.handles = [hs.open_group(f"{self.url}#{NAME}", "r+", lock_timeout=5, **self.sizes) for _ in range(2)]

    def update(self) -> None:
        region = self.region()
        place = region["y"], region["x"]
        dense, listed = self.cells(*(part.stop - part.start for part in place))
        self.dense[place], self.sparse[place] = dense, listed
        self.one().update(NAME, self.dataset(dense, listed), region)

    def assign(self) -> None:
        for name, cells in (("t", self.dense), ("s", self.sparse)):
            region = self.region()
            key = region["y"], region["x"]
            new = self.cells(*(part.stop - part.start for part in key))[name == "s"]
            cells[key] = new
            self.handle()[name][key] = new

    def handle(self) -> Any:
        return self.handles[self.rng.integers(2)]

    def append(self) -> None:
        axis = int(self.rng.integers(2))
        shape = list(self.dense.shape)
        shape[axis] = int(self.rng.integers(1, 6))
        dense, listed = self.cells(*shape)
        self.dense = np.concatenate([self.dense, dense], axis)
        self.sparse = np.concatenate([self.sparse, listed], axis)
        if self.rng.random() < 0.5:
            self.one().append(NAME, self.dataset(dense, listed), "yx"[axis])
        else:
            for name, cells in (("t", dense), ("s", listed)):
                self.handle()[name].append(cells, dim="yx"[axis])
        for handle in self.handles:
            for name in "ts":
                handle[name].refresh()

    def resize(self) -> None:
        shape = tuple(self.rng.integers(1, 12, 2).tolist())
        common = tuple(slice(0, min(pair)) for pair in zip(shape, self.dense.shape, strict=True))
        for name in "ts":
            self.handle()[name].resize(shape)
        for name, old in (("dense", self.dense), ("sparse", self.sparse)):
            cells = np.zeros(shape)
            cells[common] = old[common]
            setattr(self, name, cells)
        for handle in self.handles:
            for name in "ts":
                handle[name].refresh()

    def step(self) -> None:
        act = self.rng.choice(["update", "assign", "append", "resize", "renew"], p=[0.3, 0.35, 0.12, 0.15, 0.08])
        self.log.append(str(act))
        getattr(self, act)()

    # -- what is there ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        load: Any = self.rng.choice([None, True, False])
        found = self.one().get(NAME, load=load).compute(scheduler="sync")
        for name, cells in (("t", self.dense), ("s", self.sparse)):
            data = found[name].data
            assert np.array_equal(data.todense() if isinstance(data, sparse.COO) else data, cells), name
            for handle in self.handles:
                handle[name].refresh()
                assert np.array_equal(handle[name][:], cells), name
        assert self.one().check(deep=True) == []


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes(request: pytest.FixtureRequest, seed: int) -> None:
    from pymongo import MongoClient

    server, layout = ("mongo", "mongo_replica")[seed % 2], ("compatible", "extended")[seed // 2 % 2]
    mongo: Mongo = request.getfixturevalue(server)
    name = mongo.database()
    with MongoClient[Any](mongo.url, directConnection=True) as client:
        direct = "?directConnection=true" if server == "mongo_replica" else ""
        campaign = Campaign(np.random.default_rng(seed), f"{mongo.url}/{name}{direct}", client[name], layout)
        try:
            for _ in range(STEPS):
                campaign.step()
                campaign.check()
        except BaseException as error:
            error.add_note(f"{campaign.sizes}: {', '.join(campaign.log)}")
            raise
        client.drop_database(name)
