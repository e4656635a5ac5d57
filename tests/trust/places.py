"""Names, links and archives that lead out of a dataset, and places that hold none."""

from __future__ import annotations

import json
import os
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from corpus import CANARY, LAYOUTS, MAIN, A, Case, edit, opened, part, template, whole

import hyperslab as hs

ESCAPES = (
    "..", "../canary", "../../canary", "a/../../canary", "/../canary", "a/..", "./a", ".", "a\\..\\..\\canary",
    "\\canary", "..\\canary", "a\0", "\0", "a/\0/../..", "../" * 40 + "etc/passwd",
)  # fmt: skip
STRAYS = (
    "/etc/passwd", "//etc//passwd", "C:/canary", "C:", "~/canary", "$HOME", "%2e%2e/canary", "\uff0e\uff0e/canary",
    "a" * 5000, "b/" * 3000 + "c", "file:///etc/passwd", "a/.lock", "\ud83d", "*",
)  # fmt: skip
NAMED = ("Invalid", "NodeNotFound", "AlreadyExists", "StorageError")


def _asked(name: str) -> tuple[Callable[[str], Any], ...]:
    """Reads of a node by a hostile name."""
    return (
        lambda url: hs.open(url)[name],
        lambda url: hs.open(url, path=name)[...],
        lambda url: hs.open(url)["g"][name],
    )


def _wanted(name: str) -> tuple[Callable[[str], Any], ...]:
    """Changes to a node by a hostile name."""
    return (
        lambda url: hs.open(url, "r+").create_array(name, data=np.arange(3)),
        lambda url: hs.open(url, "r+").create_group(name),
        lambda url: hs.open(url, "r+").move("good", name),
        lambda url: hs.open(url, "r+").copy("good", name),
        lambda url: hs.open(url, "r+").__delitem__(name),
        lambda url: hs.open(url, "r+").move(name, "new"),
    )


def names() -> Iterator[Case]:
    """Hostile names as paths, in consolidated metadata, in chunk keys, on disk."""
    for layout in ("zarr2", "zarr3"):
        for name in ESCAPES:
            shown = name if len(name) < 30 else f"{name[:27]}..."
            steps = (*_asked(name), *_wanted(name))
            yield Case(
                f"{layout}: {shown!r}", _nothing, ("Invalid",), layout, steps, where=("is not a name",), url=False
            )
        for name in STRAYS:
            where = ("node=/", "is not a", "too long")
            yield Case(f"{layout}: {name[:20]!r}", _nothing, NAMED, layout, _asked(name), where=where, url=False)
        for name in ("a\\b", "..", "x/../..", "a/\0", "\ud83d"):
            yield Case(
                f"{layout}: consolidated {name!r}",
                lambda r, n=name: _consolidate(r, n),
                (),
                layout,
                (whole, _names, _told),
                A,
            )
        where = ("node=/a",)
        for separator in ("/../", "../", "\\", "\0", "", "//", 5, ["."]):
            change = edit_keys(layout, separator)
            yield Case(
                f"{layout}: chunk keys with {separator!r}", change, ("FormatError", "Unsupported"), layout, where=where
            )
        for odd in ("back\\slash", "new\nline", "C:", "....", "x" * 250, ".hidden", "\udcff", "c", "nul\u2400", "-rf"):
            yield Case(
                f"{layout}: a folder {odd[:20]!r}",
                lambda r, n=odd, f=layout: _odd_folder(r, n, f),
                (),
                layout,
                (whole, _told),
                A,
            )


def _nothing(root: Path) -> None:
    return


def _names(url: str) -> Any:
    return sorted(hs.open(url))


def _told(url: str) -> Any:
    root: Any = hs.open(url)
    return [root.tree(), repr(root), root._repr_html_(), dict(root.arrays()), dict(root.groups()), root.dims]


def _consolidate(root: Path, name: str) -> None:
    """Consolidated metadata with the nodes of the dataset and one of a hostile name."""
    with hs.open(str(root), "r+", consolidated=True, durable=False) as dataset:
        dataset.attrs["note"] = 1
    path = root / ".zmetadata"
    if path.exists():
        edit(path, lambda doc: doc["metadata"].update({f"{name}/.zarray": doc["metadata"]["a/.zarray"]}))
    else:
        entry = "consolidated_metadata"
        edit(root / "zarr.json", lambda doc: doc[entry]["metadata"].update({name: doc[entry]["metadata"]["a"]}))


def edit_keys(layout: str, separator: Any) -> Callable[[Path], None]:
    """Another separator of chunk keys in ``a``."""
    if layout == "zarr2":
        return lambda root: edit(root / "a/.zarray", lambda doc: doc.update(dimension_separator=separator))
    encoding = {"name": "v2", "configuration": {"separator": separator}}
    return lambda root: edit(root / "a/zarr.json", lambda doc: doc.update(chunk_key_encoding=encoding))


def _odd_folder(root: Path, name: str, layout: str) -> None:
    (root / name).mkdir(exist_ok=True)
    document = LAYOUTS[layout].document
    (root / name / document).write_bytes((root / "good" / document).read_bytes())


# -- links ------------------------------------------------------------------------------------------------------------


def link(inner: str, target: str) -> Callable[[Path], None]:
    """Put a symbolic link in the place of something in the dataset."""

    def make(root: Path) -> None:
        outside = root.parent / "outside"
        outside.mkdir(exist_ok=True)
        path = root / inner
        if path.exists():
            path.rename(outside / path.name)
        os.symlink(target.replace("@", str(outside)), path)

    return make


def _special(inner: str, how: Callable[[Path], Any]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        path = root / inner
        path.unlink(missing_ok=True)
        how(path)

    return make


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


def links() -> Iterator[Case]:
    """Symbolic links out of the root, in circles, to nowhere; pipes and folders in the place of values."""
    out = ("StorageError",)
    for layout in MAIN:
        chunk = f"a/{LAYOUTS[layout].chunk}"
        document = f"a/{LAYOUTS[layout].document}"
        name = chunk.rpartition("/")[2]
        up = "../" * (chunk.count("/") + 1)
        yield Case(f"{layout}: a chunk, absolute", link(chunk, f"@/{name}"), out, layout)
        yield Case(f"{layout}: a chunk, relative", link(chunk, f"{up}outside/{name}"), out, layout)
        yield Case(f"{layout}: a chunk, a device", link(chunk, "/dev/zero"), out, layout)
        yield Case(f"{layout}: a chunk, the canary", link(chunk, f"{up}../canary"), out, layout)
        yield Case(f"{layout}: a document", link(document, f"@/{document[2:]}"), out, layout)
        yield Case(f"{layout}: an array", link("a", "@/a"), out, layout)
        yield Case(f"{layout}: an array, relative", link("a", "../outside/a"), out, layout)
        yield Case(f"{layout}: the array in circles", link("a", "a"), ("NodeNotFound",), layout)
        if layout != "zarr2":
            yield Case(f"{layout}: a folder of chunks", link("a/c", "@/c"), out, layout)
        written: tuple[Callable[[str], Any], ...] = (
            lambda url: hs.open(url, "r+")["a"].__setitem__((), 0),
            lambda url: hs.open(url, "r+")["a"].attrs.update(x=1),
            lambda url: hs.open(url, "r+")["a"].resize((2, 2)),
            lambda url: hs.open(url, "r+")["a"].append(np.zeros((1, 8), "i4")),
        )
        yield Case(f"{layout}: an array, written", link("a", "@/a"), out, layout, written)
        yield Case(
            f"{layout}: a group, written",
            link("h", "/etc"),
            out,
            layout,
            (_make_below("h/x"), _make_below("h/y/z")),
            where=("key=h", "node=/h"),
        )
        no_files: dict[str, Callable[[Path], None]] = {
            "to nowhere": link(chunk, "nowhere"),
            "that is a folder": _special(chunk, Path.mkdir),
            "that is a pipe": _special(chunk, os.mkfifo),
            "that is a socket": _special(chunk, _socket),
        }
        for what, make in no_files.items():
            yield Case(f"{layout}: a chunk {what}", make, ("CorruptChunk",), layout, (whole,))
        yield Case(f"{layout}: a pipe in place of a document", _special(document, os.mkfifo), ("NodeNotFound",), layout)
        yield Case(
            f"{layout}: a folder in place of a document", _special(document, Path.mkdir), ("NodeNotFound",), layout
        )
        yield Case(f"{layout}: the root itself", _move_root, (), layout, (whole, part)[:1], A)
        yield Case(f"{layout}: within the dataset", _inner_links, (), layout, (whole, _through), A)
        yield Case(f"{layout}: a folder to the root", link("g/up", ".."), (), layout, (whole, _told), A)
        lists = (_told,)
        yield Case(f"{layout}: a listed folder", link("z", "@"), (), layout, lists)


def _make_below(path: str) -> Callable[[str], Any]:
    return lambda url: hs.open(url, "r+").create_array(path, data=np.arange(3))


def _move_root(root: Path) -> None:
    real = root.parent / "real.zarr"
    root.rename(real)
    os.symlink("real.zarr", root)


def _inner_links(root: Path) -> None:
    os.symlink("a", root / "alias")


def _through(url: str) -> Any:
    return hs.open(url)["alias"][...]


# -- what is no dataset -----------------------------------------------------------------------------------------------


def _file(data: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(data) and None


def _folder(**files: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        for name, data in files.items():
            place = path / name.replace("__", "/").replace("_dot_", ".")
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(data)

    return make


def strangers() -> Iterator[Case]:
    """Files, folders and other things that are no dataset."""
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    kinds: dict[str, tuple[str, Callable[[Path], Any]]] = {
        "an empty file": ("x.zarr", _file(b"")),
        "random bytes": ("x.zarr", _file(bytes(range(256)) * 10)),
        "a text": ("x.txt", _file(b"hello world\n" * 10)),
        "a picture": ("x.png", _file(png)),
        "a picture by another name": ("x.nc", _file(png)),
        "a page": ("x.html", _file(b"<!DOCTYPE html><html></html>")),
        "JSON": ("x.json", _file(b'{"zarr_format": 3, "node_type": "group"}')),
        "gzip": ("x.gz", _file(b"\x1f\x8b\x08" + bytes(20))),
        "a NumPy file": ("x.npy", _file(b"\x93NUMPY\x01\x00" + bytes(100))),
        "the start of HDF5": ("x.nc", _file(b"\x89HDF\r\n\x1a\n")),
        "the start of netCDF": ("x.nc", _file(b"CDF\x01")),
        "an unknown netCDF": ("x.nc", _file(b"CDF\x07" + bytes(1000))),
        "one byte": ("x", _file(b"C")),
        "an empty zip": ("x.zip", lambda path: zipfile.ZipFile(path, "w").close()),
        "a broken zip": ("x.zip", _file(b"PK\x03\x04" + bytes(100))),
        "a zip of text": ("x.zip", lambda path: _zip(path, {"read.me": b"x"})),
        "a text named zip": ("x.zip", _file(b"hello")),
        "an empty folder": ("x.zarr", Path.mkdir),
        "a folder of files": ("x.zarr", _folder(read=b"1", data_dot_csv=b"1,2")),
        "a folder of folders": ("x.zarr", _folder(a__b=b"1", c__d=b"2")),
        "nothing": ("x.zarr", lambda path: None),
        "nothing below a file": ("f/x.zarr", lambda path: path.parent.write_bytes(b"1")),
        "a link to nowhere": ("x.zarr", lambda path: os.symlink("nowhere", path)),
        "a link in circles": ("x.zarr", lambda path: os.symlink(path.name, path)),
        "a pipe": ("x.zarr", os.mkfifo),
        "a pipe named nc": ("x.nc", os.mkfifo),
        "a socket": ("x.zarr", _socket),
        "a link to a device": ("x.zarr", lambda path: os.symlink("/dev/zero", path)),
        "a name that is too long": ("y" * 300, lambda path: None),
        "a document that is a folder": ("x.zarr", lambda path: (path / "zarr.json").mkdir(parents=True)),
        "an old zarr": ("x.zarr", _folder(meta=b"{}", attrs=b"{}")),
        "a document of format 9": (
            "x.zarr",
            lambda path: (path.mkdir(), (path / "zarr.json").write_text('{"zarr_format": 9}')),
        ),
        "N5": ("x.n5", lambda path: (path.mkdir(), (path / "attributes.json").write_text('{"n5": "2.0.0"}'))),
    }
    errors = ("FormatError", "NotFound", "StorageError", "Invalid", "Unsupported")
    steps: tuple[Callable[[str], Any], ...] = (opened, lambda url: hs.open(url, "r+"))
    for name, (target, make) in kinds.items():
        yield Case(name, make, errors, None, steps, None, (), False, target=target)
    wanted: tuple[Callable[[str], Any], ...] = (
        lambda url: hs.create(url, "zarr3"),
        lambda url: hs.create(url, "zarr3", overwrite=True),
    )
    for name in (
        "random bytes",
        "a text",
        "a picture",
        "a folder of files",
        "a folder of folders",
        "a zip of text",
        "a pipe",
    ):
        target, make = kinds[name]
        refused = (*errors, "AlreadyExists")
        yield Case(f"{name}, to be replaced", make, refused, None, wanted, None, (), False, target=target)
    for url in (
        "s3://",
        "http://localhost:1/x.zarr",
        "ftp://x/y",
        "memory://none",
        "zip://",
        "file://host/x",
        "://",
        "\0",
        "",
    ):
        step = lambda _, url=url: hs.open(url)  # noqa: E731
        yield Case(f"the URL {url!r}", _mkdir, errors, None, (step,), None, (), False, url=False)


def _mkdir(path: Path) -> None:
    path.mkdir()


# -- archives ---------------------------------------------------------------------------------------------------------


def _zip(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            info.compress_type = method
            archive.writestr(info, data)


def _dataset(path: Path, layout: str) -> dict[str, bytes]:
    """The entries of a sound dataset."""
    root = template(path.parent.parent.parent / "templates", layout)
    return {str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def archive(change: Callable[[bytes], bytes], method: int = zipfile.ZIP_STORED, **more: Any) -> Callable[[Path], None]:
    """A zip archive of a dataset, changed as bytes."""

    def make(path: Path) -> None:
        _zip(path, _dataset(path, "zarr3") | more.get("entries", {}), method)
        path.write_bytes(change(path.read_bytes()))

    return make


CHUNK = b"a/c/0/0"


def _patch(offset: int, value: bytes, local: bool = False) -> Callable[[bytes], bytes]:
    """Change bytes of the entry of the first chunk, in the directory or in its local header."""

    def change(data: bytes) -> bytes:
        name = data.index(CHUNK) if local else data.rindex(CHUNK)
        at = name - (30 if local else 46) + offset
        return data[:at] + value + data[at + len(value) :]

    return change


def archives() -> Iterator[Case]:
    """Datasets in zip archives that are cut, lie about sizes, inflate to GiB, or hold hostile names."""
    broken = ("FormatError",)
    chunk = ("CorruptChunk", "FormatError", "Unsupported", "MemoryLimit")
    same = lambda data: data  # noqa: E731
    where = ("key=a/c/0/0", "node=/a")
    common: dict[str, Any] = {"layout": None, "target": "x.zip"}
    for name, change in {
        "half": lambda data: data[: len(data) // 2],
        "but one byte": lambda data: data[:-1],
        "but the directory": lambda data: data[: data.index(b"PK\x01\x02")],
        "the directory alone": lambda data: data[data.index(b"PK\x01\x02") :],
        "10 bytes": lambda data: data[:10],
        "a directory at the wrong place": lambda data: data[:-6] + b"\xff\xff\xff\x7f\x00\x00",
        "a directory of 2^32 entries": lambda data: data[:-12] + b"\xff" * 8 + data[-4:],
    }.items():
        yield Case(f"cut: {name}", archive(change), broken, steps=(opened,), where=(), sibling=False, **common)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        kind = "stored" if method == zipfile.ZIP_STORED else "deflated"
        for name, change in {
            "wrong CRC": _patch(16, b"\1\2\3\4"),
            "a size of 4 GiB": _patch(24, b"\xfe\xff\xff\xff"),
            "a stored size of 4 GiB": _patch(20, b"\xfe\xff\xff\xff"),
            "both sizes of 2 GiB": _patch(20, b"\xff\xff\xff\x7f" * 2),
            "encrypted": _patch(8, b"\x01\x00"),
            "method 99": _patch(10, b"\x63\x00"),
            "lzma": _patch(10, b"\x0e\x00"),
            "a header elsewhere": _patch(42, b"\x05\x00\x00\x00"),
            "a header past the end": _patch(42, b"\xf0\xff\xff\x7f"),
            "a local name of 64 KiB": _patch(26, b"\xff\xff", local=True),
            "no local header": _patch(0, b"XX\3\4", local=True),
        }.items():
            yield Case(f"{kind}: {name}", archive(change, method), chunk, steps=(whole,), where=where, **common)
    yield Case(
        "inflates to 64 MiB",
        lambda path: _bomb(path, 1 << 26),
        chunk,
        steps=(whole,),
        where=where,
        **common,
        memory=160 << 20,
    )
    yield Case("inflates to 2 GiB", _claims, chunk, steps=(whole,), where=where, **common)
    hostile = dict.fromkeys(
        ("../canary", "/etc/x", "a\\b", "C:\\x", "..", "a/../../x", "good/../../x", "\0", "x" * 300), CANARY
    )
    yield Case("hostile names", archive(same, entries=hostile), (), steps=(whole, _told), value=A, **common)
    yield Case("hostile nodes", archive(same, entries=_nodes()), (), steps=(whole, _told), value=A, **common)
    yield Case("the same name twice", archive(same, entries={}), (), steps=(whole,), value=A, **common)
    many = {f"z/{i}": b"" for i in range(20_000)}
    yield Case("20,000 entries", archive(same, entries=many), (), steps=(whole,), value=A, **common)


def _nodes() -> dict[str, bytes]:
    doc = json.dumps({"zarr_format": 3, "node_type": "group"}).encode()
    return {f"{name}/zarr.json": doc for name in ("..", "../x", "/y", "a\\b", "C:", "x/../y", "\0")}


def _bomb(path: Path, size: int) -> None:
    entries = _dataset(path, "zarr3")
    _zip(path, entries | {CHUNK.decode(): bytes(size)}, zipfile.ZIP_DEFLATED)


def _claims(path: Path) -> None:
    """An entry that says it inflates to 2 GiB, at a ratio that deflate can reach."""
    data = zlib.compress(bytes(1 << 22), 9)
    packed = (data[2:-4] * 700)[: 1 << 22]
    entries = _dataset(path, "zarr3")
    _zip(path, entries | {CHUNK.decode(): packed})
    size = struct.pack("<II", len(packed), 2**31)
    path.write_bytes(_patch(10, b"\x08\x00")(_patch(20, size)(path.read_bytes())))
