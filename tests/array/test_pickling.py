"""Open datasets in pickles: what travels, what is opened on the other side and how often, what is refused."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.array.cells import _restore_cells
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound, ReadOnly, Unsupported
from hyperslab.stores import DirectoryStore, MemoryStore
from hyperslab.stores.credentials import resolve
from hyperslab.stores.location import Location
from hyperslab.testing.selections import random_grid, random_key, random_shape
from programs import ran

CELLS = np.arange(35, dtype="i4").reshape(5, 7)


def again(value):
    """What another process would hold, in this one."""
    return pickle.loads(pickle.dumps(value))


def elsewhere(value, code):
    """What ``code`` prints of ``value`` in another process."""
    done = ran(f"import pickle, sys\nvalue = pickle.load(sys.stdin.buffer)\n{code}", given=pickle.dumps(value))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(params=["zarr2", "zarr3", "netcdf"])
def place(request, tmp_path):
    """A dataset on disk: ``lat`` and, in a group, ``t`` along it."""
    path = tmp_path / f"a.{'nc' if request.param == 'netcdf' else 'zarr'}"
    with hs.create(path, request.param) as root:
        root.create_array("lat", data=np.array([50.0, 47.5, 45.0, 42.5, 40.0]), dims=("lat",))
        root.create_array("g/t", data=CELLS, dims=("lat", "lon"), chunks=(2, 3), attrs={"units": "K"})
    return path


def test_groups_arrays_and_attributes(place):
    root = hs.open(place)
    group = again(root["g"])
    assert (group.path, group.url, list(group), list(again(root))) == ("g", root.url, ["t"], list(root))
    array = again(root["g/t"])
    assert (array.path, array.shape, array.dims, array.attrs["units"]) == ("g/t", (5, 7), ("lat", "lon"), "K")
    np.testing.assert_array_equal(array[...], CELLS)
    assert again(array.attrs) == {"units": "K"}
    with pytest.raises(ReadOnly):
        array[0, 0] = 1


def test_views_keep_their_key(place):
    array = hs.open(place)["g/t"]
    view = again(array.lazy[::-1, 2:][1:4])
    assert view.shape == (3, 5)
    np.testing.assert_array_equal(view.read(), CELLS[::-1, 2:][1:4])
    np.testing.assert_array_equal(again(array.lazy[[4, 0], 1:]).read(), CELLS[[4, 0], 1:])
    np.testing.assert_array_equal(again(array.lazy)[47.5:42.5].read(), CELLS[1:3])
    np.testing.assert_array_equal(again(array.oindex)[[2, 0], [1, 3]], CELLS[np.ix_([2, 0], [1, 3])])
    np.testing.assert_array_equal(again(view.vindex)[[0, 1], [0, 1]].read(), CELLS[::-1, 2:][1:4][[0, 1], [0, 1]])


def test_decoded_arrays(tmp_path):
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.array([1, 2, -1], "i2"), attrs={"scale_factor": 0.5, "_FillValue": np.int16(-1)})
    decoded = hs.open(tmp_path / "a.zarr")["t"].decoded()
    np.testing.assert_array_equal(again(decoded)[...], decoded[...])


def test_another_process(place):
    root = hs.open(place)
    assert elsewhere(root["g/t"].lazy[1:, ::2], "print(value.read().tolist())") == str(CELLS[1:, ::2].tolist())
    assert elsewhere(root, "print(list(value), value['g/t'][47.5, 2])") == f"{list(root)} {CELLS[1, 2]}"


def test_another_interpreter(tmp_path):
    """One that has imported nothing before it loads the pickle."""
    with hs.create(tmp_path / "a.zarr") as root:
        view = root.create_array("t", data=CELLS).lazy[1:, ::2]
        program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).read().tolist())"
        done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(view), capture_output=True)
    assert done.stdout.decode().strip() == str(CELLS[1:, ::2].tolist()), done.stderr.decode()


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(place, method):
    array = hs.open(place)["g/t"]
    assert again(array)[0, 0] == 0  # a forked child must not use what was opened here
    with multiprocessing.get_context(method).Pool(2) as pool:
        rows = pool.map(array.__getitem__, range(5))
        pool.close()
        pool.join()
    np.testing.assert_array_equal(rows, CELLS)


def test_a_forked_child_opens_its_own(place):
    array = hs.open(place)["g/t"]
    here = again(array)
    assert here[0, 0] == 0
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        theirs = again(array)
        fine = theirs._session.reader is not here._session.reader and theirs[1, 1] == here[1, 1] == CELLS[1, 1]
        os.write(writing, b"1" if fine else b"0")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.close(writing)
    np.testing.assert_array_equal(here[...], CELLS)


def test_writing_through_a_pickle(tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(2, 3))
    other = again(array)
    other[1, 1] = -1
    again(array.lazy[3:, 0]).write([-2, -3])
    elsewhere(array, "value[0, 0] = -4")
    wanted = CELLS.copy()
    wanted[1, 1], wanted[3:, 0], wanted[0, 0] = -1, [-2, -3], -4
    np.testing.assert_array_equal(array[...], wanted)
    again(root).create_array("new", data=np.arange(3))
    assert root["new"][2] == 2


def test_one_open_dataset_per_process(place):
    root = hs.open(place)
    first, second = again(root), again(root["g/t"])
    reader = first._session.reader
    assert reader is second._session.reader is again(root["g"])._session.reader
    assert first == again(root)
    assert first != root
    assert again(hs.open(place, cache_bytes=0))._session.reader is not reader


def test_threads_share_one(place):
    """Whoever comes first opens; the others wait for that."""
    pickled, ready = pickle.dumps(hs.open(place)["g/t"]), threading.Barrier(8)

    def load(_):
        ready.wait()
        array = pickle.loads(pickled)
        assert array.shape == (5, 7)
        return array

    with ThreadPoolExecutor(8) as pool:
        arrays = list(pool.map(load, range(8)))
    assert len({id(array._session.reader) for array in arrays}) == 1
    np.testing.assert_array_equal(arrays[-1][...], CELLS)


def test_what_was_pickled_after_a_change_is_not_older(place):
    """What this process has open of a dataset is opened anew for a pickle that was made after a change."""
    before = again(hs.open(place)["g/t"])
    assert before.shape == (5, 7)
    with hs.open(place, "r+") as root:
        root["g/t"].append(CELLS, "lat") if root.format != "netcdf" else root["g/t"].attrs.update(units="m")
        root["lat"].attrs["units"] = "degrees_north"
    now = hs.open(place)
    after = again(now["g/t"])
    assert (after.shape, after.attrs["units"]) == (now["g/t"].shape, now["g/t"].attrs["units"])
    assert again(now)["lat"].attrs == {"units": "degrees_north"}
    assert before.shape == (5, 7)


def test_a_dataset_that_was_replaced(place):
    """By one with the same documents: what this process has open is the old one, which a new handle does not mean."""
    old = again(hs.open(place)["g/t"])
    assert old[4, 6] == 34
    with hs.create(place, hs.open(place).format, overwrite=True) as root:
        root.create_array("g/t", data=-CELLS, dims=("lat", "lon"), chunks=(2, 3), attrs={"units": "K"})
    np.testing.assert_array_equal(again(hs.open(place)["g/t"])[...], -CELLS)


@pytest.mark.parametrize("count", [90, pytest.param(900, marks=pytest.mark.soak)])
def test_any_view(count):
    """Views of views, under keys of NumPy's whole dialect."""
    rng, views = np.random.default_rng(1), 0
    root = hs.create("memory://any view")
    for number in range(count):
        shape = random_shape(rng, 3)
        cells = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        array = root.create_array(f"a{number % 20}/{number}", data=cells, chunks=random_grid(rng, shape))
        key = random_key(rng, shape, invalid=0)
        try:
            part = cells[key]
            inner = random_key(rng, part.shape, invalid=0)
            wanted = part[inner]
        except IndexError:  # NumPy has no such view
            continue
        views += 1
        np.testing.assert_array_equal(again(again(array.lazy[key])[inner]), wanted)
    MemoryStore.forget("any view")
    assert views > count * 2 // 3


def test_a_handle_that_was_read_again(tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(2, 3))
    reader = hs.open(tmp_path / "a.zarr")["t"]
    assert again(reader).shape == (5, 7)
    array.append(CELLS)
    reader.refresh()
    assert again(reader).shape == (10, 7)
    array.resize((3, 7))
    assert again(array).shape == (3, 7)


def test_a_view_of_what_is_gone(tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(2, 3))
    array_pickle, view_pickle = pickle.dumps(array), pickle.dumps(array.lazy[4])
    array.resize((3, 7))
    hold = again(array)
    assert hold.shape == (3, 7)  # so that what is open knows of the change
    view = pickle.loads(view_pickle)
    with pytest.raises(Invalid, match=r"shrunk from \(5, 7\) to \(3, 7\)"):
        view.read()
    del root["t"], hold
    assert list(again(root)) == []
    with pytest.raises(NodeNotFound):
        pickle.loads(array_pickle)[...]


def test_closing_what_is_shared_closes_it_for_nobody(place):
    root = hs.open(place)
    first, second = again(root), again(root["g/t"])
    first.close()
    with first:
        pass
    np.testing.assert_array_equal(second[...], CELLS)


def test_files_are_closed_when_nobody_holds_them(tmp_path):
    """The last few datasets stay open, no more."""
    pickles = []
    for number in range(12):
        with hs.create(tmp_path / f"{number}.nc") as root:
            root.create_array("t", data=CELLS)
        with hs.open(tmp_path / f"{number}.nc") as root:
            pickles.append(pickle.dumps(root["t"]))
    before = len(os.listdir("/proc/self/fd"))
    for pickled in pickles:
        view = pickle.loads(pickled).lazy[1:]
        gc.collect()
        np.testing.assert_array_equal(view.read(), CELLS[1:])  # open as long as a view needs it
    del view
    gc.collect()
    per_file = 3
    assert len(os.listdir("/proc/self/fd")) - before <= 5 * per_file


def test_copies_share_what_is_open(place):
    root = hs.open(place)
    for twin in (copy.copy, copy.deepcopy):
        array = twin(root["g/t"])
        assert array._session is root._session
        np.testing.assert_array_equal(twin(array.lazy[1:]).read(), CELLS[1:])
        assert twin(root) == root
    store = MemoryStore()
    array = hs.create(store).create_array("t", data=CELLS)
    np.testing.assert_array_equal(copy.deepcopy(array)[...], CELLS)


def test_stores_are_not_pickled(tmp_path):
    for store in (MemoryStore(), DirectoryStore(tmp_path / "a.zarr")):
        array = hs.create(store).create_array("t", data=CELLS)
        for value in (array, array.lazy[1:], array.attrs):
            with pytest.raises(Unsupported, match="name its place by a path or URL"):
                pickle.dumps(value)


def test_memory_is_of_one_process():
    try:
        array = hs.create("memory://pickled").create_array("t", data=CELLS)
        np.testing.assert_array_equal(again(array)[...], CELLS)
        done = subprocess.run(
            [sys.executable, "-c", "import pickle, sys; pickle.load(sys.stdin.buffer)[...]"],
            input=pickle.dumps(array),
            capture_output=True,
            timeout=120,
        )
        assert b"hyperslab.errors.Unsupported: a dataset in memory is in that of another process" in done.stderr
        with multiprocessing.get_context("fork").Pool(1) as pool:
            with pytest.raises(Unsupported, match="another process"):
                pool.apply(np.asarray, (array,))
            pool.close()
            pool.join()
    finally:
        MemoryStore.forget("pickled")


@pytest.mark.parametrize("name", ["a.nc", "a.zarr.zip"])
def test_what_is_written_whole_has_one_writer(tmp_path, name):
    with hs.create(tmp_path / name) as root:
        array = root.create_array("t", data=CELLS)
        with pytest.raises(Unsupported, match="mode='r'"):
            pickle.dumps(array)
    np.testing.assert_array_equal(again(hs.open(tmp_path / name)["t"])[...], CELLS)


def test_options_travel(tmp_path):
    hs.create(tmp_path / "a.zarr").create_array("t", data=CELLS)
    root = hs.open(
        tmp_path / "a.zarr", "r+", workers=1, cache_bytes=0, durable=False, lock_timeout=7, consolidated=True
    )
    session = again(root)._session
    assert session.settings == root._session.settings
    assert (session.cache, session.writable) == (None, True)
    root = again(root)
    root.create_array("u", data=CELLS)
    assert b"consolidated_metadata" in (tmp_path / "a.zarr/zarr.json").read_bytes()


# -- secrets ----------------------------------------------------------------------------------------------------------


class Vault(DirectoryStore):
    """A place that opens only with the right key."""


@pytest.fixture
def vault(tmp_path, monkeypatch):
    """``vault://`` URLs, whose folders open with ``access_key`` alone, and a module that knows the key."""
    from hyperslab.stores import location

    class Place(location.Scheme):
        def exists(self, target):
            return (tmp_path / target.rpartition("/")[2]).is_dir()

        def open(self, target, options, *, read_only, create):
            if options.get("access_key") != "canary-key":
                raise Invalid("wrong key")
            return Vault(tmp_path / target.rpartition("/")[2], read_only=read_only)

    monkeypatch.setitem(location.PLACES, "vault", Place())
    (tmp_path / "vault_keys.py").write_text(
        "def key():\n    return {'access_key': 'canary-key'}\n\ndef nothing():\n    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    hs.create("vault://host/a.zarr", storage_options={"access_key": "canary-key"}).create_array("t", data=CELLS)


def test_secrets_do_not_travel(vault):
    for url, options in (
        ("vault://host/a.zarr", {"access_key": "canary-key"}),
        ("vault://host/a.zarr", {"credentials": "vault_keys:key", "client": {"token": "canary-key"}}),
        ("vault://user:canary-key@host/a.zarr", {"access_key": "canary-key"}),
    ):
        root = hs.open(url, storage_options=options)
        if "credentials" in options:
            assert b"canary" not in pickle.dumps(root["t"])
            continue
        with pytest.raises(Invalid, match=r"'credentials': 'module:function'") as caught:
            pickle.dumps(root["t"])
        assert "canary" not in str(caught.value)


def test_a_worker_calls_for_its_own_credentials(vault):
    root = hs.open("vault://host/a.zarr", storage_options={"credentials": "vault_keys:key", "region": "here"})
    pickled = pickle.dumps(root["t"])
    assert b"canary" not in pickled
    array = pickle.loads(pickled)
    assert array._session.origin.where.options == {"credentials": "vault_keys:key", "region": "here"}
    np.testing.assert_array_equal(array[...], CELLS)


@pytest.mark.parametrize("name", ["canary", "canary:", "os:canary", "canary.x:y", "vault_keys:nothing", 5, None])
def test_credentials_that_are_none(vault, name):
    with pytest.raises(Invalid, match=r"credentials") as caught:
        hs.open("vault://host/a.zarr", storage_options={"credentials": name})
    assert "canary" not in str(caught.value)


def test_options_without_credentials_stay_as_they_are():
    assert resolve({"a": 1}) == {"a": 1}
    where = Location.of("s3://b/x", {"credentials": "canary", "client_options": {"headers": 1, "token": "canary"}})
    assert b"canary" not in pickle.dumps(where)
    assert again(where).options == {"client_options": {"headers": 1}}
    where = Location.of("s3://b/x", {"endpoint": "http://user:canary@host", "proxy": {"url": "http://host:80/"}})
    assert again(where).options == {"proxy": {"url": "http://host:80/"}}


def test_every_error_is_ours(tmp_path):
    hs.create(tmp_path / "a.zarr").create_array("t", data=CELLS)
    pickled = pickle.dumps(hs.open(tmp_path / "a.zarr"))
    (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")
    root = pickle.loads(pickled)  # nothing is opened where a message is read
    assert "a.zarr" in repr(root)
    with pytest.raises(HyperslabError, match=r"a\.zarr"):
        list(root)
    again(root)
    (tmp_path / "b.zarr").rename(tmp_path / "a.zarr")
    assert list(again(root)) == list(root) == ["t"]


def test_nothing_is_opened_before_it_is_used(tmp_path):
    """A scheduler reads and sends on what it could not open."""
    hs.create(tmp_path / "a.zarr").create_array("t", data=CELLS)
    root = hs.open(tmp_path / "a.zarr")
    handles = [root, root["t"], root["t"].lazy[1:], root["t"].attrs, root["t"].decoded()]
    pickled = pickle.dumps(handles)
    (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")
    passed_on = pickle.dumps(pickle.loads(pickled))
    (tmp_path / "b.zarr").rename(tmp_path / "a.zarr")
    group, array, view, attrs, decoded = pickle.loads(passed_on)
    assert (list(group), dict(attrs)) == (["t"], {})
    for cells, wanted in ((array, CELLS), (view, CELLS[1:]), (decoded, CELLS)):
        np.testing.assert_array_equal(cells, wanted)


class Slow:
    """A session that takes its time over a spec, and counts how often it is asked for one."""

    def __init__(self, session):
        self._session, self.asked = session, 0

    def __getattr__(self, name):
        return getattr(self._session, name)

    def array(self, path):
        self.asked += 1
        time.sleep(0.05)
        return self._session.array(path)


def test_threads_open_shared_cells_once(place):
    """Whichever attribute each asks for first, all are of the same opened cells."""
    session = Slow(hs.open(place)._session)
    names = ("spec", "source", "grid", "settings", "cache", "dtype", "fill", "url")
    shared, ready = _restore_cells(session, "g/t", CELLS.shape), threading.Barrier(len(names))

    def first(name):
        ready.wait()
        return getattr(shared, name)

    with ThreadPoolExecutor(len(names)) as pool:
        found = dict(zip(names, pool.map(first, names), strict=True))
    assert session.asked == 1
    assert all(found[name] is getattr(shared, name) for name in names)
    with pytest.raises(AttributeError, match="nothing"):
        shared.nothing  # noqa: B018


def test_cells_without_dimensions_are_pickled_unopened(tmp_path):
    hs.create(tmp_path / "a.zarr").create_array("a", data=np.float32(4.5))
    view = again(hs.open(tmp_path / "a.zarr")["a"].lazy[()])
    (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")
    travelled = again(view)
    (tmp_path / "b.zarr").rename(tmp_path / "a.zarr")
    assert travelled.read() == 4.5
