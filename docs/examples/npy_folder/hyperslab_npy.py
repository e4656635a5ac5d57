"""A folder of ``.npy`` files as a format of hyperslab, with a JSON file beside each."""

import io
from typing import Any

import numpy as np
from numpy.lib import format as npy

from hyperslab.formats import authoring as own

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def decoded(stored: bytes) -> own.Block:
    return np.asarray(np.load(io.BytesIO(stored), allow_pickle=False))


def encoded(cells: own.Block) -> bytes:
    file = io.BytesIO()
    np.save(file, cells, allow_pickle=False)
    return file.getvalue()


class Folder(own.Writer):
    """An open dataset; ``children``, ``node``, ``chunks`` and ``close`` are enough to read."""

    def __init__(self, store: Any, durable: bool) -> None:  # a store: bytes under keys
        self.store, self.durable = store, durable

    def children(self, path: str) -> list[str]:
        self.node(path)  # where nothing is, it says so
        files, folders = self.store.list_dir(path)
        found = {stem for stem, _, end in (name.rpartition(".") for name in files) if stem and end in ("npy", "json")}
        return sorted(found | set(folders))

    def node(self, path: str) -> own.GroupSpec | own.ArraySpec:
        document, header = self.store.get(f"{path}.json"), self.header(path)
        if path and document is None and header is None and not any(self.store.list_dir(path)):
            raise own.NodeNotFound("there is nothing", url=self.store.url, node=path)
        return own.node_from_json(own.read_json(document or b"{}"), header)

    def header(self, path: str) -> own.ArraySpec | None:
        found = self.store.get_ranges(f"{path}.npy", [(0, 1 << 16)])
        if found is None:
            return None
        try:
            file = io.BytesIO(found[0])
            read = HEADERS[npy.read_magic(file)]
            shape, _, dtype = read(file)
        except (ValueError, KeyError) as error:
            raise own.FormatError(f"no .npy file: {error}", key=f"{path}.npy") from error
        return own.ArraySpec(shape=shape, dtype=dtype, chunks=own.whole_chunks(shape))

    def chunks(self, path: str) -> own.SingleChunkArray:
        spec = self.node(path)
        if not isinstance(spec, own.ArraySpec):
            raise own.NodeNotFound("this is a group", url=self.store.url, node=path)
        return self.cells(path, spec)

    def cells(self, path: str, spec: own.ArraySpec) -> own.SingleChunkArray:
        return own.SingleChunkArray(spec, self.store, f"{path}.npy", decoded, encoded, self.durable)

    def new_array(self, wish: own.ArraySpec) -> own.ArraySpec:
        return own.whole_wish(wish, "npy")

    def put(self, path: str, spec: Any) -> None:
        if isinstance(spec, own.ArraySpec):
            self.cells(path, spec).fit(before=self.header(path))
        self.store.put(f"{path}.json", own.write_json(own.node_to_json(spec)), durable=self.durable)
        for group in own.outward(own.split(path)[0]):
            if self.store.get(f"{group}.json") is None:
                self.store.put(f"{group}.json", b"{}", durable=self.durable)

    def drop(self, path: str) -> None:
        for key in (f"{path}.npy", f"{path}.json"):
            self.store.delete(key, durable=self.durable)
        self.store.delete_prefix(path, durable=self.durable)

    def close(self) -> None:
        self.store.close()


class NpyFormat(own.Format):
    name, features, traits = "npy", own.PLAIN, own.FormatTraits(suffixes=(".npys",))
    info = own.FormatInfo("npy", "trees of .npy files", "a .npy file, or a .json, in a folder", True)

    def sniff(self, probe: own.Probe) -> bool:
        return any(name == ".json" or name.endswith(".npy") for name in probe.list_dir()[0])

    def open(self, where: own.Location, mode: own.Mode, settings: Any = own.DEFAULTS, remembered: Any = None) -> Folder:
        store: Any = where.store(read_only=mode == "r", create=mode in ("w", "x"))
        if mode == "w":
            store.delete_prefix("")
        if mode in ("w", "x"):
            store.put(".json", b"{}", durable=settings.durable)
        return Folder(store, settings.durable)


FORMAT = NpyFormat()
