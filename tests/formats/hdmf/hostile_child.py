"""A process that could run what hostile stores ask for: a module of the peers' name is there, with canaries in it.

``python hostile_child.py CAUSE STORES FOLDER`` prints a line of JSON: what happened that must not, and what was raised.
"""

from __future__ import annotations

import builtins
import ctypes
import json
import pickle
import random
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
from click.testing import CliRunner

import hyperslab as hs
from hyperslab.cli import main as command
from hyperslab.errors import HyperslabError

POISONED = {
    "evil_chunk_element": "refs/objrefs",
    "evil_chunk_toplevel": "refs/objrefs",
    "evil_fill_value": "refs/compound_ref",
    "evil_second_filter": "dtypes/text",
    "evil_spec": "specifications/core/2.0.0/namespace",
    "evil_link_escape": "",
}
TARGETS: list[dict[str, Any]] = [{"format": "zarr3"}, {"format": "hdmf", "profile": "v3"}, {"format": "hdmf"}]
PEERS = """
import builtins
class ZarrReference(dict):
    def __new__(cls, *args): builtins.HDMF_PWNED = "new"; return super().__new__(cls)
    def __setstate__(self, state): builtins.HDMF_PWNED = "state"
"""
LONGEST = 20
_ARENAS = -8
"""M_ARENA_MAX of glibc's mallopt."""
wrong: list[str] = []
raised: dict[str, list[str]] = {}


def no_pickles(event: str, arguments: Any) -> None:
    """The standard unpickler of the interpreter may load nothing but what the restricted one lets it ask for."""
    if event == "pickle.find_class" and arguments[0] not in (
        "numpy",
        "numpy.core.multiarray",
        "numpy._core.multiarray",
    ):
        wrong.append(f"pickle asked for {arguments}")


def tried(said: str, step: Callable[[], Any]) -> Any:
    """What a step gives; only errors of ours are allowed, within bounds of time and memory."""
    signal.alarm(LONGEST)
    try:
        return step()
    except HyperslabError as error:
        raised.setdefault(said, []).append(type(error).__name__)
    except BaseException as error:
        wrong.append(f"{said}: {type(error).__name__}: {error}"[:400])
    finally:
        signal.alarm(0)
        if hasattr(builtins, "HDMF_PWNED"):
            wrong.append(f"{said}: something ran: {builtins.HDMF_PWNED}")  # type: ignore[attr-defined]
            del builtins.HDMF_PWNED  # type: ignore[attr-defined]


def read(place: Path, said: str) -> dict[str, Any]:
    """All that can be read of a dataset by path: attributes, cells, schemas, where links lead."""
    found: dict[str, Any] = {}
    root = tried(f"{said} open", lambda: hs.open(place))
    if not hasattr(root, "tree"):
        return found
    tried(f"{said} tree", root.tree)

    def group(node: Any, path: str, depth: int) -> None:
        links = dict(tried(f"{said} links", lambda: list(node.links())) or ())
        for name in tried(f"{said} names", lambda: list(node)) or ():
            below = f"{path}/{name}".lstrip("/")
            inner = tried(f"{said} {below}", lambda name=name: node[name])
            if inner is None or name in links or depth > 8:
                continue
            found[f"{below}@"] = tried(f"{said} {below}", lambda inner=inner: dict(inner.attrs))
            if hasattr(inner, "tree"):
                group(inner, below, depth + 1)
            else:
                cells = tried(f"{said} {below}", lambda inner=inner: inner[...])
                found[below] = None if cells is None else repr(np.asarray(cells).tolist())

    group(root, "", 0)
    tried(f"{said} schemas", lambda: [dict(v) for n in root.specifications.values() for v in n.values()])
    return found


def looked_at(place: Path, said: str) -> None:
    """Every way to look through it."""
    tried(f"{said} check", lambda: list(hs.check(place)))
    tried(f"{said} deep", lambda: list(hs.check(place, deep=True)))
    tried(f"{said} plan", lambda: list(hs.repair(place, drop_links=True)))


# -- causes -----------------------------------------------------------------------------------------------------------


def stores(source: Path, folder: Path, targets: int) -> None:
    """Each store through each entry point, and into so many formats."""
    sound = read(source / "hz060_builders_pickle.zarr", "sound")
    if len(sound) < 40 or None in sound.values():
        wrong.append(f"the sound store is not read: {sorted(sound)}")
    for turn, (name, poison) in enumerate(POISONED.items()):
        place = folder / f"{name}.zarr"
        shutil.copytree(source / place.name, place)
        before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
        found = read(place, name)
        others = [path for path in sound if path != poison and found.get(path) != sound[path]]
        if others:
            wrong.append(f"{name}: other than the sound one: {others}")
        for words in (["info"], ["tree"], ["check", "--deep"], ["repair"], ["dump"]):
            done = CliRunner().invoke(command, [words[0], str(place), *words[1:]])
            if done.exception is not None and not isinstance(done.exception, SystemExit):
                wrong.append(f"{name} {words}: {done.exception!r}")
        looked_at(place, name)
        if before != {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}:
            wrong.append(f"{name}: it was changed")
        for number, options in enumerate(TARGETS):
            if (number - turn) % len(TARGETS) < targets:
                target = folder / f"{name}-{number}.zarr"
                tried(f"{name} convert", lambda t=target, o=options, p=place: hs.convert(p, t, **o))
        tried(f"{name} mend", lambda p=place: list(hs.repair(p, dry_run=False, drop_links=True)))
        tried(f"{name} mended", lambda p=place: hs.check(p, deep=True))


def truncated(source: Path, folder: Path, share: int) -> None:
    """Every document and chunk of what is special to HDMF, cut at several places."""
    for name in ("hz0130_builders_pickle", "hz0140_builders_v3"):
        place = Path(shutil.copytree(source / f"{name}.zarr", folder / f"{name}.zarr"))
        for path in sorted(p for p in place.rglob("*") if p.is_file())[::share]:
            data = path.read_bytes()
            for cut in sorted({0, 1, len(data) // 2, max(len(data) - 1, 0)}):
                path.write_bytes(data[:cut])
                said = f"{name} {path.relative_to(place)} {cut}"
                read(place, said)
                tried(f"{said} deep", lambda p=place: list(hs.check(p, deep=True)))
            path.write_bytes(data)


def spoilt(value: Any, random_: random.Random) -> Any:
    """JSON with one of its values replaced."""
    if isinstance(value, dict) and value and random_.random() < 0.85:
        name = random_.choice(sorted(value))
        return {**value, name: spoilt(value[name], random_)}
    if isinstance(value, list) and value and random_.random() < 0.85:
        number = random_.randrange(len(value))
        return [spoilt(v, random_) if i == number else v for i, v in enumerate(value)]
    odd = [None, True, -1, 0, 1.5, 2**40, 2**63, 10**30, "", "x", "/", "../../canary", "/refs", "\0", "|O", "pickle"]
    more = [
        [],
        {},
        [[]],
        {"id": "pickle"},
        [{"id": "pickle"}],
        "gASVRAAAAA==",
        [{"name": "x", "path": "/", "source": "/"}],
    ]
    return random_.choice([*odd, *more])


def mutated(source: Path, folder: Path, share: int) -> None:
    """Documents with random values in random places; the copy goes, since it would hide them."""
    random_ = random.Random(7)
    for name in ("hz0130_builders_pickle", "hz0140_builders_v3"):
        place = Path(shutil.copytree(source / f"{name}.zarr", folder / f"{name}.zarr"))
        shutil.rmtree(place / "dtypes")
        (place / ".zmetadata").unlink(missing_ok=True)
        documents = sorted(p for p in place.rglob("*") if p.name in (".zarray", ".zattrs", ".zgroup", "zarr.json"))
        for number in range(600 // share):
            path = random_.choice(documents)
            data = path.read_bytes()
            doc = json.loads(data)
            doc.pop("consolidated_metadata", None)
            for _ in range(random_.randint(1, 2)):
                doc = spoilt(doc, random_)
            path.write_text(json.dumps(doc))
            said = f"{name} {number} {json.dumps(doc)[:200]}"
            begun = time.process_time()
            read(place, said)
            looked_at(place, said)
            if time.process_time() - begun > 10:
                wrong.append(f"{said}: took {time.process_time() - begun} s")
            path.write_bytes(data)


class Runs:
    """What pickles as a call."""

    def __reduce__(self) -> Any:
        return exec, ("import builtins; builtins.HDMF_PWNED = 'ran'",)


def payloads() -> Iterator[bytes]:
    cells = np.empty(3, object)
    cells[:] = ["a", Runs(), "b"]
    nested = np.empty(3, object)
    nested[:] = ["a", [Runs()], "b"]
    yield from (pickle.dumps(Runs(), protocol) for protocol in range(6))
    yield from (pickle.dumps(each, 5) for each in (cells, nested, [Runs()], {"path": Runs()}, np.arange(3), Runs))
    yield b'cbuiltins\neval\n(S\'setattr(__import__("builtins"),"HDMF_PWNED",1)\'\ntR.'
    yield b"\x80\x05cnumpy\ndtype\n}\x8c\x04code\x8c\x01xsb."
    yield b"\x80\x05\x8c\x05numpy\x8c\x05dtype\x93N}\x8c\x04code\x8c\x01xs\x86b."
    yield b"\x80\x05\x82\x01."
    yield b"\x80\x05chdmf_zarr.utils\nZarrReference\n(\x8c\x01atR."
    yield b"\x80\x05chdmf_zarr.utils\nZarrReference\n)\x81}\x8c\x04path\x8c\x02/as b."
    yield b"\x80\x05chdmf_zarr.utils\nZarrReference.__init__\n."
    yield b"\x80\x05\x8c\x01x."


@contextmanager
def restored(*paths: Path) -> Iterator[None]:
    old = {path: path.read_bytes() for path in paths}
    try:
        yield
    finally:
        for path, data in old.items():
            path.write_bytes(data)


def pickles(source: Path, folder: Path) -> None:
    """Pickles in every position that has had them: cells, rows, fill values, other filters, schemas, the copy."""
    import base64

    place = Path(shutil.copytree(source / "evil_spec.zarr", folder / "x.zarr"))
    shutil.rmtree(place / "dtypes")
    (place / ".zmetadata").unlink()
    refs, rows = place / "refs/objrefs", place / "refs/compound_ref"
    schema, numbers = place / "specifications/core/2.0.0/namespace", place / "g1/i2"
    plain = {"id": "pickle", "protocol": 5}
    for number, payload in enumerate(payloads()):
        said = f"payload {number}"
        poison = {"dtype": "|O", "filters": [plain], "fill_value": base64.b64encode(payload).decode()}
        with restored(refs / "0", rows / "0", rows / ".zarray", schema / "0", numbers / ".zarray", numbers / "0.0"):
            for chunk in (refs / "0", rows / "0"):
                chunk.write_bytes(numcodecs.Blosc("lz4").encode(payload))
            (schema / "0").write_bytes(payload)
            (numbers / "0.0").write_bytes(numcodecs.Blosc("lz4").encode(payload))
            for filters in (
                [plain],
                [{"id": "json2"}, plain],
                [plain, {"id": "vlen-utf8"}],
                [{"id": "vlen-utf8"}, plain],
            ):
                doc = json.loads((numbers / ".zarray").read_bytes())
                (numbers / ".zarray").write_text(json.dumps(doc | poison | {"filters": filters}))
                found = read(place, said)
                if any(found.get(path) is not None for path in ("refs/objrefs", "refs/compound_ref", "g1/i2")):
                    wrong.append(f"{said}: poison was read")
                looked_at(place, said)
            doc = json.loads((rows / ".zarray").read_bytes())
            (rows / ".zarray").write_text(json.dumps(doc | {"fill_value": poison["fill_value"]}))
            read(place, said)
            copy = {p.relative_to(place).as_posix(): json.loads(p.read_bytes()) for p in place.rglob(".z[aag]*")}
            (place / ".zmetadata").write_text(json.dumps({"metadata": copy, "zarr_consolidated_format": 1}))
            read(place, said)
            (place / ".zmetadata").unlink()


def main(cause: str, source: Path, folder: Path, share: str = "") -> None:
    """The cases of one cause, or a part of them: one of every ``share``, or as many targets."""
    fake = folder / "fake" / "hdmf_zarr"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("from . import utils")
    (fake / "utils.py").write_text(PEERS)
    sys.path.insert(0, str(fake.parent))
    import hdmf_zarr.utils

    assert hdmf_zarr.utils.ZarrReference
    sys.addaudithook(no_pickles)
    # What is limited is room of addresses, of which each thread's arena takes 64 MiB and its stack 8: with as many as
    # there may be under load no thread could start any more.
    ctypes.CDLL(None).mallopt(_ARENAS, 2)
    threading.stack_size(1 << 20)
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (mapped, mapped))

    def hangs(*_: Any) -> None:
        raise TimeoutError(f"more than {LONGEST} s")

    signal.signal(signal.SIGALRM, hangs)
    globals()[cause](source, folder, *([int(share)] if share else []))
    print(json.dumps({"wrong": wrong, "raised": raised}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])
