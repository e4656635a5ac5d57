"""Hostile datasets: what a case is, the sound datasets that they are made from, and the process that opens them.

``python corpus.py CAUSE FOLDER SHARE`` makes the cases of one cause below FOLDER, opens each under a limit of memory,
and prints a line of JSON per case: what was raised, whether the message says where, whether the sibling is still read,
what changed on disk, how much memory it took.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

import hyperslab as hs
from hyperslab.errors import HyperslabError

ADDRESSES = 1 << 30
"""Bytes of address space that a process of cases gets on top of what it has after its imports."""
HANG = 60
"""Seconds after which a case is said to hang; on a free machine each takes some milliseconds."""
CAUSES = {
    "truncated": "damaged_chunks",
    "missing": "damaged_chunks",
    "swapped": "damaged_chunks",
    "oversized": "damaged_chunks",
    "bombs": "bombs",
    "json": "documents",
    "fields": "documents",
    "shapes": "documents",
    "codecs": "documents",
    "names": "places",
    "links": "places",
    "strangers": "places",
    "archives": "places",
    "readonly": "media",
    "fulldisk": "media",
    "netcdf": "netcdf_cases",
    "nczarr": "nczarr_cases",
    "hdmf": "hdmf_cases",
    "collections": "collection_cases",
    "deker": "collection_cases",
}

A = np.arange(1, 65, dtype="<i4").reshape(8, 8)
GOOD = np.linspace(0.0, 1.0, 6)
OTHER = np.arange(100, 136, dtype="<i4").reshape(6, 6)
CANARY = b"the canary"

Step = Callable[[str], Any]


@dataclass(frozen=True)
class Layout:
    """How the sound dataset is stored."""

    format: str
    codec: Any
    sharded: bool = False
    dialect: str | None = None
    profile: str | None = None

    @property
    def inner(self) -> tuple[int, int]:
        return (2, 2) if self.sharded else (4, 4)

    @property
    def chunk(self) -> str:
        """The key of the first chunk or shard of ``a``."""
        return "c/0/0" if self.document == "zarr.json" else "0.0"

    @property
    def document(self) -> str:
        return "zarr.json" if self.format == "zarr3" or self.profile == "v3" else ".zarray"


LAYOUTS = {
    "zarr2": Layout("zarr2", "zlib:1"),
    "zarr2-raw": Layout("zarr2", "none"),
    "zarr2-blosc": Layout("zarr2", "blosc"),
    "zarr2-zstd": Layout("zarr2", "zstd"),
    "zarr3": Layout("zarr3", "default"),
    "zarr3-gzip": Layout("zarr3", "gzip"),
    "zarr3-raw": Layout("zarr3", "none"),
    "shards": Layout("zarr3", "default", True),
    "shards-gzip": Layout("zarr3", "gzip", True),
    "shards-raw": Layout("zarr3", "none", True),
    "nczarr": Layout("nczarr", "zlib:1", dialect="current"),
    "nczarr-raw": Layout("nczarr", "none", dialect="current"),
    "draft": Layout("nczarr", "zlib:1", dialect="draft"),
    "hdmf": Layout("hdmf", "zlib:1", profile="v2"),
    "hdmf3": Layout("hdmf", "gzip", profile="v3"),
}
MAIN = ("zarr2", "zarr3", "shards")
LEAST = 6
"""Cases of one cause that are taken at least, where it has as many."""


def whole(url: str) -> Any:
    """Read all of ``a``."""
    return hs.open(url)["a"][...]


def part(url: str) -> Any:
    """Read a few cells of ``a``, of one chunk each, by the ways that decode parts."""
    return hs.open(url, cache_bytes=0)["a"][1:3:2, 1]


def cached(url: str) -> Any:
    """Read a part twice through the cache of decoded chunks."""
    array = hs.open(url)["a"]
    return [array[0:2, 0:2], array[0:2, 0:2]][1]


def opened(url: str) -> Any:
    """Open the dataset."""
    return hs.open(url)


READS: tuple[Step, ...] = (whole, part, cached)


@dataclass(frozen=True)
class Case:
    """One hostile dataset. ``make`` damages the sound one at the path it is given (or makes one of its own).

    ``errors``: the errors that every step may raise; none when the steps must succeed, then the first gives ``value``.
    ``where``: the message has one of these words besides the URL; ``says``: and one of these. ``sibling``: ``good`` is
    still be read. ``leaves``: keys that may change on disk. ``around`` is in force during the steps, ``afterwards``
    must succeed when it is over.
    """

    name: str
    make: Callable[[Path], Any]
    errors: tuple[str, ...] = ()
    layout: str | None = "zarr3"
    steps: tuple[Step, ...] = READS
    value: Any = None
    where: tuple[str, ...] = ("node=/a", "key=a")
    sibling: bool = True
    memory: int = 48 << 20
    target: str = "x.zarr"
    around: Callable[[Path], Any] | None = None
    says: tuple[str, ...] = ()
    url: bool = True
    medium: Callable[[Path], Any] | None = None
    leaves: str = "(?!)"
    afterwards: Step | None = None


# -- sound datasets ---------------------------------------------------------------------------------------------------


@cache
def template(folder: Path, name: str) -> Path:
    """A sound dataset: ``a`` (to be damaged), ``other`` (of other sizes), ``good`` and a group with an array."""
    layout = LAYOUTS[name]
    place = folder / f"{name}.zarr"
    shards: Any = {"shards": (8, 8)} if layout.sharded else {}
    options: Any = {"dialect": layout.dialect} if layout.dialect else {}
    options |= {"profile": layout.profile} if layout.profile else {}
    with hs.create(str(place), layout.format, durable=False, **options) as root:
        root.attrs["title"] = "sound"
        root.create_array("a", data=A, chunks=layout.inner, codec=layout.codec, dims=("y", "x"), **shards)
        shards = {"shards": (6, 6)} if layout.sharded else {}
        root.create_array("other", data=OTHER, chunks=(3, 3), codec=layout.codec, **shards)
        root.create_array("good", data=GOOD, chunks=(4,), codec=layout.codec)
        root.create_array("g/b", data=np.arange(5))
    if layout.profile:  # consolidated metadata would hide what is done to documents
        (place / ".zmetadata").unlink(missing_ok=True)
    if layout.profile == "v3":
        edit(place / "zarr.json", lambda doc: doc.pop("consolidated_metadata"))
    return place


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a JSON document."""
    doc = json.loads(path.read_bytes())
    change(doc)
    path.write_text(json.dumps(doc))


def crc(data: bytes) -> bytes:
    """The data with its crc32c behind it."""
    return data + google_crc32c.value(data).to_bytes(4, "little")


def shard(parts: Sequence[bytes | None]) -> bytes:
    """A shard of these inner chunks with a sound index at its end."""
    missing = 2**64 - 1
    entries, offset = [], 0
    for inner in parts:
        entries += [missing, missing] if inner is None else [offset, len(inner)]
        offset += len(inner or b"")
    return b"".join(inner or b"" for inner in parts) + crc(np.array(entries, "<u8").tobytes())


# -- the process that opens them --------------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, str]:
    """What lies below a folder; lock files and folders without values mean nothing and are left out."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = os.path.join(place, name)
            if name != ".lock" and (os.path.islink(path) or not os.path.isdir(path)):
                found[os.path.relpath(path, folder)] = _state(path)
    return found


def _state(path: str) -> str:
    status = os.lstat(path)
    if os.path.islink(path):
        return f"link to {os.readlink(path)}"
    if not os.path.isfile(path):
        return f"{status.st_mode:o}"
    if status.st_blocks * 512 < status.st_size:
        return f"{status.st_size} sparse bytes"
    with open(path, "rb") as file:
        return f"{status.st_mtime_ns} {hashlib.sha1(file.read()).hexdigest()}"


def attempt(step: Step, url: str, case: Case, first: bool) -> dict[str, Any]:
    """What one step does."""
    try:
        value = step(url)
    except HyperslabError as error:
        text = str(error)
        return {
            "error": type(error).__name__,
            "text": text[:1500],
            "url": url in text or not case.url,
            "where": all(not words or any(word in text for word in words) for words in (case.where, case.says)),
            "remedy": bool(error.remedy) and error.remedy in text,
        }
    except Hang:
        return {"error": "hang", "text": "", "url": False, "where": False, "remedy": False}
    except BaseException as error:
        text = "".join(traceback.format_exception(error))[-1500:]
        return {"error": type(error).__name__, "text": text, "url": False, "where": False, "remedy": False}
    same = case.value is None or not first or np.array_equal(value, case.value)
    return {"error": None, "text": "" if same else repr(value)[:300], "right": same}


class Hang(BaseException):
    """A step took too long."""


def _hangs(*_: Any) -> None:
    raise Hang


def siblings(url: str) -> str:
    """Empty when the rest of the dataset can still be used, else what went wrong."""
    try:
        root: Any = hs.open(url)
        if not np.array_equal(root["good"][...], GOOD):
            return "other cells"
        names = set(root)
        if not {"good", "g", "other"} <= names:
            return f"only {sorted(names)} are listed"
        if root["g/b"].shape != (5,) or "good" not in root.tree() or "good" not in repr(root):
            return "other nodes"
    except BaseException as error:
        return "".join(traceback.format_exception(error))[-800:]
    return ""


def resident(key: str) -> int:
    """Bytes of memory: ``VmRSS`` now, ``VmHWM`` at most since it was reset."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def run(case: Case, folder: Path, templates: Path) -> dict[str, Any]:
    """Make one case, open it, report."""
    place = folder / "inside"
    place.mkdir(parents=True)
    with (case.medium or nullcontext)(place):
        return _run(case, folder, place, templates)


def _run(case: Case, folder: Path, place: Path, templates: Path) -> dict[str, Any]:
    (folder / "canary").write_bytes(CANARY)
    target = place / case.target
    if case.layout is not None:
        shutil.copytree(template(templates, case.layout), target)
    case.make(target)
    url = str(target)
    before = snapshot(folder)
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    memory, cpu = resident("VmRSS"), time.process_time()
    signal.alarm(HANG)
    with (case.around or nullcontext)(target):
        outcomes = [attempt(step, url, case, not number) for number, step in enumerate(case.steps)]
    added = resident("VmHWM") - memory
    cpu = time.process_time() - cpu
    sibling = siblings(url) if case.sibling else ""
    after = snapshot(folder)
    later = None if case.afterwards is None else attempt(case.afterwards, url, case, False)
    signal.alarm(0)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    changed = [key for key in changed if not re.fullmatch(case.leaves, key)]
    return {
        "name": case.name,
        "expected": case.errors,
        "outcomes": outcomes,
        "sibling": sibling,
        "later": later and later["error"] and later["text"],
        "changed": changed,
        "memory": added,
        "allowed": case.memory,
        "cpu": round(cpu, 3),
    }


def limit_memory() -> None:
    """Nothing from here on may take more than ``ADDRESSES`` on top of what is mapped now."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ADDRESSES, mapped + ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def some(cases: Iterable[Case], share: int) -> list[Case]:
    """Every ``share``-th case, of few cases as many more as make :data:`LEAST`."""
    found = list(cases)
    return found[:: max(1, min(share, len(found) // LEAST))]


def main(cause: str, folder: Path, share: int) -> None:
    """The cases of one cause."""
    warnings.simplefilter("error")
    cases = some(getattr(importlib.import_module(CAUSES[cause]), cause)(), share)
    templates = folder / "templates"
    templates.mkdir(parents=True)
    for name in dict.fromkeys(case.layout for case in cases if case.layout is not None):
        template(templates, name)
    signal.signal(signal.SIGALRM, _hangs)
    limit_memory()
    for number, case in enumerate(cases):
        print(json.dumps({"begins": case.name}), flush=True)
        print(json.dumps(run(case, folder / f"{number:03}", templates)), flush=True)
        shutil.rmtree(folder / f"{number:03}", ignore_errors=True)


if __name__ == "__main__":
    sys.modules["corpus"] = sys.modules["__main__"]
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
